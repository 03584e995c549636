"""The order of the stages, named here once: flows, command line and settings follow it."""

from __future__ import annotations

from tasks import evaluate, export, mix, train
from tasks.clean import decontaminate
from tasks.clean.decode import stage as decode
from tasks.clean.extract import stage as extract
from tasks.clean.filter import stage as filter
from tasks.clean.language import stage as language
from tasks.dedup import exact, minhash, semantic
from tasks.ingest import stage as ingest
from tasks.report import build as report
from tasks.shards import stage as shards
from tasks.stage import Stage
from tasks.tokenizer import stage as tokenizer

STAGES: tuple[Stage, ...] = (
    ingest.STAGE,  # raw files -> records, broken ones in quarantine
    decode.STAGE,  # bytes -> text
    extract.STAGE,  # HTML and Markdown -> main text
    language.STAGE,  # language and script; metrics measured
    filter.STAGE,  # length, repetition, symbols, licence
    exact.STAGE,  # same text
    minhash.STAGE,  # near-duplicates, verified
    semantic.STAGE,  # same meaning
    decontaminate.STAGE,  # what the evaluation sets hold
    mix.STAGE,  # shares of the sources
    tokenizer.STAGE,  # SentencePiece
    shards.STAGE,  # .bin/.idx and the way back to documents
    train.STAGE,  # DeepSpeed
    evaluate.STAGE,  # perplexity, bits per byte, samples
    export.STAGE,  # Hugging Face
    report.STAGE,  # one HTML page
)

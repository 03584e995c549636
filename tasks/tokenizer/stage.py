"""The tokenizer stage: count, sample, fit, export, check.

Counting and sampling run shard by shard; fitting is one process with a fixed number of threads, since SentencePiece's
sums depend on it. The export is compared with the model on 1,000 documents of the sample before the stage ends.

in    Document of the mix stage (read only: the tokenizer keeps and drops none)
out   tokenizer.model (SentencePiece), hf/ (what transformers loads)
facts target and realised shares of the sample (characters) and of the vocabulary (pieces, each with the group that uses
      it most), bytes per token and byte-fallback rate by group, ids of the markers that documents begin with
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import sampling
from tasks.stage import PartResult, PartWriter, Stage, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store
from tasks.tokenizer.characters import FOLDER, CharacterCounter, add_up
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.export import huggingface_files, mismatches
from tasks.tokenizer.measures import byte_pieces, measure
from tasks.tokenizer.model import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from tasks.tokenizer.sample import group_of, rates, target_chars
from tasks.tokenizer.train import Fitted, fit
from tasks.tokenizer.vocabulary import Row

NUM_CHECKED = 1000  # documents on which the export must agree
MAX_MEASURED_CHARS = 1_000_000  # per group: enough for three digits of bytes per token

log = logging.getLogger(__name__)


def count_part(payload: Any, config: TokenizerConfig, writer: PartWriter) -> dict[str, Any]:
    """Characters per language group and slice of the draw; which ones, as the sidecar characters/<shard>.parquet."""
    histograms: dict[str, list[int]] = {}
    characters = CharacterCounter()
    dataset = Dataset.load(payload["dataset"])
    for batch in dataset.batches(payload["shard"], ["id", "text", "language"]):
        texts: dict[str, list[str]] = {}
        for row in batch.to_pylist():
            value = sampling.draw(config.seed, row["id"])
            group = group_of(row["language"], config.language_shares)
            sampling.count(histograms, group, value, len(row["text"]))
            texts.setdefault(group, []).append(row["text"])
        characters.add(texts)
    writer.table(FOLDER, characters.table())
    return {"chars": histograms}


def sample_part(payload: Any, config: TokenizerConfig, writer: PartWriter) -> None:
    """The chosen documents of one shard, as the sidecar sample/<shard>.parquet."""
    chosen: dict[str, list[Any]] = {"id": [], "text": [], "group": [], "times": []}
    dataset = Dataset.load(payload["dataset"])
    for batch in dataset.batches(payload["shard"], ["id", "text", "language"]):
        for row in batch.to_pylist():
            group = group_of(row["language"], config.language_shares)
            rate = payload["rates"].get(group)
            if rate and (times := rate.of(sampling.draw(config.seed, row["id"]))):
                for name, value in (("id", row["id"]), ("text", row["text"]), ("group", group), ("times", times)):
                    chosen[name].append(value)
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.large_string()), ("group", pa.string()), ("times", pa.int32())]
    )
    writer.table("sample", pa.table(chosen, schema=schema))


def run(run: StageRun) -> None:
    config: TokenizerConfig = run.config
    counting = {"seed": config.seed, "groups": sorted(config.language_shares)}
    counted = run.parts(count_part, run.shard_parts("count", counting))
    histograms = sampling.merge([result.result["chars"] for result in counted])
    chosen = rates(histograms, config)
    settings = {**counting, "rates": {group: asdict(rate) for group, rate in chosen.items()}}
    sampled = run.parts(sample_part, run.shard_parts("sample", settings, rates=chosen))

    run.progress(0, 1, "fitting")
    rows = list(sample_rows(run.store, run.output.folder, sampled))
    characters = add_up(run.store, run.output.folder, [entry.name for result in counted for entry in result.files])
    fitted = fit(rows, characters, config, lambda note: run.progress(0, 1, f"fitting: {note}"))
    tokenizer = fitted.tokenizer
    files = huggingface_files(tokenizer.model)
    check_export(tokenizer, files, rows, config)
    run.output.add_file("tokenizer.model", tokenizer.model)
    for name, data in files.items():
        run.output.add_file(f"hf/{name}", data)
    targets = target_chars({group: sum(slices) for group, slices in histograms.items()}, config)
    run.output.facts = {
        "vocab_size": tokenizer.vocab_size,
        "special_ids": {"unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID},
        **vocabulary_facts(fitted, config),
        "sample": sample_facts(rows, targets),
        "groups": measure(tokenizer, measured_texts(rows, targets), *byte_pieces(tokenizer))["groups"],
    }
    run.progress(1, 1, f"{tokenizer.vocab_size:,} pieces")


def vocabulary_facts(fitted: Fitted, config: TokenizerConfig) -> dict[str, Any]:
    """What the pieces went to, and the ids of the markers that the documents of a language group begin with."""
    symbol_id = fitted.tokenizer.processor.piece_to_id
    return {
        "vocabulary": fitted.shares,
        "num_required_characters": fitted.num_characters,
        "compounds": fitted.compounds,
        "markers": {group: symbol_id(symbol) for group, symbol in sorted(config.document_markers.items())},
    }


def sample_rows(store: Store, folder: str, sampled: list[PartResult]) -> Iterator[Row]:
    """(group, text, times) of the sample, in the order of the shards."""
    for entry in (entry for result in sampled for entry in result.files):
        with store.open(f"{folder}/{entry.name}") as file:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=256, columns=["group", "text", "times"]):
                for row in batch.to_pylist():
                    yield row["group"], row["text"], row["times"]


def check_export(tokenizer: Tokenizer, files: dict[str, bytes], rows: list[Row], config: Any) -> None:
    """Raise RuntimeError when the export encodes a document of the sample differently."""
    texts = [text for _, text, _ in rows[:: max(1, len(rows) // NUM_CHECKED)]]
    if wrong := mismatches(tokenizer, files, texts):
        raise RuntimeError(
            f"the Hugging Face export gives other ids than the SentencePiece model for {len(wrong)} of {len(texts)} "
            f"documents, first {texts[wrong[0]][:80]!r}. With model_type {config.model_type!r}: use unigram"
        )


def sample_facts(rows: list[Row], targets: dict[str, float]) -> dict[str, Any]:
    chars: Counter[str] = Counter()
    for group, text, times in rows:
        chars[group] += len(text) * times
    total, target = max(chars.total(), 1), sum(targets.values())
    shares = {g: {"num_chars": chars[g], "share": chars[g] / total, "target": n / target} for g, n in targets.items()}
    return {"num_documents": len(rows), "num_chars": chars.total(), "groups": shares}


def measured_texts(rows: list[Row], groups: Iterable[str]) -> dict[str, list[str]]:
    """The first texts of each group, up to MAX_MEASURED_CHARS."""
    texts: dict[str, list[str]] = {group: [] for group in groups}
    left = dict.fromkeys(texts, MAX_MEASURED_CHARS)
    for group, text, _ in rows:
        if left[group] > 0:
            texts[group].append(text[: left[group]])
            left[group] -= len(text)
    return texts


STAGE = Stage(
    name="tokenizer",
    module=__name__,
    config=TokenizerConfig,
    inputs=("mix",),
    run=run,
    summary="Fit a SentencePiece tokenizer to a language-balanced sample and export it for transformers.",
)

"""Drop documents that quote an evaluation set, so that its scores measure what was learnt and not what was read.

A document goes when it shares at least `min_hits` n-grams with a field of an item: 13 words, or 26 characters in
unspaced scripts (a Chinese word has about two), over the form that fuzzy dedup compares (case, layout, Unicode form,
Traditional or Simplified do not matter). A field shorter than one n-gram is not looked for, as in the paper: "yes" and
"the second one" occur everywhere; the facts count such items. Without `eval_files` every document passes.

Trade-off: the whole document goes where Brown et al. cut 200 characters around the match; a corpus of long books would
rather be cut, one of web pages loses little.

in    Document
out   Document            a subset, order kept; the rest is `contaminated` with eval, item, span
ref   Brown et al. 2020, arXiv:2005.14165, appendix C
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np

from kernels import minhash
from tasks.dedup.normalise import fuzzy_form
from tasks.document import Document, Dropped, Kept, Outcome
from tasks.settings import to_dict
from tasks.stage import Stage, StageRun

REASON = "contaminated"
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminateConfig:
    eval_files: tuple[str, ...] = ()  # JSONL (.gz, .zst too): paths or fsspec URLs
    fields: tuple[str, ...] = ("question", "text", "context", "choices", "passage", "prompt", "query", "sentence")
    num_words: int = 13  # n of the n-grams
    num_characters: int = 26  # in unspaced scripts
    min_hits: int = 1  # n-grams in common

    def __post_init__(self) -> None:
        for name in ("num_words", "num_characters", "min_hits"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")

    def key_settings(self) -> dict[str, Any]:
        """All but where the evaluation sets lie: `eval_digests` keys what is in them."""
        return {name: to_dict(getattr(self, name)) for name in self.__slots__ if name != "eval_files"}


@dataclass(frozen=True, slots=True)
class Ngrams:
    """The n-grams of one kind of script in all evaluation sets."""

    hashes: np.ndarray  # uint64 [M], sorted, distinct
    owners: np.ndarray  # int32 [M], index into `items` of the first that has it
    by_character: bool
    size: int


@dataclass(frozen=True, slots=True)
class EvalSets:
    """What is looked for."""

    items: list[tuple[str, str]]  # (file name, item)
    ngrams: tuple[Ngrams, ...]
    too_short: int  # items of which no field has one n-gram


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def read_items(url: str, fields: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """(id or line number, texts) of each item of one file. Raises ValueError for what is no such file."""
    with fsspec.open(url, "rb", compression="infer") as file:
        # newline="\n": no other character ends a line. A byte that is no UTF-8 becomes a lone surrogate, as JSON may
        # hold them too; `fuzzy_form` takes both.
        lines = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except ValueError as error:
                raise ValueError(f"eval_files: {url}: line {number}: expected a JSON object, found {error}") from error
            texts = [text for field in fields if field in item for text in strings(item[field])]
            if not texts:
                raise ValueError(
                    f"eval_files: {url}: line {number}: none of the fields {', '.join(fields)}; it has "
                    f"{', '.join(item)}. Name its text fields in decontaminate.fields"
                )
            yield str(item.get("id", number)), texts


def load_eval_sets(config: DecontaminateConfig) -> EvalSets:
    """The evaluation sets, read once per process and content."""
    return _load(config, tuple(eval_digests(config).values()))


@functools.lru_cache(maxsize=2)
def _load(config: DecontaminateConfig, digests: tuple[str, ...]) -> EvalSets:
    items: list[tuple[str, str]] = []
    found: dict[bool, dict[int, int]] = {False: {}, True: {}}
    too_short = 0
    for url in config.eval_files:
        for name, texts in read_items(url, config.fields):
            any_ngram = False
            for form in map(fuzzy_form, texts):
                by_character = minhash.is_unspaced(form)
                for h in minhash.shingle_hashes(form, _size(config, by_character), by_character):
                    found[by_character].setdefault(int(h), len(items))
                    any_ngram = True
            too_short += not any_ngram
            items.append((url.rstrip("/").rsplit("/", 1)[-1], name))
    ngrams = []
    for by_character, owners in found.items():
        if owners:
            hashes = np.array(sorted(owners), dtype=np.uint64)
            first = np.array([owners[int(h)] for h in hashes], dtype=np.int32)
            ngrams.append(Ngrams(hashes, first, by_character, _size(config, by_character)))
    if too_short:
        log.warning("%d of %d evaluation items are shorter than one n-gram and not looked for", too_short, len(items))
    return EvalSets(items, tuple(ngrams), too_short)


def _size(config: DecontaminateConfig, by_character: bool) -> int:
    return config.num_characters if by_character else config.num_words


def contamination(text: str, sets: EvalSets, min_hits: int) -> dict[str, str | float | int] | None:
    """Evidence that `text` quotes an evaluation item (the first match), or None."""
    form = fuzzy_form(text)
    total, evidence = 0, None
    for ngrams in sets.ngrams:
        hashes = minhash.shingle_hashes(form, ngrams.size, ngrams.by_character)
        places = np.minimum(np.searchsorted(ngrams.hashes, hashes), len(ngrams.hashes) - 1)
        hits = np.flatnonzero(ngrams.hashes[places] == hashes)
        total += len(hits)
        if len(hits) and evidence is None:
            units = minhash.split_units(form, ngrams.by_character)[hits[0] : hits[0] + ngrams.size]
            file, item = sets.items[ngrams.owners[places[hits[0]]]]
            evidence = {"eval": file, "item": item, "span": ("" if ngrams.by_character else " ").join(units)}
    return {**evidence, "hits": total} if evidence is not None and total >= min_hits else None


def process(documents: Iterator[Document], config: DecontaminateConfig) -> Iterator[Outcome]:
    sets = load_eval_sets(config)
    for document in documents:
        evidence = contamination(document.text, sets, config.min_hits) if sets.ngrams else None
        if evidence is None:
            yield Kept(document=document)
        else:
            yield Dropped(document=document, reason=REASON, evidence=evidence)


def eval_digests(config: DecontaminateConfig) -> dict[str, str]:
    """SHA-256 of each evaluation file, by its place and name. Raises ValueError for one that cannot be read."""
    digests = {}
    for number, url in enumerate(config.eval_files):
        digest = hashlib.sha256()
        try:
            with fsspec.open(url, "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise ValueError(f"decontaminate.eval_files: {url}: cannot be read: {error}") from error
        digests[f"{number}:{url.rsplit('/', 1)[-1]}"] = digest.hexdigest()
    return digests


def run(run: StageRun) -> None:
    sets = load_eval_sets(run.config)
    run.output.facts.update(eval_items=len(sets.items), eval_items_too_short=sets.too_short)
    run.output.facts["eval_ngrams"] = sum(len(ngrams.hashes) for ngrams in sets.ngrams)
    run.map_shards(process)


STAGE = Stage(
    name="decontaminate",
    module=__name__,
    config=DecontaminateConfig,
    inputs=("semantic_dedup",),
    run=run,
    summary="Drop documents that quote an evaluation set.",
    raw_inputs=eval_digests,
)

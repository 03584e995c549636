"""Drop or cut documents that quote an evaluation set, so that its scores measure what was learnt and not what was read.

A document is contaminated when it shares at least `min_hits` n-grams with fields of items, 13 words, or 26 characters
in unspaced scripts (a Chinese word has about two), or holds a short field as a whole. Case, layout, punctuation,
Unicode form, Traditional or Simplified do not matter (`eval_sets.py`). The evidence is the passage in the document's
own characters, with its place. Without `eval_files` every document passes.

Trade-off: `drop` lets the whole document go, which costs little where documents are web pages. `cut` takes out each
passage with 200 characters to either side, as Brown et al. do, and drops a document that is left in more than ten
pieces; for long books. The metrics of a cut document are still those of the whole.

in    Document
out   Document            a subset, order kept, or cut; dropped ones are `contaminated`: eval, item, span, start, end
ref   Brown et al. 2020, arXiv:2005.14165, appendix C
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import fsspec

from kernels import minhash
from tasks.clean.eval_sets import EvalSets, Index, build, candidates, units_form
from tasks.dedup.normalise import fuzzy_form
from tasks.document import Document, Dropped, Kept, Outcome
from tasks.settings import to_dict
from tasks.stage import Stage, StageRun

REASON = "contaminated"
MARGIN_CHARS = 200  # cut on either side of a passage, and the least piece that is kept
MAX_PIECES = 10
MAX_SPAN_CHARS = 2_000  # of evidence
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminateConfig:
    eval_files: tuple[str, ...] = ()  # JSONL (.gz, .zst too): paths or fsspec URLs
    fields: tuple[str, ...] = ("question", "text", "context", "choices", "passage", "prompt", "query", "sentence")
    action: Literal["drop", "cut"] = "drop"
    num_words: int = 13  # n of the n-grams
    num_characters: int = 26  # in unspaced scripts
    min_words: int = 8  # fields from here to num_words are looked for as wholes
    min_characters: int = 16
    min_hits: int = 1  # n-grams in common; a whole field is enough by itself

    def __post_init__(self) -> None:
        for name in ("num_words", "num_characters", "min_words", "min_characters", "min_hits"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        for kind in ("words", "characters"):
            size, least = getattr(self, f"num_{kind}"), getattr(self, f"min_{kind}")
            if not size <= 2 * least <= 2 * size:
                raise ValueError(
                    f"min_{kind} must lie between half of num_{kind} ({size}) and all of it, found {least}: a shorter "
                    "field is recognised by its two ends"
                )

    def key_settings(self) -> dict[str, Any]:
        """All but where the evaluation sets lie: `eval_digests` keys what is in them."""
        return {name: to_dict(getattr(self, name)) for name in self.__slots__ if name != "eval_files"}


class Match(NamedTuple):
    """Consecutive units of a document that an item has too."""

    first: int  # unit
    last: int  # one past the last
    by_character: bool
    owner: int  # index into `EvalSets.items`
    hits: int  # n-grams


def load_eval_sets(config: DecontaminateConfig) -> EvalSets:
    """The evaluation sets, read once per process and content."""
    return _load(config, tuple(eval_digests(config).values()))


@functools.lru_cache(maxsize=2)
def _load(config: DecontaminateConfig, digests: tuple[str, ...]) -> EvalSets:
    sizes = {False: (config.num_words, config.min_words), True: (config.num_characters, config.min_characters)}
    sets = build(config.eval_files, config.fields, sizes)
    if sets.too_short:
        log.warning("%d of %d evaluation items are too short and not looked for", sets.too_short, len(sets.items))
    return sets


def matches(text: str, sets: EvalSets, min_hits: int) -> list[Match]:
    """All passages of `text` that evaluation items have too, words first; none where there are too few."""
    found: list[Match] = []
    enough = False
    fuzzy = fuzzy_form(text) if sets.indexes else ""
    for index in sets.indexes:
        form = units_form(fuzzy, index.by_character)
        wholes = list(_wholes(form, index))
        enough |= bool(wholes)
        found += _merged([*_ngrams(form, index), *wholes])
    return found if enough or sum(match.hits for match in found) >= min_hits else []


def _ngrams(form: str, index: Index) -> Iterator[Match]:
    hashes = minhash.shingle_hashes(form, index.size, index.by_character)
    for place in candidates(hashes, index.ngram_table).tolist():
        owner = index.ngrams.get(int(hashes[place]))
        if owner is not None:
            yield Match(place, place + index.size, index.by_character, owner, 1)


def _wholes(form: str, index: Index) -> Iterator[Match]:
    if not index.wholes:
        return
    hashes = minhash.shingle_hashes(form, index.min_size, index.by_character)
    for place in candidates(hashes, index.whole_table).tolist():
        for whole in index.wholes.get(int(hashes[place]), ()):
            end = place + whole.length - index.min_size
            if end < len(hashes) and int(hashes[end]) == whole.last:
                yield Match(place, place + whole.length, index.by_character, whole.owner, 1)


def _merged(found: list[Match]) -> list[Match]:
    """Overlapping matches as one, which names the item of the first."""
    merged: list[Match] = []
    for match in sorted(found):
        if merged and match.first < merged[-1].last:
            before = merged[-1]
            last, hits = max(before.last, match.last), before.hits + match.hits
            merged[-1] = before._replace(last=last, hits=hits)
        else:
            merged.append(match)
    return merged


def place_of(match: Match, text: str) -> tuple[int, int]:
    """The half-open range of characters of `text` that holds the units of `match`.

    The form is made anew of beginnings of the text, some 20 per end, which only contaminated documents pay.
    """

    def units_before(end: int) -> int:
        form = units_form(fuzzy_form(text[:end]), match.by_character)
        return len(minhash.shingle_hashes(form, 1, match.by_character))

    places = range(len(text) + 1)
    start = bisect.bisect_right(places, match.first, key=units_before) - 1
    end = bisect.bisect_right(places, match.last, lo=start, key=units_before) - 1
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    return start, end


def contamination(text: str, sets: EvalSets, min_hits: int) -> dict[str, str | float | int] | None:
    """Evidence that `text` quotes an evaluation item (the first passage), or None."""
    found = matches(text, sets, min_hits)
    return evidence_of(found, text, sets) if found else None


def evidence_of(found: list[Match], text: str, sets: EvalSets) -> dict[str, str | float | int]:
    start, end = place_of(found[0], text)
    file, item = sets.items[found[0].owner]
    span = text[start : min(end, start + MAX_SPAN_CHARS)]
    hits = sum(match.hits for match in found)
    return {"eval": file, "item": item, "span": span, "start": start, "end": end, "hits": hits}


def cut(text: str, found: list[Match]) -> list[str]:
    """What is left of `text` without each passage and MARGIN_CHARS around it, in pieces of at least as many."""
    pieces, end = [], 0
    for start, stop in sorted(place_of(match, text) for match in found):
        pieces.append(text[end : max(end, start - MARGIN_CHARS)])
        end = max(end, stop + MARGIN_CHARS)
    pieces.append(text[end:])
    return [piece for piece in map(str.strip, pieces) if len(piece) >= MARGIN_CHARS]


def judge(document: Document, sets: EvalSets, config: DecontaminateConfig) -> Outcome:
    """The one outcome of `document`."""
    found = matches(document.text, sets, config.min_hits)
    if not found:
        return Kept(document=document)
    if config.action == "cut" and len(found) <= MAX_PIECES:
        pieces = cut(document.text, found)
        if 0 < len(pieces) <= MAX_PIECES:
            metrics = {**document.metrics, "contaminated_passages": float(len(found))}
            return Kept(document=dataclasses.replace(document, text="\n\n".join(pieces), metrics=metrics))
    return Dropped(document=document, reason=REASON, evidence=evidence_of(found, document.text, sets))


def process(documents: Iterator[Document], config: DecontaminateConfig) -> Iterator[Outcome]:
    sets = load_eval_sets(config)
    for document in documents:
        yield judge(document, sets, config)


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
    run.output.facts.update(eval_items_as_wholes=sets.num_wholes)
    run.output.facts["eval_ngrams"] = sum(len(index.ngrams) for index in sets.indexes)
    run.map_shards(process)


STAGE = Stage(
    name="decontaminate",
    module=__name__,
    config=DecontaminateConfig,
    inputs=("semantic_dedup",),
    run=run,
    summary="Drop or cut documents that quote an evaluation set.",
    raw_inputs=eval_digests,
)

"""Decide about pairs of documents that an encoder finds alike: both texts are read whole, in parts spread over workers.

A pair must be alike in length, in words and in every segment, and be no template (`rewording.py`). By policy a form
that was filled twice goes too, as alike as its blanks leave it. Pairs of which both stay are named in a sidecar, with
why: a reviewer finds there what the stage missed (`tasks/review/near.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tasks.dedup import encoders, rewording, sidecars, survivors
from tasks.dedup.encoders import EncoderConfig
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.search import Pairs
from tasks.stage import Part, PartWriter, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import digest_of

if TYPE_CHECKING:
    from tasks.dedup.semantic import SemanticConfig

PART_PAIRS = 200  # a pair costs some 50 ms: two segments of each text embedded, one diff
NEAR_FOLDER = "near"
NEAR_SCHEMA = pa.schema(
    [
        ("id", pa.string()),  # of the document that would have gone
        ("other", pa.string()),
        ("encoder", pa.string()),
        ("similarity", pa.float64()),  # mean of the segments; of the first alone where the others were not compared
        ("overlap", pa.float64()),  # null where it was not looked at
        ("verdict", pa.string()),  # why it stayed: see Verdict; or "below_threshold"
    ]
)


class Verdict(NamedTuple):
    """What a pair of texts is to each other."""

    name: str  # duplicate; form, template: see rewording.py; other_length, other_words, other_body: what differs
    similarity: float  # mean cosine of the segments
    overlap: float  # Jaccard of words


@dataclass(slots=True)
class Found:
    """What came of the pairs of one encoder and language."""

    evidence: dict[int, dict[str, Any]] = field(default_factory=dict)  # row number of a document to drop -> why
    verdicts: Counter[str] = field(default_factory=Counter)
    near: list[dict[str, Any]] = field(default_factory=list)  # rows of NEAR_SCHEMA


def judge(left: str, right: str, encoder: EncoderConfig, config: SemanticConfig) -> Verdict:
    """Of two fuzzy forms; the limits of `encoder` are cosines of its model."""
    if min(len(left), len(right)) < config.min_length_ratio * max(len(left), len(right)):
        return Verdict("other_length", 0.0, 0.0)
    shared = round(rewording.overlap(left, right), 6)
    if shared < config.min_overlap:
        return Verdict("other_words", 0.0, shared)
    first, second = (rewording.segments(form, encoder.segment_chars) for form in (left, right))
    if len(first) != len(second):  # one is just over a limit of `segments`: compare what both have
        first, second = [first[0], first[-1]], [second[0], second[-1]]
    vectors = [encoders.load(encoder).encode(texts).astype(np.float64) for texts in (first, second)]
    cosines = (vectors[0] * vectors[1]).sum(axis=1)
    similarity = round(float(cosines.mean()), 6)
    is_near = similarity >= encoder.threshold and bool(cosines.min() >= encoder.screen)
    if not is_near and config.template_policy == "keep":
        return Verdict("other_body", similarity, shared)
    if not rewording.is_template(left, right):
        return Verdict("duplicate" if is_near else "other_body", similarity, shared)
    if rewording.is_one_form(left, right):
        return Verdict("form", similarity, shared)
    return Verdict("template" if is_near else "other_body", similarity, shared)


def proposed_from(encoder: EncoderConfig, config: SemanticConfig) -> float:
    """The least cosine of two heads whose texts are read. Names and addresses stand in the head of a form and cost it
    similarity, so where forms shall go they are looked for from `screen` on."""
    return encoder.screen if config.template_policy == "drop" else encoder.threshold


def compare(payload: dict, config: SemanticConfig, writer: PartWriter) -> dict[str, list]:
    """Step "compare": the verdict on each pair of a part, from the whole texts."""
    dataset = Dataset.load(payload["dataset"])
    forms = [
        fuzzy_form(text) for shard, rows in payload["reads"] for _, text in sidecars.texts_of(dataset, shard, rows)
    ]
    encoder = payload["encoder"]
    return {"verdicts": [list(judge(forms[a], forms[b], encoder, config)) for a, b in payload["pairs"]]}


def find_duplicates(
    run: StageRun,
    documents: survivors.Catalogue,
    members: np.ndarray,
    pairs: Pairs,
    encoder: EncoderConfig,
    name: str,
    rank: np.ndarray,
) -> Found:
    """Who goes among `members` (row numbers that the pairs count in); `name` tells these parts from others'."""
    numbers = np.stack([members[pairs.near.better], members[pairs.near.worse]], axis=1)
    numbers = numbers[np.lexsort((numbers[:, 1], numbers[:, 0]))]
    chunks = [numbers[start : start + PART_PAIRS] for start in range(0, len(numbers), PART_PAIRS)]
    parts = [_part(run, documents, chunk, encoder, f"{name}-{i:05d}") for i, chunk in enumerate(chunks)]
    results = run.parts(compare, parts) if parts else []
    verdicts = [Verdict(*verdict) for result in results for verdict in result.result["verdicts"]]
    wanted = {"duplicate"} | ({"form"} if run.config.template_policy == "drop" else set())
    judged = {(int(a), int(b)): verdict for (a, b), verdict in zip(numbers, verdicts, strict=True)}
    edges = [pair for pair, verdict in judged.items() if verdict.name in wanted]
    dropped, _ = survivors.greedy(edges, rank, np.zeros(len(documents), dtype=bool))
    evidence = {
        gone: {
            "kept_id": documents.id(kept),
            "similarity": judged[kept, gone].similarity,
            "overlap": judged[kept, gone].overlap,
            "encoder": encoder.name,
            "verdict": judged[kept, gone].name,
        }
        for gone, kept in dropped.items()
    }
    stayed = [*_judged_rows(judged, members, pairs), *_below_rows(members, pairs)]
    stayed = [row for row in stayed if row[0] not in dropped and row[1] not in dropped]
    near = [
        {"id": documents.id(worse), "other": documents.id(better), "encoder": encoder.name, **facts}
        for better, worse, facts in _nearest(stayed, run.config.num_near)
    ]
    return Found(evidence, Counter(verdict.name for verdict in verdicts), near)


Row = tuple[int, int, dict[str, Any]]  # better, worse, what NEAR_SCHEMA has of the pair


def _judged_rows(judged: dict[tuple[int, int], Verdict], members: np.ndarray, pairs: Pairs) -> Iterator[Row]:
    """Pairs above the threshold that a rule kept."""
    near = pairs.near
    for better, worse, heads in zip(
        members[near.better].tolist(), members[near.worse].tolist(), near.similarity.tolist(), strict=True
    ):
        verdict = judged[better, worse]
        if verdict.name != "duplicate":
            facts = {"similarity": verdict.similarity or heads, "overlap": verdict.overlap, "verdict": verdict.name}
            yield better, worse, facts


def _below_rows(members: np.ndarray, pairs: Pairs) -> Iterator[Row]:
    """The nearest below the threshold; their texts were not read."""
    below = pairs.below
    for better, worse, similarity in zip(
        members[below.better].tolist(), members[below.worse].tolist(), below.similarity.tolist(), strict=True
    ):
        yield better, worse, {"similarity": similarity, "overlap": None, "verdict": "below_threshold"}


def _nearest(rows: list[Row], number: int) -> Iterator[Row]:
    """The `number` most similar of each verdict."""
    count: Counter[str] = Counter()
    for row in sorted(rows, key=lambda row: (-row[2]["similarity"], row[:2])):
        count[row[2]["verdict"]] += 1
        if count[row[2]["verdict"]] <= number:
            yield row


def _part(run: StageRun, documents: survivors.Catalogue, pairs: np.ndarray, encoder: EncoderConfig, name: str) -> Part:
    reads, positions, contents = sidecars.reads_of(run, documents, pairs)
    payload = {"dataset": run.input.reference(), "reads": reads, "pairs": positions, "encoder": encoder}
    config: SemanticConfig = run.config
    settings = {
        "encoder": {**encoders.embedding_settings(encoder), "limits": [encoder.threshold, encoder.screen]},
        "from": proposed_from(encoder, config),
        **{rule: getattr(config, rule) for rule in ("min_length_ratio", "min_overlap")},
    }
    identity = (*contents, digest_of([reads, positions]))
    return Part(name=name, step="compare", inputs=identity, payload=payload, settings=settings)

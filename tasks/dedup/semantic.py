"""Drop documents that say what another says in nearly the same words, found by meaning, not by shingles.

Each document's first segment is embedded by the encoder that knows its language; FAISS finds pairs above the
encoder's threshold (0.95; pairs above 0.82 are counted for review); `rewording.py` then reads both texts whole and
decides. Languages that no encoder knows, short texts and what is beyond `max_documents` are not compared, and the
facts count them by reason.

Trade-off: an exhaustive inner-product search misses nothing, and costs N^2 D: 16,000 documents of 512 dimensions take
some 10 s on a core, 50,000 some 100 s. Embedding is the larger cost (see `encoders.py`); `enabled: false` skips all.

in    Document
out   Document            a subset, order kept; the rest is `semantic_duplicate` with the id kept and the measures
ref   Abbas et al. 2023 (SemDeDup), arXiv:2303.09540
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tasks.dedup import encoders, rewording, sidecars, survivors
from tasks.dedup.encoders import MINILM, USE, EncoderConfig
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.search import Pairs, near_pairs
from tasks.document import Document, Outcome
from tasks.stage import Part, PartWriter, Stage, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import digest_of

REASON = "semantic_duplicate"
PART_PAIRS = 200  # a pair costs some 50 ms: two segments of each text embedded, one diff
NOT_COMPARED = {-1: "no_encoder_for_language", -2: "too_short"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("length", pa.int64()),
        ("language", pa.string()),
        ("encoder", pa.int32()),  # index into config.encoders, or a key of NOT_COMPARED
        ("embedding", pa.list_(pa.float32())),  # of the first segment; null where not compared
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SemanticConfig:
    enabled: bool = True
    encoders: tuple[EncoderConfig, ...] = (MINILM, USE)  # the first that knows a document's language takes it
    min_chars: int = 100  # of normalised text; shorter documents are not compared
    max_documents: int = 50_000  # per encoder, the best in survivor order; the rest is not compared
    max_partners: int = 32  # most similar documents that one is checked against
    min_length_ratio: float = 0.8
    min_overlap: float = 0.5  # Jaccard of words, or of characters in unspaced scripts
    template_policy: Literal["keep", "drop"] = "keep"  # the same form with other names or numbers
    source_priority: dict[str, int] = field(default_factory=dict)  # higher stays; sources not named have 0
    max_source_loss: float = 0.5  # of a source's documents; more stops the run
    min_source_documents: int = 100  # sources with fewer are not guarded

    def __post_init__(self) -> None:
        for name in ("max_source_loss", "min_length_ratio", "min_overlap"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, found {getattr(self, name)}")
        for name in ("min_chars", "max_documents", "max_partners", "min_source_documents"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        names = [encoder.name for encoder in self.encoders]
        if len(set(names)) < len(names):
            raise ValueError(f"encoders must have different names, found {', '.join(names)}")


def embed_shard(payload: dict, config: SemanticConfig, writer: PartWriter) -> None:
    """Step "embed": the sidecar `embeddings` of one shard."""
    embedded = []
    for batch in sidecars.shard_batches(payload, ["id", "source", "language", "text"]):
        texts, languages = batch["text"].to_pylist(), batch["language"].to_pylist()
        routes, vectors = [], []
        for text, language in zip(texts, languages, strict=True):
            which = encoders.route(config.encoders, language)
            # A head this long decides as well as the whole text does, and normalises in no time.
            form = fuzzy_form(text[: 20 * max(config.min_chars, 512)]) if which >= 0 else ""
            if which >= 0 and len(form) < config.min_chars:
                which = -2
            routes.append(which)
            vectors.append(_embed(config.encoders[which], [form])[0] if which >= 0 else None)
        columns = [batch["id"], batch["source"], [len(t) for t in texts], languages, routes, vectors]
        arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
        embedded.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    sidecars.write_sidecar(writer, "embeddings", SCHEMA, embedded)


def _embed(encoder: EncoderConfig, forms: list[str]) -> np.ndarray:
    return encoders.load(encoder).encode([form[: encoder.segment_chars] for form in forms])


def compare(payload: dict, config: SemanticConfig, writer: PartWriter) -> dict[str, list]:
    """Step "compare": [verdict, similarity, overlap] of each pair of a part, from the whole texts."""
    dataset = Dataset.load(payload["dataset"])
    forms = [
        fuzzy_form(text) for shard, rows in payload["reads"] for _, text in sidecars.texts_of(dataset, shard, rows)
    ]
    encoder = config.encoders[payload["encoder"]]
    return {"verdicts": [list(judge(forms[a], forms[b], encoder, config)) for a, b in payload["pairs"]]}


def judge(left: str, right: str, encoder: EncoderConfig, config: SemanticConfig) -> tuple[str, float, float]:
    """("duplicate", "template", or what differs; lowest cosine of a segment; overlap of words)."""
    if min(len(left), len(right)) < config.min_length_ratio * max(len(left), len(right)):
        return "other_length", 0.0, 0.0
    shared = rewording.overlap(left, right)
    if shared < config.min_overlap:
        return "other_words", 0.0, round(shared, 6)
    first, second = (rewording.segments(form, encoder.segment_chars) for form in (left, right))
    if len(first) != len(second):  # one is just over a limit of `segments`: compare what both have
        first, second = [first[0], first[-1]], [second[0], second[-1]]
    vectors = [encoders.load(encoder).encode(texts).astype(np.float64) for texts in (first, second)]
    similarity = round(float((vectors[0] * vectors[1]).sum(axis=1).min()), 6)
    if similarity < encoder.threshold:
        return "other_body", similarity, round(shared, 6)
    verdict = "template" if rewording.is_template(left, right) else "duplicate"
    return verdict, similarity, round(shared, 6)


def process(documents: Iterator[Document], config: SemanticConfig, decided: dict | None) -> Iterator[Outcome]:
    return survivors.apply(documents, decided, REASON)


def run(run: StageRun) -> None:
    config: SemanticConfig = run.config
    run.output.facts["enabled"] = config.enabled
    if not config.enabled:
        run.map_shards(process, {})
        return
    settings = {"encoders": [encoders.embedding_settings(e) for e in config.encoders], "min_chars": config.min_chars}
    results = run.parts(embed_shard, sidecars.shard_parts(run, "embed", settings))
    names = [shard.stem for shard in run.input.shards]
    documents = survivors.catalogue(names, sidecars.read_sidecars(run, results, ["id", "source", "length"]))
    rank = documents.rank(config.source_priority)
    tables = sidecars.read_sidecars(run, results, ["encoder"])
    routes = np.concatenate([*(t["encoder"].to_numpy() for t in tables), np.empty(0, dtype=np.int32)])
    not_compared = Counter({name: int((routes == code).sum()) for code, name in NOT_COMPARED.items()})
    evidence: dict[int, dict[str, Any]] = {}
    for which, encoder in enumerate(config.encoders):
        members = np.flatnonzero(routes == which)
        members = members[np.argsort(rank[members])]
        not_compared["beyond_max_documents"] += max(0, len(members) - config.max_documents)
        members = members[: config.max_documents]
        vectors = _vectors(run, results, which, members, len(documents))
        pairs = near_pairs(vectors, encoder.threshold, encoder.screen, config.max_partners)
        found, verdicts = find_duplicates(run, documents, members, pairs, which, rank)
        evidence.update(found)
        run.output.facts[encoder.name] = {
            "compared": len(members),
            "pairs_above_screen": pairs.above_screen,
            "pairs_above_threshold": pairs.above_threshold,
            "pairs_beyond_max_partners": pairs.above_threshold - len(pairs.better),
            "verdicts": dict(sorted(verdicts.items())),
            "removed": len(found),
        }
    run.output.facts["not_compared"] = dict(not_compared)
    survivors.guard_sources(
        documents, evidence, config.max_source_loss, config.min_source_documents, stage="semantic_dedup"
    )
    run.map_shards(process, survivors.decisions(documents, evidence))


def _vectors(run: StageRun, results: list, which: int, members: np.ndarray, total: int) -> np.ndarray:
    """float32 [M, D] of `members` (row numbers) in their order; one sidecar at a time in memory beside them."""
    place = np.full(total, -1, dtype=np.int64)
    place[members] = np.arange(len(members))
    vectors, start = np.empty((0, 1), dtype=np.float32), 0
    for table in sidecars.read_sidecars(run, results, ["encoder", "embedding"]):
        targets = place[start : start + table.num_rows]
        rows = np.flatnonzero(targets >= 0)
        if len(rows):
            values = table["embedding"].take(pa.array(rows)).combine_chunks().flatten().to_numpy()
            values = values.reshape(len(rows), -1)
            if not len(vectors):
                vectors = np.empty((len(members), values.shape[1]), dtype=np.float32)
            vectors[targets[rows]] = values
        start += table.num_rows
    return vectors


def find_duplicates(
    run: StageRun,
    documents: survivors.Catalogue,
    members: np.ndarray,
    pairs: Pairs,
    which: int,
    rank: np.ndarray,
) -> tuple[dict[int, dict[str, Any]], Counter]:
    """Row number -> evidence of each document to drop, and how many pairs got which verdict."""
    better, worse = members[pairs.better], members[pairs.worse]
    numbers = np.stack([better, worse], axis=1)
    numbers = numbers[np.lexsort((worse, better))]
    chunks = [numbers[start : start + PART_PAIRS] for start in range(0, len(numbers), PART_PAIRS)]
    parts = [_part(run, documents, chunk, which, f"encoder-{which}-{i:05d}") for i, chunk in enumerate(chunks)]
    verdicts = [v for result in (run.parts(compare, parts) if parts else []) for v in result.result["verdicts"]]
    wanted = {"duplicate"} | ({"template"} if run.config.template_policy == "drop" else set())
    edges = {
        (int(a), int(b)): verdict for (a, b), verdict in zip(numbers, verdicts, strict=True) if verdict[0] in wanted
    }
    dropped, _ = survivors.greedy(list(edges), rank, np.zeros(len(documents), dtype=bool))
    name = run.config.encoders[which].name
    evidence = {}
    for gone, kept in dropped.items():
        verdict, similarity, shared = edges[kept, gone]
        evidence[gone] = {
            "kept_id": documents.id(kept),
            "similarity": similarity,
            "overlap": shared,
            "encoder": name,
            "verdict": verdict,
        }
    return evidence, Counter(verdict for verdict, _, _ in verdicts)


def _part(run: StageRun, documents: survivors.Catalogue, pairs: np.ndarray, which: int, name: str) -> Part:
    reads, positions, contents = sidecars.reads_of(run, documents, pairs)
    payload = {"dataset": run.input.reference(), "reads": reads, "pairs": positions, "encoder": which}
    config: SemanticConfig = run.config
    rules = ("min_length_ratio", "min_overlap")
    settings = {
        "encoder": {
            **encoders.embedding_settings(config.encoders[which]),
            "threshold": config.encoders[which].threshold,
        },
        **{rule: getattr(config, rule) for rule in rules},
    }
    identity = (*contents, digest_of([reads, positions]))
    return Part(name=name, step="compare", inputs=identity, payload=payload, settings=settings)


def model_digests(config: SemanticConfig) -> dict[str, str]:
    """The encoders' files, which come from outside the store."""
    return {f"encoder {e.name}": encoders.model_digest(e) for e in config.encoders} if config.enabled else {}


STAGE = Stage(
    name="semantic_dedup",
    module=__name__,
    config=SemanticConfig,
    inputs=("minhash_dedup",),
    run=run,
    summary="Drop rewordings: encoders and FAISS propose, segments, words and a template rule decide.",
    raw_inputs=model_digests,
)

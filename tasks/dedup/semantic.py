"""Drop documents that say what another says in nearly the same words, found by meaning, not by shingles.

Each document's first segment is embedded by the encoder that knows its language. The encoder's scale is measured
(`calibration.py`), FAISS finds pairs of one language above the threshold (0.95 on the reference scale; pairs above 0.82
are counted), and `semantic_pairs.py` reads both texts whole and decides. Languages that no encoder knows, short texts
and what is beyond `max_documents` are not compared, and the facts count them by reason.

Trade-off: an exhaustive inner-product search misses nothing, and costs N^2 D: 16,000 documents of 512 dimensions take
some 10 s on a core, 50,000 some 100 s. Embedding is the larger cost (see `encoders.py`); `enabled: false` skips all.

in    Document
out   Document            a subset, order kept; the rest is `semantic_duplicate` with the id kept and the measures
ref   Abbas et al. 2023 (SemDeDup), arXiv:2303.09540
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.dedup import calibration, encoders, sidecars, survivors
from tasks.dedup.calibration import CalibrationConfig
from tasks.dedup.encoders import MINILM, USE, EncoderConfig
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.search import near_pairs
from tasks.dedup.semantic_pairs import NEAR_FOLDER, NEAR_SCHEMA, Found, find_duplicates, proposed_from
from tasks.document import Document, Outcome
from tasks.stage import PartResult, PartWriter, Stage, StageRun

REASON = "semantic_duplicate"
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
    template_policy: Literal["keep", "drop"] = "keep"  # one form filled twice: other company, address, numbers
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    num_near: int = 200  # pairs of which both stayed that are named for review, by encoder, language and verdict
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
        if self.num_near < 0:
            raise ValueError(f"num_near must not be negative, found {self.num_near}")
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


def process(documents: Iterator[Document], config: SemanticConfig, decided: dict | None) -> Iterator[Outcome]:
    return survivors.apply(documents, decided, REASON)


def run(run: StageRun) -> None:
    config: SemanticConfig = run.config
    run.output.facts["enabled"] = config.enabled
    if not config.enabled:
        run.map_shards(process, {})
        return
    settings = {"encoders": [encoders.embedding_settings(e) for e in config.encoders], "min_chars": config.min_chars}
    results = run.parts(embed_shard, run.shard_parts("embed", settings))
    shards = [shard.stem for shard in run.input.shards]
    documents = survivors.catalogue(shards, sidecars.read_sidecars(run, results, ["id", "source", "length"]))
    rank = documents.rank(config.source_priority)
    routes, languages, names = _routes(run, results)
    not_compared = Counter({name: int((routes == code).sum()) for code, name in NOT_COMPARED.items()})
    evidence: dict[int, dict[str, Any]] = {}
    for which, encoder in enumerate(config.encoders):
        members = np.flatnonzero(routes == which)
        members = members[np.argsort(rank[members])]
        not_compared["beyond_max_documents"] += max(0, len(members) - config.max_documents)
        members = members[: config.max_documents]
        vectors = _vectors(run, results, which, members, len(documents))
        facts, near = _Facts(), list[dict[str, Any]]()
        for code in np.unique(languages[members]).tolist():
            chosen = np.flatnonzero(languages[members] == code)
            group = (members[chosen], vectors[chosen], names[code])
            found = _compare(run, documents, group, encoder, rank, facts)
            evidence.update(found.evidence)
            near += found.near
        _write_near(run, encoder.name, near)
        run.output.facts[encoder.name] = {"compared": len(members), **facts.plain()}
    run.output.facts["not_compared"] = dict(not_compared)
    survivors.guard_sources(
        documents, evidence, config.max_source_loss, config.min_source_documents, stage="semantic_dedup"
    )
    run.map_shards(process, survivors.decisions(documents, evidence))


PAIR_FACTS = ("pairs_above_screen", "pairs_above_threshold", "pairs_beyond_max_partners", "removed")


@dataclass(slots=True)
class _Facts:
    """What is told of one encoder, summed over languages."""

    pairs: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PAIR_FACTS, 0)))
    verdicts: Counter[str] = field(default_factory=Counter)
    scales: dict[str, dict[str, Any]] = field(default_factory=dict)  # language -> what calibration found

    def plain(self) -> dict[str, Any]:
        return {**self.pairs, "verdicts": dict(sorted(self.verdicts.items())), "scales": self.scales}


def _compare(
    run: StageRun,
    documents: survivors.Catalogue,
    group: tuple[np.ndarray, np.ndarray, str],
    encoder: EncoderConfig,
    rank: np.ndarray,
    facts: _Facts,
) -> Found:
    """Decide within one language: `group` is row numbers [M] in survivor order, vectors [M, D] and the language."""
    config: SemanticConfig = run.config
    members, vectors, language = group
    if len(members) < 2:
        return Found()
    chosen = calibration.choose(documents.ids[members], config.calibration.num_documents, config.calibration.seed)
    scale = calibration.measure(encoder, language, vectors[chosen], config.calibration)
    scaled = calibration.calibrated(encoder, scale)
    facts.scales[language] = calibration.facts(scaled, scale)
    least = proposed_from(scaled, config)
    pairs = near_pairs(vectors, least, scaled.screen, config.max_partners, config.num_near)
    found = find_duplicates(run, documents, members, pairs, scaled, f"{encoder.name}-{language}", rank)
    facts.pairs.update(
        pairs_above_screen=pairs.above_screen,
        pairs_above_threshold=pairs.above_threshold,
        pairs_beyond_max_partners=pairs.above_threshold - len(pairs.near),
        removed=len(found.evidence),
    )
    facts.verdicts.update(found.verdicts)
    return found


def _routes(run: StageRun, results: Sequence[PartResult]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Of each document: its encoder int32 [N] and its language int32 [N], by place in the list of first subtags."""
    names: dict[str, int] = {}
    routes, languages = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for table in sidecars.read_sidecars(run, results, ["encoder", "language"]):
        encoded = table["language"].combine_chunks().dictionary_encode()
        codes = [names.setdefault(name.split("-")[0], len(names)) for name in encoded.dictionary.to_pylist()]
        routes.append(table["encoder"].to_numpy())
        languages.append(np.array(codes or [0], dtype=np.int32)[encoded.indices.to_numpy()])
    return np.concatenate(routes), np.concatenate(languages), list(names)


def _write_near(run: StageRun, name: str, rows: list[dict[str, Any]]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=NEAR_SCHEMA), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    run.output.add_file(f"{NEAR_FOLDER}/{name}.parquet", data, role="sidecar", rows=len(rows))


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

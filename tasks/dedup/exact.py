"""Drop documents whose text another document already holds, and cut paragraphs that many documents hold.

A 128-bit hash of `exact_form(text)` decides; among 10^10 documents two different texts share one with p < 10^-18.
Documents without any visible character hash alike, and all but one of them go: they hold nothing to keep.
There is no guard against a source's loss here, as equality is no estimate: a mirror of another source may go whole.

Then, among the documents that stay, paragraphs (`paragraphs.py`, `shared_paragraphs.py`): the best document in survivor
order keeps each, the others lose it; what is cut is named span by span in the sidecar `removed_paragraphs`. A document
that would lose too much goes whole. Documents that have become equal by their cuts are told apart once more, so a
second run finds nothing to do.

in    Document
out   Document            one per group of equal texts; the rest is `exact_duplicate` with the id kept, or
                          `duplicate_paragraphs`, or `forgotten` (forgotten.py). Cut ones have the metrics
                          removed_paragraphs, removed_paragraph_chars
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.dedup import forgotten, shared_paragraphs, sidecars, survivors
from tasks.dedup.cuts import Cuts, cuts_by_shard, paragraph_facts, removed_table, whole_evidence
from tasks.dedup.normalise import exact_form
from tasks.dedup.paragraphs import ParagraphConfig, cut
from tasks.dedup.shared_paragraphs import Removals
from tasks.document import Document, Dropped, Kept, Outcome
from tasks.settings import to_dict
from tasks.stage import Part, PartWriter, Stage, StageRun
from tasks.store.dataset import Dataset
from tasks.store.filesystem import digest_of

REASON = "exact_duplicate"
PARAGRAPHS_REASON = "duplicate_paragraphs"
SCHEMA = pa.schema([("id", pa.string()), ("source", pa.string()), ("length", pa.int64()), ("hash", pa.binary(16))])


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactConfig:
    source_priority: dict[str, int] = field(default_factory=dict)  # higher stays; sources not named have 0
    paragraphs: ParagraphConfig = field(default_factory=ParagraphConfig)
    forgotten: tuple[str, ...] = ()  # document ids; the store's list (`danlu forget`) is added to them

    def key_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {name: to_dict(getattr(self, name)) for name in self.__dataclass_fields__}
        return settings | {"forgotten": forgotten.digest(self.forgotten)}


def text_hash(text: str) -> bytes:
    """128-bit BLAKE2b of the text's exact form."""
    return hashlib.blake2b(exact_form(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def hash_shard(payload: dict, config: ExactConfig, writer: PartWriter) -> None:
    """Step "hash": the sidecar `hashes` of one shard."""
    hashed = []
    for batch in sidecars.shard_batches(payload, ["id", "source", "text"]):
        texts = batch["text"].to_pylist()
        columns = [batch["id"], batch["source"], [len(t) for t in texts], [text_hash(t) for t in texts]]
        hashed.append(
            pa.RecordBatch.from_arrays(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
        )
    sidecars.write_sidecar(writer, "hashes", SCHEMA, hashed)


def duplicates(hashes: np.ndarray, rank: np.ndarray) -> dict[int, int]:
    """{dropped: kept}, row numbers, of equal rows of `hashes` (uint64 [N, 2]); the best-ranked of a group stays."""
    order = np.lexsort((rank, hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    kept = order[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    return {int(d): int(k) for d, k in zip(order[~first], kept[~first], strict=True)}


def run(run: StageRun) -> None:
    config: ExactConfig = run.config
    results = run.parts(hash_shard, run.shard_parts("hash", settings={}))
    names = [shard.stem for shard in run.input.shards]
    documents = survivors.catalogue(
        names, sidecars.read_sidecars(run, results, ["id", "source", "length"]), run.scratch()
    )
    rank = documents.rank(config.source_priority)
    parts = [_as_uint64(table["hash"]) for table in sidecars.read_sidecars(run, results, ["hash"])]
    hashes = np.concatenate([*parts, np.empty((0, 2), dtype=np.uint64)])
    withdrawn = forgotten.rows_of(documents, config.forgotten)
    dropped = _duplicates_among(np.setdiff1d(np.arange(len(documents)), withdrawn), hashes, rank)
    run.output.facts.update(documents=len(documents), groups=len(set(dropped.values())), removed=len(dropped))
    evidence: dict[int, dict[str, Any]] = {index: _equal_to(documents.id(kept)) for index, kept in dropped.items()}
    evidence |= {int(index): {forgotten.REASON: True} for index in withdrawn}
    cuts: dict[str, Cuts] = {}
    if config.paragraphs.enabled:
        removals = _shared_paragraphs(run, documents, rank, evidence)
        survivors.guard_sources(
            documents,
            np.flatnonzero(removals.whole),
            config.paragraphs.max_source_loss,
            config.paragraphs.min_source_documents,
            stage="exact_dedup.paragraphs",
        )
        evidence.update(whole_evidence(documents, removals))
        cuts = cuts_by_shard(documents, removals)
        again = _equal_after_cuts(run, documents, rank, hashes, evidence, cuts)
        evidence.update({index: _equal_to(documents.id(kept)) for index, kept in again.items()})
        counts = paragraph_facts(documents, removals)
        run.output.facts["paragraphs"] = {**counts, "documents_equal_after_cuts": len(again)}
    decided = survivors.decisions(documents, evidence)
    payloads = {name: {"decided": decided.get(name, {}), "cuts": cuts.get(name, {})} for name in names}
    run.parts(cut_shard, _shard_parts(run, "cut", payloads))


def process(documents: Iterator[Document], decided: Mapping[str, dict[str, Any]], cuts: Cuts) -> Iterator[Outcome]:
    """One outcome per document of a shard: dropped with its evidence, kept, or kept without its cuts."""
    for document in documents:
        evidence, removed = decided.get(document.id), cuts.get(document.id)
        if evidence is not None and forgotten.REASON in evidence:
            yield forgotten.dropped(document)
        elif evidence is not None:
            reason = PARAGRAPHS_REASON if "removed_paragraphs" in evidence else REASON
            yield Dropped(document=document, reason=reason, evidence=evidence)
        elif removed is None:
            yield Kept(document=document)
        else:
            num_chars = sum(end - start for start, end, *_ in removed)
            counts = {"removed_paragraphs": float(len(removed)), "removed_paragraph_chars": float(num_chars)}
            text = cut(document.text, ((start, end) for start, end, *_ in removed))
            yield Kept(document=dataclasses.replace(document, text=text, metrics={**document.metrics, **counts}))


def cut_shard(payload: dict, config: ExactConfig, writer: PartWriter) -> None:
    """Step "cut": the outcomes of one shard, and the sidecar `removed_paragraphs`: where each cut was and who keeps it.

    Documents that go whole are listed there with the paragraphs that they would have lost.
    """
    documents = Dataset.load(payload["dataset"]).documents(payload["shard"])
    for outcome in process(documents, payload["decided"], payload["cuts"]):  # type: ignore[arg-type]
        writer.put(outcome)
    if payload["cuts"]:
        writer.table("removed_paragraphs", removed_table(payload["cuts"]))


def rehash_shard(payload: dict, config: ExactConfig, writer: PartWriter) -> dict[str, Any]:
    """Step "rehash": the hashes of the documents of one shard that are cut, without their cuts."""
    hashes = {}
    for batch in sidecars.shard_batches(payload, ["id", "text"]):
        for row, id_ in enumerate(batch["id"].to_pylist()):
            if removed := payload["cuts"].get(id_):
                text = cut(batch["text"][row].as_py(), ((start, end) for start, end, *_ in removed))
                hashes[id_] = text_hash(text).hex()
    return {"hashes": hashes}


def _shared_paragraphs(
    run: StageRun, documents: survivors.Catalogue, rank: np.ndarray, dropped: Iterable[int]
) -> Removals:
    """What paragraphs go from the documents that are not `dropped`."""
    config: ParagraphConfig = run.config.paragraphs
    keyed = ("unit", "min_chars", "min_line_columns", "skip_languages")
    settings = {name: getattr(config, name) for name in keyed}
    results = run.parts(_units_shard, run.shard_parts("paragraphs", settings))
    spilled = shared_paragraphs.SpilledParagraphs(run.scratch(), sum(r.files[0].rows for r in results))
    stays = np.ones(len(documents), dtype=bool)
    stays[list(dropped)] = False
    tables = sidecars.read_sidecars(run, results, ["row", "start", "end", "hash"])
    for start, table in zip(documents.starts[:-1], tables, strict=True):
        records = shared_paragraphs.records_of(table, int(start))
        spilled.add(records[stays[records["document"]]])
    return shared_paragraphs.find_removals(spilled, rank, documents.lengths, config)


def _units_shard(payload: dict, config: ExactConfig, writer: PartWriter) -> None:
    shared_paragraphs.units_shard(payload, config.paragraphs, writer)


def _equal_to(kept_id: str) -> dict[str, Any]:
    return {"kept_id": kept_id, "similarity": 1.0}


def _equal_after_cuts(
    run: StageRun,
    documents: survivors.Catalogue,
    rank: np.ndarray,
    hashes: np.ndarray,
    evidence: Mapping[int, dict[str, Any]],
    cuts: Mapping[str, Cuts],
) -> dict[int, int]:
    """{dropped: kept} among documents of which at least one was cut."""
    changed = {name: {"cuts": cuts[name]} for name in cuts}
    new: dict[str, str] = {}
    for result in run.parts(rehash_shard, _shard_parts(run, "rehash", changed)):
        new.update(result.result["hashes"])
    hashes = hashes.copy()
    for index in np.flatnonzero(np.isin(documents.ids, np.array(list(new), dtype="S32"))):
        hashes[index] = np.frombuffer(bytes.fromhex(new[documents.id(int(index))]), dtype="<u8")
    staying = np.setdiff1d(np.arange(len(documents)), np.fromiter(evidence, dtype=np.int64))
    return _duplicates_among(staying, hashes, rank)


def _duplicates_among(rows: np.ndarray, hashes: np.ndarray, rank: np.ndarray) -> dict[int, int]:
    """`duplicates` of some rows alone."""
    found = duplicates(hashes[rows], rank[rows])
    return {int(rows[gone]): int(rows[kept]) for gone, kept in found.items()}


def _shard_parts(run: StageRun, step: str, payloads: Mapping[str, dict[str, Any]]) -> list[Part]:
    """One part per shard that has a payload, keyed by the shard and the payload."""
    reference = run.input.reference()
    return [
        Part(
            name=shard.stem,
            step=step,
            inputs=(shard.sha256, digest_of(payloads[shard.stem])),
            payload={"dataset": reference, "shard": shard.name, **payloads[shard.stem]},
            settings={},
        )
        for shard in run.input.shards
        if shard.stem in payloads
    ]


def _as_uint64(column: pa.ChunkedArray) -> np.ndarray:
    return np.frombuffer(b"".join(column.to_pylist()), dtype="<u8").reshape(-1, 2)


STAGE = Stage(
    name="exact_dedup",
    module=__name__,
    config=ExactConfig,
    inputs=("filter",),
    run=run,
    summary="Drop documents whose text another holds, apart from layout; cut paragraphs that many documents hold.",
)

"""One run of MinHash dedup after its documents are signed: what is new, what must be compared, what is decided.

    match        documents of the last index and of this run (`incremental.py`); the others are new
    grow         new band keys are looked up in the old bands and merged into the next index's
    choose       the components that changed; their signatures are read, their bands walked in rounds (`rounds.py`)
    decide       pairs whose Jaccard the index knows are not read again; decisions elsewhere are taken over

Without an index all documents are new, and the same steps are a full run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.dedup import incremental, index, rounds, sidecars
from tasks.dedup.lsh import Bands, bands_and_rows
from tasks.dedup.rounds import Decided, Signatures
from tasks.dedup.survivors import Catalogue, OnDisk
from tasks.stage import PartResult, StageRun
from tasks.store.filesystem import digest_of
from tasks.store.keys import code_version

log = logging.getLogger(__name__)


def pair_settings(shingle_size: int) -> str:
    """What the true Jaccard of two texts depends on, beside them."""
    return digest_of([shingle_size, *code_version(("kernels.minhash", "tasks.dedup.normalise"))])


def settings(config: Any, module: str) -> str:
    """What bands, components and decisions depend on, beside the documents."""
    names = ("threshold", "shingle_size", "min_shingles", "num_perm", "seed", "false_negative_weight")
    more = ("estimate_margin", "source_priority")
    return digest_of([{name: getattr(config, name) for name in names + more}, *code_version((module,))])


class Night:
    """What one run knows of its documents and of the last run's."""

    def __init__(self, run: StageRun, results: Sequence[PartResult], documents: Catalogue):
        self.run, self.results, self.documents, self.config = run, results, documents, run.config
        if len(documents) >= index.MAX_DOCUMENTS:
            raise ValueError(f"{run.stage.name}: {len(documents):,} documents; an index numbers at most 2^32")
        digests, comparable = OnDisk(run.scratch(), "digests", "<u8", 2), [np.empty(0, bool)]
        for table in sidecars.read_sidecars(run, results, ["digest", "comparable"]):
            digests.append(index.as_digests(table["digest"]))
            comparable.append(table["comparable"].to_numpy())
        self.digests, self.comparable = digests.array(), np.concatenate(comparable)
        self.shards = [(shard.sha256, shard.rows) for shard in run.input.shards]
        self.header: dict[str, Any] = {
            "settings": settings(self.config, run.stage.module),
            "pairs": pair_settings(self.config.shingle_size),
            "shards": self.shards,
        }
        self._find_index()
        self.matched = incremental.match(self.index, self.shards, documents, self.digests)

    def _find_index(self) -> None:
        wanted, pairs = self.header["settings"], self.header["pairs"]
        name = self.run.stage.name
        found, problems = index.find(self.run.store, name, settings=wanted, pair_settings=pairs, shards=self.shards)
        for problem in problems:
            log.warning("%s: an index cannot be used, so more is compared anew: %s", name, problem)
        self.known = found.pairs() if found else index.NO_PAIRS
        self.index = found if found and found.header["settings"] == wanted else None
        self.run.output.facts["index"] = {
            "documents_before": len(self.index) if self.index else 0,
            "pairs_before": len(self.known.first),
            "problems": problems,
        }

    def decisions(self) -> Decided:
        """Who goes, for whom, and why; facts say how much work it took."""
        config, facts = self.config, self.run.output.facts
        bands, rows = bands_and_rows(config.threshold, config.num_perm, config.false_negative_weight)
        spilled = Bands(self.run.scratch(), bands, rows)
        signatures = Signatures(self.run, self.results, self.documents, config.num_perm)
        self.folder = self.run.scratch()
        new = self.matched.origins < 0
        _spill(np.flatnonzero(new & self.comparable), spilled, signatures)
        band_of = self.index.band if self.index else incremental.no_band
        met = incremental.grow_bands(band_of, self.matched, spilled, int(self.comparable.sum()), self.folder)
        self.bands = sorted(self.folder.glob("band-*.bin"))
        before = self._components_before()
        chosen = incremental.affected(self.matched, before, met)
        _spill(np.flatnonzero(chosen & ~new & self.comparable), spilled, signatures)
        members = np.flatnonzero(chosen & self.comparable)
        self.components = incremental.components(self.matched, before, chosen, members, spilled)
        facts.update(
            documents=len(self.documents),
            documents_new=int(new.sum()),
            documents_compared=len(members),
            too_few_shingles=int((~self.comparable).sum()),
            bands=bands,
            rows=rows,
        )
        again = rounds.find_duplicates(self.run, self.documents, spilled, signatures, self._pairs(new))
        decided = again.joined(self._taken_over(chosen))
        facts["removed"] = len(decided.documents)
        return decided

    def _pairs(self, new: np.ndarray) -> rounds.KnownPairs:
        self.pairs = rounds.KnownPairs(self.run, self.documents, self.digests, self.known, new)
        return self.pairs

    def _components_before(self) -> np.ndarray:
        if self.index is None:
            return np.empty(0, dtype=np.int64)
        return self.index.column("documents", "component").to_numpy().astype(np.int64)

    def _taken_over(self, chosen: np.ndarray) -> Decided:
        """The last run's decisions on documents that need no comparison."""
        if self.index is None:
            return Decided.none()
        columns = (self.index.column("decisions", name).to_numpy() for name in index.DECISIONS.names)
        document, kept, similarity, estimated = columns
        document, kept = self.matched.places[document], self.matched.places[kept]
        valid = (document >= 0) & ~chosen[document]
        return Decided(document[valid], kept[valid], similarity[valid], estimated[valid])

    def write_index(self, decided: Decided) -> int:
        """Leave the index for the next run; returns its bytes."""
        arrays = (decided.documents, decided.kept, decided.similarity, decided.estimated)
        typed = [pa.array(a).cast(f.type) for a, f in zip(arrays, index.DECISIONS, strict=True)]
        return index.write(
            self.run.output,
            header=self.header,
            documents=index.document_batches(self.documents.ids, self.digests, self.components),
            decisions=pa.Table.from_arrays(typed, schema=index.DECISIONS),
            pairs=self.pairs.all(),
            bands=self.bands,
            scratch=self.folder,
        )


def _spill(numbers: np.ndarray, spilled: Bands, signatures: Signatures) -> None:
    """Band keys of some documents, from their signatures."""
    for some, values in signatures.rows(numbers):
        spilled.add(some, values)

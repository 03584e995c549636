"""What a lost document is shown against, since a decision is judged by what it decided between.

    duplicate   the document that stayed in its place (the evidence names it)
    near        of the documents that passed the same rule in the same language, those nearest to its limit
    below       of two documents that both stayed though they are nearly duplicates: the one that ranks better
    similar     where no figure decided: the first kept one, in the order of review, of the same source and language,
                else of the same language, else of any
    before      of a kept document whose text the stage changed: the text, or bytes, that it was given

One pass over the kept shards serves all reasons; it reads ids, sources, languages and, where needed, metrics, and
holds as many places as there are documents to show.

in    a finished Dataset, reasons, a number and a seed
out   Group of Case
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.document import UNKNOWN_LANGUAGE
from tasks.review import near, sample
from tasks.review.labels import Key
from tasks.review.sample import BELOW, CHANGED, KEPT, Place, Record
from tasks.store.dataset import Dataset

DUPLICATE, NEAR, SIMILAR, BEFORE = "duplicate", "near", "similar", "before"  # BELOW is one too
CANDIDATES = 20  # kept documents to look at for each changed one to show
IS_ID = re.compile(r"[0-9a-f]{32}")


class Limit(NamedTuple):
    """The rule that a document broke, as it holds for its language."""

    metric: str
    limit: float
    is_minimum: bool
    language: str


Kin = tuple[str | None, str | None]  # (source, language); None: any


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One decision to judge."""

    record: Record
    beside: Record | None = None
    relation: str = ""  # duplicate, near, below, similar, before; empty when nothing stands beside it
    limit: Limit | None = None  # of the rule that decided, when one did
    near: str = ""  # of a document below the limit of a duplicate: the reason it would have been lost for

    @property
    def key(self) -> Key:
        """What a label on it names: (document id, reason, near)."""
        return self.record.id, KEPT if self.near else self.record.reason, self.near


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The sample of one reason; "kept" is a sample of all that was kept, "changed" of those with another text,
    "below" of those that are nearly a duplicate of another."""

    reason: str
    outcome: str
    count: int | None  # all documents of this outcome and reason; None: not counted
    cases: list[Case]


def collect(dataset: Dataset, reasons: Iterable[str] = (), number: int = 10, seed: int = 0) -> list[Group]:
    """A seeded sample per reason, each document beside what it is to be compared with.

    Without `reasons`: all of the stage, and "kept" and "changed" unless the stage only looks for duplicates, where a
    document that stayed can't be judged alone; there, "below".
    Raises ValueError for a reason that the stage does not have.
    """
    lost, wanted = sample.reasons_of(dataset), list(dict.fromkeys(reasons))
    if unknown := [reason for reason in wanted if reason not in (*lost, KEPT, CHANGED, BELOW)]:
        raise ValueError(f"{dataset.stage}: no document was lost for {', '.join(unknown)}; {available(dataset)}")
    records = {
        reason: list(sample.read(dataset, sample.choose(dataset, files, number, seed), outcome, reason).values())
        for reason, (outcome, files) in lost.items()
        if not wanted or reason in wanted
    }
    groups = [
        Group(reason=reason, outcome=lost[reason][0], count=sample.num_rows(lost[reason][1]), cases=cases)
        for reason, cases in _cases(dataset, records, seed).items()
    ]
    relations = {case.relation for group in groups for case in group.cases}
    only_duplicates = relations == {DUPLICATE} or (not relations and dataset.stage in near.REASONS)
    for reason, choose in ((KEPT, _kept), (CHANGED, _changed)):
        if reason in wanted or (not wanted and not only_duplicates):
            groups += choose(dataset, number, seed)
    if BELOW in wanted or not wanted:
        groups += _below(dataset, number, seed)
    return groups


def available(dataset: Dataset) -> str:
    """The reasons there are, for a message."""
    counts = [f"{reason} ({sample.num_rows(files):,})" for reason, (_, files) in sample.reasons_of(dataset).items()]
    return f"reasons: {', '.join([*counts, KEPT, CHANGED, BELOW])}"


def partner_of(record: Record) -> str | None:
    """The id of the document that stayed in this one's place, when the evidence names one."""
    for value in [record.evidence.get("kept_id"), *record.evidence.values()]:
        if isinstance(value, str) and IS_ID.fullmatch(value) and value != record.id:
            return value
    return None


def limit_of(record: Record) -> Limit | None:
    """The rule the document broke, when its evidence is a figure and a limit."""
    metric, found, limit = (record.evidence.get(key) for key in ("metric", "found", "limit"))
    if not isinstance(metric, str) or not isinstance(found, int | float) or not isinstance(limit, int | float):
        return None
    return Limit(metric, float(limit), found < limit, record.language)


def _kept(dataset: Dataset, number: int, seed: int) -> list[Group]:
    tables = sample.tables_of(dataset)
    records = sample.read(dataset, sample.choose(dataset, tables, number, seed), KEPT, KEPT).values()
    if not records:
        return []
    cases = [Case(record=record) for record in records]
    return [Group(reason=KEPT, outcome=KEPT, count=sample.num_rows(tables), cases=cases)]


def _changed(dataset: Dataset, number: int, seed: int) -> list[Group]:
    """The first kept documents, in the order of review, whose text is not what the stage was given."""
    candidates = sample.choose(dataset, sample.tables_of(dataset), CANDIDATES * number, seed)
    after = sample.read(dataset, candidates, KEPT, CHANGED)
    cases: list[Case] = []
    for stage, made in dataset.manifest.inputs.items():
        source = Dataset.find(dataset.store, stage, made["key"])
        places = sample.locate(source, sample.tables_of(source), after) if source else {}
        before = sample.read(source, places.values(), KEPT, KEPT) if source else {}
        cases += [
            Case(record=record, beside=before[id_], relation=BEFORE)
            for id_, record in after.items()
            if id_ in before and not same_text(before[id_], record)
        ]
    return [Group(reason=CHANGED, outcome=KEPT, count=None, cases=cases[:number])] if cases else []


def _below(dataset: Dataset, number: int, seed: int) -> list[Group]:
    """A sample of the documents that stayed and are nearly a duplicate of another that stayed."""
    pairs, order = near.near_pairs(dataset), sample.orders(seed)
    chosen = sorted(pairs.values(), key=lambda pair: order(pair.id))[:number]
    places = sample.locate(dataset, sample.tables_of(dataset), (id_ for p in chosen for id_ in (p.id, p.other)))
    records = sample.read(dataset, places.values(), KEPT, BELOW)
    cases = []
    for pair in chosen:
        facts = {"near": pair.other, "similarity": pair.similarity, **pair.facts}
        record = dataclasses.replace(records[pair.id], evidence=facts)
        case = Case(record=record, beside=records[pair.other], relation=BELOW, near=near.REASONS[dataset.stage])
        cases.append(case)
    return [Group(reason=BELOW, outcome=KEPT, count=len(pairs), cases=cases)] if cases else []


def same_text(before: Record, after: Record) -> bool:
    """Whether the stage left the text as it was given: for bytes, whether they are its UTF-8."""
    if before.content is None or after.content is not None:
        return before.text == after.text and before.content == after.content
    encoded = after.text.encode("utf-8", "surrogatepass")
    return encoded[: len(before.content)] == before.content and (
        before.num_bytes == len(encoded) or len(after.text) == sample.MAX_CHARS
    )


def _cases(dataset: Dataset, records: Mapping[str, list[Record]], seed: int) -> dict[str, list[Case]]:
    everything = [record for found in records.values() for record in found]
    tables = sample.tables_of(dataset)
    partners = {record.id: partner_of(record) for record in everything}
    places = sample.locate(dataset, tables, filter(None, partners.values()))
    alone = [record for record in everything if partners[record.id] not in places]
    near, similar = _scan(dataset, alone, seed)
    texts = sample.read(dataset, {*places.values(), *_flat(near), *_flat(similar)}, KEPT, KEPT)

    def case(record: Record) -> Case:
        partner, limit = partners[record.id], limit_of(record)
        if partner in places:
            return Case(record=record, beside=texts[partner], relation=DUPLICATE)
        if limit and near[limit]:
            return Case(record=record, beside=texts[near[limit].pop(0).id], relation=NEAR, limit=limit)
        for kin in _kin(record.source, record.language):
            if similar[kin]:
                return Case(record=record, beside=texts[similar[kin].pop(0).id], relation=SIMILAR, limit=limit)
        return Case(record=record, limit=limit)

    return {reason: [case(record) for record in found] for reason, found in records.items()}


def _flat(places: Mapping[Any, list[Place]]) -> Iterator[Place]:
    return (place for found in places.values() for place in found)


def _kin(source: str, language: str) -> tuple[Kin, Kin, Kin]:
    return (source, language), (None, language), (None, None)


def _scan(
    dataset: Dataset, records: list[Record], seed: int
) -> tuple[defaultdict[Limit, list[Place]], defaultdict[Kin, list[Place]]]:
    """Kept documents for these records: nearest to each limit, and by kin; best first, as many as may be needed."""
    limits = Counter(limit for record in records if (limit := limit_of(record)))
    kins = Counter(kin for record in records for kin in _kin(record.source, record.language))
    near: dict[Limit, list[tuple[float, Place]]] = {limit: [] for limit in limits}
    similar: defaultdict[Kin, list[Place]] = defaultdict(list)
    order = sample.orders(seed)
    for entry in sample.tables_of(dataset) if records else ():
        start = 0
        for batch in dataset.batches(entry, _columns(dataset, entry.name)):
            ids, sources = batch["id"].to_pylist(), batch["source"].to_pylist()
            names = batch.schema.names
            languages = batch["language"].to_pylist() if "language" in names else [UNKNOWN_LANGUAGE] * len(ids)
            places = [Place(order(id_), id_, entry.name, start + row) for row, id_ in enumerate(ids)]
            for place, source, language in zip(places, sources, languages, strict=True):
                for kin in _kin(source, language):
                    _keep(similar[kin], place, kins[kin])
            for limit, number in limits.items() if "metrics" in names else ():
                for found in _passed(batch, limit, places, languages):
                    _keep(near[limit], found, number)
            start += len(ids)
    return defaultdict(list, {limit: [p for _, p in found] for limit, found in near.items()}), similar


def _keep(smallest: list, item: Any, number: int) -> None:
    """Put `item` into the sorted list of the `number` smallest, if it belongs there."""
    if number and (len(smallest) < number or item < smallest[-1]):
        bisect.insort(smallest, item)
        del smallest[number:]


def _columns(dataset: Dataset, name: str) -> list[str]:
    """Those of the needed columns that the file has: a raw record has neither language nor metrics."""
    with dataset.open(name) as file:
        names = pq.ParquetFile(file).schema_arrow.names
    return [column for column in ("id", "source", "language", "metrics") if column in names]


def _passed(batch: Any, limit: Limit, places: list[Place], languages: list[str]) -> Iterator[tuple[float, Place]]:
    """(distance to the limit, place) of the batch's documents that the rule applies to and let pass."""
    values = pc.map_lookup(batch["metrics"], limit.metric, "first").to_numpy(zero_copy_only=False).astype(np.float64)
    above = values - limit.limit if limit.is_minimum else limit.limit - values
    for row in np.flatnonzero(above >= 0):  # NaN, where it was never measured, is not
        if languages[row] == limit.language:
            yield float(above[row]), places[row]

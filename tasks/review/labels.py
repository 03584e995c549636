"""What reviewers said about documents, kept in the store beside the datasets.

`reviews/<stage>/<dataset key, 32 digits>.jsonl`, one label a line in the order given; of several for one document the
last one counts. The file is rewritten whole with each label, through the store's atomic write: a label is there or
not, on any file system, and no dataset changes by it. Two reviewers at one dataset at the same moment may lose one
label; at different moments they do not, as the file is read again before each write.

A label belongs to a decision. It holds for another dataset of the stage too (another threshold, more data) when the
document met the same outcome for the same reason there: then it carries over.

in    JSON lines: id, stage, reason, verdict; note, near and at may be left out
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.review import sample
from tasks.review.sample import CHANGED, KEPT
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

RIGHT, WRONG, UNSURE = "right", "wrong", "unsure"
VERDICTS = (RIGHT, WRONG, UNSURE)

Key = tuple[str, str, str]  # (document id, reason, near)


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One verdict on one decision: was it right that this document was dropped (quarantined, kept, changed)?"""

    id: str
    stage: str
    reason: str  # the reason it was lost for; "kept"; or "changed"
    verdict: str  # right, wrong, unsure
    note: str = ""
    near: str = ""  # of a kept one that was shown for nearly breaking a rule: the reason it would have been lost for
    at: str = ""  # UTC, ISO 8601

    def __post_init__(self) -> None:
        for name in ("id", "stage", "reason", "verdict", "note", "near", "at"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}: expected text, found {getattr(self, name)!r}")
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict: expected {', '.join(VERDICTS)}, found {self.verdict!r}")

    @property
    def key(self) -> Key:
        """What it is a verdict on; a later one on the same takes its place."""
        return self.id, self.reason, self.near

    @property
    def decision(self) -> str:
        """What the document met: its reason, or "kept"."""
        return KEPT if self.reason == CHANGED else self.reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The labels that hold for one dataset."""

    by_key: dict[Key, Label]
    num_carried: int  # of them, given on other datasets of the stage
    num_left: int  # given on others and not valid here: the document is gone or met another decision


def file_of(dataset: Dataset) -> str:
    return f"reviews/{dataset.stage}/{dataset.key[:32]}.jsonl"


def digests(datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """SHA-256 of each file of labels of the datasets' stages: what a reader of the labels depends on."""
    found = {}
    for stage, dataset in datasets.items():
        for name in dataset.store.names(f"reviews/{stage}"):
            if name.endswith(".jsonl"):
                path = f"reviews/{stage}/{name}"
                with dataset.store.open(path) as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def own(dataset: Dataset) -> list[Label]:
    """All labels given on this very dataset, oldest first."""
    return _load(dataset.store, file_of(dataset), dataset.stage)


def add(dataset: Dataset, labels: Iterable[Label]) -> None:
    """Append labels to the dataset's file; each is stamped with the time unless it has one."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    stamped = [label if label.at else dataclasses.replace(label, at=now) for label in labels]
    lines = [json.dumps(dataclasses.asdict(label), ensure_ascii=False) for label in [*own(dataset), *stamped]]
    dataset.store.write(file_of(dataset), "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))


def load(dataset: Dataset) -> Labels:
    """The labels that hold for the dataset: its own, and what carries over from others of its stage."""
    mine = {label.key: label for label in own(dataset)}
    others: dict[Key, Label] = {}
    names = [f"reviews/{dataset.stage}/{name}" for name in dataset.store.names(f"reviews/{dataset.stage}")]
    given = [label for name in names if name != file_of(dataset) for label in _jsonl(dataset, name)]
    for label in sorted(given, key=lambda label: label.at):
        others[label.key] = label
    others = {key: label for key, label in others.items() if key not in mine}
    decided = decisions(dataset, {label.id for label in others.values()})
    carried = {key: label for key, label in others.items() if decided.get(label.id) == label.decision}
    return Labels(by_key=carried | mine, num_carried=len(carried), num_left=len(others) - len(carried))


def decisions(dataset: Dataset, ids: Iterable[str]) -> dict[str, str]:
    """What each document met: the reason it was lost for, or "kept"; ids the dataset does not know are left out."""
    missing, found = set(ids), dict[str, str]()
    groups = {reason: files for reason, (_, files) in sample.reasons_of(dataset).items()}
    for reason, files in [*groups.items(), (KEPT, sample.tables_of(dataset))]:
        here = sample.locate(dataset, files, missing)
        found |= dict.fromkeys(here, reason)
        missing -= here.keys()
    return found


def parse(data: bytes, where: str) -> list[Label]:
    """Labels of a JSON-lines file. Raises ValueError, naming the line, for one that is no label."""
    found = []
    names = {field.name for field in dataclasses.fields(Label)}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, Mapping):
                raise ValueError(f"expected a JSON object, found {type(row).__name__}")
            if lacking := {"id", "stage", "reason", "verdict"} - row.keys():
                raise ValueError(f"expected id, stage, reason and verdict; {', '.join(sorted(lacking))} is missing")
            found.append(Label(**{name: value for name, value in row.items() if name in names}))
        except ValueError as error:
            raise ValueError(f"{where}: line {number}: {error}") from error
    return found


def check(dataset: Dataset, labels: Iterable[Label], where: str) -> None:
    """Raise ValueError for the first label that is not about a decision of this dataset."""
    given = list(labels)
    decided = decisions(dataset, {label.id for label in given})
    for label in given:
        met = decided.get(label.id)
        if label.stage != dataset.stage:
            raise ValueError(
                f"{where}: document {label.id}: the label is of stage {label.stage!r}, not {dataset.stage!r}"
            )
        if met != label.decision:
            found = "is not among its documents" if met is None else f"met {met!r}"
            raise ValueError(
                f"{where}: document {label.id}: labelled for {label.reason!r}, but in this dataset of {dataset.stage} "
                f"it {found}. Label the sample of `danlu review {dataset.stage}` as it is now"
            )


def _load(store: Store, name: str, stage: str) -> list[Label]:
    if not store.exists(name):
        return []
    with store.open(name) as file:
        return parse(file.read(), f"{store.url}/{name}")


def _jsonl(dataset: Dataset, name: str) -> list[Label]:
    return _load(dataset.store, name, dataset.stage) if name.endswith(".jsonl") else []

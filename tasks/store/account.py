"""The account of a stage: for each source and language, in = kept + dropped(reason) + quarantined(reason).

Counting is by record. A stage whose account does not add up has lost or invented a document, and fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any


class AccountError(RuntimeError):
    """Documents were lost or invented: the account of a stage does not add up."""


@dataclass(slots=True)
class Counts:
    """What became of the records of one source and language."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)

    @property
    def balance(self) -> int:
        """0 when it adds up; positive: that many records are missing from the right-hand side."""
        return self.read - self.kept - self.dropped.total() - self.quarantined.total()

    def add(self, other: Counts) -> None:
        self.read += other.read
        self.kept += other.kept
        self.dropped.update(other.dropped)
        self.quarantined.update(other.quarantined)

    def to_row(self) -> dict[str, Any]:
        return {
            "in": self.read,
            "kept": self.kept,
            "dropped": dict(sorted(self.dropped.items())),
            "quarantined": dict(sorted(self.quarantined.items())),
        }


class Account:
    """Counts by (source, language)."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Counts] = {}

    def counts(self, source: str, language: str) -> Counts:
        return self.rows.setdefault((source, language), Counts())

    def merge(self, other: Account) -> None:
        for (source, language), counts in other.rows.items():
            self.counts(source, language).add(counts)

    def total(self) -> Counts:
        return self._sum(self.rows.values())

    def by_source(self) -> dict[str, Counts]:
        return self._grouped(0)

    def by_language(self) -> dict[str, Counts]:
        return self._grouped(1)

    def _grouped(self, index: int) -> dict[str, Counts]:
        grouped: dict[str, Counts] = {}
        for key, counts in sorted(self.rows.items()):
            grouped.setdefault(key[index], Counts()).add(counts)
        return grouped

    @staticmethod
    def _sum(rows: Iterable[Counts]) -> Counts:
        total = Counts()
        for counts in rows:
            total.add(counts)
        return total

    def check(self, stage: str) -> None:
        """Raise AccountError, naming each source and language that does not add up."""
        wrong = [
            f"{source}/{language}: in {c.read:,} ≠ kept {c.kept:,} + dropped {c.dropped.total():,}"
            f" + quarantined {c.quarantined.total():,}"
            for (source, language), c in sorted(self.rows.items())
            if c.balance
        ]
        if wrong:
            raise AccountError(f"stage {stage!r}: the account does not add up: {'; '.join(wrong)}")

    def check_follows(self, stage: str, previous: str, before: Account) -> None:
        """Raise AccountError unless this stage read, source by source, what the stage before it kept."""
        read = {source: counts.read for source, counts in self.by_source().items() if counts.read}
        kept = {source: counts.kept for source, counts in before.by_source().items() if counts.kept}
        if read != kept:
            differing = sorted(s for s in read.keys() | kept.keys() if read.get(s, 0) != kept.get(s, 0))
            detail = "; ".join(
                f"{s}: {previous} kept {kept.get(s, 0):,}, {stage} read {read.get(s, 0):,}" for s in differing
            )
            raise AccountError(f"stage {stage!r} did not read what {previous!r} kept: {detail}")

    def to_rows(self) -> list[dict[str, Any]]:
        """JSON-able rows, sorted by source and language."""
        return [
            {"source": source, "language": language, **counts.to_row()}
            for (source, language), counts in sorted(self.rows.items())
        ]

    @classmethod
    def from_rows(cls, rows: Iterable[dict[str, Any]]) -> Account:
        account = cls()
        for row in rows:
            account.counts(row["source"], row["language"]).add(
                Counts(row["in"], row["kept"], Counter(row["dropped"]), Counter(row["quarantined"]))
            )
        return account

    def __iter__(self) -> Iterator[tuple[tuple[str, str], Counts]]:
        return iter(sorted(self.rows.items()))

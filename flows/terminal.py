"""What a person sees while stages run: one progress line a stage, then what became of its documents.

On a terminal the line moves; elsewhere (a log file) it is printed when the stage ends and every half minute between.
Everything goes to standard error: standard output belongs to `--json`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tasks.stage import Stage, StageResult
from tasks.store.account import Account

SECONDS_BETWEEN_LINES = 30.0

console = Console(stderr=True, highlight=False)


class TerminalWatcher:
    """Draws progress; with `as_json`, also prints one JSON line per finished stage on standard output."""

    def __init__(self, as_json: bool = False):
        self._json = as_json
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._printed = 0.0

    def stage_started(self, stage: Stage) -> None:
        self._printed = time.monotonic()
        if console.is_terminal:
            columns = [SpinnerColumn(), TextColumn(f"{stage.name:<15}"), BarColumn(), TextColumn("{task.description}")]
            self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=None)

    def progress(self, stage: str, done: float, total: float, note: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total or None, description=f"{done:g}/{total:g} {note}")
        elif time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            console.print(f"  {stage:<15} {done:g}/{total:g} {note}", soft_wrap=True)

    def stage_finished(self, stage: Stage, result: StageResult) -> None:
        self.close()
        for reason in [] if result.cached or result.why[0].startswith("it has not run before") else result.why:
            console.print(f"  {'':<15} [dim]ran because {escape(reason)}[/dim]", soft_wrap=True)
        console.print(stage_line(stage.name, result), soft_wrap=True)
        if self._json:
            sys.stdout.write(json.dumps(stage_row(stage.name, result), ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def close(self) -> None:
        """Take the moving line away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def stage_line(name: str, result: StageResult) -> str:
    """`filter  run 3.1 s  in 1,234 = kept 1,000 + dropped 230 + quarantined 4`."""
    verb = "[green]cached[/green]" if result.cached else f"run {result.seconds:6.1f} s"
    return f"  {name:<15} {verb:<12}  {account_line(result.dataset.manifest.account)}"


def account_line(account: Account) -> str:
    if not account.rows:
        return ""
    total = account.total()
    line = f"in {total.read:,} = kept {total.kept:,} + dropped {total.dropped.total():,}"
    return f"{line} + quarantined {total.quarantined.total():,}"


def stage_row(name: str, result: StageResult) -> dict[str, Any]:
    """One stage for `--json`."""
    account = result.dataset.manifest.account
    return {
        "name": name,
        "dataset": result.dataset.url,
        "digest": result.dataset.digest,
        "key": result.dataset.key,
        "status": "cached" if result.cached else "run",
        "seconds": round(result.seconds, 3),
        "account": {**account.total().to_row(), "rows": account.to_rows()},
        "why": result.why,
    }


def account_table(account: Account, title: str) -> Table:
    """The account by source and language."""
    table = Table(title=title)
    for column in ("source", "language", "in", "kept", "dropped", "quarantined"):
        table.add_column(column, justify="right" if column in ("in", "kept") else "left")
    for (source, language), c in account:
        table.add_row(source, language, f"{c.read:,}", f"{c.kept:,}", reasons(c.dropped), reasons(c.quarantined))
    total = account.total()
    table.add_section()
    table.add_row("all", "", f"{total.read:,}", f"{total.kept:,}", reasons(total.dropped), reasons(total.quarantined))
    return table


def reasons(counts: Any) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in sorted(counts.items())) or "0"


def escape(text: str) -> str:
    """Text that rich must not read as markup."""
    return text.replace("[", "\\[")

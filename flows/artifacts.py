"""What Prefect shows of a run: a moving progress artifact, the account, the metrics, links to checkpoint and report.

Artifacts hold references and small tables, never documents.
"""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.engine import Run, Watcher
from flows.terminal import account_line
from tasks.stage import Stage, StageResult
from tasks.store.account import Account
from training import processes

SECONDS_BETWEEN_UPDATES = 2.0  # an update is a request to the server; SQLite dislikes many writers

log = logging.getLogger(__name__)


class PrefectWatcher:
    """Shows each stage as a progress artifact and its account as a table artifact."""

    def __init__(self) -> None:
        self._artifact: UUID | None = None
        self._updated = 0.0
        processes.watch_owner()  # under `make serve`: a flow run does not outlive it, not even its SIGKILL

    def stage_started(self, stage: Stage) -> None:
        key = f"progress-{slug(stage.name)}"
        created: Any = create_progress_artifact(0.0, key=key, description=stage.summary)
        self._artifact, self._updated = created, 0.0

    def progress(self, stage: str, done: float, total: float, note: str) -> None:
        now = time.monotonic()
        if self._artifact and total and (now - self._updated >= SECONDS_BETWEEN_UPDATES or done >= total):
            self._updated = now
            update_progress_artifact(self._artifact, 100.0 * done / total, description=f"{stage}: {note}")

    def stage_finished(self, stage: Stage, result: StageResult) -> None:
        account = result.dataset.manifest.account
        verb = "cached" if result.cached else f"ran {result.seconds:.1f} s"
        get_run_logger().info("%s: %s  %s", stage.name, verb, account_line(account))
        if self._artifact:
            update_progress_artifact(self._artifact, 100.0, description=f"{stage.name}: {verb}")
        if account.rows:
            create_table_artifact(account_table(account), key=f"account-{slug(stage.name)}", description=stage.summary)
        create_link_artifact(
            as_link(result.dataset.url), link_text=result.dataset.folder, key=f"dataset-{slug(stage.name)}"
        )


class Both:
    """Two watchers at once: the terminal and Prefect."""

    def __init__(self, *watchers: Watcher):
        self.watchers = watchers

    def stage_started(self, stage: Stage) -> None:
        for watcher in self.watchers:
            watcher.stage_started(stage)

    def progress(self, stage: str, done: float, total: float, note: str) -> None:
        for watcher in self.watchers:
            watcher.progress(stage, done, total, note)

    def stage_finished(self, stage: Stage, result: StageResult) -> None:
        for watcher in self.watchers:
            watcher.stage_finished(stage, result)


def publish_summary(run: Run) -> None:
    """The account of the whole run, the training figures, and links to the checkpoint and the report."""
    rows = [summary_row(name, result) for name, result in run.results.items()]
    create_table_artifact(rows, key="account", description=f"Account of pipeline {run.config.name}")
    train, report = run.results.get("train"), run.results.get("report")
    if train:
        facts = "\n".join(f"- {name}: {value}" for name, value in sorted(train.dataset.manifest.facts.items()))
        create_markdown_artifact(f"# Training\n\n{facts}", key="training-metrics")
        create_link_artifact(as_link(train.dataset.url), link_text="checkpoint", key="checkpoint")
    if report:
        create_link_artifact(as_link(f"{report.dataset.url}/report.html"), link_text="report", key="report")


def summary_row(name: str, result: StageResult) -> dict[str, Any]:
    total = result.dataset.manifest.account.total()
    return {
        "stage": name,
        "status": "cached" if result.cached else "run",
        "seconds": round(result.seconds, 1),
        "in": total.read,
        "kept": total.kept,
        "dropped": total.dropped.total(),
        "quarantined": total.quarantined.total(),
        "digest": result.dataset.digest[:12],
    }


def account_table(account: Account) -> list[dict[str, Any]]:
    return [
        {
            "source": source,
            "language": language,
            "in": counts.read,
            "kept": counts.kept,
            "dropped": ", ".join(f"{reason} {n}" for reason, n in sorted(counts.dropped.items())),
            "quarantined": ", ".join(f"{reason} {n}" for reason, n in sorted(counts.quarantined.items())),
        }
        for (source, language), counts in account
    ]


def slug(name: str) -> str:
    """A Prefect artifact key: lowercase letters, digits and dashes."""
    return name.replace("_", "-")


def as_link(url: str) -> str:
    return url if "://" in url else f"file://{url}"

"""The nightly refresh: take in what is new, up to the token shards; train on it only when asked to.

Everything that did not change is found by its key, shard by shard, so a night's work grows with the new data.
"""

from __future__ import annotations

from prefect import flow

from flows.artifacts import PrefectWatcher, publish_summary
from flows.engine import Request, Run, upto
from flows.order import STAGES
from flows.pretrain import run_stage_task


@flow(name="refresh", persist_result=False, validate_parameters=False)
def refresh(
    recipe: str = "recipes/sample.yaml",
    store: str = "out/sample",
    settings: list[str] | None = None,
    workers: int | None = None,
    train: bool = False,
) -> dict[str, str]:
    """Bring the store's datasets up to date with the recipe's sources. Returns stage -> dataset URL."""
    request = Request(store=store, recipe=recipe, settings=tuple(settings or ()), workers=workers)
    with Run(request, PrefectWatcher()) as run:
        for stage in upto(STAGES, None if train else "shards"):
            run_stage_task(run, stage)
        publish_summary(run)
        return {name: result.dataset.url for name, result in run.results.items()}

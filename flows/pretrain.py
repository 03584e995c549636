"""Raw text to checkpoint: the flow that runs all stages, in the order of flows/order.py."""

from __future__ import annotations

from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.artifacts import PrefectWatcher, publish_summary
from flows.engine import Request, Run, upto
from flows.order import STAGES
from tasks.stage import Stage, StageResult


def is_infrastructure(task: Any, run: Any, state: Any) -> bool:
    """Whether a failed stage is worth another try: the machine failed, not the data or the settings."""
    try:
        state.result()
    except (ConnectionError, TimeoutError):
        return True
    except BaseException:
        return False
    return False


@task(
    task_run_name="{stage.name}",
    cache_policy=NO_CACHE,  # the store's own keys see file contents and code; Prefect's policies do not
    persist_result=False,
    retries=2,
    retry_delay_seconds=[10, 60],
    retry_condition_fn=is_infrastructure,
)
def run_stage_task(run: Run, stage: Stage) -> StageResult:
    """One stage; cached when its key is in the store."""
    return run.step(stage)


@flow(name="pretrain", persist_result=False, validate_parameters=False)
def pretrain(
    recipe: str = "recipes/sample.yaml",
    store: str = "out/sample",
    inputs: list[str] | None = None,
    settings: list[str] | None = None,
    until: str | None = None,
    workers: int | None = None,
) -> dict[str, str]:
    """Raw text to checkpoint.

    recipe: YAML of sources and stage settings. store: folder or fsspec URL. inputs: paths that replace the recipe's
    sources. settings: `key=value`. until: last stage to run. Returns stage -> dataset URL.
    """
    request = Request(
        store=store,
        recipe=recipe,
        inputs=tuple(inputs or ()),
        settings=tuple(settings or ()),
        until=until,
        workers=workers,
    )
    with Run(request, PrefectWatcher()) as run:
        run.remember()
        for stage in upto(STAGES, until):
            run_stage_task(run, stage)
        publish_summary(run)
        return {name: result.dataset.url for name, result in run.results.items()}

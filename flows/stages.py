"""One flow per stage: run it alone, on the current datasets of the stages before it.

prefect deployment run filter/alone --param settings='["filter.min_chars=100"]'
"""

from __future__ import annotations

from typing import Any

from prefect import Flow, flow

from flows.artifacts import PrefectWatcher
from flows.engine import Request, Run
from flows.order import STAGES
from flows.pretrain import run_stage_task
from tasks.stage import Stage


def stage_flow(stage: Stage) -> Flow[..., Any]:
    """The flow that runs `stage` alone."""

    def run_alone(
        recipe: str = "recipes/sample.yaml",
        store: str = "out/sample",
        inputs: list[str] | None = None,
        settings: list[str] | None = None,
        workers: int | None = None,
    ) -> str:
        request = Request(
            store=store, recipe=recipe, inputs=tuple(inputs or ()), settings=tuple(settings or ()), workers=workers
        )
        with Run(request, PrefectWatcher()) as run:
            return run_stage_task(run, stage).dataset.url

    run_alone.__name__ = stage.name
    run_alone.__doc__ = (
        f"{stage.summary}\n\nReads {', '.join(stage.inputs) or 'the raw sources'} as it is now in the store."
    )
    return flow(name=stage.name, persist_result=False, validate_parameters=False)(run_alone)


FLOWS: dict[str, Flow[..., Any]] = {stage.name: stage_flow(stage) for stage in STAGES}
globals().update(FLOWS)  # a deployment's entrypoint names a module attribute: flows/stages.py:decode

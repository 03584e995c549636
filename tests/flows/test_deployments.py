"""deployments/prefect.yaml: every stage has its deployment, and every entrypoint is a flow."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow

from flows.order import STAGES

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]


def names() -> list[str]:
    return [f"{flow_of(d).name}/{d['name']}" for d in DEPLOYMENTS]


def flow_of(deployment: dict[str, Any]) -> Flow[..., Any]:
    path, _, name = deployment["entrypoint"].partition(":")
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    flow = getattr(module, name)
    assert isinstance(flow, Flow)
    return flow


def test_the_deployments_are_the_journeys_and_one_per_stage() -> None:
    assert names() == ["pretrain/full", "pretrain/sample", "refresh/nightly", *(f"{s.name}/alone" for s in STAGES)]


def test_the_nightly_refresh_has_a_schedule() -> None:
    assert [d["name"] for d in DEPLOYMENTS if d.get("schedules")] == ["nightly"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["entrypoint"])
def test_parameters_are_those_of_the_flow_and_recipes_exist(deployment: dict[str, Any]) -> None:
    known = set(flow_of(deployment).parameters.properties)
    assert set(deployment["parameters"]) <= known
    assert (ROOT / deployment["parameters"]["recipe"]).exists()


def test_runs_of_one_deployment_wait_for_each_other() -> None:
    assert {d["concurrency_limit"]["limit"] for d in DEPLOYMENTS} == {1}

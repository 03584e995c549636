"""`danlu sizes`, and a recipe that names one."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.config import name_model
from tasks.settings import ConfigError
from training.sizes import SIZES


def rows(*arguments: str) -> dict[str, dict]:
    result = CliRunner().invoke(app, ["sizes", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return {row["size"]: row for row in map(json.loads, result.stdout.splitlines())}


def test_every_size_is_listed_with_its_memory_by_zero_stage():
    found = rows("--ranks", "8")
    assert list(found) == list(SIZES)
    assert all(row["state_bytes"] == sorted(row["state_bytes"], reverse=True) for row in found.values())
    assert found["13b"]["state_bytes"][0] == 16 * found["13b"]["parameters"]


def test_another_vocabulary_changes_the_parameters():
    difference = rows("--vocab-size", "5096")["1m"]["parameters"] - rows("--vocab-size", "4096")["1m"]["parameters"]
    assert difference == 1000 * SIZES["1m"]["hidden_size"]


def test_an_unknown_precision_is_refused_by_name():
    result = CliRunner().invoke(app, ["sizes", "--precision", "fp8"])
    assert result.exit_code != 0
    assert "expected bf16, fp16 or fp32, found 'fp8'" in " ".join(result.output.split())


def test_a_recipe_names_a_size_and_may_change_its_numbers():
    values = {"train": {"model": {"size": "1b", "num_layers": 3}}}
    name_model(values)
    assert values["train"]["model"] == SIZES["1b"] | {"num_layers": 3}


def test_an_unknown_size_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="expected one of 1m, 10m, 125m, 1b, 7b, 13b, found '2b'"):
        name_model({"train": {"model": {"size": "2b"}}})

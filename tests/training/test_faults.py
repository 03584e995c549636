"""Faults in a real run of two ranks: found out, named, and survived from the newest checkpoint that verifies."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import small_spec
from tests.training.forked_ranks import Kill, Ranks, differences
from training.config import CheckpointConfig, LossScaleConfig, RunSpec
from training.metrics import read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SETTINGS: dict[str, Any] = {
    "steps": 20,
    "checkpoint_interval_steps": 4,
    "checkpoints": CheckpointConfig(asynchronous=False),  # which one is the newest is then no matter of speed
}


@pytest.fixture(scope="module")
def whole(ranks: Ranks, token_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work folder of the run without a fault."""
    folder = tmp_path_factory.mktemp("whole")
    ranks.run(small_spec(token_folder, folder, **SETTINGS)).check()
    return folder


@pytest.fixture(scope="module")
def killed(ranks: Ranks, token_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, killed after step 14: it holds the checkpoints of steps 8 and 12."""
    folder = tmp_path_factory.mktemp("killed")
    kill = Kill("step", 14)
    ranks.run(small_spec(token_folder, folder, **SETTINGS), kill).check(kill)
    return folder


@pytest.fixture
def spec(killed: Path, token_folder: Path, tmp_path: Path) -> RunSpec:
    """The killed run, to be damaged."""
    shutil.copytree(killed, tmp_path / "run")
    return small_spec(token_folder, tmp_path / "run", **SETTINGS)


def events(spec: RunSpec, kind: str) -> list[dict[str, Any]]:
    return [row for row in read_rows(Path(spec.work_dir) / "events.jsonl") if row["kind"] == kind]


def steps(spec: RunSpec) -> list[dict[str, Any]]:
    return [row for row in read_rows(Path(spec.work_dir) / "metrics.jsonl") if row["kind"] == "step"]


def checkpoint(spec: RunSpec, step: int) -> Path:
    return Path(spec.work_dir) / "checkpoints" / f"step-{step:08d}"


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a flipped byte": (lambda folder: flip_byte(next(folder.glob("optimizer.*"))), "differs from its SHA-256"),
    "a rank's missing file": (lambda folder: (folder / "rng-00001.pt").unlink(), "rng-00001.pt is missing"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_the_run_goes_on_from_the_checkpoint_before(spec, ranks, whole, kind):
    do, said = DAMAGE[kind]
    do(checkpoint(spec, 12))
    outcome = ranks.run(spec).check()
    assert f"checkpoint step-00000012: {said}" in outcome.log or (
        "step-00000012" in outcome.log and said in outcome.log
    )
    assert events(spec, "start")[-1]["checkpoint"] == "step-00000008"
    assert differences(whole, Path(spec.work_dir)) == []


def test_rows_cut_off_in_the_middle_do_not_stop_the_run(spec, ranks, whole):
    """As a kill within a write leaves them, or a disk that is full."""
    for name in ("events.jsonl", "metrics.jsonl", "findings-00000.jsonl"):
        with (Path(spec.work_dir) / name).open("a") as file:
            file.write('{"kind": "ste')
    ranks.run(spec).check()
    assert [row["checkpoint"] for row in events(spec, "start")] == [None, "step-00000012"]
    assert differences(whole, Path(spec.work_dir)) == []


def test_a_pointer_to_the_latest_is_not_needed_and_a_wrong_one_not_believed(spec, ranks, whole):
    """Names and manifests say which is the newest."""
    (Path(spec.work_dir) / "checkpoints" / "latest").write_text("step-00000008")
    ranks.run(spec).check()
    assert events(spec, "start")[-1]["checkpoint"] == "step-00000012"
    assert differences(whole, Path(spec.work_dir)) == []


def test_a_run_that_lost_its_checkpoints_does_not_start_from_scratch(spec, ranks):
    before = steps(spec)
    for damage in (lambda: [flip_byte(checkpoint(spec, s) / "state.json") for s in (8, 12)], lambda: lose(spec)):
        damage()
        outcome = ranks.run(spec)
        assert not outcome.finished
        assert "CheckpointError" in outcome.log
        assert steps(spec) == before


def lose(spec: RunSpec) -> None:
    shutil.rmtree(Path(spec.work_dir) / "checkpoints")


def test_a_full_disk_costs_one_checkpoint_and_not_the_run(make_spec, ranks, whole):
    spec = make_spec(**SETTINGS)
    kill = Kill("step", 11)
    ranks.run(spec, kill, fault="fill_disk:8").check(kill)
    [failed] = events(spec, "checkpoint_failed")
    assert (failed["step"], "No space left on device" in failed["reason"]) == (8, True)
    assert [path.name for path in sorted((Path(spec.work_dir) / "checkpoints").iterdir())] == ["step-00000004"]
    ranks.run(spec, fault="fill_disk:16").check()
    assert events(spec, "start")[-1]["checkpoint"] == "step-00000004"
    assert [row["step"] for row in events(spec, "checkpoint_failed")] == [8, 16]
    assert differences(whole, Path(spec.work_dir)) == []


def test_a_disk_that_is_full_at_the_last_save_fails_the_run_and_the_next_one_ends_it(make_spec, ranks, whole):
    spec = make_spec(**SETTINGS)
    outcome = ranks.run(spec, fault="fill_disk:20")
    assert not outcome.finished
    assert "No space left on device" in outcome.log
    assert "step-00000016" in outcome.log
    ranks.run(spec).check()
    assert events(spec, "start")[-1]["checkpoint"] == "step-00000016"
    assert differences(whole, Path(spec.work_dir)) == []


@pytest.mark.parametrize(("precision", "zero_stage"), [("fp32", 0), ("fp32", 2), ("bf16", 1), ("fp32", 3)])
def test_a_gradient_of_nan_on_one_rank_moves_no_weight_on_any(make_spec, ranks, precision, zero_stage):
    """At step 6. Killed after it and resumed from step 8, the run has the same bits; in fp32 it is the plain loop's."""
    settings = SETTINGS | {"precision": precision, "zero_stage": zero_stage}
    spoilt, parted = make_spec("spoilt", **settings), make_spec("parted", **settings)
    ranks.run(spoilt, fault="spoil_gradient:6").check()
    assert [row["step"] for row in steps(spoilt) if row["skipped"]] == [6]
    [event] = events(spoilt, "skipped_step")
    assert (event["step"], event["reason"]) == (6, "inf or nan in the gradients")
    kill = Kill("step", 10)
    ranks.run(parted, kill, fault="spoil_gradient:6").check(kill)
    ranks.run(parted).check()
    assert events(parted, "start")[-1]["checkpoint"] == "step-00000008"
    assert differences(Path(spoilt.work_dir), Path(parted.work_dir)) == []
    if precision == "fp32":
        plain = make_spec("plain", **settings, backend="torch")
        ranks.run(plain, fault="spoil_gradient:6").check()
        worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(steps(plain), steps(spoilt), strict=True))
        assert worst <= 1e-5


def test_a_loss_of_nan_ends_the_run_and_the_next_one_goes_on_from_the_newest_checkpoint(make_spec, ranks, whole):
    spec = make_spec(**SETTINGS)
    outcome = ranks.run(spec, fault="spoil_weights:11")
    assert not outcome.finished
    assert "step 11: the loss is nan; the last checkpoint is step-00000008" in outcome.log
    ranks.run(spec).check()
    assert differences(whole, Path(spec.work_dir)) == []


def test_gradients_that_stay_nan_end_the_run(make_spec, ranks):
    spec = make_spec(**SETTINGS, backend="torch", max_skipped_steps=1)
    outcome = ranks.run(spec, fault="spoil_gradient:6")
    assert not outcome.finished
    assert "step 6: 1 steps in a row had inf or nan in their gradients" in outcome.log
    assert "step-00000004" in outcome.log


@pytest.mark.parametrize("zero_stage", [1, 3])
def test_an_overflow_in_fp16_halves_the_loss_scale_and_a_resumed_run_has_the_halved_one(make_spec, ranks, zero_stage):
    """A scale of 2^24 overflows by itself until it fits; killed in between and resumed, all is the same to the bit."""
    scale = LossScaleConfig(initial=2.0**24)
    settings = SETTINGS | {"precision": "fp16", "zero_stage": zero_stage, "loss_scale": scale}
    whole, parted = make_spec("whole", **settings), make_spec("parted", **settings)
    ranks.run(whole).check()
    rows = steps(whole)
    overflows = [row["step"] for row in rows if row["skipped"]]
    assert overflows[:4] == [1, 2, 3, 4]
    assert [row["loss_scale"] for row in rows[:5]] == [2.0**24 / 2**n for n in range(5)]
    assert [row["step"] for row in events(whole, "skipped_step")] == overflows
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"], rel=0.05), "the weights stayed; the batch did not"
    assert rows[-1]["loss"] < math.log(97) - 0.5, "it learns once the scale fits"
    for kill in (Kill("step", 6), Kill("micro", 10, rank=1)):
        ranks.run(parted, kill).check(kill)
    ranks.run(parted).check()
    assert differences(Path(whole.work_dir), Path(parted.work_dir)) == []

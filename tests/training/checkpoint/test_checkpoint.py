"""Checkpoints under damage: found out, named, and survived from the newest one that verifies."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from training import checkpoint as checkpoints
from training.checkpoint import CheckpointError, find_fault, load_newest
from training.data.config import DataConfig, SkipConfig
from training.metrics import read_rows
from training.train import build_engine, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory, token_folder) -> Path:
    """The work folder of a 20-step run of the plain loop, with checkpoints at 10 and 20."""
    from training.config import ModelConfig, RunSpec, TrainConfig

    folder = tmp_path_factory.mktemp("trained")
    model = ModelConfig(vocab_size=97, hidden_size=32, num_layers=2, num_heads=4, num_kv_heads=2, intermediate_size=67)
    config = TrainConfig(
        model=model,
        backend="torch",
        seq_len=16,
        global_batch_size=4,
        micro_batch_size=2,
        steps=20,
        checkpoint_interval_steps=10,
        eval_interval_steps=0,
        device="cpu",
    )
    digests = {"dataset_digest": "d" * 64, "tokenizer_digest": "t" * 64}
    spec = RunSpec(
        train=config,
        work_dir=str(folder),
        data_folder=str(token_folder),
        train_stems=("train/a",),
        validation_stems=(),
        **digests,
    )
    spec.write(folder / "run.json")
    train(spec, torch.device("cpu"))
    return folder


@pytest.fixture
def spec(trained, tmp_path):
    from training.config import RunSpec

    shutil.copytree(trained, tmp_path / "run")
    return dataclasses.replace(RunSpec.read(trained / "run.json"), work_dir=str(tmp_path / "run"))


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "a flipped byte": (lambda f: flip_byte(f / "model.safetensors"), "model.safetensors differs from its SHA-256"),
    "a rank's missing file": (lambda f: (f / "rng-00000.pt").unlink(), "rng-00000.pt is missing"),
    "a cut-off file": (lambda f: (f / "optimizer.safetensors").write_bytes(b"x"), "holds 1 bytes"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "manifest.json is missing"),
    "a broken manifest": (lambda f: (f / "manifest.json").write_text("{"), "cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_the_one_before_is_used(spec, kind, caplog):
    do, said = DAMAGE[kind]
    do(Path(spec.work_dir) / "checkpoints" / "step-00000020")
    found = load_newest(Path(spec.work_dir))
    assert found is not None
    assert found.progress.step == 10
    assert said in caplog.text


def test_when_none_verifies_it_is_an_error_and_never_a_fresh_start(spec):
    for folder in checkpoints.folders(Path(spec.work_dir)):
        flip_byte(next(folder.glob("model.*")))
    with pytest.raises(CheckpointError, match="none verifies"):
        load_newest(Path(spec.work_dir))


def test_no_checkpoint_at_all_means_a_start_from_scratch(tmp_path):
    assert load_newest(tmp_path) is None


def test_checkpoints_that_the_log_names_and_that_are_gone_are_an_error(spec):
    shutil.rmtree(Path(spec.work_dir) / "checkpoints")
    with pytest.raises(CheckpointError, match=r"events\.jsonl names step-00000020"):
        load_newest(Path(spec.work_dir))
    (Path(spec.work_dir) / "events.jsonl").unlink()
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl goes to step 20"):
        load_newest(Path(spec.work_dir))


def test_a_run_killed_before_its_first_checkpoint_was_whole_starts_again_and_says_so(spec):
    work_dir = Path(spec.work_dir)
    rows = list(read_rows(work_dir / "metrics.jsonl"))
    shutil.rmtree(work_dir / "checkpoints" / "step-00000020")
    (work_dir / "checkpoints" / "step-00000010").rename(work_dir / "checkpoints" / ".partial-step-00000010")
    (work_dir / "events.jsonl").write_text(json.dumps({"kind": "start", "step": 0, "checkpoint": None}) + "\n")
    train(spec, torch.device("cpu"))
    [said] = [row for row in read_rows(work_dir / "events.jsonl") if row["kind"] == "fresh_start"]
    assert "after step 20 before its first checkpoint was whole; .partial-step-00000010 was cut off" in said["reason"]
    again = list(read_rows(work_dir / "metrics.jsonl"))
    assert [row["loss"] for row in again] == [row["loss"] for row in rows]
    assert not list((work_dir / "checkpoints").glob(".*"))


@pytest.mark.parametrize("content", ["step-00000010", "step-99999999", ""])
def test_a_pointer_to_the_latest_has_no_say(spec, content):
    (Path(spec.work_dir) / "checkpoints" / "latest").write_text(content)
    found = load_newest(Path(spec.work_dir))
    assert found is not None
    assert found.progress.step == 20


def test_steps_of_nine_digits_are_newer_than_those_of_eight(spec):
    folder = Path(spec.work_dir) / "checkpoints"
    (folder / "step-00000020").rename(folder / "step-100000000")
    assert [path.name for path in checkpoints.folders(Path(spec.work_dir))] == ["step-100000000", "step-00000010"]


def test_weights_and_moments_come_back_bit_for_bit(spec):
    found = load_newest(Path(spec.work_dir))
    assert found is not None
    engine = build_engine(spec, torch.device("cpu"), found)
    held = dict(engine.named_state())
    moments = load_file(found.folder / "optimizer.safetensors")
    for name, weight in found.weights().items():
        assert torch.equal(held[name].weight, weight)
        assert torch.equal(held[name].exp_avg, moments[f"exp_avg/{name}"])
        assert torch.equal(held[name].exp_avg_sq, moments[f"exp_avg_sq/{name}"])
    assert engine.optimizer_step() == 20


def test_a_checkpoint_from_before_there_were_levels_loads_and_counts_as_light(spec):
    folder = Path(spec.work_dir) / "checkpoints" / "step-00000020"
    for name in ("metrics.jsonl", "events.jsonl"):
        (folder / name).unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {name: entry for name, entry in manifest["files"].items() if not name.endswith(".jsonl")}
    (folder / "manifest.json").write_text(json.dumps({"format": "danlu-checkpoint", "version": 1, "files": files}))
    found = load_newest(Path(spec.work_dir))
    assert found is not None
    assert found.progress.step == 20
    assert checkpoints.folder.level_of(folder) == "light"
    build_engine(spec, torch.device("cpu"), found)


def test_going_on_with_other_data_or_another_model_is_refused_unless_told(spec):
    found = load_newest(Path(spec.work_dir))
    assert found is not None
    other_data = dataclasses.replace(spec, dataset_digest="e" * 64)
    with pytest.raises(CheckpointError, match="resume_on_changed_data"):
        checkpoints.check_same_run(found, other_data)
    told = dataclasses.replace(spec.train, resume_on_changed_data=True)
    checkpoints.check_same_run(found, dataclasses.replace(other_data, train=told))
    faster = dataclasses.replace(spec.train, lr=1.0)
    with pytest.raises(CheckpointError, match=r"lr: 0\.002 -> 1\.0"):
        checkpoints.check_same_run(found, dataclasses.replace(spec, train=faster))
    deeper = dataclasses.replace(spec.train.model, num_layers=3)
    changed = dataclasses.replace(spec.train, model=deeper, resume_on_changed_config=True)
    with pytest.raises(CheckpointError, match="model"):
        checkpoints.check_same_run(found, dataclasses.replace(spec, train=changed))
    machine = dataclasses.replace(spec.train, micro_batch_size=1, zero_stage=3)
    checkpoints.check_same_run(found, dataclasses.replace(spec, train=machine))


def test_the_state_file_holds_no_time_host_or_path(spec):
    text = (Path(spec.work_dir) / "checkpoints" / "step-00000020" / "state.json").read_text()
    state = json.loads(text)
    assert (state["step"], state["samples"], state["tokens"]) == (20, 80, 1280)
    assert spec.work_dir not in text
    assert find_fault(Path(spec.work_dir) / "checkpoints" / "step-00000020") is None


def test_data_settings_may_change_from_a_later_step_on_and_not_before(spec):
    found = load_newest(Path(spec.work_dir))
    assert found is not None
    assert found.progress.step == 20
    for from_step, refused in ((19, True), (20, False)):
        skip = (SkipConfig(documents=("a3",), from_step=from_step),)
        later = dataclasses.replace(spec, train=dataclasses.replace(spec.train, data=DataConfig(skip=skip)))
        if refused:
            with pytest.raises(CheckpointError, match="let the new entries begin at step 20 or later"):
                checkpoints.check_same_run(found, later)
        else:
            checkpoints.check_same_run(found, later)

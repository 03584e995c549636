"""The train stage: hand the token shards to the launcher and keep what the final checkpoint holds.

Training happens in the stage's work folder, which belongs to the stage's key: a killed run finds its checkpoints there
and goes on, a changed setting gets a folder of its own. Published as artifacts are the files that are a pure function
of inputs and config (weights, state); metrics, optimizer, generators and logs carry times or serve only a resume.

in    shards     train/*.{bin,idx}, validation/*.{bin,idx}; facts: vocab_size
      tokenizer  its digest, which each checkpoint names
out   checkpoint/{model.safetensors,state.json} (artifacts), checkpoint/…, metrics.jsonl, events.jsonl (logs)
facts first and last loss, ln(vocab_size), tokens, steps, parameters, checkpoints
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tasks.shards.files import token_files
from tasks.shards.splits import TRAIN, VALIDATION
from tasks.stage import Stage, StageRun
from tasks.store.dataset import Dataset
from training.config import RunSpec, TrainConfig
from training.data import TokenDataset
from training.launch import LaunchResult, launch
from training.metrics import read_rows

ARTIFACTS = ("model.safetensors", "state.json")
LOGS = ("metrics.jsonl", "events.jsonl", "launcher.log")


class TrainingStopped(RuntimeError):
    """Training saved and ended on request before its last step; the next run of the same key goes on from there."""


def build_spec(run: StageRun) -> RunSpec:
    """The run as the ranks will read it, its length and vocabulary filled in from the data."""
    shards, tokenizer, config = run.inputs["shards"], run.inputs["tokenizer"], run.config
    data, train_stems = token_files(shards, TRAIN)
    _, validation_stems = token_files(shards, VALIDATION)
    wanted = {"digest": shards.digest, "seq_len": config.seq_len, "seed": config.seed}
    train_data = TokenDataset(data, train_stems, **wanted)
    if validation_stems and not has_a_sample(shards, config.seq_len):
        validation_stems = ()
    vocab_size = int(shards.manifest.facts["vocab_size"])
    return RunSpec(
        train=config.resolve(vocab_size=vocab_size, num_samples=train_data.samples_per_epoch),
        work_dir=str(run.work_dir()),
        data_folder=str(data),
        train_stems=train_stems,
        validation_stems=validation_stems,
        dataset_digest=shards.digest,
        tokenizer_digest=tokenizer.digest,
    )


def has_a_sample(shards: Dataset, seq_len: int) -> bool:
    """Whether the validation split fills one sequence; the shards stage warns when it is short."""
    return bool(shards.manifest.facts["splits"]["validation"]["tokens"] > seq_len)


def run(run: StageRun) -> None:
    spec = build_spec(run)
    steps = spec.train.steps

    def on_progress(row: dict[str, Any]) -> None:
        if row["kind"] == "step":
            run.progress(row["step"], steps, f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s")

    result = launch(spec, on_progress)
    if result.status != "finished":
        raise TrainingStopped(
            f"training stopped on request after step {result.step} of {steps}; {result.checkpoint.name} is saved in "
            f"{spec.work_dir}. Run the stage again to go on from there"
        )
    publish(run, spec, result)


def publish(run: StageRun, spec: RunSpec, result: LaunchResult) -> None:
    """The final checkpoint and the logs into the dataset."""
    for path in sorted(result.checkpoint.iterdir()):
        role = "artifact" if path.name in ARTIFACTS else "log"
        run.output.add_file(f"checkpoint/{path.name}", path, role=role)
    work_dir = Path(spec.work_dir)
    for name in LOGS:
        run.output.add_file(name, work_dir / name, role="log")
    run.output.facts = facts(spec, work_dir) | {"seconds": result.seconds, "build_seconds": result.build_seconds}


def facts(spec: RunSpec, work_dir: Path) -> dict[str, Any]:
    from training import checkpoint as checkpoints  # loads torch: the command line answers without it

    rows = list(read_rows(work_dir / "metrics.jsonl"))
    steps = [row for row in rows if row["kind"] == "step"]
    validation = [row["loss"] for row in rows if row["kind"] == "validation"]
    return {
        "first_loss": steps[0]["loss"],
        "last_loss": steps[-1]["loss"],
        "ln_vocab_size": math.log(spec.train.model.vocab_size),
        "validation_loss": validation[-1] if validation else None,
        "steps": steps[-1]["step"],
        "tokens": steps[-1]["tokens"],
        "samples": steps[-1]["samples"],
        "tokens_per_second": sum(spec.train.tokens_per_step for _ in steps) / sum(row["seconds"] for row in steps),
        "num_parameters": num_parameters(spec.train),
        "checkpoints": [folder.name for folder in checkpoints.verified(work_dir)],
        "config": spec.train.to_dict(),
    }


def num_parameters(config: TrainConfig) -> int:
    import torch

    from training.model import Decoder

    with torch.device("meta"):
        return Decoder(config.model).num_parameters()


STAGE = Stage(
    name="train",
    module=__name__,
    config=TrainConfig,
    inputs=("shards", "tokenizer"),
    run=run,
    summary="Train the decoder on the token shards under the deepspeed launcher, resuming what was begun.",
    ends_workers=True,
    also=("training.rank", "training.train", "training.deepspeed_engine"),
)

"""The train stage: hand the token shards to the launcher and keep what the final checkpoint holds.

Training happens in the stage's work folder, which belongs to the stage's key: a killed run finds its checkpoints there
and goes on, a changed setting gets a folder of its own. Published as artifacts are the files that are a pure function
of inputs and config (weights, state); metrics, optimizer, generators and logs carry times or serve only a resume.

in    shards     train/*.{bin,idx}, validation/*.{bin,idx}; facts: vocab_size
      tokenizer  its digest, which each checkpoint names
out   checkpoint/{model.safetensors,state.json} (artifacts), checkpoint/…, metrics.jsonl, events.jsonl (logs)
facts first and last loss, realised mixture, ln(vocab_size), tokens, steps, parameters, checkpoints
"""

from __future__ import annotations

import dataclasses
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np

from tasks.continued import take_over
from tasks.pieces import character_table, fallback_ids, piece_names
from tasks.shards.files import TRAIN, VALIDATION, token_files
from tasks.stage import Stage, StageRun, stage_key
from tasks.store.dataset import Dataset
from training.config import RunSpec, TrainConfig
from training.data import TokenDataset
from training.data.characters import chars_per_token
from training.data.config import DataConfig, ShortTokensConfig, with_shares
from training.launch import LaunchResult, launch
from training.metrics import read_rows

ARTIFACTS = ("model.safetensors", "state.json")
LOGS = ("metrics.jsonl", "events.jsonl", "launcher.log")
INDEX_FOLDER = "data-index"

log = logging.getLogger(__name__)


class TrainingStopped(RuntimeError):
    """Training saved and ended on request before its last step; the next run of the same key goes on from there."""


def build_spec(run: StageRun) -> RunSpec:
    """The run as the ranks will read it: length, vocabulary and shares filled in from the data, indexes built."""
    shards, tokenizer, work_dir = run.inputs["shards"], run.inputs["tokenizer"], run.work_dir()
    data, train_stems = token_files(shards, TRAIN)
    _, validation_stems = token_files(shards, VALIDATION)
    if validation_stems and not has_a_sample(shards, run.config.seq_len):
        validation_stems = ()
    pieces = piece_names(tokenizer)
    spec = RunSpec(
        train=run.config,
        work_dir=str(work_dir),
        data_folder=str(data),
        train_stems=train_stems,
        validation_stems=validation_stems,
        dataset_digest=shards.digest,
        tokenizer_digest=tokenizer.digest,
        fallback_ids=fallback_ids(pieces),
        index_folder=str(work_dir / INDEX_FOLDER),
    )
    if run.config.data.needs_characters:
        path = work_dir / "characters.npy"
        np.save(path, character_table(pieces, run.config.data.frequency.characters))
        spec = dataclasses.replace(spec, characters_file=str(path))
    return resolve(spec, shards)


def resolve(spec: RunSpec, shards: Dataset) -> RunSpec:
    """The spec with steps, vocabulary and shares filled in; warns of components that are repeated too often."""
    given, config = TokenDataset.for_run(spec), spec.train
    if config.data.short_tokens.below_chars_per_token:
        table = np.load(spec.characters_file)
        config = dataclasses.replace(config, data=with_more_of_short_tokens(given, config.data, table))
    config = config.resolve(
        vocab_size=int(shards.manifest.facts["vocab_size"]),
        num_samples=given.samples_per_epoch,
        eos_id=int(shards.manifest.facts["eos_id"]),
    )
    spec = dataclasses.replace(spec, train=config)
    TokenDataset.for_run(spec).warn_of_repeats(config.steps * config.global_batch_size)
    return spec


def with_more_of_short_tokens(data: TokenDataset, config: DataConfig, table: np.ndarray) -> DataConfig:
    """The shares with `factor` times as many sequences of the components whose tokens are short."""
    settings = config.short_tokens
    lengths = {index.name: chars_per_token(data.sampled_tokens(c), table) for c, index in enumerate(data.indexes)}
    for name, length in lengths.items():
        log.info("train: component %s has %.2f characters a token", name, length)

    def raised(shares: dict[str, float]) -> dict[str, float]:
        weights = {
            n: s * (settings.factor if lengths[n] < settings.below_chars_per_token else 1.0) for n, s in shares.items()
        }
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}

    # the shares say it now; a resolved config is not raised again
    return dataclasses.replace(with_shares(config, raised), short_tokens=ShortTokensConfig())


def has_a_sample(shards: Dataset, seq_len: int) -> bool:
    """Whether the validation split fills one sequence; the shards stage warns when it is short."""
    return bool(shards.manifest.facts["splits"]["validation"]["tokens"] > seq_len)


def run(run: StageRun) -> None:
    spec = build_spec(run)
    steps = spec.train.steps
    take_over(run.work_dir(), stage_key(STAGE, run.config, run.inputs)[1], spec)

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
    """The final checkpoint, without its copies of the logs, and the logs of the whole run into the dataset."""
    for path in sorted(result.checkpoint.iterdir()):
        if path.name in LOGS:
            continue
        role = "artifact" if path.name in ARTIFACTS else "log"
        run.output.add_file(f"checkpoint/{path.name}", path, role=role)
    work_dir = Path(spec.work_dir)
    for name in (*LOGS, *sorted(path.name for path in work_dir.glob("findings-*.jsonl"))):
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
        **mixture_facts(spec),
        "checkpoints": [folder.name for folder in checkpoints.verified(work_dir)],
        "config": spec.train.to_dict(),
    }


def mixture_facts(spec: RunSpec) -> dict[str, Any]:
    """What was read of each component; nothing where there is one stream of all documents."""
    config = spec.train
    if config.data == DataConfig():
        return {}
    return {"mixture": TokenDataset.for_run(spec).mixture(config.steps * config.global_batch_size)}


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

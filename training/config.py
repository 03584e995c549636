"""Every number of a training run: the model's shape, the optimizer, the batch, the machine.

Nothing here is read from the environment and nothing is defaulted elsewhere; `resolve` turns an epoch or token budget
into steps once the size of the data is known. A run's resolved config is saved with each checkpoint.

in    YAML or JSON values
out   ModelConfig, TrainConfig, RunSpec (a TrainConfig plus the data it runs on, as one JSON file)
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from training.data.config import DataConfig
from training.guards import GuardConfig
from training.hosts import HostsConfig
from training.precision import LossScaleConfig
from training.schedule.config import ScheduleConfig
from training.settings import require


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Shape and initialisation of the decoder (training/model.py)."""

    vocab_size: int = 0  # 0: the tokenizer's own
    hidden_size: int = 192
    num_layers: int = 4
    num_heads: int = 6
    num_kv_heads: int = 2
    intermediate_size: int = 512
    max_seq_len: int = 512
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    tie_embeddings: bool = True
    qk_norm: bool = False
    init: Literal["scaled_normal", "orthogonal"] = "scaled_normal"  # training/initial.py
    # Standard deviations are scale / sqrt(fan_in). 0.32 keeps the variance of a logit at 0.32^2 = 0.1 at any width, so
    # the first loss lies within half a percent of ln(vocab_size).
    embedding_init_scale: float = 0.32
    linear_init_scale: float = 0.5

    def __post_init__(self):
        require(self.vocab_size >= 0, "vocab_size", "0 (the tokenizer's) or more", self.vocab_size, "remove the sign")
        for key in ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "intermediate_size", "max_seq_len"):
            require(getattr(self, key) > 0, key, "a positive number", getattr(self, key), "raise it")
        fits = self.hidden_size % self.num_heads == 0 and (self.hidden_size // self.num_heads) % 2 == 0
        require(
            fits, "hidden_size", f"an even multiple of num_heads ({self.num_heads})", self.hidden_size, "change either"
        )
        require(
            self.num_heads % self.num_kv_heads == 0,
            "num_kv_heads",
            f"a divisor of num_heads ({self.num_heads})",
            self.num_kv_heads,
            "equal counts mean plain multi-head attention",
        )
        require(self.rope_theta > 1, "rope_theta", "above 1", self.rope_theta, "10000 is the usual base")

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerBounds:
    """What the layers of a model that begins well keep to, in one pass before the first step (training/initial.py).

    Measured with both schemes at widths of 128 to 768 and 4 to 40 layers: activations .02 to 6.0, gradients within a
    factor of 7.4. With linear_init_scale 5 instead of .5: 65, and 20 to 1,270."""

    min_activation: float = 1e-3  # RMS of the residual stream after a layer
    max_activation: float = 20.0
    max_gradient_ratio: float = 20.0  # of the norms of two layers' gradients

    def __post_init__(self):
        found = (self.min_activation, self.max_activation)
        require(0 <= found[0] < found[1], "min_activation", "0 or more, below max_activation", found, "change either")
        ratio = self.max_gradient_ratio
        require(ratio >= 1, "max_gradient_ratio", "1 or more", ratio, "20 leaves room")


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """Levels of checkpoints, how old ones are thinned out, and how they are written (training/checkpoint/).

    A light one every `checkpoint_interval_steps`; some of them are a full one or an archive instead. The ratios
    1 : 20 : 100 are field report 000's, section 3.7."""

    full_every: int = 20  # checkpoints; 0: none
    archive_every: int = 100  # checkpoints; 0: only the last one of the run
    thinning: int = 2  # the distance between old full ones grows by this factor with age; 1: all stay
    asynchronous: bool = True  # training goes on while a checkpoint is written; false: it waits
    max_failures: int = 3  # saves that fail in a row and end the run

    def __post_init__(self):
        for key in ("full_every", "archive_every"):
            require(getattr(self, key) >= 0, key, "0 (none) or more", getattr(self, key), "20 and 100 are usual")
        for key in ("thinning", "max_failures"):
            require(getattr(self, key) > 0, key, "1 or more", getattr(self, key), "raise it")


# Up to 2^22 logits (16 MiB in fp32, 48 MiB at the peak of the loss) chunks save too little to matter, and small runs
# keep torch's own cross-entropy to the bit. At 2^23 (1m, micro batches of 8 x 256) they save 90 of 600 MiB of the
# process and 3 % of the step, at 2^24 (10m, 4 x 256) 340 of 1,190 MiB and 3 % (benchmarks/train.py).
PLAIN_LOSS_LOGITS = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """One training run. At most one of `steps`, `num_epochs`, `token_budget` says how long it is; none: one epoch."""

    model: ModelConfig = field(default_factory=ModelConfig)
    seq_len: int = 256
    global_batch_size: int = 16  # sequences per step, over all ranks
    micro_batch_size: int = 8  # sequences per rank and forward pass
    steps: int = 0
    num_epochs: float = 0.0
    token_budget: int = 0

    data: DataConfig = field(default_factory=DataConfig)  # what is read, in which proportion and order
    guards: GuardConfig = field(default_factory=GuardConfig)  # which samples are no text to learn
    bad_samples: Literal["report", "replace", "stop"] = "report"  # ids out of range stop a run that only reports
    prefetch_batches: int = 2  # read ahead by a thread; 0: none
    document_masks: bool = False  # tokens see their own document alone, and positions begin anew in each
    eos_id: int = -1  # begins a document, for document_masks; -1: the tokenizer's own

    lr: float = 2e-3
    min_lr_ratio: float = 0.1
    warmup_steps: int = 20
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)  # how the rate goes on from there
    z_loss: float = 0.0  # weight of the squared log of the softmax's sum; 1e-4 is PaLM's
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    adam_eps: float = 1e-8
    grad_clip: float = 1.0
    seed: int = 0

    backend: Literal["deepspeed", "torch"] = "deepspeed"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    loss_scale: LossScaleConfig = field(default_factory=LossScaleConfig)  # of fp16
    loss: Literal["auto", "chunked", "plain"] = "auto"  # auto: chunked above PLAIN_LOSS_LOGITS per micro batch
    kernels: Literal["auto", "plain"] = "auto"  # auto: Triton on CUDA (kernels/choosing.py); plain: PyTorch anywhere
    zero_stage: int = 1
    offload_optimizer: Literal["none", "cpu"] = "none"  # masters, moments and AdamW's arithmetic; with zero_stage 3
    # The part of each block whose activations are made again in the backward pass, not kept: the same bits. Report 000
    # (section 5.3) chose the feed-forward alone. At 10m and 512 tokens in fp32 (bf16) what is kept, and the CPU time of
    # a step, against none: feed_forward .36 (.44) and 1.09 (1.07), attention .75 (.71) and 1.1, both .11 (.15) and 1.2
    activation_checkpointing: Literal["none", "feed_forward", "attention", "both"] = "feed_forward"
    world_size: int = 2
    threads_per_rank: int = 1
    hosts: HostsConfig = field(default_factory=HostsConfig)  # where the ranks run (docs/multi-node.md)

    checkpoint_interval_steps: int = 50
    keep_checkpoints: int = 2  # the newest; older ones as `checkpoints` says
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    log_interval_steps: int = 1
    eval_interval_steps: int = 50  # 0: never
    eval_batches: int = 4  # global batches of the validation split
    check_first_loss: bool = True  # refuse a start whose loss is not within first_loss_tolerance of ln(vocab_size)
    first_loss_tolerance: float = 0.03
    check_layers: bool = True  # refuse a start whose layers are out of layer_bounds
    layer_bounds: LayerBounds = field(default_factory=LayerBounds)
    max_skipped_steps: int = 10  # in a row, for inf or nan in the gradients of fp32 or bf16; then the run ends
    resume_on_changed_data: bool = False
    resume_on_changed_config: bool = False

    init_timeout_seconds: int = 300  # rendezvous and first collective
    stall_timeout_seconds: int = 600  # no step, save or evaluation finished for so long: the run is killed
    stop_grace_seconds: int = 120  # from a stop request to the kill

    def __post_init__(self):
        for key in ("seq_len", "global_batch_size", "micro_batch_size", "world_size", "checkpoint_interval_steps"):
            require(getattr(self, key) > 0, key, "a positive number", getattr(self, key), "raise it")
        for key in (
            "keep_checkpoints",
            "log_interval_steps",
            "threads_per_rank",
            "stall_timeout_seconds",
            "max_skipped_steps",
        ):
            require(getattr(self, key) > 0, key, "a positive number", getattr(self, key), "raise it")
        lengths = [key for key in ("steps", "num_epochs", "token_budget") if getattr(self, key)]
        require(len(lengths) <= 1, "steps", "at most one of steps, num_epochs, token_budget", lengths, "keep one")
        for key in lengths:
            require(getattr(self, key) > 0, key, "above 0", getattr(self, key), "remove the sign")
        per_pass = self.micro_batch_size * self.num_ranks
        require(
            self.global_batch_size % per_pass == 0,
            "global_batch_size",
            f"a multiple of micro_batch_size x world_size = {per_pass}",
            self.global_batch_size,
            f"for example {max(1, round(self.global_batch_size / per_pass)) * per_pass}",
        )
        require(
            self.seq_len <= self.model.max_seq_len,
            "seq_len",
            f"at most model.max_seq_len ({self.model.max_seq_len})",
            self.seq_len,
            "raise model.max_seq_len or lower seq_len",
        )
        require(self.zero_stage in (0, 1, 2, 3), "zero_stage", "0, 1, 2 or 3", self.zero_stage, "1 suits small models")
        spread = self.backend == "torch" and self.hosts.hostfile
        require(not spread, "hosts.hostfile", "none with backend torch", self.hosts.hostfile, "use backend deepspeed")
        require(
            self.offload_optimizer == "none" or (self.zero_stage == 3 and self.backend == "deepspeed"),
            "offload_optimizer",
            "none, or zero_stage 3 with backend deepspeed",
            f"{self.offload_optimizer} with zero_stage {self.zero_stage} and backend {self.backend}",
            "set it to none or change these",
        )
        require(self.lr > 0, "lr", "above 0", self.lr, "3e-4 is a usual start")
        require(0 <= self.min_lr_ratio <= 1, "min_lr_ratio", "between 0 and 1", self.min_lr_ratio, "0.1 is usual")
        require(self.z_loss >= 0, "z_loss", "0 or more", self.z_loss, "1e-4 is usual, 0 leaves it out")
        require(self.grad_clip > 0, "grad_clip", "above 0", self.grad_clip, "1.0 is usual")
        require(self.prefetch_batches >= 0, "prefetch_batches", "0 or more", self.prefetch_batches, "2 is usual")
        require(self.warmup_steps >= 0, "warmup_steps", "0 or more", self.warmup_steps, "raise it")

    @property
    def num_ranks(self) -> int:
        """The plain torch loop is one process whatever `world_size` says."""
        return 1 if self.backend == "torch" else self.world_size

    @property
    def grad_accum_steps(self) -> int:
        return self.global_batch_size // (self.micro_batch_size * self.num_ranks)

    @property
    def chunked_loss(self) -> bool:
        """Whether the loss is made by chunks of tokens (kernels/cross_entropy). The two forms differ in rounding."""
        logits = self.micro_batch_size * self.seq_len * self.model.vocab_size
        return self.loss == "chunked" or (self.loss == "auto" and logits > PLAIN_LOSS_LOGITS)

    @property
    def checkpointed_parts(self) -> tuple[str, ...]:
        """The parts of a block that `activation_checkpointing` stands for (training/model.py)."""
        named = {"none": (), "both": ("attention", "feed_forward")}
        return named.get(self.activation_checkpointing, (self.activation_checkpointing,))

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch_size * self.seq_len

    def resolve(self, *, vocab_size: int, num_samples: int, eos_id: int = -1) -> TrainConfig:
        """The same config with `vocab_size`, `eos_id` and `steps` filled in from the tokenizer and the samples of an
        epoch."""
        require(num_samples > 0, "train data", "at least one sample of seq_len + 1 tokens", num_samples, "add text")
        own = self.model.vocab_size
        require(own in (0, vocab_size), "model.vocab_size", f"0 or the tokenizer's {vocab_size}", own, "set it to 0")
        steps = self.steps
        if self.token_budget:
            steps = max(1, math.ceil(self.token_budget / self.tokens_per_step))
        elif not steps:
            steps = max(1, round((self.num_epochs or 1.0) * num_samples / self.global_batch_size))
        model = dataclasses.replace(self.model, vocab_size=vocab_size)
        eos_id = eos_id if self.eos_id < 0 else self.eos_id
        require(eos_id >= 0 or not self.document_masks, "eos_id", "an id with document_masks", eos_id, "give it")
        return dataclasses.replace(self, model=model, steps=steps, eos_id=eos_id, num_epochs=0.0, token_budget=0)

    def key_settings(self) -> dict[str, Any]:
        """What decides the bytes of the result: all but how the run is watched, saved and stopped, and what has no
        effect in it."""
        values = {key: value for key, value in self.to_dict().items() if key not in OPERATION_KEYS}
        if self.precision != "fp16":
            del values["loss_scale"]
        if self.offload_optimizer == "none":
            del values["offload_optimizer"]
        return values

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        values["betas"] = list(self.betas)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """Rebuild a config that `to_dict` wrote; unknown keys raise TypeError."""
        values = dict(values)
        values["model"] = ModelConfig(**values["model"])
        values["betas"] = tuple(values["betas"])
        values["data"] = DataConfig.from_dict(values.get("data") or dataclasses.asdict(DataConfig()))
        values["guards"] = GuardConfig(**values.get("guards") or {})
        values["schedule"] = ScheduleConfig(**values.get("schedule") or {})
        values["checkpoints"] = CheckpointConfig(**values.get("checkpoints") or {})
        values["layer_bounds"] = LayerBounds(**values.get("layer_bounds") or {})
        values["loss_scale"] = LossScaleConfig(**values.get("loss_scale") or {})
        values["hosts"] = HostsConfig(**values.get("hosts") or {})
        return cls(**values)


# What a checkpoint may not silently change: the function being optimised and the order of its data.
# The machine (ranks, ZeRO stage, micro batch) may: states are stored by parameter name.
IDENTITY_KEYS: tuple[str, ...] = (
    "model",
    "seq_len",
    "global_batch_size",
    "steps",
    "lr",
    "min_lr_ratio",
    "warmup_steps",
    "schedule",
    "z_loss",
    "weight_decay",
    "betas",
    "adam_eps",
    "grad_clip",
    "seed",
    "precision",
    "bad_samples",
    "document_masks",
)

OPERATION_KEYS: tuple[str, ...] = (
    "checkpoint_interval_steps",
    "keep_checkpoints",
    "checkpoints",
    "log_interval_steps",
    "prefetch_batches",
    "activation_checkpointing",
    "check_layers",
    "layer_bounds",
    "max_skipped_steps",
    "resume_on_changed_data",
    "resume_on_changed_config",
    "hosts",
    "init_timeout_seconds",
    "stall_timeout_seconds",
    "stop_grace_seconds",
)


def identity(config: TrainConfig) -> dict[str, Any]:
    """The part of a resolved config that decides the losses."""
    values = config.to_dict()
    return {key: values[key] for key in IDENTITY_KEYS}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A resolved config with the data it runs on: what `python -m training.train --config run.json` reads."""

    train: TrainConfig
    work_dir: str
    data_folder: str  # holds the pairs below
    train_stems: tuple[str, ...]  # "train/a" for train/a.bin and train/a.idx
    validation_stems: tuple[str, ...]
    dataset_digest: str
    tokenizer_digest: str
    fallback_ids: tuple[int, ...] = ()  # of the tokenizer's bytes and its unknown piece, for the guards
    characters_file: str = ""  # the tokenizer's character table, where train.data needs it
    index_folder: str = ""  # keeps the component indexes; empty: each rank builds its own

    def write(self, path: Path) -> None:
        values = {name.name: getattr(self, name.name) for name in dataclasses.fields(self)}
        values["train"] = self.train.to_dict()
        path.write_text(json.dumps(values, indent=1, sort_keys=True), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> RunSpec:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["train"] = TrainConfig.from_dict(values["train"])
        for key in ("train_stems", "validation_stems", "fallback_ids"):
            values[key] = tuple(values[key])
        return cls(**values)

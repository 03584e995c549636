"""The model and the tokenizer that a run ended with, out of the datasets of the train and tokenizer stages.

in    train dataset      …/model.safetensors (fp32, plain names) and …/state.json (with the model's config)
      tokenizer dataset  tokenizer.model, hf/*
out   training.model.Decoder in eval mode on the CPU, tasks.tokenizer.model.Tokenizer
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tasks.store.dataset import Dataset
from tasks.store.filesystem import StoreError
from tasks.tokenizer.model import Tokenizer
from training.config import ModelConfig

if TYPE_CHECKING:  # torch loads when a model does: the command line answers without it
    from training.model import Decoder

WEIGHTS, STATE = "model.safetensors", "state.json"


class ModelError(RuntimeError):
    """A trained model cannot be used: its weights are not finite, or not those of its config or tokenizer."""


def artifact(dataset: Dataset, name: str) -> str:
    """The full name of the artifact called `name` in any folder of the dataset; of several, the last by name."""
    found = [f.name for f in dataset.files("artifact") if f.name.rsplit("/", 1)[-1] == name]
    if not found:
        have = ", ".join(f.name for f in dataset.files("artifact")[:8]) or "nothing"
        raise StoreError(f"{dataset.url}: expected an artifact {name!r}, found {have}; rerun stage {dataset.stage!r}")
    return found[-1]


def load_state(train: Dataset) -> dict[str, Any]:
    """What the checkpoint's state.json says: step, tokens, config, digests."""
    with train.open(artifact(train, STATE)) as file:
        return json.loads(file.read())


def load_model(train: Dataset) -> Decoder:
    """The trained decoder. Raises ModelError for weights that are not finite or do not fit their config."""
    import torch
    from safetensors.torch import load_file

    from training.model import Decoder

    config = ModelConfig(**load_state(train)["config"]["model"])
    weights = load_file(train.local(artifact(train, WEIGHTS)))
    broken = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise ModelError(
            f"{train.url}: weights that are not finite numbers in {len(broken)} tensors ({', '.join(broken[:3])}); "
            "the training diverged or the file was damaged. Train again from the last healthy checkpoint"
        )
    model = Decoder(config)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(f"{train.url}: the weights are not those of the config in {STATE}: {error}") from error
    return model.eval()


def load_tokenizer(tokenizer: Dataset, model: Decoder) -> Tokenizer:
    """The tokenizer. Raises ModelError when the model has another vocabulary."""
    loaded = Tokenizer.load(tokenizer.local(artifact(tokenizer, "tokenizer.model")))
    if loaded.vocab_size > model.config.vocab_size:
        raise ModelError(
            f"{tokenizer.url}: expected a tokenizer of at most the model's {model.config.vocab_size:,} ids, found "
            f"{loaded.vocab_size:,}; the model was trained with another tokenizer"
        )
    return loaded


@contextlib.contextmanager
def fixed_threads(num_threads: int) -> Iterator[None]:
    """The CPU's sums depend on how many threads share them: fix it inside, restore it after."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

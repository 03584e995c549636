"""The trained model as a Hugging Face folder, proven equal before it is published.

The folder is built aside, loaded again with `AutoModelForCausalLM` and `AutoTokenizer`, and compared: logits on a
fixed batch of tokens within `max_logit_difference`, token ids of sample texts equal. A difference fails the stage;
no folder that differs is ever visible. Writing is deterministic: the same model gives the same bytes.

in    train (weights, config), tokenizer (hf/*), evaluate when there (figures for the model card)
out   hf/config.json, model.safetensors, generation_config.json, tokenizer files, README.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.model_card import model_card
from tasks.stage import Stage, StageRun
from tasks.store.dataset import Dataset
from tasks.tokenizer.model import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from tasks.trained import fixed_threads, load_model, load_state, load_tokenizer
from training.hugging_face import hugging_face_config, to_hugging_face

if TYPE_CHECKING:  # torch loads when a model does: the command line answers without it
    import torch

    from training.model import Decoder

FOLDER = "hf"
SAMPLE_TEXTS = (
    "The furnace burns day and night.",
    "  two leading spaces, a tab\there and a trailing newline\n",
    "炉火纯青，百炼成钢。爐火純青，百煉成鋼。",
    "日本語のテキスト。한국어 문장입니다. Привет, мир! שלום مرحبا",
    "Emoji 👩🏽\u200d🔬🇨🇳 ☕️, maths ∑ᵢ xᵢ² ≤ ∞, ﬁ ligature, a\u0301 combining, \u00a0 no-break",
    "def f(x: int) -> int:\n\tif x < 2:  # base\n\t\treturn 1\n    return f(x - 1) * x\n",
    "<s> </s> <unk> <pad> <0x41> \u2581 [INST] <|endoftext|>",
    "",
)


class ExportError(RuntimeError):
    """The export does not compute what the trained model computes; nothing was published."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportConfig:
    """How the export is named and how strictly it is checked."""

    model_name: str = "danlu"
    licence: str = "other"  # of the weights, for the model card; they inherit what the training texts allow
    max_logit_difference: float = 1e-4  # fp32 on the CPU; sums in another order differ by about 1e-5
    check_tokens: int = 128  # length of the compared sequences
    check_sequences: int = 4

    def __post_init__(self) -> None:
        for name in ("max_logit_difference", "check_tokens", "check_sequences"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: expected above 0, found {getattr(self, name)}")


def write_folder(folder: Path, model: Decoder, tokenizer_files: Mapping[str, bytes]) -> None:
    """The Hugging Face folder without its model card."""
    from safetensors.torch import save_file

    for name, content in tokenizer_files.items():
        (folder / name).write_bytes(content)
    config = hugging_face_config(model.config, bos_token_id=BOS_ID, eos_token_id=EOS_ID) | {"pad_token_id": PAD_ID}
    write_json(folder / "config.json", config)
    # generation starts a document as training did: after EOS
    generation = {"bos_token_id": EOS_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID, "max_new_tokens": 64}
    write_json(folder / "generation_config.json", generation)
    tensors = to_hugging_face(model.state_dict(), model.config)
    save_file(dict(sorted(tensors.items())), folder / "model.safetensors", metadata={"format": "pt"})


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def check_tokens_batch(model: Decoder, config: ExportConfig) -> torch.Tensor:
    """Fixed random ids: every run compares the same, and rare ids are as likely as frequent ones."""
    import torch

    length = min(config.check_tokens, model.config.max_seq_len)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, model.config.vocab_size, (config.check_sequences, length), generator=generator)


def logit_difference(folder: Path, model: Decoder, tokens_BT: torch.Tensor) -> float:
    """max |Δ| between `transformers`' logits and ours. Raises ExportError when it finds missing or extra weights."""
    import torch
    import transformers  # 2 s, and only this stage needs it

    transformers.utils.logging.disable_progress_bar()
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    theirs, report = loaded
    odd = {key: sorted(report[key]) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[key]}
    if odd:
        raise ExportError(f"transformers reads the export with {odd}; the layout in training/hugging_face.py is wrong")
    with torch.inference_mode():
        return float((theirs.eval()(tokens_BT).logits - model(tokens_BT)).abs().max())


def differing_texts(folder: Path, tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """Which texts the exported tokenizer encodes otherwise, or does not decode to what it encoded."""
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    wrong = []
    for text in texts:
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        if ids != tokenizer.encode(text).tolist() or theirs.decode(ids, skip_special_tokens=False) != text:
            wrong.append(text)
    return wrong


def verify(folder: Path, model: Decoder, tokenizer: Tokenizer, config: ExportConfig) -> dict[str, Any]:
    """Compare the folder with the model; returns the measured facts or raises ExportError."""
    tokens_BT = check_tokens_batch(model, config)
    with fixed_threads(1):
        difference = logit_difference(folder, model, tokens_BT)
    if not difference <= config.max_logit_difference:  # also catches NaN
        raise ExportError(
            f"export: expected logits within max_logit_difference = {config.max_logit_difference:g} of the trained "
            f"model's, found a difference of {difference:g} on {tuple(tokens_BT.shape)} fixed tokens. Nothing was "
            "published; the layout in training/hugging_face.py or the model in training/model.py has changed"
        )
    if wrong := differing_texts(folder, tokenizer, SAMPLE_TEXTS):
        raise ExportError(
            f"export: expected equal token ids, found others on {len(wrong)} of {len(SAMPLE_TEXTS)} sample texts, "
            f"first {wrong[0]!r}. Nothing was published; look at tasks/tokenizer/export.py"
        )
    return {
        "max_logit_difference": difference,
        "compared_logits": tokens_BT.numel() * model.config.vocab_size,
        "compared_texts": len(SAMPLE_TEXTS),
    }


def tokenizer_files(tokenizer: Dataset) -> dict[str, bytes]:
    """File name → bytes of the tokenizer dataset's hf folder."""
    files = {}
    for entry in tokenizer.files("artifact"):
        parts = entry.name.split("/")
        if "hf" in parts[:-1]:
            with tokenizer.open(entry.name) as file:
                files[parts[-1]] = file.read()
    if "tokenizer.json" not in files:
        raise ExportError(
            f"{tokenizer.url}: expected hf/tokenizer.json, found {sorted(files)}; rerun stage 'tokenizer'"
        )
    return files


def run(run: StageRun) -> None:
    """Build aside, verify, publish."""
    config: ExportConfig = run.config
    train, tokenizer_dataset = run.inputs["train"], run.inputs["tokenizer"]
    model = load_model(train)
    tokenizer = load_tokenizer(tokenizer_dataset, model)
    folder = run.scratch()
    run.progress(0, 3, "writing")
    write_folder(folder, model, tokenizer_files(tokenizer_dataset))
    run.progress(1, 3, "comparing with transformers")
    facts = verify(folder, model, tokenizer, config)
    card = model_card(
        config.model_name, config.licence, model, load_state(train), config.max_logit_difference, run.inputs
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    for path in sorted(folder.iterdir()):
        run.output.add_file(f"{FOLDER}/{path.name}", path)
    run.output.facts = {**facts, "num_parameters": model.num_parameters()}
    run.progress(3, 3, "published")


STAGE = Stage(
    name="export",
    module=__name__,
    config=ExportConfig,
    inputs=("train", "tokenizer"),
    optional_inputs=("evaluate",),
    run=run,
    summary="Write the model as a Hugging Face folder, loaded again and compared before it is published.",
)

"""Continue prompts with a trained model, the same way every time.

Each sample has a generator of its own, seeded by (seed, prompt, temperature): adding a prompt changes no other
sample. There is no cache of keys and values: a sample of 64 tokens from a small model costs less than the code.

in    Decoder, Tokenizer, prompts
out   [{"label", "prompt", "text", "temperature", "seed", "token_ids", …}]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.tokenizer.model import EOS_ID, Tokenizer

if TYPE_CHECKING:  # torch loads when a model does: the command line answers without it
    from training.model import Decoder


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateConfig:
    """What is generated."""

    prompts: tuple[str, ...] = ()  # texts to continue, beside the beginnings of held-out documents
    documents_per_language: int = 1
    prompt_tokens: int = 16  # of a held-out document
    max_new_tokens: int = 64
    temperatures: tuple[float, ...] = (0.0, 0.8)  # 0 is greedy
    top_k: int = 50  # candidates when sampling; 0: all
    seed: int = 1234

    def __post_init__(self) -> None:
        if any(t < 0 for t in self.temperatures):
            raise ValueError(f"temperatures: expected 0 (greedy) or more, found {list(self.temperatures)}")
        for name, least in (("documents_per_language", 0), ("prompt_tokens", 1), ("max_new_tokens", 1), ("top_k", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected {least} or more, found {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to continue, and where it is from."""

    text: str
    token_ids: tuple[int, ...]
    origin: str

    @classmethod
    def of_text(cls, text: str, tokenizer: Tokenizer) -> Prompt:
        return cls(text, tuple(tokenizer.encode(text).tolist()), "config")

    @classmethod
    def of_document(cls, tokens: np.ndarray, document_id: str, language: str, tokenizer: Tokenizer) -> Prompt:
        ids = tuple(int(i) for i in tokens)
        return cls(tokenizer.decode(ids), ids, f"{language} document {document_id}")


def continue_tokens(
    model: Decoder, prompt: Sequence[int], temperature: float, seed: int, config: GenerateConfig
) -> list[int]:
    """Up to `max_new_tokens` ids after EOS + prompt; ends before EOS."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    line = [EOS_ID, *prompt]
    for _ in range(config.max_new_tokens):
        context_BT = torch.tensor([line[-model.config.max_seq_len :]])
        with torch.inference_mode():
            logits_V = model(context_BT)[0, -1].float()
        if temperature == 0:
            token = int(logits_V.argmax())
        else:
            k = min(config.top_k or len(logits_V), len(logits_V))
            values, indices = torch.topk(logits_V, k)
            chosen = torch.multinomial(torch.softmax(values / temperature, 0), 1, generator=generator)
            token = int(indices[chosen])
        if token == EOS_ID:
            break
        line.append(token)
    return line[1 + len(prompt) :]


def generate_all(
    model: Decoder, tokenizer: Tokenizer, prompts: Sequence[Prompt], config: GenerateConfig
) -> list[dict[str, Any]]:
    """Every prompt at every temperature."""
    samples = []
    for prompt in prompts:
        for temperature in config.temperatures:
            seed = sample_seed(config.seed, prompt, temperature)
            new = continue_tokens(model, prompt.token_ids, temperature, seed, config)
            how = "greedy" if temperature == 0 else f"temperature {temperature:g}, top_k {config.top_k}, seed {seed}"
            whole = tokenizer.decode([*prompt.token_ids, *new])
            # decoded together where that begins with the prompt: a character may be split between prompt and new tokens
            text = whole[len(prompt.text) :] if whole.startswith(prompt.text) else tokenizer.decode(new)
            samples.append(
                {
                    "label": f"{prompt.origin} · {how}",
                    "prompt": prompt.text,
                    "text": text,
                    "temperature": temperature,
                    "seed": seed,
                    "prompt_token_ids": list(prompt.token_ids),
                    "token_ids": new,
                    "ended": len(new) < config.max_new_tokens,
                }
            )
    return samples


def sample_seed(seed: int, prompt: Prompt, temperature: float) -> int:
    identity = f"{seed}/{temperature!r}/{','.join(map(str, prompt.token_ids))}"
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:4], "little")

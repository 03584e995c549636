"""A plain training step with transformers' LlamaForCausalLM and torch's AdamW; a peer of benchmarks/train.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from training.config import TrainConfig
from training.hugging_face import hugging_face_config, to_hugging_face


def stepper(weights: Mapping[str, Tensor], config: TrainConfig) -> Callable[[Tensor, float], float]:
    """A function of (tokens int64 (B, T + 1), lr) that makes one step and returns the loss before it."""
    values = hugging_face_config(config.model)
    model = LlamaForCausalLM(
        LlamaConfig(**{k: v for k, v in values.items() if k not in ("architectures", "model_type")})
    )
    model.load_state_dict(to_hugging_face(dict(weights), config.model), strict=not config.model.tie_embeddings)
    model.tie_weights()
    model.train()
    matrices, vectors = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=config.betas, eps=config.adam_eps)

    def step(tokens: Tensor, lr: float) -> float:
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        # `shift_labels` are the targets as they stand: with `labels` alone the last token of a row is wasted
        loss = model(input_ids=inputs, labels=targets, shift_labels=targets, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        return loss.item()

    return step

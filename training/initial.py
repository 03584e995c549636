"""What a model's parameters begin as, and whether they begin well.

Each matrix is drawn from a generator seeded by (seed, its own name): equal at any world size, a layer added at the end
leaves the others as they were, and no two matrices (so not Q, K and V of a layer) share a draw. Two schemes:

scaled_normal   normals of deviation scale / sqrt(fan in); what is added to the residual stream is divided by
                sqrt(2 x layers), so that the stream keeps its size at any depth
orthogonal      (semi-)orthogonal matrices: the embedding scaled to the deviation above, attention as it is (its output
                divided by sqrt(2 x layers)), feed-forward multiplied by 1 / sqrt(2 x hidden_size)

`faults` runs one forward and backward pass before training and names the layers whose activations or gradients are out
of bounds. The loss alone does not tell: at linear_init_scale 5 the first loss is within 1 % of ln(vocab_size), while
the gradients of 12 layers differ by a factor of 150.

ref   field report 000, section 3.3 (orthogonal, by layer); Radford et al. 2019 (GPT-2), section 2.3 (residual scaling);
      Saxe et al. 2014, arXiv:1312.6120 (orthogonal starts)
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from training.config import LayerBounds, ModelConfig
from training.model import Decoder

EMBEDDINGS = ("embed_tokens.weight", "lm_head.weight")
INTO_RESIDUAL = ("o_proj.weight", "down_proj.weight")
PROBE_TOKENS = 128


@torch.no_grad()
def initialise(model: Decoder, seed: int) -> Decoder:
    """Fill `model` in place by its config's scheme; norms with ones."""
    draw = orthogonal if model.config.init == "orthogonal" else scaled_normal
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.fill_(1.0)
            continue
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
        normal = torch.randn(parameter.shape, generator=generator)
        parameter.copy_(draw(name, normal, model.config))
    return model


def scaled_normal(name: str, normal: Tensor, config: ModelConfig) -> Tensor:
    if name.endswith(EMBEDDINGS):
        return normal * embedding_std(config)
    std = config.linear_init_scale / math.sqrt(normal.shape[1])
    return normal * (std / residual_divisor(name, config))


def orthogonal(name: str, normal: Tensor, config: ModelConfig) -> Tensor:
    matrix = orthogonalised(normal)
    if name.endswith(EMBEDDINGS):  # orthonormal columns have entries of deviation 1 / sqrt(rows)
        return matrix * (embedding_std(config) * math.sqrt(max(matrix.shape)))
    if ".mlp." in name:
        return matrix / math.sqrt(2 * config.hidden_size)
    return matrix / residual_divisor(name, config)


def orthogonalised(normal: Tensor) -> Tensor:
    """Orthonormal columns, or rows where the matrix is wide; uniform over all such matrices (signs of R made positive:
    Mezzadri 2007, arXiv:math-ph/0609050, section 5)."""
    wide = normal.shape[0] < normal.shape[1]
    q, r = torch.linalg.qr(normal.T if wide else normal)
    q = q * r.diagonal().sign()
    return q.T if wide else q


def embedding_std(config: ModelConfig) -> float:
    return config.embedding_init_scale / math.sqrt(config.hidden_size)


def residual_divisor(name: str, config: ModelConfig) -> float:
    return math.sqrt(2 * config.num_layers) if name.endswith(INTO_RESIDUAL) else 1.0


def faults(model: Decoder, bounds: LayerBounds) -> list[str]:
    """What is out of bounds, one clause each; nothing where the model begins well. Takes the memory of all gradients
    for as long as it runs: one pass over PROBE_TOKENS tokens drawn at random."""
    num_tokens = min(PROBE_TOKENS, model.config.max_seq_len)
    drawn = torch.randint(model.config.vocab_size, (1, num_tokens + 1), generator=torch.Generator().manual_seed(0))
    activations: list[Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda *call: activations.append(rms(call[2]))) for layer in model.model.layers
    ]
    try:
        model(drawn[:, :-1], drawn[:, 1:]).backward()
    finally:
        for hook in hooks:
            hook.remove()
    norms = [torch.nn.utils.get_total_norm(gradients(layer)) for layer in model.model.layers]
    model.zero_grad(set_to_none=True)
    return [
        *out_of_bounds("activation RMS", [a.item() for a in activations], bounds.min_activation, bounds.max_activation),
        *unlike("gradient norm", [norm.item() for norm in norms], bounds.max_gradient_ratio),
    ]


def gradients(layer: torch.nn.Module) -> list[Tensor]:
    return [p.grad for p in layer.parameters() if p.grad is not None]


def rms(x_BTD: Tensor) -> Tensor:
    return x_BTD.detach().float().square().mean().sqrt()


def out_of_bounds(what: str, values: list[float], low: float, high: float) -> list[str]:
    bad = [i for i, value in enumerate(values) if not low <= value <= high]  # nan is in no bounds
    if not bad:
        return []
    found = ", ".join(f"layer {i}: {values[i]:.3g}" for i in bad[:4])
    return [f"{what}: expected {low:g} to {high:g}, found {found}" + (" and others" if len(bad) > 4 else "")]


def unlike(what: str, values: list[float], most: float) -> list[str]:
    """A layer whose value is 0, no number, or more than `most` times another's."""
    least, highest = min(range(len(values)), key=values.__getitem__), max(range(len(values)), key=values.__getitem__)
    if all(math.isfinite(value) for value in values) and 0 < values[highest] <= most * values[least]:
        return []
    return [
        f"{what}: expected layers within a factor of {most:g}, found layer {least}: {values[least]:.3g} and "
        f"layer {highest}: {values[highest]:.3g}"
    ]

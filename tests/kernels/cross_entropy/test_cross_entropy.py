"""Chunked linear cross-entropy, plain and in Triton, against all logits at once: loss and both gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kernels import cross_entropy
from kernels.choosing import form
from kernels.cross_entropy import reference
from kernels.cross_entropy.chunks import even_chunks

# (tokens, hidden size, vocabulary, tokens of a chunk)
SIZES = [(1, 3, 5, 1), (5, 123, 123, 2), (37, 17, 1001, 8), (64, 16, 50, 64), (9, 8, 2, 100)]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
UPSTREAM = 0.37


def inputs(size: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden states (not contiguous), matrix, targets of which some are ignored, and a mask."""
    tokens, width, vocab, _ = size
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(width, tokens, generator=generator, dtype=torch.float64).T.to(dtype)
    weight = torch.randn(vocab, width, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(vocab, (tokens,), generator=generator)
    targets[1::5] = -1
    return hidden, weight, targets, torch.rand(tokens, generator=generator) < 0.8


def loss_and_gradients(
    function: Callable[..., Tensor], hidden: Tensor, weight: Tensor, targets: Tensor, **options: Any
) -> list[Tensor]:
    hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    loss = function(hidden, weight, targets, **options)
    (loss * UPSTREAM).backward()
    assert hidden.grad is not None and weight.grad is not None
    assert hidden.grad.dtype == hidden.dtype and weight.grad.dtype == weight.dtype
    return [loss.detach(), hidden.grad, weight.grad]


def compare(assert_near: Callable[..., None], found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for name, have, want in zip(("loss", "hidden gradient", "weight gradient"), found, expected, strict=True):
        assert_near(name, have, want, tolerance)


@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_loss_and_gradients_equal_the_plain_ones(
    assert_near: Callable[..., None], dtype: torch.dtype, size: tuple[int, ...], z_loss: float
) -> None:
    """In 16 bits both are held to the plain one in fp64 of the same rounded inputs."""
    hidden, weight, targets, mask = inputs(size, dtype)
    options = {"mask_N": mask, "ignore_index": -1, "z_loss": z_loss}
    exact = loss_and_gradients(cross_entropy.plain, hidden.double(), weight.double(), targets, **options)
    found = loss_and_gradients(cross_entropy.chunked, hidden, weight, targets, **options, chunk_tokens=size[3])
    compare(assert_near, found, exact, TOLERANCE[dtype])
    assert found[0].dtype == torch.promote_types(dtype, torch.float32)


@pytest.mark.parametrize(
    ("size", "z_loss"),
    [
        ((1, 3, 5, 1), 1e-2),
        ((5, 123, 123, 2), 0.0),
        ((9, 17, 1001, 4), 1e-2),
        ((9, 8, 2, 100), 1e-2),
        ((3, 5, 20_011, 2), 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [dtype for dtype in TOLERANCE if dtype != torch.float64], ids=str)
def test_chunks_in_triton_equal_the_plain_ones(
    triton_device: torch.device,
    assert_near: Callable[..., None],
    dtype: torch.dtype,
    size: tuple[int, ...],
    z_loss: float,
) -> None:
    hidden, weight, targets, mask = (tensor.to(triton_device) for tensor in inputs(size, dtype))
    options = {"mask_N": mask, "ignore_index": -1, "z_loss": z_loss}
    exact = loss_and_gradients(cross_entropy.plain, hidden.double(), weight.double(), targets, **options)
    found = loss_and_gradients(cross_entropy.chunked, hidden, weight, targets, **options, chunk_tokens=size[3])
    compare(assert_near, found, exact, TOLERANCE[dtype])
    assert found[0].dtype == torch.float32
    with torch.no_grad():
        again = cross_entropy.chunked(hidden, weight, targets, **options, chunk_tokens=size[3])
    assert again == found[0], "the loss without gradients must be the same"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_chunk_s_gradient_is_written_over_its_logits_in_triton(
    triton_device: torch.device, dtype: torch.dtype
) -> None:
    logits = torch.randn(3, 1001, device=triton_device).to(dtype)
    targets, counted = torch.tensor([[5], [0], [1000]]), torch.tensor([[True], [False], [True]])
    rest = targets.to(triton_device), counted.to(triton_device), 0.0, True
    terms, gradient = form("cross_entropy", logits).loss_and_gradient_(logits, *rest)
    assert gradient is logits
    assert terms.flatten().bool().tolist() == [True, False, True] == logits.any(1).tolist()


def test_a_maximum_that_moves_from_block_to_block_and_large_logits_are_exact_in_triton(
    triton_device: torch.device, assert_near: Callable[..., None]
) -> None:
    """A block holds 8,192 logits."""
    logits = torch.full((2, 20_011), -3e38, device=triton_device)
    logits[0, [3, 20_000]] = 1e30
    logits[1, [0, 9_000, 20_000]] = torch.tensor([4.0, 4.5, 5.0], device=triton_device)
    rest = torch.tensor([[3], [0]], device=triton_device), torch.ones(2, 1, dtype=torch.bool, device=triton_device)
    exact = reference.loss_and_gradient_(logits.double(), *rest, 0.0, True)
    found = form("cross_entropy", logits).loss_and_gradient_(logits, *rest, 0.0, True)
    assert_near("gradient", found[1], exact[1], 1e-6)
    assert_near("term", found[0][1], exact[0][1], 1e-6)


def test_a_target_beyond_the_vocabulary_makes_the_loss_nan_in_triton(triton_device: torch.device) -> None:
    logits, counted = torch.zeros(2, 7, device=triton_device), torch.ones(2, 1, dtype=torch.bool, device=triton_device)
    targets = torch.tensor([[6], [7]], device=triton_device)
    terms, _ = form("cross_entropy", logits).loss_and_gradient_(logits, targets, counted, 0.0, False)
    assert terms.isnan().flatten().tolist() == [False, True]


def test_under_autocast_the_weights_stay_fp32_and_get_fp32_gradients(assert_near) -> None:
    hidden, weight, targets, _ = inputs((37, 17, 1001, 8), torch.float32)
    expected = loss_and_gradients(cross_entropy.plain, hidden, weight, targets, ignore_index=-1)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss_and_gradients(cross_entropy.chunked, hidden, weight, targets, ignore_index=-1, chunk_tokens=8)
    assert found[0] != expected[0], "the products were to be taken in bf16"
    compare(assert_near, found, expected, TOLERANCE[torch.bfloat16])


def test_sums_over_chunks_of_bf16_lose_nothing_to_the_number_of_chunks(assert_near) -> None:
    hidden, weight, targets, _ = inputs((4096, 8, 16, 1), torch.bfloat16)
    exact = loss_and_gradients(cross_entropy.plain, hidden.double(), weight.double(), targets, ignore_index=-1)
    found = loss_and_gradients(cross_entropy.chunked, hidden, weight, targets, ignore_index=-1, chunk_tokens=1)
    compare(assert_near, found, exact, TOLERANCE[torch.bfloat16])


def test_the_plain_form_is_torch_s_own_to_the_bit() -> None:
    hidden, weight, targets, _ = inputs((37, 17, 1001, 0), torch.float32)
    targets = targets.clamp(min=0)
    found = loss_and_gradients(cross_entropy.plain, hidden, weight, targets)
    torchs = loss_and_gradients(lambda h, w, t: F.cross_entropy(F.linear(h, w), t), hidden, weight, targets)
    assert all(torch.equal(have, want) for have, want in zip(found, torchs, strict=True))


@pytest.mark.parametrize("function", [cross_entropy.plain, cross_entropy.chunked])
def test_with_no_target_left_the_loss_is_zero_and_moves_nothing(function: Callable[..., Tensor]) -> None:
    hidden, weight, targets, mask = inputs((5, 3, 7, 0), torch.float32)
    for values in loss_and_gradients(function, hidden, weight, targets, mask_N=mask & False, z_loss=0.1):
        assert not values.any()


def test_without_gradients_the_loss_is_the_same() -> None:
    hidden, weight, targets, _ = inputs((37, 17, 1001, 0), torch.float32)
    options = {"ignore_index": -1, "chunk_tokens": 8}
    expected = loss_and_gradients(cross_entropy.chunked, hidden, weight, targets, **options)[0]
    with torch.no_grad():
        assert cross_entropy.chunked(hidden, weight.requires_grad_(), targets, **options) == expected


@pytest.mark.parametrize("trained", ["hidden", "weight"])
def test_a_frozen_side_gets_no_gradient_and_the_other_the_same(trained: str) -> None:
    hidden, weight, targets, _ = inputs((37, 17, 101, 0), torch.float32)
    options = {"ignore_index": -1, "chunk_tokens": 8}
    both = loss_and_gradients(cross_entropy.chunked, hidden, weight, targets, **options)
    pair = {"hidden": hidden.detach(), "weight": weight.detach()}
    pair[trained].requires_grad_()
    (cross_entropy.chunked(pair["hidden"], pair["weight"], targets, **options) * UPSTREAM).backward()
    frozen = pair["weight" if trained == "hidden" else "hidden"]
    gradient = pair[trained].grad
    assert frozen.grad is None and gradient is not None
    assert torch.equal(gradient, both[1 if trained == "hidden" else 2])


def test_a_second_backward_is_refused() -> None:
    hidden, weight, targets, _ = inputs((5, 3, 7, 0), torch.float32)
    loss = cross_entropy.chunked(hidden.requires_grad_(), weight, targets, ignore_index=-1)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward ran twice"):
        loss.backward()


class Largest(TorchDispatchMode):
    """The most elements of any tensor that an operation returned."""

    numel = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, Tensor):
                self.numel = max(self.numel, value.numel())
        return result


def test_no_tensor_of_all_logits_is_ever_made() -> None:
    tokens, width, vocab, chunk = 100, 8, 999, 7
    hidden, weight, targets, _ = inputs((tokens, width, vocab, chunk), torch.float32)
    largest = {}
    for name, options in (("plain", {}), ("chunked", {"chunk_tokens": chunk})):
        with Largest() as watch:
            loss_and_gradients(getattr(cross_entropy, name), hidden, weight, targets, ignore_index=-1, **options)
        largest[name] = watch.numel
    assert largest == {"plain": tokens * vocab, "chunked": max(chunk, width) * vocab}


def test_chunks_are_even() -> None:
    assert even_chunks(2048, 197) == 187  # 11 chunks, the last of 178; not 10 of 197 and one of 78
    assert [even_chunks(5, 0), even_chunks(5, 100), even_chunks(0, 7)] == [1, 5, 1]

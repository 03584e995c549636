"""Rotary positions: the Triton form against fp64, and the plain form against transformers' own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from kernels.rotary import reference, rotate

# bf16: the interpreter cuts the lower bits off where a GPU rounds, so a whole unit in the last place
TOLERANCE = [(torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 5e-4)]
SHAPES = [(1, 5, 23, 122), (2, 3, 7, 64), (1, 1, 1, 2), (3, 33, 2, 6), (2, 4, 0, 8)]  # B, N, T, H


def inputs(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str = "cpu", own_positions: bool = False
) -> tuple[Tensor, ...]:
    """x laid out (B, T, N, H), as a projection makes it; tables whose halves differ; the gradient of y."""
    batch, heads, tokens, dim = shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((batch, tokens, heads, dim), generator=generator, dtype=torch.float64).transpose(1, 2)
    dy = torch.randn(shape, generator=generator, dtype=torch.float64)
    angle = torch.randn((batch, 1, tokens, dim) if own_positions else (tokens, dim), generator=generator).double()
    return tuple(tensor.to(dtype).to(device) for tensor in (x, angle.cos(), angle.sin(), dy))


def results(function, x: Tensor, cos: Tensor, sin: Tensor, dy: Tensor) -> dict[str, Tensor]:
    x = x.detach().requires_grad_()
    y = function(x, cos, sin)
    y.backward(dy.to(y.dtype))
    assert x.grad is not None
    return {"y": y.detach(), "x gradient": x.grad}


@pytest.mark.parametrize("own_positions", [False, True], ids=["(T, H)", "(B, 1, T, H)"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCE, ids=str)
def test_triton_equals_the_plain_form_in_fp64(triton_device, assert_near, dtype, tolerance, shape, own_positions):
    tensors = inputs(shape, dtype, triton_device, own_positions)
    exact = results(reference.rotate, *(tensor.double() for tensor in tensors))
    for name, found in results(rotate, *tensors).items():
        assert found.dtype == dtype
        assert_near(name, found, exact[name], tolerance)


def test_strides_change_nothing_and_y_keeps_those_of_x(triton_device, assert_near):
    x, cos, sin, dy = inputs((2, 3, 7, 10), torch.float32, triton_device)
    expected = results(reference.rotate, x, cos, sin, dy)
    assert rotate(x, cos, sin).stride() == x.stride() != dy.stride()
    apart = [torch.stack((tensor, torch.full_like(tensor, torch.nan)), dim=-1)[..., 0] for tensor in (x, cos, sin)]
    one = torch.ones((), device=triton_device).expand_as(x)
    for tensors in ((*apart, dy), (x, cos.T.contiguous().T, sin, dy.transpose(1, 2).contiguous().transpose(1, 2))):
        for name, found in results(rotate, *tensors).items():
            assert_near(name, found, expected[name], 1e-6)
    sums = [results(function, x, cos, sin, one)["x gradient"] for function in (rotate, reference.rotate)]
    assert_near("x gradient of the sum", *sums, 1e-6)


def test_fp32_tables_on_bf16_values_give_fp32_as_the_plain_form_does(triton_device, assert_near):
    x, cos, sin, _ = inputs((2, 3, 7, 10), torch.bfloat16, triton_device)
    found, expected = (function(x, cos.float(), sin.float()) for function in (rotate, reference.rotate))
    assert found.dtype == expected.dtype == torch.float32
    assert_near("y", found, expected, 1e-6)


def test_what_the_kernel_cannot_do_is_refused(triton_device):
    x, cos, sin, _ = inputs((2, 3, 7, 10), torch.float32, triton_device)
    with pytest.raises(ValueError, match="even, found 9"):
        rotate(x[..., :9], cos[:, :9], sin[:, :9])
    with pytest.raises(ValueError, match="no gradient"):
        rotate(x, cos.requires_grad_(), sin)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_plain_form_is_that_of_transformers_to_the_bit(dtype):
    x, cos, sin, dy = inputs((1, 5, 123, 122), dtype)

    def theirs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return apply_rotary_pos_emb(x, x, cos[None], sin[None])[0]

    found, expected = (results(function, x, cos, sin, dy) for function in (reference.rotate, theirs))
    assert all(torch.equal(found[name], expected[name]) for name in expected)

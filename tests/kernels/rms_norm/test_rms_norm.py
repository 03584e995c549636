"""RMSNorm: the Triton form against fp64, and the plain form against transformers' own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from kernels.rms_norm import reference, rms_norm

EPS = (
    0.1  # not small beside the mean square: seen if misplaced, and the gradient of a single value is no rounding error
)
# bf16: the interpreter cuts the lower bits off where a GPU rounds, so a whole unit in the last place
TOLERANCE = [(torch.float32, 4e-6), (torch.bfloat16, 8e-3), (torch.float16, 5e-4)]
SHAPES = [(5, 123, 123), (1, 1), (3, 1), (1, 7), (2, 3, 5, 64), (2, 5000), (0, 8)]


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str = "cpu") -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, dy = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    weight = torch.rand(shape[-1], generator=generator, dtype=torch.float64) + 0.5
    return [tensor.to(dtype).to(device) for tensor in (x, weight, dy)]


def results(function, x: Tensor, weight: Tensor, dy: Tensor) -> dict[str, Tensor]:
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    y = function(x, weight, EPS)
    y.backward(dy.to(y.dtype))
    assert x.grad is not None and weight.grad is not None
    return {"y": y.detach(), "x gradient": x.grad, "weight gradient": weight.grad}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCE, ids=str)
def test_triton_equals_the_plain_form_in_fp64(triton_device, assert_near, dtype, tolerance, shape):
    tensors = inputs(shape, dtype, triton_device)
    exact = results(reference.rms_norm, *(tensor.double() for tensor in tensors))
    for name, found in results(rms_norm, *tensors).items():
        assert found.dtype == dtype
        assert_near(name, found, exact[name], tolerance)


def strided(x: Tensor, how: str) -> Tensor:
    """The same values at other strides."""
    if how == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "every second":
        return torch.stack((x, torch.full_like(x, torch.nan)), dim=-1)[..., 0]
    return torch.cat((x, torch.full_like(x, torch.nan)), dim=-1)[..., : x.shape[-1]]


@pytest.mark.parametrize("how", ["transposed", "every second", "rows of a wider tensor"])
def test_strides_change_nothing(triton_device, assert_near, how):
    x, weight, dy = inputs((5, 3, 37), torch.float32, triton_device)
    expected = results(reference.rms_norm, x, weight, dy)
    other = strided(x, how)
    assert not other.is_contiguous()
    for name, found in results(rms_norm, other, strided(weight[None], how)[0], strided(dy, how)).items():
        assert_near(name, found, expected[name], 2e-6)


def test_an_fp32_weight_on_bf16_values_gives_fp32_as_the_plain_form_does(triton_device, assert_near):
    x, weight, _ = inputs((3, 5), torch.bfloat16, triton_device)
    found, expected = (function(x, weight.float(), EPS) for function in (rms_norm, reference.rms_norm))
    assert found.dtype == expected.dtype == torch.float32
    assert_near("y", found, expected, 4e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_plain_form_is_that_of_transformers_to_the_bit(dtype):
    x, weight, dy = inputs((5, 123, 123), dtype)
    norm = LlamaRMSNorm(123, eps=EPS).to(dtype)

    def theirs(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return torch.func.functional_call(norm, {"weight": weight}, (x,))

    found, expected = (results(function, x, weight, dy) for function in (reference.rms_norm, theirs))
    assert all(torch.equal(found[name], expected[name]) for name in expected)

"""SwiGLU: the Triton form against fp64, and the plain form against transformers' own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.activations import ACT2FN

from kernels.swiglu import reference, swiglu

# bf16: the interpreter cuts the lower bits off where a GPU rounds, so a whole unit in the last place
TOLERANCE = [(torch.float32, 1e-6), (torch.bfloat16, 8e-3), (torch.float16, 5e-4)]
SHAPES = [(5, 123, 123), (1,), (1, 1, 1), (3, 2049), (2, 0)]


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str = "cpu") -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) * 3 for _ in range(3)]
    return [tensor.to(dtype).to(device) for tensor in drawn]


def results(function, gate: Tensor, up: Tensor, dy: Tensor) -> dict[str, Tensor]:
    gate, up = gate.detach().requires_grad_(), up.detach().requires_grad_()
    y = function(gate, up)
    y.backward(dy.to(y.dtype))
    assert gate.grad is not None and up.grad is not None
    return {"y": y.detach(), "gate gradient": gate.grad, "up gradient": up.grad}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCE, ids=str)
def test_triton_equals_the_plain_form_in_fp64(triton_device, assert_near, dtype, tolerance, shape):
    tensors = inputs(shape, dtype, triton_device)
    exact = results(reference.swiglu, *(tensor.double() for tensor in tensors))
    for name, found in results(swiglu, *tensors).items():
        assert found.dtype == dtype
        assert_near(name, found, exact[name], tolerance)


def test_strides_change_nothing(triton_device, assert_near):
    gate, up, dy = inputs((5, 3, 37), torch.float32, triton_device)
    expected = results(reference.swiglu, gate, up, dy)
    halves = torch.cat((gate, up), dim=-1).chunk(2, dim=-1)
    for name, found in results(swiglu, *halves, dy.transpose(0, 2).contiguous().transpose(0, 2)).items():
        assert_near(name, found, expected[name], 1e-6)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # NumPy's, beneath the interpreter: 1 / inf is meant
def test_gates_far_from_zero_stay_finite(triton_device, assert_near):
    gate = torch.tensor([-1e30, -100.0, 100.0, 1e30], device=triton_device)
    one = torch.ones_like(gate)
    expected = results(reference.swiglu, gate.double(), one.double(), one.double())
    for name, found in results(swiglu, gate, one, one).items():
        assert found.isfinite().all(), name
        assert_near(name, found, expected[name], 1e-6)


def test_only_gate_and_up_are_kept_for_backward(triton_device):
    kept: list[Tensor] = []
    gate, up, _ = inputs((5, 7), torch.float32, triton_device)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        swiglu(gate.requires_grad_(), up)
    assert [tensor.data_ptr() for tensor in kept] == [gate.data_ptr(), up.data_ptr()]


def test_unlike_shapes_are_refused(triton_device):
    with pytest.raises(ValueError, match="one shape"):
        swiglu(torch.ones(2, 3, device=triton_device), torch.ones(3, device=triton_device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_plain_form_is_that_of_transformers_to_the_bit(dtype):
    tensors = inputs((5, 123, 123), dtype)
    theirs = results(lambda gate, up: ACT2FN["silu"](gate) * up, *tensors)
    found = results(reference.swiglu, *tensors)
    assert all(torch.equal(found[name], theirs[name]) for name in theirs)

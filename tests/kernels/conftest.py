"""What the tests of kernels share: the device that Triton runs on, and a comparison that names the worst element."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from kernels import choosing


def assert_near_(name: str, found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Same shape, and every error within `tolerance` of the largest magnitude expected."""
    assert found.shape == expected.shape, f"{name}: {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if not expected.numel():
        return
    error = (found.double() - expected.double()).abs()
    error = error.where(~error.isnan(), torch.inf)
    place = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    limit = tolerance * max(float(expected.abs().max()), 1e-30)
    assert error[place] <= limit, (
        f"{name}{list(place)} is {found[place].item()}, expected {expected[place].item()}: "
        f"off by {error[place].item():.3g}, allowed {limit:.3g}"
    )


@pytest.fixture(scope="session")
def assert_near() -> Callable[[str, Tensor, Tensor, float], None]:
    return assert_near_


@pytest.fixture
def triton_device() -> Iterator[torch.device]:
    """The CUDA device, or the CPU with Triton's interpreter; while a test has it, every choice falls on Triton."""
    triton = pytest.importorskip("triton", reason="Triton is not installed: pip install triton==3.7.1")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not (os.environ.get("TRITON_INTERPRET") == "1" and triton.knobs.runtime.interpret):
        pytest.skip("off CUDA Triton needs TRITON_INTERPRET=1 from the start: tests/conftest.py sets it")
    choosing.prefer("triton")
    yield device
    choosing.prefer("auto")

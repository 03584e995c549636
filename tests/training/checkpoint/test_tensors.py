"""The files of tensors: equal to safetensors' own, and back from every form bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from training.checkpoint import CheckpointError
from training.checkpoint.tensors import BLOCK_BYTES, SUFFIX, blocks, read_tensors


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"b.weight": (3, 5), "a.norm": (7,), "exp_avg/ä": (2, BLOCK_BYTES // 8 + 3), "scalar": (), "none": (0, 4)}
    held = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    held["b.weight"][0, :4] = torch.tensor([float("nan"), float("-inf"), -0.0, 1e-42])
    return held


def write(folder: Path, suffix: str, tensors: dict[str, torch.Tensor]) -> Path:
    path = folder / f"model{suffix}"
    with path.open("wb") as file:
        file.writelines(blocks(tensors, suffix))
    return path


@pytest.mark.parametrize("suffix", SUFFIX.values())
def test_every_form_gives_the_same_bits_back(tensors, tmp_path, suffix):
    write(tmp_path, suffix, tensors)
    found = read_tensors(tmp_path, "model")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name].view(torch.int32), tensor.view(torch.int32)), name


def test_the_plain_form_is_what_safetensors_writes(tensors, tmp_path):
    path = write(tmp_path, ".safetensors", tensors)
    save_file(tensors, tmp_path / "theirs")
    assert path.read_bytes() == (tmp_path / "theirs").read_bytes()
    assert load_file(path).keys() == tensors.keys()


def test_weights_of_a_narrow_range_shrink_by_a_tenth_and_more(tmp_path):
    """Plain LZ4 and ZSTD leave them at 100 and 93 % (training/checkpoint/tensors.py)."""
    weights = {"w": torch.randn(512, 512, generator=torch.Generator().manual_seed(1)) * 0.02}
    sizes = {suffix: write(tmp_path, suffix, weights).stat().st_size for suffix in SUFFIX.values()}
    assert sizes[".planes.lz4"] < 0.95 * sizes[".safetensors"]
    assert sizes[".planes.zst"] < 0.88 * sizes[".safetensors"]


@pytest.mark.parametrize(("cut", "said"), [(70, "cannot be decompressed"), (None, "bytes early")])
def test_a_file_that_ends_early_is_named(tensors, tmp_path, cut, said):
    path = write(tmp_path, ".planes.lz4", {"b.weight": tensors["b.weight"]})
    header_only = len(next(blocks({"b.weight": tensors["b.weight"]}, ".planes.lz4")))
    path.write_bytes(path.read_bytes()[: -cut if cut else header_only])
    with pytest.raises(CheckpointError, match=rf"model\.planes\.lz4: .*{said}"):
        read_tensors(tmp_path, "model")


def test_a_folder_without_the_tensors_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"holds no model\.safetensors"):
        read_tensors(tmp_path, "model")

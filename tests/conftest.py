"""Fixtures that several folders of tests share."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tasks.tokenizer.model import CONTROL_PIECES, PAD_ID, PROTO, UNK_ID, Piece

ROOT = Path(__file__).resolve().parent.parent

# Without a GPU the kernels of Triton are tested in its interpreter, which it asks for once, when it is first imported;
# sentence-transformers imports it too.
if importlib.util.find_spec("triton") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


def tokenizer_model(size: int) -> bytes:
    """A SentencePiece model without training: the control pieces, then single characters up to `size`."""
    proto = PROTO.ModelProto()
    proto.trainer_spec.pad_id = PAD_ID
    for i, piece in enumerate([*CONTROL_PIECES, *(chr(0x4E00 + i) for i in range(size - len(CONTROL_PIECES)))]):
        control = Piece.UNKNOWN if i == UNK_ID else Piece.CONTROL
        proto.pieces.add(piece=piece, type=control if piece in CONTROL_PIECES else Piece.NORMAL)
    return proto.SerializeToString()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real test data beside the checkout, or the one that DANLU_DATA names."""
    folder = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the shared test data: no folder {folder} (set DANLU_DATA to where it is)")
    return folder

"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real test data beside the checkout, or the one that DANLU_DATA names."""
    folder = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the shared test data: no folder {folder} (set DANLU_DATA to where it is)")
    return folder

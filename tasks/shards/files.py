"""The token files of a split, side by side on a local disk: what training, evaluation and tracing open.

in    shards dataset   <split>/<stem>.{bin,idx,parquet}, wherever the store is
out   the local folder, and the stems below it ("train/a"), in their order
"""

from __future__ import annotations

from pathlib import Path

from tasks.store.dataset import Dataset

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)


def token_files(shards: Dataset, split: str) -> tuple[Path, tuple[str, ...]]:
    """The folder and the stems of `split`; no stems when the split is empty."""
    names = [entry.name for entry in shards.files("artifact") if entry.name.startswith(f"{split}/")]
    folder = shards.local_folder(names)
    return folder, tuple(sorted(name.removesuffix(".idx") for name in names if name.endswith(".idx")))

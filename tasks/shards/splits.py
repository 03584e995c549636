"""Which split a document belongs to: a function of its text alone.

So the split stays as it is when the corpus grows, equal texts from two sources never straddle it, and no list of
validation documents has to be kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsConfig:
    """Settings of the shards stage."""

    validation_fraction: float = 0.01  # of the documents
    split_seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction: expected 0 to below 1, found {self.validation_fraction}")


def split_of(text: str, config: ShardsConfig) -> str:
    """`train` or `validation`. A higher fraction moves texts to validation, never back."""
    salt = config.split_seed.to_bytes(8, "little", signed=True)
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt).digest()
    return VALIDATION if int.from_bytes(digest, "little") < config.validation_fraction * 2**64 else TRAIN

"""How a setting that cannot work is refused: one sentence with the key, what was expected and found, and the remedy."""

from __future__ import annotations


def require(ok: bool, key: str, expected: str, found: object, advice: str) -> None:
    """Raise ValueError naming the key, what was expected and found, and what to do."""
    if not ok:
        raise ValueError(f"{key}: expected {expected}, found {found!r}; {advice}")

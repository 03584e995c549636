"""Which stretches of the token files a component's sequences are cut from.

A component is its documents one after another. It is kept as ranges of global tokens (training/data/files.py),
neighbouring documents in one range; without components and filters that is a single range. Ranges are worked out once
from the sidecars and kept as memory-mapped files, named by what decides them; each rank only maps them.

in    TokenFiles with their sidecars, DataConfig, the tokenizer's character table where it is needed
out   ComponentIndex per component, IndexFacts
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.data import characters as frequency
from training.data.config import DataConfig
from training.data.files import DataError, TokenFiles

VERSION = 1


@dataclass(frozen=True, slots=True)
class ComponentIndex:
    """A component's tokens: range r holds tokens ends[r - 1] to ends[r] of it, from global token starts[r] on."""

    name: str
    starts: np.ndarray  # int64[R]
    ends: np.ndarray  # int64[R], ascending
    facts: dict[str, Any]  # documents, tokens and what was left out

    @property
    def num_tokens(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def num_samples(self, seq_len: int) -> int:
        return max(0, (self.num_tokens - 1) // seq_len)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Global [start, stop) stretches of the component's tokens `start` to `stop`, in order."""
        row = int(self.ends.searchsorted(start, side="right"))  # the method: np.searchsorted takes twice as long
        while start < stop:
            end = int(self.ends[row])
            place = int(self.starts[row]) + start - (int(self.ends[row - 1]) if row else 0)
            length = min(end, stop) - start
            yield place, place + length
            start, row = start + length, row + 1

    def places(self, tokens: np.ndarray) -> np.ndarray:
        """Global tokens of the component's `tokens`, int64 both."""
        rows = np.searchsorted(self.ends, tokens, side="right")
        return self.starts[rows] + tokens - np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0)

    def room(self, tokens: np.ndarray) -> np.ndarray:
        """int64: how many tokens from each of `tokens` on lie in the same range."""
        return self.ends[np.searchsorted(self.ends, tokens, side="right")] - tokens

    def position(self, place: int) -> int | None:
        """Which token of the component the global token `place` is, if it is one."""
        begins = np.concatenate(([0], self.ends[:-1]))
        found = np.flatnonzero((self.starts <= place) & (place < self.starts + (self.ends - begins)))
        return int(begins[found[0]]) + place - int(self.starts[found[0]]) if len(found) else None


def open_indexes(
    files: TokenFiles, config: DataConfig, *, digest: str, seed: int, characters: np.ndarray | None, cache: Path | None
) -> list[ComponentIndex]:
    """The index of each component, in the order of the config; from `cache` where it is there, else built (and
    kept there). Raises DataError for documents that belong to no component and components without documents."""
    plain = not config.components and not config.curriculum.fraction and not config.frequency.target_share
    if plain:  # nothing to choose or to order: no sidecar is read
        facts = {"tokens": files.num_tokens, "documents": sum(len(reader) for reader in files.readers)}
        return [ComponentIndex("all", np.zeros(1, np.int64), np.array([files.num_tokens]), facts)]
    if cache is None:
        return build(files, config, seed=seed, characters=characters)
    folder = Path(cache) / key_of(files, config, digest, seed, characters)
    if not (folder / "facts.json").exists():
        save(folder, build(files, config, seed=seed, characters=characters))
    return load(folder)


def key_of(files: TokenFiles, config: DataConfig, digest: str, seed: int, characters: np.ndarray | None) -> str:
    decides = {
        "version": VERSION,
        "digest": digest,
        "stems": files.stems,
        "components": {name: dataclasses.asdict(entry) for name, entry in config.components.items()},
        "by_length": bool(config.curriculum.fraction),
        "frequency": dataclasses.asdict(config.frequency) if config.frequency.target_share else None,
        "seed": seed,
        "characters": None if characters is None else hashlib.sha256(characters.tobytes()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:32]


def build(
    files: TokenFiles, config: DataConfig, *, seed: int, characters: np.ndarray | None = None
) -> list[ComponentIndex]:
    """The indexes of all components. Memory: about 40 bytes a document while it runs."""
    names = tuple(config.components) or ("all",)
    owners = assign(files, config)
    starts = np.concatenate([files.base(f) + np.asarray(r.starts) for f, r in enumerate(files.readers)])
    lengths = np.concatenate([np.asarray(r.lengths) for r in files.readers]).astype(np.int64)
    kept, facts = frequency.select(files, config.frequency, seed=seed, characters=characters)
    found = []
    for c, name in enumerate(names):
        rows = np.flatnonzero((owners == c) & kept)
        if config.curriculum.fraction:  # alike in length: a sequence of short documents holds no long one
            rows = rows[np.argsort(length_bucket(lengths[rows]), kind="stable")]
        if not len(rows):
            raise DataError(f"train.data.components.{name}: no document of the training split fits its patterns")
        left_out = (owners == c) & ~kept
        counted = {
            "documents": len(rows),
            "tokens": int(lengths[rows].sum()),
            "documents_left_out": int(left_out.sum()),
            "tokens_left_out": int(lengths[left_out].sum()),
        }
        found.append(ComponentIndex(name, *merge(starts[rows], lengths[rows]), counted | facts))
    return found


def length_bucket(lengths: np.ndarray) -> np.ndarray:
    """floor(log2) of each length ≥ 1."""
    return np.frexp(lengths.astype(np.float64))[1] - 1


def merge(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(starts, cumulative ends) with documents that follow one another joined."""
    first = np.ones(len(starts), bool)
    first[1:] = starts[1:] != starts[:-1] + lengths[:-1]
    ends = np.cumsum(lengths)
    last = np.append(first[1:], True)
    return starts[first], ends[last]


def assign(files: TokenFiles, config: DataConfig) -> np.ndarray:
    """int16 per document: the number of its component."""
    if not config.components:
        return np.zeros(sum(len(reader) for reader in files.readers), np.int16)
    owners, lost = [], Counter[tuple[str, str]]()
    for file in range(len(files.readers)):
        table = files.sidecar(file)
        codes, kinds = [], []
        for column in ("source", "language"):
            encoded = table[column].combine_chunks().dictionary_encode()
            codes.append(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
            kinds.append([*encoded.dictionary.to_pylist(), ""])  # -1: no value
        owner = np.empty((len(kinds[0]), len(kinds[1])), np.int16)
        for i, source in enumerate(kinds[0]):
            for j, language in enumerate(kinds[1]):
                owner[i, j] = owner_of(source, language, config)
        mine = owner[codes[0], codes[1]]
        for row in np.flatnonzero(mine < 0).tolist():
            lost[kinds[0][codes[0][row]], kinds[1][codes[1][row]]] += 1
        owners.append(mine)
    if lost:
        most = ", ".join(f"{n:,} of source {s!r} in {lang!r}" for (s, lang), n in lost.most_common(5))
        raise DataError(
            f"train.data.components: {sum(lost.values()):,} documents belong to none ({most}). Widen a pattern, or add "
            "a last component without patterns (share 0 leaves it out)"
        )
    return np.concatenate(owners)


def owner_of(source: str, language: str, config: DataConfig) -> int:
    """The number of the first component that takes documents of this source and language, or -1."""
    for number, entry in enumerate(config.components.values()):
        if fits(source, entry.sources) and fits(language, entry.languages):
            return number
    return -1


def fits(value: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns)


def save(folder: Path, indexes: list[ComponentIndex]) -> None:
    """Written aside and renamed; of two that do it at once, either's files are the same."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for number, index in enumerate(indexes):
        np.save(aside / f"{number}.npy", np.stack([index.starts, index.ends]))
    facts = [{"name": index.name, "facts": index.facts} for index in indexes]
    (aside / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    try:
        aside.rename(folder)
    except OSError:  # another rank was first
        if not (folder / "facts.json").exists():
            raise
        shutil.rmtree(aside)


def load(folder: Path) -> list[ComponentIndex]:
    found = []
    for number, entry in enumerate(json.loads((folder / "facts.json").read_text(encoding="utf-8"))):
        starts, ends = np.load(folder / f"{number}.npy", mmap_mode="r").view(np.ndarray)
        found.append(ComponentIndex(entry["name"], starts, ends, entry["facts"]))
    return found

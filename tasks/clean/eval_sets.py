"""Read evaluation sets, and index what is looked for: n-grams of their fields, and short fields as wholes.

A field of at least `num_words` words (`num_characters` characters in unspaced scripts) is looked for by each of its
n-grams; a shorter one, down to `min_words` or `min_characters`, as a whole, since Brown et al. go down to 8 words for
tasks whose items are short; one shorter still is not looked for, as "the second one" occurs everywhere.

Units are those of the form that fuzzy dedup compares, without what differs between copies: words are letters, marks and
digits (a character of an unspaced script ends one), characters are letters and digits, so punctuation never matters.
An n-gram of few letters is left out.

in    JSONL (.gz, .zst too): paths or fsspec URLs
out   EvalSets
ref   Brown et al. 2020, arXiv:2005.14165, appendix C
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import fsspec
import numpy as np

from kernels import minhash
from kernels.minhash.characters import UNSPACED_RANGES
from tasks.dedup.normalise import fuzzy_form

UNSPACED = re.compile("[" + "".join(f"{chr(start)}-{chr(stop - 1)}" for start, stop in UNSPACED_RANGES) + "]+")
NO_LETTER = re.compile(r"[\W_]+")
TABLE_BITS = 22  # 4 MB; with 10^5 n-grams, one unit in forty passes by chance and is looked up


class Whole(NamedTuple):
    """A short field: its first and last `Index.min_size`-gram cover it."""

    last: int  # hash of the last one
    length: int  # units
    owner: int  # index into `EvalSets.items`


@dataclass(frozen=True, slots=True)
class Index:
    """What is looked for in one kind of script."""

    by_character: bool
    size: int  # n
    min_size: int  # units of the shortest field looked for; at least half of `size`
    ngrams: dict[int, int]  # hash -> index into `EvalSets.items` of the first that has it
    wholes: dict[int, list[Whole]]  # hash of the first min_size-gram -> fields
    ngram_table: np.ndarray  # bool [2 ** TABLE_BITS]: whether any key of `ngrams` ends in these bits
    whole_table: np.ndarray


@dataclass(frozen=True, slots=True)
class EvalSets:
    """What is looked for."""

    items: list[tuple[str, str]]  # (file name, item)
    indexes: tuple[Index, ...]
    too_short: int  # items of which no field is long enough
    num_wholes: int  # items that are looked for by whole fields only


def units_form(form: str, by_character: bool) -> str:
    """What of a fuzzy form is cut into units; of a text without unspaced script no characters."""
    if by_character:
        return NO_LETTER.sub("", form) if UNSPACED.search(form) else ""
    return UNSPACED.sub(" ", form)


def candidates(hashes: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Places whose hash may be in the set that `table` stands for."""
    return np.flatnonzero(table[hashes & np.uint64(len(table) - 1)])


def telling_windows(units: list[str], size: int, by_character: bool) -> list[bool]:
    """Of each run of `size` units whether it has letters enough: formulas and series of numbers occur everywhere.

    Two letters a word, or half of the characters.
    """
    least = size / 2 if by_character else 2 * size
    letters = [0, *itertools.accumulate(sum(map(str.isalpha, unit)) for unit in units)]
    return [letters[place + size] - letters[place] >= least for place in range(len(units) - size + 1)]


def _table(keys: Iterable[int]) -> np.ndarray:
    table = np.zeros(1 << TABLE_BITS, dtype=bool)
    table[np.fromiter(keys, dtype=np.uint64) & np.uint64(len(table) - 1)] = True
    return table


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def read_items(url: str, fields: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """(id or line number, texts) of each item of one file. Raises ValueError for what is no such file."""
    with fsspec.open(url, "rb", compression="infer") as file:
        # newline="\n": no other character ends a line. A byte that is no UTF-8 becomes a lone surrogate, as JSON may
        # hold them too; `fuzzy_form` takes both.
        lines = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except ValueError as error:
                raise ValueError(f"eval_files: {url}: line {number}: expected a JSON object, found {error}") from error
            texts = [text for field in fields if field in item for text in strings(item[field])]
            if not texts:
                raise ValueError(
                    f"eval_files: {url}: line {number}: none of the fields {', '.join(fields)}; it has "
                    f"{', '.join(item)}. Name its text fields in decontaminate.fields"
                )
            yield str(item.get("id", number)), texts


def build(files: Iterable[str], fields: tuple[str, ...], sizes: dict[bool, tuple[int, int]]) -> EvalSets:
    """Index all items; `sizes` is by_character -> (size, min_size)."""
    items: list[tuple[str, str]] = []
    ngrams: dict[bool, dict[int, int]] = {False: {}, True: {}}
    wholes: dict[bool, defaultdict[int, list[Whole]]] = {kind: defaultdict(list) for kind in ngrams}
    too_short = num_wholes = 0
    for url in files:
        for name, texts in read_items(url, fields):
            found = [_add(text, len(items), sizes, ngrams, wholes) for text in texts]
            too_short += not any(found)
            num_wholes += any(found) and "ngrams" not in found
            items.append((url.rstrip("/").rsplit("/", 1)[-1], name))
    indexes = [
        Index(kind, *sizes[kind], ngrams[kind], dict(wholes[kind]), _table(ngrams[kind]), _table(wholes[kind]))
        for kind in ngrams
        if ngrams[kind] or wholes[kind]
    ]
    return EvalSets(items, tuple(indexes), too_short, num_wholes)


def _add(
    text: str,
    owner: int,
    sizes: dict[bool, tuple[int, int]],
    ngrams: dict[bool, dict[int, int]],
    wholes: dict[bool, defaultdict[int, list[Whole]]],
) -> str | None:
    """How one field is looked for: "ngrams", "whole" or, being too short, not at all."""
    by_character = minhash.is_unspaced(fuzzy_form(text))
    size, min_size = sizes[by_character]
    form = units_form(fuzzy_form(text), by_character)
    units = minhash.split_units(form, by_character)
    telling = telling_windows(units, size, by_character)
    for place, each in enumerate(minhash.shingle_hashes(form, size, by_character).tolist()):
        if telling[place]:
            ngrams[by_character].setdefault(each, owner)
    if any(telling):
        return "ngrams"
    if not min_size <= len(units) < size or not all(telling_windows(units, len(units), by_character)):
        return None
    ends = minhash.shingle_hashes(form, min_size, by_character).tolist()
    wholes[by_character][ends[0]].append(Whole(ends[-1], len(ends) + min_size - 1, owner))
    return "whole"

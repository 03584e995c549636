"""The compiled normal forms equal the plain ones: on all of Unicode, on arbitrary sequences, on real texts."""

from __future__ import annotations

import gzip
import io
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels.normal_form import numba as compiled
from kernels.normal_form import reference
from kernels.normal_form.characters import NUM_CODES

# What meets at the seams: white and invisible marks, unspaced characters that NFKC makes and unmakes, combining marks
# of several classes, Hangul letters, expansions with spaces in them, characters that fold to several.
SEAMS = (
    " \n\t\x0b\x1c\x85\u00a0\u3000\u2028\u00ad\u200b\u2060\ufeff\x00"
    "aZéßŉİΐſK中國説！Ａ１ﾃﾞﾊﾟ、㈱㌀﹁ﷺ¨´\u037a\uff9e\u3099\u309a"
    "\u0301\u0308\u0323\u0327\u0345\u093c\u094d\u09be\u0b3e\u0dcf\U0001d165\U0001d16e\U000110ba"
    "\u1100\u1161\u11a8\u1175\u11a7가각\uac01\ud7a3क\u09c7\u0f71\u0f72\ud800\udfff\U000e0100\U0010ffff\U0002f800"
)


def assert_equal(text: str) -> None:
    for fold in (False, True):
        assert compiled.normalise(text, fold) == reference.normalise(text, fold), (fold, ascii(text))


@given(st.text(alphabet=SEAMS, max_size=60))
@settings(max_examples=1000, deadline=None)
@example("\u0323" * 40 + "\u0301\u0327" * 40 + "a" + "\u0301\u0323" * 50)
@example("ﷺ" * 50 + "中 ﷺ ΐ" * 20)
@example("K\u3000\u3000K")
@example("\u1100\u1161\u00ad\u11a8 \u1161\u11a8\u11a8")
def test_compiled_forms_equal_the_reference_at_the_seams(text):
    assert_equal(text)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=80))
@settings(max_examples=500, deadline=None)
def test_compiled_forms_equal_the_reference_on_any_characters(text):
    assert_equal(text)


def test_every_code_point_becomes_what_the_reference_makes_of_it():
    """Alone between letters, beside unspaced characters, and followed by a mark."""
    for start in range(0, NUM_CODES, 4096):
        codes = map(chr, range(start, start + 4096))
        text = "".join(f"a{c}b {c} 中 {c}中{c}\u0323\u0301q\n" for c in codes)
        for fold in (False, True):
            expected, found = reference.normalise(text, fold), compiled.normalise(text, fold)
            assert found == expected, next(
                (hex(start), ascii(a), ascii(b))
                for a, b in zip(expected.split("q"), found.split("q"), strict=False)
                if a != b
            )


def test_nfkc_is_that_of_the_standard_library():
    text = "".join(map(chr, range(0x21, 0xD800))) + "".join(map(chr, range(0xE000, 0x30000)))
    text = "".join(
        c for c in text if not unicodedata.normalize("NFKC", c).isspace() and c not in "\u00ad\u200b\ufeff\u2060"
    )
    squeezed = "".join(unicodedata.normalize("NFKC", text).split())
    assert "".join(compiled.normalise(text, False).split()) == squeezed


def test_a_column_is_normalised_text_by_text():
    texts = ["", "The  Cat", "國 語", "\u0301x", "", "a \ud800", "ﷺ" * 30]
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([2, *map(len, raw)])  # two bytes of another text before the first
    data = np.frombuffer(b"zz" + b"".join(raw), np.uint8)
    for fold in (False, True):
        results = [module.normalise_utf8(data, offsets, fold) for module in (compiled, reference)]
        for left, right in zip(*results, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("raw", [b"a\xff\xfeb", b"\xe4\xb8", b"\xf7\xbf\xbf\xbf", b"\x80\x80", b"a\xc3"])
def test_bytes_that_are_no_utf_8_are_replaced_within_bounds(raw):
    codes, _ = compiled.normalise_utf8(np.frombuffer(raw, np.uint8), np.array([0, len(raw)]), True)
    assert 0xFFFD in codes


def test_a_megabyte_of_marks_takes_no_square_of_time():
    text = "a" + "\u0323\u0301" * 250_000
    assert len(compiled.normalise(text, True)) == 500_000  # one dot below composes with the letter


def texts_of(path: Path) -> Iterator[str]:
    """Every long string in a file of JSON lines, whatever its key."""
    with gzip.open(path) if path.suffix == ".gz" else zstandard.open(path, "rb") as file:
        for line in io.TextIOWrapper(file, encoding="utf-8", newline="\n"):
            yield from (value for value in json.loads(line).values() if isinstance(value, str) and len(value) > 20)


@pytest.mark.slow
def test_compiled_forms_equal_the_reference_on_every_text_of_the_dedup_data(shared_data):
    number = 0
    for path in sorted((shared_data / "dedup").glob("*.jsonl.*")):
        for text in texts_of(path):
            assert_equal(text)
            number += 1
    assert number > 3000

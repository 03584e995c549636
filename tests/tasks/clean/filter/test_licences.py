"""Licences: SPDX expressions against allowed and denied patterns, and what is no expression."""

from __future__ import annotations

import pytest

from tasks.clean.filter.licences import LicencePolicy, names_of, parsed, refusal

OPEN = LicencePolicy(allow=("MIT", "Apache-2.0", "CC-BY-*", "GPL-2.0"), deny=("CC-BY-NC-*", "GPL-3.0*"))


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "mit",
        "CC-BY-SA-4.0",
        "MIT OR GPL-3.0-only",  # one alternative is enough
        "GPL-3.0-only OR (MIT AND Apache-2.0)",
        "GPL-2.0 WITH Classpath-exception-2.0",
    ],
)
def test_licence_with_an_acceptable_alternative_passes(licence):
    assert refusal(licence, OPEN) is None


@pytest.mark.parametrize(
    ("licence", "why"),
    [
        ("Unlicense", "not among the allowed: Unlicense"),
        ("CC-BY-NC-4.0", "denied: CC-BY-NC-4.0"),  # CC-BY-* allows it, the denial is stronger
        ("MIT AND GPL-3.0-only", "denied: GPL-3.0-only"),
        ("MIT AND (Unlicense OR GPL-3.0+)", "denied: GPL-3.0+"),
        ("MIT AND Unlicense OR GPL-3.0+", "denied: GPL-3.0+"),  # AND binds tighter
        ("public domain (laws, art. 9)", "not among the allowed: public domain (laws, art. 9)"),
    ],
)  # fmt: skip
def test_licence_without_one_is_refused_and_says_why(licence, why):
    assert refusal(licence, OPEN) == why


@pytest.mark.parametrize("licence", [None, "", "NOASSERTION", " unknown "])
def test_unrecorded_licence_is_dropped_where_only_some_are_allowed_or_as_the_policy_says(licence):
    assert refusal(licence, OPEN) == "no licence is recorded"
    assert refusal(licence, LicencePolicy()) is None
    assert refusal(licence, LicencePolicy(allow=("MIT",), unknown="keep")) is None
    assert refusal(licence, LicencePolicy(unknown="drop")) == "no licence is recorded"


@pytest.mark.parametrize("text", ["MIT OR", "(MIT OR Apache-2.0", "MIT) AND (GPL", "OR", "laws (of the state) OR"])
def test_text_that_is_no_expression_is_one_name(text):
    assert names_of(parsed(text)) == [text]
    assert refusal(text, LicencePolicy(allow=("MIT",))) is not None
    assert refusal(text, LicencePolicy()) is None

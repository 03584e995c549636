"""YAML to dataclass, strictly: each mistake is named by its key, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.settings import ConfigError, from_dict, key_settings, to_dict


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int
    rate: float = 0.5

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width: expected 1 or more, found {self.width}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner
    names: tuple[str, ...] = ()
    betas: tuple[float, float] = (0.9, 0.95)
    by_name: dict[str, int] = field(default_factory=dict)
    several: tuple[Inner, ...] = ()
    mode: Literal["fast", "exact"] = "fast"
    limit: int | None = None
    path: str = ""
    enabled: bool = True

    def key_settings(self) -> dict[str, Any]:
        return {"inner": self.inner, "names": self.names}


def build(text: str) -> Outer:
    return from_dict(Outer, yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inner: {width: 1}\nmodes: fast", r"^modes: unknown key; did you mean 'mode'\?"),
        ("inner: {width: 1, rat: 1}", r"^inner\.rat: unknown key; did you mean 'rate'\?"),
        ("inner: {width: 1}\nzzz: 1", r"^zzz: unknown key; valid keys: betas, by_name"),
        ("names: [a]", r"^inner: required, but not given"),
        ("inner: {rate: 1}", r"^inner\.width: required, but not given"),
        ("inner: {width: '3'}", r"^inner\.width: expected int, found str '3'"),
        ("inner: {width: 1.5}", r"^inner\.width: expected int, found float 1\.5"),
        ("inner: {width: true}", r"^inner\.width: expected int, found bool True"),
        ("inner: {width: 1, rate: quick}", r"^inner\.rate: expected float, found str 'quick'"),
        ("inner: {width: 1, rate: true}", r"^inner\.rate: expected float, found bool"),
        ("inner: {width: 0}", r"^inner: width: expected 1 or more, found 0"),
        ("inner: 3", r"^inner: expected a mapping of keys, found 3"),
        ("inner: {width: 1}\nnames: a", r"^names: expected a list, found 'a'"),
        ("inner: {width: 1}\nnames: [a, 1]", r"^names\[1\]: expected str, found int 1"),
        ("inner: {width: 1}\nbetas: [0.9]", r"^betas: expected 2 items, found 1"),
        ("inner: {width: 1}\nby_name: {a: b}", r"^by_name\.a: expected int, found str 'b'"),
        ("inner: {width: 1}\nby_name: [a]", r"^by_name: expected a mapping"),
        ("inner: {width: 1}\nseveral: [{width: 2}, {wdth: 2}]", r"^several\[1\]\.wdth: unknown key; did you mean 'wid"),
        ("inner: {width: 1}\nmode: slow", r"^mode: expected one of 'fast', 'exact', found 'slow'"),
        ("inner: {width: 1}\nlimit: many", r"^limit: expected int, found str 'many'"),
        ("inner: {width: 1}\npath: null", r"^path: expected str, found NoneType None"),
        ("inner: {width: 1}\nenabled: 1", r"^enabled: expected bool, found int 1"),
        ("[1]", r"^config: expected a mapping of keys, found \[1\]"),
    ],
)
def test_a_mistake_is_named_by_its_key(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(text)


def test_every_kind_of_value_is_built() -> None:
    built = build(
        "inner: {width: 1, rate: 3e-4}\nnames: [a, b]\nbetas: [1, 0.5]\nby_name: {a: 1}\nseveral: [{width: 2}]\n"
        "mode: exact\nlimit: 5\nenabled: false"
    )
    assert built.inner.rate == 3e-4  # YAML 1.1 reads it as text
    assert built.betas == (1.0, 0.5) and isinstance(built.betas[0], float)
    assert built.several == (Inner(width=2),) and built.by_name == {"a": 1} and built.limit == 5
    assert build("inner: {width: 1}\nlimit: null").limit is None


def test_what_a_config_says_of_its_key_replaces_the_whole() -> None:
    built = build("inner: {width: 1}\nnames: [a]\npath: here")
    assert key_settings(built) == {"inner": {"width": 1, "rate": 0.5}, "names": ["a"]}
    assert key_settings(built.inner) == to_dict(built.inner)


@given(
    st.builds(
        Outer,
        inner=st.builds(Inner, width=st.integers(1), rate=st.floats(allow_nan=False)),
        names=st.lists(st.text()).map(tuple),
        by_name=st.dictionaries(st.text(), st.integers()),
        several=st.lists(st.builds(Inner, width=st.integers(1))).map(tuple),
        limit=st.none() | st.integers(),
        enabled=st.booleans(),
    )
)
def test_a_config_survives_its_plain_form(built: Outer) -> None:
    plain = to_dict(built)
    assert isinstance(plain, Mapping) and from_dict(Outer, plain) == built

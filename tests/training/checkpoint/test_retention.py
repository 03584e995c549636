"""What retention deletes, for any history of saves."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from training.checkpoint.retention import to_delete

LEVELS = st.sampled_from(["light", "full", "archive"])
HISTORY = st.dictionaries(st.integers(1, 300), LEVELS, min_size=1, max_size=60)
SETTINGS = st.fixed_dictionaries(
    {"keep": st.integers(1, 5), "full_interval_steps": st.integers(0, 20), "thinning": st.integers(1, 4)}
)


@given(HISTORY, SETTINGS)
def test_the_newest_and_the_archives_stay_and_old_light_ones_go(saved, settings):
    gone = set(to_delete(saved, **settings))
    newest_first = sorted(saved, reverse=True)
    assert gone <= set(newest_first[settings["keep"] :])
    assert not [step for step in gone if saved[step] == "archive"]
    assert {step for step in newest_first[settings["keep"] :] if saved[step] == "light"} <= gone


@given(HISTORY, SETTINGS, st.lists(st.tuples(st.integers(301, 2000), LEVELS), max_size=20))
def test_what_has_gone_is_never_wanted_again(saved, settings, later):
    """Deleting after each save ends at the same set as deleting once at the end."""
    present, gone = dict(saved), set[int]()
    for step, level in [(0, None), *sorted(later, key=lambda pair: pair[0])]:
        present |= {step: level} if level else {}
        now = to_delete(present, **settings)
        gone |= set(now)
        present = {key: value for key, value in present.items() if key not in now}
    assert gone == set(to_delete(saved | dict(sorted(later, key=lambda pair: pair[0])), **settings))


@given(st.integers(1, 400), st.integers(2, 4))
def test_the_number_of_full_ones_grows_with_the_logarithm_of_the_run(count, thinning):
    steps = range(10, 10 * count + 1, 10)
    gone = to_delete(dict.fromkeys(steps, "full"), keep=1, full_interval_steps=10, thinning=thinning)
    powers = 1
    while thinning**powers <= count:
        powers += 1
    assert len(steps) - len(gone) <= 1 + thinning * powers


def test_the_example_of_the_docstring():
    saved: dict[int, Any] = dict.fromkeys(range(1000, 65_000, 1000), "full")
    left = sorted(saved.keys() - to_delete(saved, keep=1, full_interval_steps=1000, thinning=2), reverse=True)
    assert left == [64_000, 63_000, 62_000, 60_000, 56_000, 48_000, 32_000]

"""Which other settings a run may go on with: those that differ only later than it stands."""

from __future__ import annotations

import pytest

from training.data.config import (
    ChangeConfig,
    ComponentConfig,
    CurriculumConfig,
    DataConfig,
    PhaseConfig,
    SkipConfig,
)
from training.data.history import conflict

COMPONENTS = {"a": ComponentConfig(sources=("a",)), "b": ComponentConfig()}
EVEN, ALL_A = {"a": 0.5, "b": 0.5}, {"a": 1.0}
SAVED = DataConfig(
    components=COMPONENTS, phases=(PhaseConfig(shares=EVEN),), skip=(SkipConfig(steps=(5, 7), reason="spike"),)
)
SKIP = SAVED.skip


def changed(**changes) -> DataConfig:
    settings = {"components": COMPONENTS, "phases": SAVED.phases, "skip": SKIP}
    return DataConfig(**(settings | changes))


ALLOWED = {
    "the same": changed(),
    "another reason": changed(skip=(SkipConfig(steps=(5, 7), reason="a loss spike"),)),
    "other shares from here": changed(changes=(ChangeConfig(from_step=50, phases=(PhaseConfig(shares=ALL_A),)),)),
    "a document to skip from here": changed(skip=(*SKIP, SkipConfig(documents=("x",), from_step=50))),
    "steps to skip from here": changed(skip=(*SKIP, SkipConfig(steps=(50, 60)))),
    "a later phase": changed(phases=(PhaseConfig(steps=70, shares=EVEN), PhaseConfig(shares=ALL_A))),
    "another limit": changed(max_epochs=9.0),
}
REFUSED = {
    "shares": changed(phases=(PhaseConfig(shares=ALL_A),)),
    "from_step >= 50": changed(changes=(ChangeConfig(from_step=49, phases=(PhaseConfig(shares=ALL_A),)),)),
    "components": changed(components={"a": ComponentConfig(sources=("x",)), "b": ComponentConfig()}),
    "step 50": changed(skip=(*SKIP, SkipConfig(documents=("x",), from_step=49))),
    "skip differs": changed(skip=()),
    "curriculum": changed(curriculum=CurriculumConfig(fraction=0.1)),
}


def verdict(ours: DataConfig) -> str | None:
    return conflict(SAVED, ours, samples=50 * 8, global_batch_size=8, seq_len=16)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_begins_at_the_step_in_hand_or_later_is_the_same_run(name):
    assert verdict(ALLOWED[name]) is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_have_read_other_samples_before_is_refused_with_the_remedy(name):
    assert name.split()[0] in str(verdict(REFUSED[name]))

"""How many pieces each group gets, and which."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.vocabulary import Usage, allot, quotas

GROUPS = ("code", "en", "other", "zh")
NUMBERS = st.fixed_dictionaries({group: st.integers(0, 500) for group in GROUPS})


def test_quotas_add_up_and_follow_the_shares():
    found = quotas(GROUPS, TokenizerConfig(vocab_size=32_000), 32_000)
    total = sum(found.values())
    assert 31_000 < total < 32_000
    assert {group: number / total for group, number in found.items()} == pytest.approx(
        {"zh": 0.45, "en": 0.35, "code": 0.12, "other": 0.08}, abs=1e-4
    )


def test_a_group_that_needs_more_takes_it_from_the_others_in_proportion():
    wanted = {"zh": 400, "en": 200, "code": 100, "other": 100}
    found = allot(wanted, {"zh": 0, "en": 0, "code": 0, "other": 450}, dict.fromkeys(wanted, 1000))
    assert found == {"zh": 200, "en": 100, "code": 50, "other": 450}


def test_what_a_group_lacks_goes_to_the_others():
    wanted = {"zh": 400, "en": 200, "code": 100, "other": 100}
    found = allot(wanted, dict.fromkeys(wanted, 10), {"zh": 40, "en": 1000, "code": 1000, "other": 1000})
    assert found["zh"] == 50
    assert sum(found.values()) == 800
    assert found["en"] == 375


@given(NUMBERS, NUMBERS, NUMBERS)
def test_pieces_are_used_up_and_never_exceed_what_there_is(wanted, needed, available):
    found = allot(wanted, needed, available)
    assert all(needed[g] <= found[g] <= needed[g] + available[g] for g in GROUPS)
    free = {g for g in GROUPS if wanted[g]}
    most = sum(needed[g] + (available[g] if g in free else 0) for g in GROUPS)
    assert sum(found.values()) == max(min(sum(wanted.values()), most), sum(needed.values()))


def test_a_piece_belongs_to_the_group_that_uses_it_most_per_token():
    used = Usage(groups=["code", "en"], counts=np.array([[3.0, 1.0, 0.0], [10.0, 90.0, 0.0]]))
    assert used.group_of_pieces().tolist() == [0, 1, -1]

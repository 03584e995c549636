"""Work spread over Ray workers: every result once, errors as they were, nothing left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tasks import spread
from tasks.settings import ConfigError
from tasks.spread import WorkerDied


def double(number: int) -> int:
    return 2 * number


def fail_on_three(number: int) -> int:
    if number == 3:
        raise ConfigError("three: expected another number")
    return number


def die_on_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.fixture(scope="module", autouse=True)
def no_ray_afterwards() -> Iterator[None]:
    yield
    spread.shutdown()


@pytest.mark.parametrize("workers", [0, 2])
def test_every_item_is_answered_once(workers: int) -> None:
    assert sorted(spread.spread(double, range(7), workers)) == [(n, 2 * n) for n in range(7)]
    assert list(spread.spread(double, [], workers)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_is_raised_as_it_was(workers: int) -> None:
    with pytest.raises(ConfigError, match="three: expected another number"):
        list(spread.spread(fail_on_three, range(5), workers))


def test_a_worker_that_dies_twice_on_an_item_names_it() -> None:
    with pytest.raises(WorkerDied, match=r"died 2 times on 3:"):
        list(spread.spread(die_on_three, range(5), 2))


def test_without_workers_nothing_of_ray_is_started() -> None:
    spread.shutdown()
    import ray

    list(spread.spread(double, range(3), 0))
    assert not ray.is_initialized()

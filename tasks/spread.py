"""Spread calls over Ray workers, with as many in flight as there are workers, and results as they finish.

The only module that talks to Ray. One Ray session serves all data stages of a run: it starts at the first call that
has work to do (a cached run never starts it) and must be shut down before training, which wants the memory.
`RAY_ADDRESS` joins an existing cluster instead. `workers=0` runs in this process, for debugging.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

OBJECT_STORE_BYTES = 256 << 20  # parts pass paths and counts, never text
CRASH_RETRIES = 1  # a worker that dies twice on one part dies of that part

log = logging.getLogger(__name__)


class WorkerDied(RuntimeError):
    """A worker process died (out of memory, a crash in native code) on the same part more than once."""


def spread(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[tuple[int, Any]]:
    """Yield (index, function(items[index])) as calls finish.

    An exception of `function` is raised here as it was there. Raises WorkerDied when a worker process is lost
    `CRASH_RETRIES` + 1 times on one item.
    """
    if workers == 0:
        for index, item in enumerate(items):
            yield index, function(item)
        return
    import ray
    import ray.exceptions

    start(workers)
    remote = ray.remote(num_cpus=1, max_retries=CRASH_RETRIES, retry_exceptions=False)(function)
    pending: dict[Any, int] = {}
    waiting = iter(range(len(items)))
    try:
        while True:
            for index in waiting:
                pending[remote.remote(items[index])] = index
                if len(pending) >= workers:
                    break
            if not pending:
                return
            [done], _ = ray.wait(list(pending), num_returns=1)
            index = pending.pop(done)
            try:
                result = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from error
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                raise WorkerDied(
                    f"a worker process died {CRASH_RETRIES + 1} times on {items[index]!r}: {error}"
                ) from error
            yield index, result
    finally:
        for reference in pending:  # left early (an error, Ctrl-C): the others stop at once, their parts are redone
            ray.cancel(reference, force=True)


def start(workers: int) -> None:
    """Start or join Ray; a session with another number of workers is replaced."""
    import ray

    if ray.is_initialized():
        if os.environ.get("RAY_ADDRESS") or ray.cluster_resources().get("CPU") == workers:
            return
        ray.shutdown()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    own: dict[str, Any] = {"num_cpus": workers, "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own notices of coming defaults
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **({} if os.environ.get("RAY_ADDRESS") else own))


def shutdown() -> None:
    """End the Ray session of this process, if there is one."""
    import sys

    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()

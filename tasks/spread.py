"""Spread calls over Ray workers, with as many in flight as there are workers, and results as they finish.

The only module that talks to Ray. One Ray session serves all data stages of a run: it starts at the first call that
has work to do (a cached run never starts it) and must be shut down before training, which wants the memory.
`RAY_ADDRESS` (host:port, or auto) joins an existing cluster instead, which then needs this package on every node and
a store that every node sees; `workers` is then how many calls are in flight. `workers=0` runs in this process.

What a dying worker or node takes with it is called again: calls write whole files under names of their own, so twice
is as good as once. A call's own death is told from its node's, because a node may die many times before a part does.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

OBJECT_STORE_BYTES = 256 << 20  # parts pass paths and counts, never text
MAX_CRASHES = 2  # a worker that dies as often on one item dies of that item
MAX_NODE_LOSSES = 5  # of one item: more than chance, so the item may be what takes nodes down
QUIET_SECONDS = 60.0  # without a result, after which a cluster without CPUs is spoken of

log = logging.getLogger(__name__)
_session: str | int | None = None  # what the Ray session of this process is for: an address, or a number of workers


class WorkerDied(RuntimeError):
    """The worker processes or nodes of one item died (out of memory, a crash in native code) more often than chance."""


def spread(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[tuple[int, Any]]:
    """Yield (index, function(items[index])) as calls finish.

    An exception of `function` is raised here as it was there. An item whose worker or node is lost is called again.
    Raises WorkerDied when that was its worker process MAX_CRASHES times, or its node MAX_NODE_LOSSES times.
    """
    if workers == 0:
        for index, item in enumerate(items):
            yield index, function(item)
        return
    import ray
    import ray.exceptions

    start(workers)
    # no retries of Ray's own: they would say nothing, and count a lost node as a crash of the item
    remote = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=_strategy())(function)
    pending: dict[Any, int] = {}
    waiting = deque(range(len(items)))
    losses: Counter[tuple[int, str]] = Counter()
    try:
        while waiting or pending:
            while waiting and len(pending) < workers:
                index = waiting.popleft()
                pending[remote.remote(items[index])] = index
            done, _ = ray.wait(list(pending), num_returns=1, timeout=QUIET_SECONDS)
            if not done:
                _warn_if_no_cpu()
                continue
            index = pending.pop(done[0])
            try:
                result = ray.get(done[0])
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from error
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                _count_loss(losses, index, items[index], "worker process", MAX_CRASHES, error)
                waiting.append(index)
            except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError) as error:
                _count_loss(losses, index, items[index], "node", MAX_NODE_LOSSES, error)
                waiting.append(index)
            else:
                yield index, result
    finally:
        for reference in pending:  # left early (an error, Ctrl-C): the others stop at once, their parts are redone
            ray.cancel(reference, force=True)


def _count_loss(losses: Counter, index: int, item: Any, what: str, limit: int, error: Exception) -> None:
    """Note that an item was lost with its worker process or node; raises WorkerDied at the limit."""
    losses[index, what] += 1
    if losses[index, what] >= limit:
        raise WorkerDied(f"a {what} died {limit} times on {item!r}: {error}") from error
    first = str(error).strip().partition("\n")[0]
    log.warning("a %s died on %r (%d of %d times): it is run again. %s", what, item, losses[index, what], limit, first)


def _strategy() -> Literal["DEFAULT", "SPREAD"]:
    """On a cluster items go to all nodes alike; Ray's default fills half of one node before it turns to the next."""
    return "SPREAD" if isinstance(_session, str) else "DEFAULT"


def _warn_if_no_cpu() -> None:
    import ray

    if ray.cluster_resources().get("CPU", 0) < 1:
        log.warning("no node of the Ray cluster has a CPU: waiting for one to join (`ray status` lists the nodes)")


def start(workers: int) -> None:
    """Start or join Ray; a session for another address or number of workers is replaced."""
    global _session
    import ray

    address = os.environ.get("RAY_ADDRESS")
    if ray.is_initialized():
        if _session == (address or workers):
            return
        ray.shutdown()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    own: dict[str, Any] = {
        "address": "local",  # else Ray would join, or stumble over, any cluster that it finds on this machine
        "num_cpus": workers,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own notices of coming defaults
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **({} if address else own))
    _session = address or workers
    if address:
        num_nodes = sum(node["Alive"] for node in ray.nodes())
        num_cpus = int(ray.cluster_resources().get("CPU", 0))
        log.info(
            "joined the Ray cluster at %s: %d nodes, %d CPUs, %d calls at once", address, num_nodes, num_cpus, workers
        )


def shutdown() -> None:
    """End the Ray session of this process, if there is one."""
    import sys

    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()

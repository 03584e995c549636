"""Whether a loss has stopped falling: Page's cumulative sum over the means of windows of steps.

    S_k = max(0, S_{k-1} + (mean_k - mean_{k-1}) + decline)        plateau: S_k > threshold · error

The loss must fall by `decline` per window. The differences telescope, so S is by how much it lies above the line of
that slope drawn from the best window so far, and only the noise of two means is in it. The measure is that noise, not a
number of steps: on a noisy loss the detector waits longer, where two moving averages take chance for a plateau.

error is the standard error of a window's mean, from the differences of neighbouring tenths of it, so that a trend is
not in it and most of the noise that lasts over several steps is. A loss further than CLIP standard deviations (from the
differences of neighbouring steps) from the last mean counts as CLIP: a spike is no rise.

in    CusumSettings, CusumState, the loss of a step
out   (CusumState, plateau or not); after a plateau the state is a new one
ref   Page 1954, Biometrika 41:100; measured by benchmarks/plateau.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

PARTS = 10  # of a window
CLIP = 4.0  # passed by one step in 16,000 of Gaussian noise
MEMORY = 10  # windows that the noise is averaged over
FROM_DIFFERENCES = math.sqrt(math.pi) / 2  # standard deviation over mean |difference| of two Gaussian values


@dataclass(frozen=True, slots=True)
class CusumSettings:
    window: int  # steps averaged, a multiple of PARTS
    decline: float  # the loss must fall by this per window
    threshold: float  # standard errors of a window's mean


@dataclass(frozen=True, slots=True)
class CusumState:
    """Between steps; of plain numbers, so that it goes through JSON unchanged."""

    count: int = 0  # steps of the window in hand
    total: float = 0.0  # of their losses
    last: float = 0.0
    variation: float = 0.0  # sum of |difference| between neighbours
    part_total: float = 0.0  # the same for tenths of the window
    part_last: float = 0.0
    part_variation: float = 0.0
    windows: int = 0  # done; the following are of them
    level: float = 0.0  # mean of the last
    noise: float = 0.0  # of a step
    error: float = 0.0  # of a window's mean
    statistic: float = 0.0


def update(state: CusumState, loss: float, settings: CusumSettings) -> tuple[CusumState, bool]:
    if state.windows:
        reach = CLIP * state.noise
        loss = min(max(loss, state.level - reach), state.level + reach)
    count = state.count + 1
    state = replace(
        state,
        count=count,
        total=state.total + loss,
        last=loss,
        variation=state.variation + (abs(loss - state.last) if count > 1 else 0.0),
        part_total=state.part_total + loss,
    )
    if count % (settings.window // PARTS) == 0:
        state = close_part(state, settings)
    return close_window(state, settings) if count == settings.window else (state, False)


def close_part(state: CusumState, settings: CusumSettings) -> CusumState:
    size = settings.window // PARTS
    mean = state.part_total / size
    change = abs(mean - state.part_last) if state.count > size else 0.0
    return replace(state, part_total=0.0, part_last=mean, part_variation=state.part_variation + change)


def close_window(state: CusumState, settings: CusumSettings) -> tuple[CusumState, bool]:
    mean = state.total / settings.window
    windows = state.windows + 1
    weight = 1 / min(windows, MEMORY)
    noise = state.variation / (settings.window - 1) * FROM_DIFFERENCES
    error = state.part_variation / (PARTS - 1) * FROM_DIFFERENCES / math.sqrt(PARTS)
    noise = state.noise + weight * (noise - state.noise)
    error = state.error + weight * (error - state.error)
    statistic = max(0.0, state.statistic + mean - state.level + settings.decline) if state.windows else 0.0
    if statistic > settings.threshold * error and state.windows:
        return CusumState(), True
    return CusumState(windows=windows, level=mean, noise=noise, error=error, statistic=statistic), False

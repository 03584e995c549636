"""Plateau detection: CUSUM (training/schedule/cusum.py) against two moving averages, on curves whose plateau is known.

    python benchmarks/plateau.py [--curves 60] [--seed 0]

A curve is 2 + A · (step + 500)^-0.3 up to a step drawn for each, flat from there on, plus the noise of a kind:
gaussian; loud (twice as much); tails (Student t, 3 degrees); spikes (one step in 2,000 is 2 higher); drift (half the
variance is autoregressive, 0.9 from step to step). A is drawn so that the loss still falls by 1.5 to 4 times the limit
per window just before it stops: a slower curve is a plateau by the rule itself, a faster one deceives neither.

plateau       the loss without noise falls by less than `decline` in a window of 1,000 steps (the report: 5,000; scaled
              down by five, `decline` so that it is to the noise of a window's mean as in the report: 0.001 at 0.05)
false alarm   a curve with an alarm before its flat part begins, out of all curves
found, delay  of the curves without one: alarm within 20,000 flat steps; median steps from the beginning to it

moving average: the mean of the last window less that of the window before is above -decline, looked at every 50 steps.
Both begin after 1,000 steps (the warmup). The rows of longer windows scale `decline` with them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from training.schedule.cusum import CusumSettings, CusumState, update

WINDOW, EVERY, NOISE, WARMUP, FLAT = 1000, 50, 0.05, 1000, 20_000
DECLINE = 0.001 * math.sqrt(5)  # 0.001 over 5,000 steps, at equal ratio to the noise of the window's mean
STOPS = (8000, 16_000)
POWER, OFFSET = 0.3, 500
NOISES = ("gaussian", "loud", "tails", "spikes", "drift")
Detector = Callable[[np.ndarray], int | None]


@dataclass(frozen=True, slots=True)
class Curve:
    losses: np.ndarray  # from the end of the warmup on
    flat_from: int


def curve(kind: str, rng: np.random.Generator) -> Curve:
    stop = int(rng.integers(*STOPS))
    slope = POWER * (stop + OFFSET) ** (-POWER - 1)
    height = rng.uniform(1.5, 4.0) * DECLINE / WINDOW / slope
    steps = np.arange(WARMUP, stop + FLAT)
    losses = 2 + height * (np.minimum(steps, stop) + OFFSET) ** -POWER
    return Curve(losses + noise(kind, len(steps), rng), stop - WARMUP)


def noise(kind: str, steps: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "tails":
        return NOISE * rng.standard_t(3, steps) / math.sqrt(3)
    own = rng.normal(0, NOISE, steps)
    if kind == "spikes":
        return own + 2.0 * (rng.random(steps) < 1 / 2000)
    if kind in ("gaussian", "loud"):
        return own * (2 if kind == "loud" else 1)
    return math.sqrt(0.5) * (own + drift(steps, rng))


def drift(steps: int, rng: np.random.Generator) -> np.ndarray:
    kernel = 0.9 ** np.arange(100)
    return NOISE * math.sqrt(1 - 0.81) * np.convolve(rng.normal(0, 1, steps), kernel)[:steps]


def cusum(threshold: float) -> Detector:
    settings = CusumSettings(window=WINDOW, decline=DECLINE, threshold=threshold)

    def first_alarm(losses: np.ndarray) -> int | None:
        state = CusumState()
        for step, loss in enumerate(losses.tolist()):
            state, plateau = update(state, loss, settings)
            if plateau:
                return step
        return None

    return first_alarm


def moving_average(window: int) -> Detector:
    def first_alarm(losses: np.ndarray) -> int | None:
        sums = np.concatenate([[0.0], np.cumsum(losses)])
        ends = np.arange(2 * window, len(losses) + 1, EVERY)
        declines = (2 * sums[ends - window] - sums[ends - 2 * window] - sums[ends]) / window
        hits = ends[declines < DECLINE * window / WINDOW]
        return int(hits[0]) - 1 if len(hits) else None

    return first_alarm


def row(name: str, detector: Detector, curves: dict[str, list[Curve]]) -> None:
    false, found, delays, total = [], 0, [], 0
    for held in curves.values():
        alarms = [(detector(c.losses), c.flat_from) for c in held]
        early = [alarm for alarm, flat in alarms if alarm is not None and alarm < flat]
        late = [alarm - flat for alarm, flat in alarms if alarm is not None and alarm >= flat]
        false.append(len(early) / len(held))
        found, total, delays = found + len(late), total + len(held) - len(early), delays + late
    shares = "".join(f"{share:>10.1%}" for share in [*false, sum(false) / len(false)])
    delay = f"{np.median(delays):>9,.0f}" if delays else f"{'-':>9}"
    print(f"{name:<28}{shares}{found / total if total else math.nan:>9.1%}{delay}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Plateau detectors on synthetic loss curves.")
    parser.add_argument("--curves", type=int, default=60, help="of each kind of noise")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    curves = {
        kind: [curve(kind, np.random.default_rng((arguments.seed, k, n))) for n in range(arguments.curves)]
        for k, kind in enumerate(NOISES)
    }
    print(f"{arguments.curves} curves of each kind, noise {NOISE}, decline {DECLINE:.5f} in {WINDOW} steps")
    print(f"{'false alarms':<28}" + "".join(f"{kind:>10}" for kind in [*NOISES, "all"]) + f"{'found':>9}{'delay':>9}")
    for window in (WINDOW, 2 * WINDOW, 3 * WINDOW, 4 * WINDOW):
        row(f"moving average, {window:,} steps", moving_average(window), curves)
    for threshold in (1.5, 2.0, 2.5, 3.0, 4.0):
        row(f"CUSUM, {threshold:g} standard errors", cusum(threshold), curves)


if __name__ == "__main__":
    main()

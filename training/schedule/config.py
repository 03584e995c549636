"""Settings of `train.schedule`. The peak, the floor and the warmup are `lr`, `min_lr_ratio` and `warmup_steps`.

in    YAML or JSON values
out   ScheduleConfig
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training.schedule.cusum import PARTS
from training.settings import require


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleConfig:
    """cosine: warmup, then a cosine. wsd: warmup, stable, decay. staged: see training/schedule/staged.py."""

    kind: Literal["cosine", "wsd", "staged"] = "cosine"

    # wsd and staged: the part of the steps, at the end, in which the rate falls to its floor. 10 to 20 % of the run
    # reach the loss of a cosine, and 1-sqrt a lower one than linear: Hägele et al. 2024, arXiv:2405.18392, section 4
    decay_share: float = 0.2
    decay_shape: Literal["1-sqrt", "linear"] = "1-sqrt"  # wsd

    # staged, warmup: lengthened when the loader gives less than this. 8,000 on the report's cluster of 256 GPUs (§3.4)
    bandwidth_floor: float = 0.0  # MB of token ids per second over all ranks; 0: not measured, never lengthened
    probe_share: float = 0.5  # of the warmup, over which it is measured
    warmup_stretch: float = 1.2  # report: 20 %

    # staged, plateau (training/schedule/cusum.py). By benchmarks/plateau.py 2.5 gives a false alarm on 0.3 % of 300
    # curves and sees a plateau after 3.2 windows; two moving averages of a window 53 % and 1.1, of three 0 % and 3.5
    plateau_window: int = 5000  # steps, report
    plateau_decline: float = 0.001  # a loss that falls by less in a window is a plateau; report
    plateau_threshold: float = 2.5  # standard errors of a window's mean
    plateau_cut: float = 0.8  # what a plateau leaves of the rate; report: 20 % less

    # staged, decay: exponential to the floor, begun anew `restarts` times, each cycle of equal length. The report's run
    # restarts every 100,000 steps from step 600,000 on
    restarts: int = 3
    restart_peak: float = 1.0  # peak of a cycle, as a part of the peak before; 1: SGDR's, arXiv:1608.03983
    restart_warmup_share: float = 0.05  # of a cycle after a restart

    def __post_init__(self):
        kinds, shapes = ("cosine", "wsd", "staged"), ("1-sqrt", "linear")
        require(self.kind in kinds, "schedule.kind", f"one of {', '.join(kinds)}", self.kind, "cosine is the usual one")
        require(self.decay_shape in shapes, "schedule.decay_shape", "1-sqrt or linear", self.decay_shape, "take 1-sqrt")
        for key in ("decay_share", "probe_share", "plateau_cut", "restart_peak"):
            value = getattr(self, key)
            require(
                0 < value <= 1, f"schedule.{key}", "above 0 and at most 1", value, "see training/schedule/config.py"
            )
        share = self.restart_warmup_share
        require(0 <= share < 1, "schedule.restart_warmup_share", "0 or more and below 1", share, "0.05 is usual")
        for key, least in (("bandwidth_floor", 0), ("warmup_stretch", 1), ("plateau_decline", 0), ("restarts", 0)):
            value = getattr(self, key)
            require(value >= least, f"schedule.{key}", f"{least} or more", value, "raise it")
        threshold, window = self.plateau_threshold, self.plateau_window
        require(threshold > 0, "schedule.plateau_threshold", "above 0", threshold, "2.5 is usual")
        fits = window >= 2 * PARTS and window % PARTS == 0
        expected = f"a multiple of {PARTS}, {2 * PARTS} or more"
        require(fits, "schedule.plateau_window", expected, window, "the report has 5000")

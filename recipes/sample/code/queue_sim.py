"""Simulate a bakery queue: customers arrive at random and one clerk serves them in order."""

import random
from collections import deque


class Clerk:
    """Serves one customer at a time and remembers how long each of them waited."""

    def __init__(self, seconds_per_loaf: float) -> None:
        self.seconds_per_loaf = seconds_per_loaf
        self.free_at = 0.0
        self.waits: list[float] = []

    def serve(self, arrival: float, loaves: int) -> float:
        start = max(arrival, self.free_at)
        self.waits.append(start - arrival)
        self.free_at = start + loaves * self.seconds_per_loaf
        return self.free_at


def arrivals(count: int, mean_gap: float, seed: int):
    """Yield (time, loaves) pairs; gaps follow an exponential distribution."""
    rng = random.Random(seed)
    now = 0.0
    for _ in range(count):
        now += rng.expovariate(1.0 / mean_gap)
        yield now, rng.choice([1, 1, 1, 2, 3])


def longest_line(events: list[tuple[float, float]]) -> int:
    """The most people present at once, given (arrival, departure) pairs sorted by arrival."""
    present: deque[float] = deque()
    longest = 0
    for arrival, departure in events:
        while present and present[0] <= arrival:
            present.popleft()
        present.append(departure)
        longest = max(longest, len(present))
    return longest


if __name__ == "__main__":
    clerk = Clerk(seconds_per_loaf=20)
    events = [(t, clerk.serve(t, n)) for t, n in arrivals(200, mean_gap=40, seed=3)]
    print(f"mean wait {sum(clerk.waits) / len(clerk.waits):.1f} s, longest line {longest_line(events)}")

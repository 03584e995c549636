"""Mean next-token cross-entropy from the last hidden states and the output matrix, in two forms with one signature.

`plain` makes all logits at once; `chunked` makes them for some tokens at a time and never holds N x V of them. They
agree up to the rounding of sums, not bit for bit: training/config.py says which one a run takes.
"""

from kernels.cross_entropy.chunks import cross_entropy as chunked
from kernels.cross_entropy.reference import IGNORE
from kernels.cross_entropy.reference import cross_entropy as plain

__all__ = ["IGNORE", "chunked", "plain"]

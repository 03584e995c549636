"""A second model's word on text that lid.176 is unsure of: CLD2, which knows some 40 languages that lid.176 does not.

CLD2 counts letter quadruples and whole words. Its answer is joined with lid.176's probabilities by a log-linear score.
The weights are round numbers near those that a two-fold fit found on sentences and documents of the NTREX, UD GSD and
lingua sets (split by document; both folds agree within a tenth); the declarations of human rights took no part in it.

in    text, the candidates of lid.176 with their probabilities
out   the candidates of both, best first, with probabilities that sum to 1
ref   CLD2 (Apache-2.0), through pycld2
"""

from __future__ import annotations

import math
import re

import pycld2

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")  # CLD2 refuses them
WEIGHT_OF_LID, FLOOR = 0.6, 1e-3  # of log(probability + FLOOR)
WEIGHT_OF_CLD = 3.3  # of the share of the text, where CLD2 calls its answer reliable
UNRANKED = 0.5  # the score of a language that lid.176 did not rank, in place of its log-probability


def cld2_shares(text: str) -> dict[str, float]:
    """Language -> share of the text in it, by CLD2; empty where CLD2 does not trust its own answer."""
    try:
        reliable, _, found = pycld2.detect(UNPRINTABLE.sub(" ", text), bestEffort=True, isPlainText=True)
    except pycld2.error:  # text that is no valid UTF-8, such as a lone surrogate: no second opinion
        return {}
    return {code: percent / 100 for _, code, percent, _ in found if code != "un"} if reliable else {}


def join(ranked: list[tuple[str, float]], shares: dict[str, float], known: frozenset[str]) -> list[tuple[str, float]]:
    """`ranked` with the second model's `shares`; `known` are all languages of the first model."""
    first = dict(ranked)
    points: dict[str, float] = {}
    for name in sorted({*first, *shares}):
        own = WEIGHT_OF_LID * math.log(first.get(name, 0.0) + FLOOR) if name in known else UNRANKED
        points[name] = own + WEIGHT_OF_CLD * shares.get(name, 0.0)
    weights = {name: math.exp(value) for name, value in points.items()}
    total = sum(weights.values())
    return sorted(((name, value / total) for name, value in weights.items()), key=lambda item: (-item[1], item[0]))

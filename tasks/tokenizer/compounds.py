"""Frequent words that a fitted vocabulary splits, to be pieces after all (the post-processing of report 000, 3.2).

A unigram model drops a word whose parts are frequent themselves ("operatorname", "isinstance"), since the likelihood
loses little by it. Those that would save most tokens come back; as pieces with a score of their own they win wherever
they stand as words, and a longer word around them is not cut apart for their sake (`forced_merges` does that).

in    a fitted model, the sample
out   word → group; the score a word starts with
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.model import UNK_ID, Tokenizer
from tasks.tokenizer.vocabulary import Row

WORDS = re.compile(r" ?[A-Za-z\u00c0-\u024f]{4,}")
MAX_WORD_CHARS = 24


def find_compounds(tokenizer: Tokenizer, rows: Iterable[Row], config: TokenizerConfig) -> dict[str, str]:
    """Word (with the space in front of it, where it mostly has one) → group, of the frequent words that are split.

    The words that would save most tokens as pieces, at most `max_compounds`.
    """
    if not config.max_compounds:
        return {}
    counts: Counter[str] = Counter()
    by_group: dict[str, Counter[str]] = {}
    for group, text, times in rows:
        found = Counter(word for word in WORDS.findall(text) if len(word) <= MAX_WORD_CHARS)
        for word, number in found.items():
            counts[word] += number * times
            by_group.setdefault(group, Counter())[word] += number * times
    frequent = sorted(word for word, number in counts.items() if number >= config.compound_min_count)
    saved = {
        word: counts[word] * (len(ids) - 1)
        for word, ids in zip(frequent, tokenizer.encode_batch(frequent), strict=True)
        if len(ids) > 1 and not any(merge in word for merge in config.forced_merges)
    }
    best = sorted(saved, key=lambda word: (-saved[word], word))[: config.max_compounds]
    return {word: max(sorted(by_group), key=lambda group: by_group[group][word]) for word in best}


def start_score(tokenizer: Tokenizer, word: str) -> float:
    """Just better than the best way to spell `word` so far, so that the next count sees it."""
    known = tokenizer.processor.piece_to_id(word)
    if known != UNK_ID:
        return float(tokenizer.processor.get_score(known))
    parts = [float(tokenizer.processor.get_score(int(i))) for i in tokenizer.encode(word)]
    return max(parts) if len(parts) > 1 else parts[0]

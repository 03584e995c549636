"""Whether FAISS, as the semantic stage calls it, misses a pair: against a blocked NumPy product on 20,000 vectors.

Run by `dedup_quality.py --only search`.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numpy as np
import zstandard

from tasks.dedup import encoders
from tasks.dedup.encoders import USE
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.search import near_pairs

NUM_SEARCHED, EMBED_SECONDS = 20_000, 60  # of CPU


def corpus_paragraphs(data: Path, count: int) -> list[str]:
    """Distinct paragraphs of 80 to 400 characters of the corpus' Chinese and foreign records, drawn at random."""
    found: dict[str, None] = {}
    for name in ("zh_hans_docs", "zh_hant_mixed", "other_langs_news"):
        with open(data / "corpus" / f"{name}.jsonl.zst", "rb") as file:
            text = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file).read().decode("utf-8")
        for line in text.split("\n"):
            if line:
                blocks = json.loads(line)["text"].split("\n")
                found.update((fuzzy_form(b), None) for b in blocks if 80 <= len(b) <= 400)
    return random.Random(11).sample(list(found), min(count, len(found)))


def report_search(data: Path) -> None:
    """FAISS as the stage calls it, against a NumPy product over all pairs."""
    texts = corpus_paragraphs(data, NUM_SEARCHED)
    encode, vectors, started = encoders.load(USE).encode, [], time.process_time()
    for start in range(0, len(texts), 256):
        if time.process_time() - started > EMBED_SECONDS:
            break
        vectors.append(encode([text[: USE.segment_chars] for text in texts[start : start + 256]]))
    real = np.concatenate(vectors)
    matrix = fill_up(real, NUM_SEARCHED)
    print(
        f"search: {len(matrix):,} vectors: {len(real):,} paragraphs by USE, the rest mixtures of two of them with noise"
    )
    for threshold in (0.82, 0.95):
        began = time.process_time()
        found = near_pairs(matrix, threshold, threshold, max_partners=NUM_SEARCHED)
        by_faiss = time.process_time() - began
        pairs = set(zip(found.near.better.tolist(), found.near.worse.tolist(), strict=True))
        began = time.process_time()
        truth = brute_force(matrix, threshold)
        by_numpy = time.process_time() - began
        print(
            f"  cosine >= {threshold}: brute force {len(truth):,} pairs ({by_numpy:.0f} s), FAISS flat {len(pairs):,} "
            f"({by_faiss:.0f} s); recall {len(truth & pairs) / max(len(truth), 1):.4%}, "
            f"not in brute force {len(pairs - truth)}"
        )
    print("  The index is flat (exhaustive): recall is 1 by construction, up to the rounding at the threshold.\n")


def fill_up(real: np.ndarray, count: int) -> np.ndarray:
    """float32 [count, D] unit vectors: the real ones first, then neighbours of theirs at cosines from 0.7 to 1."""
    rng = np.random.default_rng(2)
    missing = count - len(real)
    first, second = (real[rng.integers(len(real), size=missing)] for _ in range(2))
    mixed = first + rng.uniform(0, 0.6, (missing, 1)) * second + rng.normal(0, 0.01, first.shape)
    matrix = np.concatenate([real, mixed / np.linalg.norm(mixed, axis=1, keepdims=True)])
    return np.ascontiguousarray(matrix[rng.permutation(count)], dtype=np.float32)


def brute_force(matrix: np.ndarray, threshold: float, block: int = 1000) -> set[tuple[int, int]]:
    """All pairs i < j with cosine >= threshold, in float64, rounded as the stage rounds."""
    wide, found = matrix.astype(np.float64), set[tuple[int, int]]()
    for start in range(0, len(wide), block):
        scores = np.round(wide[start : start + block] @ wide[start:].T, 6)
        rows, columns = np.nonzero(scores >= threshold)
        ahead = columns > rows
        found.update(zip((rows[ahead] + start).tolist(), (columns[ahead] + start).tolist(), strict=True))
    return found

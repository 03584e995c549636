"""What the encoders can tell apart, what the semantic stage makes of it, and whether FAISS misses a pair.

Run by `dedup_quality.py --only semantic search`.

    calibration   cosines of first segments, as the stage compares them: unrelated pairs of one language against pairs
                  that mean the same; the threshold that 99.9 % of the unrelated stay below, and what it would find
    stage         precision and recall of the whole stage's rule (segments, length, words, template) on the same pairs
    search        FAISS against a blocked NumPy product on 20,000 vectors

Samples are drawn with a fixed seed, so that a run takes some minutes: an encoder reads 40 to 190 texts a second.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from tasks.dedup import encoders, semantic, semantic_pairs
from tasks.dedup.encoders import MINILM, USE, EncoderConfig
from tasks.dedup.normalise import fuzzy_form
from tasks.dedup.search import near_pairs

NUM_PAIRS = 150  # of each set
NUM_SEARCHED, EMBED_SECONDS = 20_000, 60
SPECIFICITY = 0.999


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs of texts that mean the same (or, for PAWS-X, may not), all in one language or script pair."""

    name: str
    encoders: tuple[EncoderConfig, ...]
    pairs: list[tuple[str, str]]
    negatives: list[tuple[str, str]]  # beside all pairs of texts of different entries


def pair_sets(data: Path) -> list[Pairs]:
    """The labelled sets, `NUM_PAIRS` of each at most."""

    def rows(name: str) -> list[dict[str, Any]]:
        with gzip.open(data / "dedup" / name, "rt", encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]

    def some(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return random.Random(5).sample(pairs, min(NUM_PAIRS, len(pairs)))

    stories = [row["versions"] for row in rows("ntrex_same_story.jsonl.gz")]
    paws = rows("pawsx_zh_pairs.jsonl.gz")
    hans = [(row["hans"], row["hant"]) for row in rows("hans_hant_sentences.jsonl.gz")]
    poems = [(r["a"], r["b"]) for r in rows("tang_poem_editions.jsonl.gz") if not r["identical"]]
    sets = [
        (f"ntrex {a}/{b}", [(s[a], s[b]) for s in stories], [])
        for a, b in (("eng-src", "eng-GB"), ("eng-src", "eng-US"), ("eng-GB", "eng-IN"))
    ]
    sets += [
        (f"ntrex {a}/{b}", [(s[a], s[b]) for s in stories], [])
        for a, b in (("spa", "spa-2"), ("zh-Hans", "zh-Hant"), ("eng-src", "zh-Hans"))
    ]
    sets += [
        ("hans_hant sentences", some(hans), []),
        ("hans_hant docs", [(row["hans"], row["hant"]) for row in rows("hans_hant_docs.jsonl.gz")], []),
        ("poem editions", some(poems), []),
        (
            "paws-x zh",
            some([(row["a"], row["b"]) for row in paws if row["label"] == 1]),
            some([(row["a"], row["b"]) for row in paws if row["label"] == 0]),
        ),
    ]
    both, only_use = (MINILM, USE), (USE,)
    chinese_too = ("ntrex zh-Hans/zh-Hant", "hans_hant sentences")  # to show what an English model makes of Chinese
    return [
        Pairs(name=n, encoders=both if "eng" in n or n in chinese_too else only_use, pairs=p, negatives=q)
        for n, p, q in sets
    ]


class Embedder:
    """First segments of forms as vectors, each once."""

    def __init__(self, config: EncoderConfig):
        self.config, self.known = config, dict[str, np.ndarray]()

    def __call__(self, forms: Sequence[str]) -> np.ndarray:
        heads = [form[: self.config.segment_chars] for form in forms]
        new = [head for head in dict.fromkeys(heads) if head not in self.known]
        if new:
            self.known.update(zip(new, encoders.load(self.config).encode(new), strict=True))
        return np.stack([self.known[head] for head in heads])


def report_semantic(data: Path) -> None:
    """The tables `calibration` and `stage`."""
    config = semantic.SemanticConfig()
    embedders = {e.name: Embedder(e) for e in (MINILM, USE)}
    print("semantic, calibration: cosines of first segments; unrelated = texts of different entries of the set")
    print(
        f"  {'set':24} {'encoder':7} {'pairs':>5} {'same: p5':>8} {'p50':>5} {'unrelated':>9} {'p50':>5} {'p99':>5} "
        f"{'p99.9':>5} {'max':>5} {'at 99.9 %: same':>15} {'at .82':>6} {'at .95':>6} "
        f"{'unrelated >= .82':>16} {'>= .95':>6}"
    )
    lines = []
    for chosen in pair_sets(data):
        forms = [(fuzzy_form(a), fuzzy_form(b)) for a, b in chosen.pairs]
        for encoder in chosen.encoders:
            embed = embedders[encoder.name]
            left, right = (embed([pair[k] for pair in forms]) for k in (0, 1))
            cosines = left @ right.T
            same = np.diagonal(cosines)
            unrelated = cosines[~np.eye(len(same), dtype=bool)]
            print(_calibration_line(chosen.name, encoder.name, same, unrelated))
            verdicts = [semantic_pairs.judge(a, b, encoder, config)[0] for a, b in forms]
            near = np.argwhere((cosines >= encoder.threshold) & ~np.eye(len(same), dtype=bool))
            wrong = [semantic_pairs.judge(forms[i][0], forms[j][1], encoder, config)[0] for i, j in near]
            negatives = [(fuzzy_form(a), fuzzy_form(b)) for a, b in chosen.negatives]
            hard = [semantic_pairs.judge(a, b, encoder, config)[0] for a, b in negatives]
            proposed = int((same >= encoder.threshold).sum())
            lines.append(_stage_line(chosen.name, encoder.name, proposed, verdicts, wrong, len(unrelated), hard))
    print("\nsemantic, stage: verdicts on the same pairs; a pair counts as found where the stage would remove one")
    print(
        f"  {'set':24} {'encoder':7} {'pairs':>5} {'>= thr.':>7} {'found':>5} {'recall':>7} {'unrelated':>9} "
        f"{'removed':>7} {'negatives':>9} {'removed':>7} {'precision':>9}  why not found"
    )
    print("\n".join(lines), "\n")


def _calibration_line(name: str, encoder: str, same: np.ndarray, unrelated: np.ndarray) -> str:
    p50, p99, p999 = np.quantile(unrelated, (0.5, 0.99, SPECIFICITY))
    shares = [(same >= limit).mean() for limit in (p999, 0.82, 0.95)]
    false = [(unrelated >= limit).mean() for limit in (0.82, 0.95)]
    return (
        f"  {name:24} {encoder:7} {len(same):5} {np.quantile(same, 0.05):8.2f} {np.median(same):5.2f} "
        f"{len(unrelated):9} {p50:5.2f} {p99:5.2f} {p999:5.2f} {unrelated.max():5.2f} {shares[0]:15.1%} "
        f"{shares[1]:6.1%} {shares[2]:6.1%} {false[0]:16.2%} {false[1]:6.2%}"
    )


def _stage_line(
    name: str, encoder: str, proposed: int, verdicts: list[str], wrong: list[str], num_unrelated: int, hard: list[str]
) -> str:
    found, false, gone = (list(v).count("duplicate") for v in (verdicts, wrong, hard))
    precision = f"{found / (found + false + gone):9.1%}" if found + false + gone else f"{'-':>9}"
    other = {v: verdicts.count(v) for v in sorted(set(verdicts)) if v != "duplicate"}
    return (
        f"  {name:24} {encoder:7} {len(verdicts):5} {proposed:7} {found:5} {found / len(verdicts):7.1%} "
        f"{num_unrelated:9} {false:7} {len(hard):9} {gone:7} {precision}  {other}"
    )


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
    encode, vectors, started = encoders.load(USE).encode, [], time.monotonic()
    for start in range(0, len(texts), 256):
        if time.monotonic() - started > EMBED_SECONDS:
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

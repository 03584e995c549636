"""Train the quality classifier, and measure it on documents that it has not seen.

A document is held out or trained on by a hash of the form that exact deduplication compares: copies never stand on both
sides. Copies are used once; a text that both classes hold is used for neither. Documents are ordered by the hash, one
thread trains, every random choice has the seed: the same texts give the same bytes, whatever files they come in.

in    Example            texts with a class
out   bytes of a fastText model, and a card: data digests, counts, held-out figures, no date and no path
ref   Joulin et al. 2016, arXiv:1607.01759
"""

from __future__ import annotations

import hashlib
import heapq
import importlib.metadata
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tasks.clean.language.quality import NEGATIVE, POSITIVE, PREFIX, QualityModel, tokens
from tasks.dedup.normalise import exact_form

FORMAT = "danlu-quality-model"
THRESHOLDS = tuple(step / 10 for step in range(1, 10))
MIN_EXAMPLES = 20  # of each class on each side; below it no figure means anything


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityTrainingConfig:
    eval_fraction: float = 0.1  # held out to measure
    seed: int = 1
    epochs: int = 10
    lr: float = 0.5
    dim: int = 16
    buckets: int = 200_000  # for pairs of tokens; 200,000 x 16 x 4 bytes = 12.8 MB
    min_count: int = 2  # rarer tokens are left out
    max_documents: int = 100_000  # of each class; of more, those of the smallest hash
    quantize: bool = False  # a model about a fifth as large, slightly less exact

    def __post_init__(self) -> None:
        if not 0 < self.eval_fraction < 1:
            raise ValueError(f"eval_fraction must lie between 0 and 1, found {self.eval_fraction}: it is a share")
        for name in ("epochs", "dim", "buckets", "min_count", "max_documents"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")


class Example(NamedTuple):
    """One document to learn from."""

    key: bytes  # BLAKE2b of seed and exact form: order, split and identity
    language: str
    num_chars: int
    line: str  # its tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What training left."""

    model: bytes
    card: dict[str, Any]


def example(text: str, language: str, seed: int) -> Example:
    form = exact_form(text).encode("utf-8", "surrogatepass")
    key = hashlib.blake2b(form, digest_size=16, key=str(seed).encode()).digest()
    return Example(key, language, len(text), tokens(text))


def choose(examples: Iterable[Example], limit: int) -> tuple[list[Example], int]:
    """The distinct ones of the `limit` smallest keys, in order, and how many copies or empty ones were left out."""
    seen: set[bytes] = set()
    skipped = 0

    def distinct() -> Iterable[Example]:
        nonlocal skipped
        for each in examples:
            if each.key in seen or not each.line:
                skipped += 1
                continue
            seen.add(each.key)
            yield each

    return heapq.nsmallest(limit, distinct(), key=lambda each: each.key), skipped


def held_out(each: Example, fraction: float) -> bool:
    """Whether it measures and does not train. The last bytes decide: `choose` has taken small first ones."""
    return int.from_bytes(each.key[-8:], "big") < fraction * 2**64


def train(
    positive: Iterable[Example],
    negative: Iterable[Example],
    config: QualityTrainingConfig,
    progress: Callable[[str], None] = lambda note: None,
) -> Trained:
    """Raises ValueError when a class has too few documents to train on or to measure by."""
    chosen, skipped = {}, {}
    for label, given in ((POSITIVE, positive), (NEGATIVE, negative)):
        chosen[label], skipped[label] = choose(given, config.max_documents)
    both = {each.key for each in chosen[POSITIVE]} & {each.key for each in chosen[NEGATIVE]}
    chosen = {label: [each for each in given if each.key not in both] for label, given in chosen.items()}
    sides = {
        label: {
            side: [each for each in given if held_out(each, config.eval_fraction) is side] for side in (False, True)
        }
        for label, given in chosen.items()
    }
    _check(sides, skipped, len(both))
    progress(f"training on {sum(len(sides[label][False]) for label in sides):,} documents")
    data = _fit({label: parts[False] for label, parts in sides.items()}, config)
    model = model_of(data)
    num_held_out = sum(len(sides[label][True]) for label in sides)
    progress(f"measuring on {num_held_out:,} documents held out")
    card = {
        "format": FORMAT,
        "version": 1,
        "model_sha256": hashlib.sha256(data).hexdigest(),
        "fasttext": importlib.metadata.version("fasttext-community"),
        "settings": asdict(config),
        "data": {
            label: {
                "documents": len(given),
                "trained_on": len(sides[label][False]),
                "held_out": len(sides[label][True]),
                "copies_or_empty": skipped[label],
                "sha256": hashlib.sha256(b"".join(each.key for each in given)).hexdigest(),
            }
            for label, given in chosen.items()
        },
        "in_both_classes": len(both),
        **measure(model, sides[POSITIVE][True], sides[NEGATIVE][True]),
    }
    return Trained(model=data, card=card)


def _check(sides: dict[str, dict[bool, list[Example]]], skipped: dict[str, int], both: int) -> None:
    for label, parts in sides.items():
        for side, given in parts.items():
            if len(given) < MIN_EXAMPLES:
                raise ValueError(
                    f"--{label}: expected at least {MIN_EXAMPLES} different documents to "
                    f"{'measure by (held out)' if side else 'train on'}, found {len(given)} "
                    f"({skipped[label]} copies or empty, {both} in both classes): give more, or another --eval-fraction"
                )


def _fit(examples: dict[str, list[Example]], config: QualityTrainingConfig) -> bytes:
    """A fastText model, by one thread."""
    import fasttext

    lines = sorted((each.key, f"{PREFIX}{label} {each.line}\n") for label, given in examples.items() for each in given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        path.write_text("".join(line for _, line in lines), encoding="utf-8", newline="\n")
        model = fasttext.train_supervised(
            input=str(path), thread=1, seed=config.seed, epoch=config.epochs, lr=config.lr, dim=config.dim,
            wordNgrams=2, bucket=config.buckets, minCount=config.min_count, loss="softmax", verbose=0,
        )  # fmt: skip
        if config.quantize:
            model.quantize()
        model.save_model(str(Path(folder) / "model.bin"))
        return (Path(folder) / "model.bin").read_bytes()


def model_of(data: bytes) -> QualityModel:
    """The model that these bytes are."""
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bin"
        path.write_bytes(data)
        return QualityModel(fasttext.load_model(str(path)), "the trained model")


def measure(model: QualityModel, positive: Sequence[Example], negative: Sequence[Example]) -> dict[str, Any]:
    """Held-out figures: overall, per language, and what each `filter.min_quality` would keep."""
    rows: defaultdict[str, list[tuple[float, bool, int]]] = defaultdict(list)
    for label, given in ((True, positive), (False, negative)):
        for each in given:
            rows[each.language].append((model.score_tokens(each.line), label, each.num_chars))
    everything = [row for given in rows.values() for row in given]
    scores, labels = np.array([row[0] for row in everything]), np.array([row[1] for row in everything])
    return {
        "held_out": figures(everything),
        "held_out_by_language": {language: figures(given) for language, given in sorted(rows.items())},
        "thresholds": [
            {
                "min_quality": threshold,
                "keeps_of_positive": round(float((scores[labels] >= threshold).mean()), 4),
                "keeps_of_negative": round(float((scores[~labels] >= threshold).mean()), 4),
            }
            for threshold in THRESHOLDS
        ],
    }


def figures(rows: Sequence[tuple[float, bool, int]]) -> dict[str, float | int | None]:
    """Precision and recall at 0.5, and AUC, of (score, is positive, characters); None where they are undefined."""
    scores, labels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=bool)
    taken = scores >= 0.5
    hits = int((taken & labels).sum())
    return {
        "positive": int(labels.sum()),
        "negative": int((~labels).sum()),
        "precision": round(hits / int(taken.sum()), 4) if taken.any() else None,
        "recall": round(hits / int(labels.sum()), 4) if labels.any() else None,
        "auc": auc(scores, labels),
        "auc_of_length": auc(np.array([row[2] for row in rows], dtype=float), labels),  # near auc: it learnt length
    }


def auc(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Share of (positive, negative) pairs that the scores order rightly, ties a half; None without a pair."""
    num_positive, num_negative = int(labels.sum()), int((~labels).sum())
    if not num_positive or not num_negative:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # from 1; equal scores share the mean of their ranks
    return round(
        float((ranks[labels].sum() - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)), 4
    )

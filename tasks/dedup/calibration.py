"""What 0.82 and 0.95 mean on a given encoder: one scale for the similarity limits, whatever the model.

A cosine says little by itself: texts that have nothing to do with each other have 0.04 on one model and 0.85 on
another. So limits are given as on a model whose unrelated texts have REFERENCE, and are moved by straight line: what
lies a share of the way from the unrelated to the identical stays there.

    limit on the model = 1 - (1 - limit) / (1 - REFERENCE) * (1 - baseline)

The baseline is the median cosine of all pairs of texts that have nothing to do with each other: by default of those
bundled (`calibration_texts.py`, of the document's language if it is there, else of those that the encoder knows), so
that a pair of documents is decided the same in every run. `measure_on: documents` takes a sample of the run's own
documents of the language instead: no labels are needed, and a few duplicates do not move a median. Where neither can be
had the limits are taken as cosines. The facts of the stage say which, and what the run's documents would have said.

Trade-off, measured on the shared data: bundled .17 and 150 documents .14-.17 on USE, .85 and .82-.84 on E5, .09 and .17
on all-MiniLM: limits differ by .005 at most. But documents of one narrow field are alike: where all were company pages
and pages of one frame, their baseline left 24 of 49 filled-in forms to be found, the bundled one 44.

in    vectors of documents of one language
out   Scale; an EncoderConfig whose limits are cosines of its model
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tasks.dedup import encoders
from tasks.dedup.calibration_texts import TEXTS
from tasks.dedup.encoders import EncoderConfig
from tasks.dedup.normalise import fuzzy_form

REFERENCE = 0.175  # median cosine of unrelated paragraphs: 0.175 on all-MiniLM-L6 (en), 0.175 and 0.176 on USE (en, zh)


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationConfig:
    measure_on: Literal["texts", "documents"] = "texts"
    num_documents: int = 400  # of a language, at most; their pairs are the sample: 79,800
    min_documents: int = 50  # fewer are not measured
    seed: int = 0  # of the choice of documents

    def __post_init__(self) -> None:
        if not 2 <= self.min_documents <= self.num_documents:
            raise ValueError(
                f"min_documents must be at least 2 and at most num_documents, found {self.min_documents} and "
                f"{self.num_documents}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Where an encoder's unrelated texts lie."""

    baseline: float
    measured_on: str  # "texts", "documents", or "" where the limits are cosines
    num_texts: int
    of_documents: float | None = None  # what the run's own documents say, if they are enough

    def to_cosine(self, limit: float) -> float:
        """A limit of the reference scale as a cosine of the model."""
        if not self.measured_on:
            return limit
        return round(1 - (1 - limit) / (1 - REFERENCE) * (1 - self.baseline), 6)


def choose(ids: Sequence[bytes] | np.ndarray, number: int, seed: int) -> np.ndarray:
    """Places of `number` of the ids, ascending: those whose keyed hash is lowest, whatever their order."""
    keyed = hashlib.blake2b(key=b"danlu calibration %d" % seed, digest_size=8)
    hashes = []
    for id_ in ids:
        digest = keyed.copy()
        digest.update(bytes(id_))
        hashes.append(digest.digest())
    return np.sort(np.array(sorted(range(len(hashes)), key=hashes.__getitem__)[:number], dtype=np.int64))


def baseline_of(vectors: np.ndarray) -> float:
    """Median cosine of all pairs of different rows, float32 [N, D] of unit length, N >= 2."""
    wide = vectors.astype(np.float64)
    cosines = (wide @ wide.T)[np.triu_indices(len(wide), 1)]
    return round(float(np.median(cosines)), 4)  # rounded, so that a machine's last bits move no limit


def measure(encoder: EncoderConfig, language: str, vectors: np.ndarray, config: CalibrationConfig) -> Scale:
    """The scale of an encoder for documents of `language`, of which `vectors` are a sample."""
    own = baseline_of(vectors) if len(vectors) >= config.min_documents else None
    known = [name for name in TEXTS if name in encoder.languages]
    if encoder.scale == "cosine" or (own is None and not known):
        return Scale(baseline=0.0, measured_on="", num_texts=0, of_documents=own)
    if own is not None and (config.measure_on == "documents" or not known):
        return Scale(baseline=own, measured_on="documents", num_texts=len(vectors), of_documents=own)
    chosen = [language] if language in known else known
    forms = [[fuzzy_form(text)[: encoder.segment_chars] for text in TEXTS[name]] for name in chosen]
    baselines = [baseline_of(encoders.load(encoder).encode(texts)) for texts in forms]
    num_texts = sum(map(len, forms))
    return Scale(baseline=max(baselines), measured_on="texts", num_texts=num_texts, of_documents=own)


def calibrated(encoder: EncoderConfig, scale: Scale) -> EncoderConfig:
    """The encoder with its limits as cosines of its model."""
    threshold, screen = scale.to_cosine(encoder.threshold), scale.to_cosine(encoder.screen)
    return dataclasses.replace(encoder, scale="cosine", threshold=threshold, screen=screen)


def facts(encoder: EncoderConfig, scale: Scale) -> dict[str, Any]:
    """For the manifest; `encoder` is the calibrated one."""
    return {
        "scale": scale.measured_on or "cosine",
        "baseline": scale.baseline,
        "num_texts": scale.num_texts,
        "baseline_of_documents": scale.of_documents,
        "threshold": encoder.threshold,
        "screen": encoder.screen,
    }

"""What 0.82 and 0.95 mean on a given encoder: one scale for the similarity limits, whatever the model.

A cosine says little by itself: texts that have nothing to do with each other have 0.04 on one model and 0.85 on
another. So limits are given as on a model whose unrelated texts have REFERENCE, and are moved by straight line: what
lies a share of the way from the unrelated to the identical stays there.

    limit on the model = 1 - (1 - limit) / (1 - REFERENCE) * (1 - baseline)

The baseline is the median cosine of all pairs within a sample of the run's own documents of one language: no labels are
needed, and a few duplicates among them do not move a median. With fewer than `min_documents` it is the median over the
bundled texts (`calibration_texts.py`) that the encoder's languages know, else the limits are taken as cosines; the
facts of the stage say which.

Trade-off: an encoder is measured once a run and language, at no more cost than a small matrix product; a corpus of one
narrow field (laws, poems) has a higher baseline and so stricter limits, which keeps its forms and frames apart.

in    vectors of unrelated texts
out   Scale; an EncoderConfig whose limits are cosines of its model
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.dedup import encoders
from tasks.dedup.calibration_texts import TEXTS
from tasks.dedup.encoders import EncoderConfig
from tasks.dedup.normalise import fuzzy_form

REFERENCE = 0.175  # median cosine of unrelated paragraphs: 0.175 on all-MiniLM-L6 (en), 0.175 and 0.176 on USE (en, zh)


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationConfig:
    num_documents: int = 400  # of a language, at most; their pairs are the sample: 79,800
    min_documents: int = 50  # with fewer, the bundled texts are measured instead
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
    measured_on: str  # "documents", "bundled texts", or "" where the limits are cosines
    num_texts: int

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
    if encoder.scale == "cosine":
        return Scale(baseline=0.0, measured_on="", num_texts=0)
    if len(vectors) >= config.min_documents:
        return Scale(baseline=baseline_of(vectors), measured_on="documents", num_texts=len(vectors))
    known = [name for name in TEXTS if name in encoder.languages]
    chosen = [language] if language in known else known
    if not chosen:
        return Scale(baseline=0.0, measured_on="", num_texts=0)
    forms = [[fuzzy_form(text)[: encoder.segment_chars] for text in TEXTS[name]] for name in chosen]
    baselines = [baseline_of(encoders.load(encoder).encode(texts)) for texts in forms]
    return Scale(baseline=max(baselines), measured_on="bundled texts", num_texts=sum(map(len, forms)))


def calibrated(encoder: EncoderConfig, scale: Scale) -> EncoderConfig:
    """The encoder with its limits as cosines of its model."""
    threshold, screen = scale.to_cosine(encoder.threshold), scale.to_cosine(encoder.screen)
    return dataclasses.replace(encoder, scale="cosine", threshold=threshold, screen=screen)


def facts(encoder: EncoderConfig, scale: Scale) -> dict[str, Any]:
    """For the manifest; `encoder` is the calibrated one."""
    limits = {"threshold": encoder.threshold, "screen": encoder.screen}
    return {"scale": scale.measured_on or "cosine", "baseline": scale.baseline, "texts": scale.num_texts, **limits}

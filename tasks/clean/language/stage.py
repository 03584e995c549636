"""Name the language and script of a document, and measure it.

Program text is "code": by its media type, or by the shape of its lines; all else is named by `identify`. Where fences,
scripts or doubt say that a document may be mixed, its paragraphs are named one by one, and a document in which another
language holds a tenth of the characters carries the shares. A document whose language stays doubtful is "und" and is
kept: to drop it is the filter's choice. The filter's metrics are measured here, because they depend on the language, so
that a changed threshold reads no text again.

in    Document    text as extract left it
out   Document    language (BCP 47), script (ISO 15924), languages (shares, of mixed documents), metrics
                  language_confidence and those of `metrics.measure`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.clean.language import quality
from tasks.clean.language.code_shape import CODE, code_share
from tasks.clean.language.identify import Identified, IdentifyConfig, identify, wanted
from tasks.clean.language.paragraphs import language_shares
from tasks.clean.metrics import measure
from tasks.document import Document, Dropped, Kept, Outcome
from tasks.settings import to_dict
from tasks.stage import map_stage


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageConfig(IdentifyConfig):
    min_second_share: float = 0.1  # of the characters; from it on a second language makes a document mixed; 0: never
    languages: tuple[str, ...] = ()  # keep only these (BCP 47, "zh" covers zh-Hans and zh-Hant); empty: all
    quality_model: str | None = None  # file that `danlu train-quality` made: its score is the metric quality

    def __post_init__(self) -> None:
        IdentifyConfig.__post_init__(self)
        if not 0 <= self.min_second_share <= 0.5:
            raise ValueError(
                f"min_second_share must lie in 0..0.5, found {self.min_second_share}: a second is no first"
            )
        if self.quality_model is not None:
            object.__setattr__(self, "quality_model", str(Path(self.quality_model).absolute()))  # in every process

    def key_settings(self) -> dict[str, Any]:
        """All but where the quality model lies: `quality_digest` keys what is in it."""
        names = (field.name for field in dataclasses.fields(self) if field.name != "quality_model")
        return {name: to_dict(getattr(self, name)) for name in names}


def looks_like_code(text: str, config: IdentifyConfig) -> bool:
    """Whether most telling lines of a plain text have the shape of program text."""
    return code_share(text) >= config.min_code_lines > 0


def label(document: Document, config: LanguageConfig, classifier: quality.QualityModel | None = None) -> Outcome:
    """The one outcome of `document`; `classifier` is that of `config`, loaded once for many documents."""
    if document.media_type == "text/x-source" or (
        document.media_type == "text/plain" and looks_like_code(document.text, config)
    ):
        found, shares = Identified(language=CODE, script=None, confidence=1.0), {}
    else:
        found = identify(document.text, config)
        shares = language_shares(document.text, found, config, config.min_second_share)
    metrics = {**document.metrics, "language_confidence": round(found.confidence, 6)}
    metrics |= measure(document.text, found.language)
    if config.quality_model is not None:
        metrics["quality"] = (classifier or quality.load(config.quality_model)).score(document.text)
    result = dataclasses.replace(
        document, language=found.language, script=found.script, languages=shares, metrics=metrics
    )
    if config.languages and not wanted(found.language, config.languages):
        evidence: dict[str, str | float | int] = {"language": found.language, "confidence": found.confidence}
        return Dropped(document=result, reason="unwanted_language", evidence=evidence)
    return Kept(document=result)


def process(documents: Iterator[Document], config: LanguageConfig) -> Iterator[Outcome]:
    classifier = quality.load(config.quality_model) if config.quality_model is not None else None
    for document in documents:
        yield label(document, config, classifier)


def quality_digest(config: LanguageConfig) -> dict[str, str]:
    """SHA-256 of the quality model, so that another one measures again. Raises ValueError for one not there."""
    return {} if config.quality_model is None else {"quality_model": quality.digest(config.quality_model)}


STAGE = map_stage(
    name="language",
    module=__name__,
    config=LanguageConfig,
    input="extract",
    process=process,
    summary="language and script of each document, and its metrics",
    raw_inputs=quality_digest,
)

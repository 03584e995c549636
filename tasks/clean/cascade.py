"""The cascade that finds the charset of a record's bytes.

It stops at the first step that reads every byte: byte-order mark, strict UTF-8, the charset declared by the container,
the one in `<meta>`, chardet, and where chardet is unsure the CJK charsets scored by plausibility. A declared charset is
believed only if its text is plausible. Files that change charset midway are read line by line. What no step reads is an
error; nothing is guessed silently: method, confidence and replacements come with the text.

in    bytes, the declared charset
out   Decoded, or UndecodableError with the reason
ref   field report 000: chardet first, below 0.8 confidence GB18030 and Big5-HKSCS; WHATWG Encoding Standard
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import chardet

from tasks.clean.charsets import BOMS, big5_reading, binary_kind, codecs_of, meta_label
from tasks.clean.plausibility import plausibility

CJK_CANDIDATES = ("gb18030", "big5hkscs", "cp950", "cp932", "euc_jp", "cp949", "johab")  # ties go to the earlier
MULTIBYTE = frozenset({*CJK_CANDIDATES, "shift_jisx0213", "euc_jis_2004", "euc_kr", "shift_jis", "gbk", "big5"})
WEAK = frozenset({"cp1252", "latin-1", "iso8859-1", "iso8859-15"})  # servers declare these for everything
ESCAPES = (b"\x1b$", b"\x1b(", b"~{")  # ISO-2022 and HZ are ASCII to a UTF-8 decoder
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufeff\ufffe\uffff]")
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig:
    min_confidence: float = 0.8  # of chardet; below it the CJK candidates are scored (field report 000)
    min_plausibility: float = (
        0.35  # a CJK candidate below it is no text; true files lie above .4, wrong charsets below .3
    )
    max_replacement_ratio: float = 0.01  # of characters that were unreadable; above it the record is quarantined
    detect_bytes: int = 262_144  # chardet sees this much, so that a 50 MB file costs no more than a page

    def __post_init__(self) -> None:
        for key in ("min_confidence", "min_plausibility", "max_replacement_ratio"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"{key} must lie in 0..1, found {getattr(self, key)}: it is a share")
        if self.detect_bytes < 1024:
            raise ValueError(f"detect_bytes ({self.detect_bytes}) is below 1,024: too little to detect a charset")


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Text, and how it was found."""

    text: str
    encoding: str
    method: str  # bom, utf-8, http, meta, chardet, candidate, segments
    confidence: float
    replacements: int = 0  # U+FFFD put in, or an unfinished last character cut off


class UndecodableError(ValueError):
    """The bytes are no text that this module can read; `reason` is the quarantine folder."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason


def strictly(content: bytes, codec: str) -> str | None:
    """`content` decoded without any error, or None."""
    try:
        return content.decode(codec)
    except (UnicodeDecodeError, UnicodeError):
        return None


def decode_bytes(
    content: bytes, declared: str | None = None, html: bool = False, config: DecodeConfig | None = None
) -> Decoded:
    """The text of `content`. Raises UndecodableError when no step of the cascade can read it."""
    config = config or DecodeConfig()
    if not content.strip():
        raise UndecodableError("empty", f"expected text, found {len(content)} bytes of nothing but white space")
    if kind := binary_kind(content):
        raise UndecodableError("binary", f"expected text, found the first bytes of a {kind}")
    for mark, codec in BOMS:
        if content.startswith(mark):
            return _with_bom(content[len(mark) :], codec, config)
    text = strictly(content, "utf-8")
    if text is not None and not any(escape in content for escape in ESCAPES) and b"\0" not in content:
        return Decoded(text=text, encoding="ascii" if text.isascii() else "utf-8", method="utf-8", confidence=1.0)
    guess = _detect(content, config)
    if text is not None:  # UTF-8 that may really be ISO-2022, HZ or UTF-16 of ASCII text
        return _escaped_or_wide(content, text, guess)
    surrogates = _lone_surrogates(content)
    if surrogates is not None:
        return surrogates
    return (
        _mostly_utf8(content)
        or _declared(content, declared, meta_label(content) if html or content[:1] == b"<" else None, guess, config)
        or _segments(content, config)
        or _detected(content, guess, config)
        or _cut_short(content, declared, guess, config)
        or _fail(content, guess)
    )


def _with_bom(body: bytes, codec: str, config: DecodeConfig) -> Decoded:
    text = body.decode(codec, "replace")
    replaced = text.count("\ufffd") - (body.decode(codec, "ignore").count("\ufffd"))
    if replaced > max(1, len(text) * config.max_replacement_ratio):
        raise UndecodableError("undecodable", f"a byte-order mark promises {codec}, but {replaced} sequences are not")
    return Decoded(text=text, encoding=codec, method="bom", confidence=1.0, replacements=replaced)


def _detect(content: bytes, config: DecodeConfig) -> tuple[str | None, float]:
    """chardet's codec (widened) and confidence."""
    found = chardet.detect(content[: config.detect_bytes])
    options = codecs_of(found["encoding"])
    codec = next(
        (option for option in options if strictly(content, option) is not None), options[0] if options else None
    )
    if codec == "big5":
        codec = big5_reading(content.decode("big5", "ignore"))
    return codec, float(found["confidence"] or 0.0)


def _escaped_or_wide(content: bytes, text: str, guess: tuple[str | None, float]) -> Decoded:
    codec, confidence = guess
    if codec and codec.startswith(("iso2022", "hz", "utf-16", "utf-32")):
        other = strictly(content, codec)
        if other is not None and plausibility(other) >= 0:
            return Decoded(text=other, encoding=codec, method="chardet", confidence=confidence)
    controls = len(CONTROL.findall(text)) - text.count("\0")
    if controls * 100 > len(text) - text.count("\0"):  # NULs alone are padding; with other controls it is no text
        raise UndecodableError(
            "binary",
            f"{content.count(0)} NULs and {controls} other controls in {len(content)} bytes, not UTF-16 or UTF-32",
        )
    return Decoded(text=text, encoding="utf-8", method="utf-8", confidence=1.0)


def _lone_surrogates(content: bytes) -> Decoded | None:
    """CESU-8 (surrogate pairs in UTF-8) is mended; a surrogate without its partner is no character of any text."""
    try:
        text = content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    joined = strictly(text.encode("utf-16-le", "surrogatepass"), "utf-16-le")
    if joined is None:
        found = SURROGATE.search(text)
        assert found is not None
        raise UndecodableError(
            "lone_surrogate", f"U+{ord(found.group()):04X} without its partner at character {found.start()}"
        )
    return Decoded(text=joined, encoding="cesu-8", method="utf-8", confidence=1.0)


def _mostly_utf8(content: bytes) -> Decoded | None:
    """UTF-8 with a few broken bytes: at least 20 good multi-byte characters for each bad sequence."""
    ignored = content.decode("utf-8", "ignore")
    good = len(ignored) - len(re.findall(rb"[\x00-\x7f]", content)) if not ignored.isascii() else 0
    text = content.decode("utf-8", "replace")
    bad = len(text) - len(ignored)
    if good < 20 * bad:
        return None
    return Decoded(text=text, encoding="utf-8", method="utf-8", confidence=good / (good + bad), replacements=bad)


def _declared(
    content: bytes, http: str | None, meta: str | None, guess: tuple[str | None, float], config: DecodeConfig
) -> Decoded | None:
    """The text by the charset that header or page declare, when the bytes bear it out."""
    options = []
    for method, label in (("http", http), ("meta", meta)):
        for codec in codecs_of(label):
            text = strictly(content, codec)
            if text is not None and _bears_out(text, codec, config):
                options.append(Decoded(text=text, encoding=codec, method=method, confidence=0.9))
                break
    if not options:
        return None
    best = next((option for option in options if option.encoding not in WEAK), options[0])
    if len(options) == 2 and options[0].encoding == options[1].encoding:
        return Decoded(text=best.text, encoding=best.encoding, method=best.method, confidence=0.95)
    if best.encoding in WEAK and guess[0] and guess[0] != best.encoding and guess[1] >= config.min_confidence:
        return None  # chardet is sure that the server's default is wrong
    return best


def _bears_out(text: str, codec: str, config: DecodeConfig) -> bool:
    if codec in MULTIBYTE:
        return plausibility(text) >= config.min_plausibility
    return len(CONTROL.findall(text)) * 1000 <= len(text)


def _detected(content: bytes, guess: tuple[str | None, float], config: DecodeConfig) -> Decoded | None:
    """chardet where it is sure; else the most plausible CJK charset; else chardet all the same, with its own doubt."""
    codec, confidence = guess
    text = strictly(content, codec) if codec else None
    sure = confidence >= config.min_confidence and text is not None
    if (
        sure
        and text is not None
        and codec
        and (codec not in MULTIBYTE or plausibility(text) >= config.min_plausibility)
    ):
        return Decoded(text=text, encoding=codec, method="chardet", confidence=confidence)
    options = []
    for order, candidate in enumerate(dict.fromkeys(([codec] if codec in MULTIBYTE else []) + list(CJK_CANDIDATES))):
        decoded = strictly(content, candidate) if candidate else None
        if decoded is not None:
            options.append((round(plausibility(decoded), 3), -order, candidate, decoded))
    if options:
        score, _, candidate, decoded = max(options)
        if score >= config.min_plausibility and (
            text is None or codec in MULTIBYTE or score > plausibility(text) + 0.3
        ):
            method = "chardet" if candidate == codec else "candidate"
            return Decoded(text=decoded, encoding=candidate, method=method, confidence=max(0.0, min(1.0, score)))
    if text is not None and codec and len(CONTROL.findall(text)) * 100 <= len(text) and confidence >= 0.05:
        return Decoded(text=text, encoding=codec, method="chardet", confidence=confidence)
    return None


def _segments(content: bytes, config: DecodeConfig) -> Decoded | None:
    """A file that is UTF-8 in some lines and a CJK charset in the others."""
    lines = content.split(b"\n")
    utf8 = [line for line in lines if not line.isascii() and strictly(line, "utf-8") is not None]
    if _readable(utf8, "utf-8") < config.min_plausibility:  # chance: short lines of other charsets are valid UTF-8
        return None
    legacy = [line for line in lines if strictly(line, "utf-8") is None]
    if len(utf8) < 2 or sum(map(len, utf8)) * 20 < len(content):
        return None
    codec = max(CJK_CANDIDATES, key=lambda candidate: _readable(legacy, candidate))
    text = "\n".join(_line(line, codec) for line in lines)
    bad, score = text.count("\ufffd"), plausibility(text)
    if bad > len(text) * config.max_replacement_ratio or score < config.min_plausibility:
        return None
    return Decoded(
        text=text, encoding=f"utf-8+{codec}", method="segments", confidence=min(1.0, score), replacements=bad
    )


def _readable(lines: list[bytes], codec: str) -> float:
    return plausibility("".join(line.decode(codec, "replace") for line in lines))


def _line(line: bytes, codec: str) -> str:
    """One line, in UTF-8, in `codec`, or changing from the one to the other inside."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        whole = line.decode(codec, "replace")
        split = line[: error.start].decode("utf-8") + line[error.start :].decode(codec, "replace")
        return split if plausibility(split) > plausibility(whole) else whole


def _cut_short(
    content: bytes, declared: str | None, guess: tuple[str | None, float], config: DecodeConfig
) -> Decoded | None:
    """A multi-byte text with its last character cut off, or with few enough unreadable sequences."""
    options = []
    for codec in dict.fromkeys([*codecs_of(declared), *([guess[0]] if guess[0] else []), *CJK_CANDIDATES]):
        text = content.decode(codec, "replace")
        bad = text.count("\ufffd")
        if codec in MULTIBYTE and 0 < bad <= max(1, len(text) * config.max_replacement_ratio):
            options.append((round(plausibility(text), 3), codec, text, bad))
    if not options:
        return None
    score, codec, text, bad = max(options, key=lambda option: option[0])
    if score < config.min_plausibility:
        return None
    if text.endswith("\ufffd"):
        text = text[:-1]
    return Decoded(text=text, encoding=codec, method="candidate", confidence=min(1.0, score), replacements=bad)


def _fail(content: bytes, guess: tuple[str | None, float]) -> Decoded:
    if b"\0" in content:
        raise UndecodableError(
            "binary", f"{content.count(0)} of {len(content)} bytes are NUL and no charset reads them"
        )
    raise UndecodableError(
        "undecodable",
        f"no charset reads these {len(content)} bytes as plausible text; chardet's best is {guess[0]} ({guess[1]:.2f})",
    )

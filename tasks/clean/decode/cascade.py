"""The cascade that finds the charset of a record's bytes.

It stops at the first step that reads every byte: byte-order mark, strict UTF-8, the charset declared by the container,
the one in `<meta>`, chardet (`detect`), and where chardet is unsure the CJK charsets scored by plausibility. A declared
charset is believed only if its text is plausible. Files that change charset midway are read line by line. What no step
reads is an error; nothing is guessed silently: method, confidence and replacements come with the text.

in    bytes, the declared charset
out   Decoded, or UndecodableError with the reason
ref   field report 000: chardet first, below 0.8 confidence GB18030 and Big5-HKSCS; WHATWG Encoding Standard
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tasks.clean.decode.charsets import BOMS, binary_kind, codecs_of, meta_label
from tasks.clean.decode.decoded import (
    CJK_CANDIDATES,
    CONTROL,
    MULTIBYTE,
    DecodeConfig,
    Decoded,
    UndecodableError,
    strictly,
)
from tasks.clean.decode.detect import Guess, guess_charset
from tasks.clean.decode.plausibility import ascii_length, disorder, plausibility
from tasks.clean.decode.segments import by_segments
from tasks.clean.decode.wide import wide_reading

__all__ = ["CONTROL", "DecodeConfig", "Decoded", "UndecodableError", "decode_bytes"]

WEAK = frozenset({"cp1252", "latin-1", "iso8859-1", "iso8859-15"})  # servers declare these for everything
ESCAPES = (b"\x1b$", b"\x1b(", b"~{")  # ISO-2022 and HZ are ASCII to a UTF-8 decoder
MAX_BYTES_WITHOUT_NUL = 4_096  # of UTF-16: every space, digit and newline has one
CONTROL_BYTES = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")  # all but tab, newlines, escape
OWN_ANSWER = 0.3  # what chardet's confidence adds to the plausibility of its own CJK answer
MIN_ORDERLY, MAX_DISORDER = 0.05, 0.1
SURROGATE = re.compile("[\ud800-\udfff]")


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
    if _may_be_wide(content) and (wide := wide_reading(content)):
        return wide
    text = strictly(content, "utf-8")
    if text is not None and not any(escape in content for escape in ESCAPES) and b"\0" not in content:
        return Decoded(text=text, encoding="ascii" if text.isascii() else "utf-8", method="utf-8", confidence=1.0)
    if text is not None:  # UTF-8 that may really be ISO-2022, HZ or UTF-16 of ASCII text
        return _escaped_or_wide(content, text, guess_charset(content, config))
    surrogates = _lone_surrogates(content)
    if surrogates is not None:
        return surrogates
    meta = meta_label(content) if html or content[:1] == b"<" else None
    return _legacy(content, declared, meta, config)


def _may_be_wide(content: bytes) -> bool:
    """Whether `content` has a NUL, or is a short piece with controls: the high bytes of Thai or Hindi in UTF-16."""
    return b"\0" in content or (len(content) <= MAX_BYTES_WITHOUT_NUL and CONTROL_BYTES.search(content) is not None)


def _legacy(content: bytes, declared: str | None, meta: str | None, config: DecodeConfig) -> Decoded:
    """The text of bytes that are not UTF-8 throughout."""

    @cache
    def guess() -> Guess:  # chardet costs more than all other steps: asked only by the step that needs it
        return guess_charset(content, config)

    return (
        _mostly_utf8(content)
        or _declared(content, declared, meta, guess, config)
        or by_segments(content, config)
        or _wide_without_nul(content, guess())
        or _detected(content, guess(), config)
        or _cut_short(content, declared, guess(), config)
        or _fail(content, guess())
    )


def _wide_without_nul(content: bytes, guess: Guess) -> Decoded | None:
    """UTF-16 of a text without a space or newline in it, where no other charset makes good text of the bytes."""
    if (
        len(content) > MAX_BYTES_WITHOUT_NUL
        or b"\0" in content
        or (guess.text is not None and plausibility(guess.text) >= 0.5)
    ):
        return None
    return wide_reading(content)


def _with_bom(body: bytes, codec: str, config: DecodeConfig) -> Decoded:
    text = body.decode(codec, "replace")
    replaced = text.count("\ufffd") - (body.decode(codec, "ignore").count("\ufffd"))
    if replaced > max(1, len(text) * config.max_replacement_ratio):
        raise UndecodableError("undecodable", f"a byte-order mark promises {codec}, but {replaced} sequences are not")
    return Decoded(text=text, encoding=codec, method="bom", confidence=1.0, replacements=replaced)


def _escaped_or_wide(content: bytes, text: str, guess: Guess) -> Decoded:
    codec, confidence = guess.codec, guess.confidence
    if codec and codec.startswith(("iso2022", "hz", "utf-16", "utf-32")):
        other = strictly(content, codec)
        if other is not None and (plausibility(other) >= 0 or disorder(other) < 0.1):
            return Decoded(text=other, encoding=codec, method=guess.method, confidence=confidence)
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
    good = len(ignored) - ascii_length(ignored)
    text = content.decode("utf-8", "replace")
    bad = len(text) - len(ignored)
    if good < 20 * bad:
        return None
    return Decoded(text=text, encoding="utf-8", method="utf-8", confidence=good / (good + bad), replacements=bad)


def _declared(
    content: bytes, http: str | None, meta: str | None, guess: Callable[[], Guess], config: DecodeConfig
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
    if best.encoding in WEAK:
        other = guess()
        if other.codec and other.codec != best.encoding and other.confidence >= config.min_confidence:
            return None  # the guess is sure that the server's default is wrong
        if other.method == "candidate":  # sure as well: no other charset came near
            return None
    return best


def _bears_out(text: str, codec: str, config: DecodeConfig) -> bool:
    if codec in MULTIBYTE:
        return plausibility(text) >= config.min_plausibility
    return len(CONTROL.findall(text)) * 1000 <= len(text)


def _fits(guess: Guess, text: str, config: DecodeConfig) -> bool:
    by_plausibility = guess.method == "candidate"  # then it was measured already
    return by_plausibility or guess.codec not in MULTIBYTE or plausibility(text) >= config.min_plausibility


def _detected(content: bytes, guess: Guess, config: DecodeConfig) -> Decoded | None:
    """The guess where it is sure; else the most plausible CJK charset; else the guess, with its own doubt."""
    codec, confidence, text = guess.codec, guess.confidence, guess.text
    sure = guess.method == "candidate" or confidence >= config.min_confidence
    if sure and text is not None and codec and _fits(guess, text, config):
        return Decoded(text=text, encoding=codec, method=guess.method, confidence=confidence)
    options = []
    for order, candidate in enumerate(dict.fromkeys(([codec] if codec in MULTIBYTE else []) + list(CJK_CANDIDATES))):
        decoded = strictly(content, candidate) if candidate else None
        if decoded is not None:
            score = plausibility(decoded)
            bonus = OWN_ANSWER * confidence if candidate == codec else 0.0
            options.append((round(score + bonus, 3), -order, score, candidate, decoded))
    if options:
        _, _, score, candidate, decoded = max(options)
        if score >= config.min_plausibility and (
            text is None or codec in MULTIBYTE or score > max(confidence, plausibility(text) + 0.3)
        ):
            method = "chardet" if candidate == codec else "candidate"
            return Decoded(text=decoded, encoding=candidate, method=method, confidence=max(0.0, min(1.0, score)))
    if text is not None and codec and len(CONTROL.findall(text)) * 100 <= len(text):
        if confidence < MIN_ORDERLY and disorder(text) > MAX_DISORDER:
            return None
        return Decoded(text=text, encoding=codec, method=guess.method, confidence=confidence)
    return None


def _cut_short(content: bytes, declared: str | None, guess: Guess, config: DecodeConfig) -> Decoded | None:
    """A multi-byte text with its last character cut off, or with few enough unreadable sequences."""
    options = []
    for codec in dict.fromkeys([*codecs_of(declared), *([guess.codec] if guess.codec else []), *CJK_CANDIDATES]):
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


def _fail(content: bytes, guess: Guess) -> Decoded:
    if b"\0" in content:
        raise UndecodableError(
            "binary", f"{content.count(0)} of {len(content)} bytes are NUL and no charset reads them"
        )
    raise UndecodableError(
        "undecodable",
        f"no charset reads these {len(content)} bytes as plausible text; "
        f"chardet's best is {guess.codec} ({guess.confidence:.2f})",
    )

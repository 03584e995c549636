"""Find and mask what identifies a person: e-mail, phone, Chinese identity and bank-card numbers, IP addresses.

Precision comes from check digits, allocation tables and shape, never from the regular expression `\\b`, which Chinese
text lacks: a number counts only where no further digit, letter or decimal point touches it. Full-width digits are read
as ASCII ones. What is nobody's stays: private, documentation and loopback addresses, example.com, numbers reserved for
fiction. Addresses whose four numbers are all below 32 stay too: 1 address in 4,096 looks so, and nearly every section
number. Names, postal addresses and obfuscated e-mail are not looked for; national phone forms are known for China,
Taiwan and North America, all others with their country code or after a word such as "Tel".

in    str, or a Document that the filter keeps
out   the same with `<EMAIL>`, `<PHONE>`, `<CN_ID>`, `<BANK_CARD>`, `<IP>`; metrics pii_email, … count them
ref   Penedo et al. 2024 (FineWeb), arXiv:2406.17557 (e-mail and public IP addresses); `pii_numbers.py`
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tasks.clean.filter.pii_numbers import is_arithmetic, is_bank_card, is_cn_id, phones
from tasks.document import Document, Dropped, Kept, Outcome

KINDS = ("cn_id", "bank_card", "email", "phone", "ip")  # where two claim a span, the earlier has it
Action = Literal["mask", "drop", "off"]

WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms of ASCII
WIDE_MARKS = "０１２３４５６７８９＠"
SEPARATOR = "[ \u00a0().\\-–—－（）]"
RUN = re.compile(rf"[0-9](?:{SEPARATOR}{{0,2}}[0-9]){{4,}}[Xx]?")  # five digits or more with little between them
ALONE = "(?<![0-9A-Za-z_.])(?<![0-9][-–—+])(?<![A-Za-z0-9]/)"
END = "(?![0-9A-Za-z_])(?![.-][0-9])"
CN_ID = re.compile(rf"{ALONE}[1-8][0-9]{{5}}([ -]?)[0-9]{{8}}\1[0-9]{{3}}[0-9Xx]{END}|{ALONE}[1-8][0-9]{{14}}{END}")
BANK_CARD = re.compile(
    rf"""{ALONE}(?:[0-9]{{15,19}}
    |(?<![0-9]\ )(?:[0-9]{{4}}([ -])[0-9]{{4}}\1[0-9]{{4}}\1[0-9]{{4}}(?:\1[0-9]{{1,3}})?  # as most are printed
    |[0-9]{{6}}([ -])[0-9]{{13}}                                                         # UnionPay's other form
    |3[0-9]{{3}}([ -])[0-9]{{6}}\3[0-9]{{4,5}}                                           # American Express, Diners
    |4[0-9]{{3}}([ -])[0-9]{{3}}\4[0-9]{{3}}\4[0-9]{{3}})(?!\ [0-9])){END}""",
    re.VERBOSE,
)
IPV4 = re.compile(r"(?<![0-9A-Za-z_.])(?<![A-Za-z]-)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z_])(?!\.[0-9])", re.ASCII)
VERSION = re.compile(r"(?:\bv|\bver\.?|version|release|build|版本号?|版)[ :：=]*$", re.ASCII | re.IGNORECASE)
COLONS = re.compile(":(?::|[0-9A-Fa-f]{1,4}:)")  # in every IPv6 address; much faster to look for than IPV6
# 2000::/3 is all that IANA has given out as global unicast: two hexadecimal letters and "::" occur in program text.
IPV6 = re.compile(r"[23](?<![\w:.][23])[0-9A-Fa-f]{3}:[0-9A-Fa-f:]*[0-9A-Fa-f:](?!\w)", re.ASCII)
DOMAIN = re.compile(r"@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+([A-Za-z]{2,24}))(?![A-Za-z0-9_(-])")
LOCAL = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_][A-Za-z0-9._%+'-]{0,63}$")
TOP_LEVEL_NAMES = (  # besides every pair of letters; more would take `weights@x.shape` for an address
    "com org net edu gov mil int info biz name pro mobi asia xyz online site top club shop vip work tech store dev app "
    "cloud live link email jobs travel news blog wiki design world space website fun icu ltd group art digital life "
    "today host press ink wang ren"
)
TOP_LEVEL = frozenset(TOP_LEVEL_NAMES.split())
RESERVED = re.compile(r"(?:^|\.)(?:example(?:\.(?:com|net|org|edu))?|test|invalid|localhost)$", re.I)  # RFC 2606
MIN_OCTET = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class PiiConfig:
    email: Action = "mask"  # mask: replace; drop: the document goes; off: not looked for
    phone: Action = "mask"
    cn_id: Action = "mask"
    bank_card: Action = "mask"
    ip: Action = "mask"
    in_code: bool = True  # also in documents of language "code": licence headers carry the addresses of authors
    placeholders: dict[str, str] = field(default_factory=dict)  # kind: what stands in its place; default "<KIND>"

    def __post_init__(self) -> None:
        for kind, placeholder in self.placeholders.items():
            if kind not in KINDS:
                raise ValueError(f"placeholders: expected one of {', '.join(KINDS)}, found {kind!r}")
            if re.search(r"[0-9０-９@＠:+.]", placeholder):
                raise ValueError(
                    f"placeholders.{kind}: {placeholder!r} has a digit or one of @:+. and could be masked again; "
                    "use letters and brackets"
                )

    def placeholder(self, kind: str) -> str:
        return self.placeholders.get(kind, f"<{kind.upper()}>")


class Span(NamedTuple):
    """Half-open range of characters, and what is there."""

    start: int
    end: int
    kind: str


def spans(text: str) -> list[Span]:
    """All that was found in `text`, in order and disjoint."""
    if any(map(text.__contains__, WIDE_MARKS)):
        text = text.translate(WIDE)  # one character for one: the places stay
    found = list(_emails(text)) if "@" in text else []
    if COLONS.search(text):
        found += _ipv6(text)
    for run in RUN.finditer(text):
        found += _numbers(text, run.start(), run.end())
    disjoint: list[Span] = []
    for span in sorted(found, key=lambda s: (s.start, KINDS.index(s.kind), -s.end)):
        if not disjoint or span.start >= disjoint[-1].end:
            disjoint.append(span)
    return disjoint


def _numbers(text: str, start: int, end: int) -> Iterator[Span]:
    """What is in and around one run of digits."""
    digits = sum(map(str.isdigit, text[start:end]))
    if text.count(".", start, end) >= 3:
        for match in IPV4.finditer(text, start, end + 2):
            if is_public_ipv4(match[0]) and not VERSION.search(text, max(0, match.start() - 12), match.start()):
                yield Span(match.start(), match.end(), "ip")
    if digits >= 13:
        for pattern, accept, kind in ((CN_ID, is_cn_id, "cn_id"), (BANK_CARD, is_bank_card, "bank_card")):
            for match in pattern.finditer(text, start, end + 2):
                # 18 digits with the check digit of an identity number speak for themselves.
                bare = match[0].isdigit() and (kind == "bank_card" or len(match[0]) == 15)
                if accept(match[0]) and not (bare and is_arithmetic(text, *match.span())):
                    yield Span(match.start(), match.end(), kind)
    if digits >= 7:
        for first, last in phones(text, start, end, digits):
            yield Span(first, last, "phone")


def is_public_ipv4(text: str) -> bool:
    """Whether a dotted quad is an address on the public internet, and not rather a section or version number."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and max(address.packed) >= MIN_OCTET


def _ipv6(text: str) -> Iterator[Span]:
    for match in IPV6.finditer(text):
        found = match[0] if match[0].endswith("::") else match[0].rstrip(":")
        try:
            if ipaddress.IPv6Address(found).is_global:
                yield Span(match.start(), match.start() + len(found), "ip")
        except ValueError:  # a time, a hash, a qualified name
            continue


def _emails(text: str) -> Iterator[Span]:
    for match in DOMAIN.finditer(text):
        at = match.start()
        local = LOCAL.search(text, max(0, at - 64), at)
        if local is None or RESERVED.search(match[1]):
            continue
        if local[0] == "git":  # the user in the address of a repository
            continue
        if len(match[2]) == 2 or match[2].lower() in TOP_LEVEL:
            yield Span(local.start(), match.end(), "email")


def mask(text: str, config: PiiConfig) -> tuple[str, dict[str, int]]:
    """`text` with placeholders, and how many of each kind that is not off were found. Masking again changes nothing."""
    wanted = {kind for kind in KINDS if getattr(config, kind) != "off"}
    counts = dict.fromkeys(sorted(wanted), 0)
    while found := [span for span in spans(text) if span.kind in wanted]:  # a gap may free a number that touched it
        pieces, end = [], 0
        for span in found:
            counts[span.kind] += 1
            pieces += [text[end : span.start], config.placeholder(span.kind)]
            end = span.end
        text = "".join([*pieces, text[end:]])
    return text, counts


def masked(document: Document, config: PiiConfig) -> Outcome:
    """The one outcome of `document`: kept with its text masked, or dropped where the config says so.

    No outcome holds the text of a span: a dropped document is masked too, and the evidence is a count.
    """
    if document.language == "code" and not config.in_code:
        return Kept(document=document)
    text, counts = mask(document.text, config)
    metrics = {**document.metrics, **{f"pii_{kind}": float(count) for kind, count in counts.items()}}
    result = dataclasses.replace(document, text=text, metrics=metrics)
    for kind, count in counts.items():
        if count and getattr(config, kind) == "drop":
            return Dropped(document=result, reason=f"pii_{kind}", evidence={"kind": kind, "count": count})
    return Kept(document=result)

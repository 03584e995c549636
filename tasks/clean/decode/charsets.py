"""Which codec a label means, and what a document says about its own charset.

Labels on the web are used loosely: "gb2312" pages hold GBK and GB18030, "big5" pages hold Microsoft's and Hong Kong's
extensions, "iso-8859-1" means Windows-1252. So a label maps to the codecs that
read what it promises and what such pages really hold.

in    bytes, labels from HTTP headers, <meta> or an XML declaration
out   Python codec names that exist in this interpreter
ref   WHATWG Encoding Standard, section 4.2 (labels); HTML Standard, section 13.2.3.2 (prescan, charset by language)
"""

from __future__ import annotations

import codecs
import re

BOMS = (  # longest first: the UTF-32-LE mark begins with the UTF-16-LE one
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
MAGIC = (  # first bytes of what is surely not text
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b\x08", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\x7fELF", "ELF program"),
    (b"wOFF", "web font"),
    (b"wOF2", "web font"),
)
WIDER = {  # codec -> the codecs to try for it; where they disagree on a character, the label's own reading first
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "big5": ("big5", "cp950", "big5hkscs"),
    "cp950": ("cp950", "big5hkscs"),
    "big5hkscs": ("big5hkscs", "cp950"),
    "iso8859-1": ("cp1252",),
    "ascii": ("cp1252",),
    "shift_jis": ("shift_jis", "cp932", "shift_jisx0213"),
    "cp932": ("cp932", "shift_jisx0213"),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
    "euc_kr": ("euc_kr", "cp949"),
    "iso8859-8": ("cp1255", "iso8859-8"),
    "iso8859-9": ("cp1254",),
    "tis-620": ("cp874",),
    "iso8859-11": ("cp874",),
    "utf-8-sig": ("utf-8",),
}
FAMILY = {  # codec -> the narrowest label of its family; undeclared bytes are read by the first that reads them all
    "cp950": "big5",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "shift_jisx0213": "shift_jis",
    "shift_jis_2004": "shift_jis",
    "euc_jis_2004": "euc_jp",
    "euc_jisx0213": "euc_jp",
    "cp949": "euc_kr",
}
WEB_LABELS = {  # labels of the WHATWG table that Python does not know
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "x-gbk": "gb18030",
    "x-euc-jp": "euc_jp",
    "x-x-big5": "big5",
    "ks_c_5601-1987": "cp949",
    "windows-949": "cp949",
    "windows-874": "cp874",
    "x-cp1251": "cp1251",
    "x-cp1252": "cp1252",
    "x-mac-cyrillic": "mac-cyrillic",
    "unicode-1-1-utf-8": "utf-8",
    "utf8mb4": "utf-8",
}
CENTRAL = ("cp1250", "iso8859-2")
CYRILLIC = ("cp1251", "koi8-r", "iso8859-5")
CHARSETS_OF_LANGUAGE = {  # of pages in languages that have one of their own; Western ones name themselves too freely
    **dict.fromkeys(("cs", "hr", "hu", "pl", "ro", "sk", "sl", "bs", "sq"), CENTRAL),
    **dict.fromkeys(("ru", "be", "bg", "mk"), CYRILLIC),
    **dict.fromkeys(("et", "lt", "lv"), ("cp1257", "iso8859-13", "iso8859-4")),
    "uk": ("cp1251", "koi8-u", "iso8859-5"),
    "sr": (*CENTRAL, *CYRILLIC),
    "el": ("cp1253", "iso8859-7"),
    "tr": ("cp1254",),
    "he": ("cp1255",),
    "ar": ("cp1256", "iso8859-6"),
    "fa": ("cp1256",),
    "vi": ("cp1258",),
    "th": ("cp874",),
}
LANG = re.compile(rb"<[a-z][^<>]{0,400}?\slang\s*=\s*[\"']?([A-Za-z]{2})\b", re.IGNORECASE)
META = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w:.\-]+)", re.IGNORECASE)
XML_DECLARATION = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w:.\-]+)", re.IGNORECASE)
BULLET_INSIDE_WORD = re.compile(r"\w•\w")
TILDE_OPERATOR = "\u223c"  # byte pair A1E3 in the standard; to Microsoft the full-width tilde of every "from～to"
PRESCAN_BYTES = 4096  # HTML asks for 1,024; real pages put scripts before their <meta>


def codecs_of(label: str | None) -> tuple[str, ...]:
    """Python codecs to try for a charset label, best first; empty when the label means nothing here."""
    if not label:
        return ()
    label = label.strip().strip("\"'").lower()
    try:
        info = codecs.lookup(WEB_LABELS.get(label, label))
    except (LookupError, ValueError):
        return ()
    if not info._is_text_encoding or info.name in ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7"):
        return ()
    return WIDER.get(info.name, (info.name,))


def family_of(label: str | None) -> tuple[str, ...]:
    """Python codecs to try for a charset that was guessed, not declared: its family, narrowest first."""
    options = codecs_of(label)
    return codecs_of(FAMILY[options[0]]) if options and options[0] in FAMILY else options


def big5_reading(text: str) -> str:
    """Which reading of Big5 made sense of `text` (decoded as "big5"): the standard's or Microsoft's.

    They disagree on eleven symbols. Byte pair A145 is a bullet in the one and a decimal or name point in the other, and
    only the latter stands between two characters of a word. The tilde is another, as
    the operator hardly occurs in prose. The other nine leave no such trace: the label decides.
    """
    return "cp950" if TILDE_OPERATOR in text or BULLET_INSIDE_WORD.search(text) else "big5"


def meta_label(content: bytes) -> str | None:
    """The charset that the head of an HTML page or an XML declaration names.

    UTF-16 or UTF-32 there is a lie, since the label itself was found as ASCII bytes.
    """
    head = content[:PRESCAN_BYTES]
    found = META.search(head) or XML_DECLARATION.search(head)
    if found is None:
        return None
    label = found.group(1).decode("ascii", "replace")
    return None if label.lower().startswith(("utf-16", "utf-32", "utf16", "ucs")) else label


def charsets_of_page(content: bytes) -> tuple[str, ...]:
    """The single-byte charsets of the language that an HTML page states; empty for none and for Western ones."""
    found = LANG.search(content[: 4 * PRESCAN_BYTES])
    return CHARSETS_OF_LANGUAGE.get(found.group(1).decode().lower(), ()) if found else ()


def binary_kind(content: bytes) -> str | None:
    """What kind of non-text file `content` begins like, or None."""
    return next((kind for magic, kind in MAGIC if content.startswith(magic)), None)

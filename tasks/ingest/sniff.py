"""What a file is: its content first, its name second.

Magic bytes settle containers and images whatever the name says; a text file's own beginning settles HTML; only then
does the extension choose between Markdown, source code, JSON lines and plain text. A text in a legacy encoding must
never pass for binary, so the test for that is lenient: what it lets through, decode will judge with care.
"""

from __future__ import annotations

import codecs
import re

SNIFF_BYTES = 8192
BINARY_MAGIC = (
    b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"%PDF-", b"PK\x03\x04", b"PK\x05\x06", b"\x7fELF",
    b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\0asm", b"wOFF", b"wOF2", b"OTTO\0", b"\0\1\0\0\0",
    b"SQLite format 3\0", b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c", b"OggS\0", b"fLaC\0", b"ID3\x03", b"ID3\x04",
    b"II*\0", b"MM\0*", b"\0\0\1\0", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"!<arch>\n", b"\x93NUMPY", b"\x89HDF\r\n",
    b"\x80\x04\x95", b"\xde\x12\x04\x95", b"\x1aE\xdf\xa3", b"8BPS\0",
)  # fmt: skip
BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
MAX_CONTROL = 0.08  # of the sample without zeros. Random bytes: 10 % (25 of 256); UTF-16 Chinese, no BOM: up to 5 %
CONTROL = bytes(set(range(1, 32)) - set(b"\t\n\v\f\r\b\x0e\x0f\x1a\x1b")) + b"\x7f"  # SO, SI, ESC: ISO-2022; SUB: DOS
HTML = re.compile(  # atomic groups: a run of comments must not make it try every way to pair them
    rb"(?>(?><\?xml[^>]{0,200}\?>)|(?><!--.{0,2000}?-->)|\s)*+<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE | re.DOTALL
)

MARKDOWN = frozenset(("md", "markdown", "mdown", "mkd", "mdx"))
HTML_NAMES = frozenset(("html", "htm", "xhtml", "xht", "shtml"))
JSON_LINES = frozenset(("jsonl", "ndjson", "jsonlines"))
SOURCE_CODE = frozenset(
    """
    py pyi pyx c h cc cpp cxx hpp hh cu cuh rs go java kt kts scala js jsx mjs cjs ts tsx vue svelte rb php pl
    pm lua r jl swift m mm cs fs fsx vb sh bash zsh fish ps1 bat sql css scss less toml yaml yml ini cfg conf
    xml xsl xsd proto cmake mk tex bib hs ml mli ex exs erl clj lisp el scm vim awk asm s f f90 for pas d nim
    zig dart groovy gradle tf json json5 ipynb diff patch pxd in sol v vhd sv
    """.split()  # noqa: SIM905
)
SOURCE_NAMES = frozenset(("makefile", "dockerfile", "cmakelists.txt", "rakefile", "gemfile", "jenkinsfile"))
COMPRESSION_NAMES = frozenset(("gz", "zst", "bz2", "xz", "lz4", "zstd", "tgz"))


def extension_of(name: str) -> str:
    """The extension in lower case, without those of compression: "a.JSONL.gz" gives "jsonl"."""
    parts = name.rsplit("/", 1)[-1].lower().split(".")
    while len(parts) > 1 and parts[-1] in COMPRESSION_NAMES:
        parts.pop()
    return parts[-1] if len(parts) > 1 else ""


def container_of(head: bytes) -> str | None:
    """warc, arc, tar or parquet, when the first bytes say so."""
    if head.startswith(b"WARC/"):
        return "warc"
    if head.startswith(b"filedesc://"):
        return "arc"
    if head.startswith(b"PAR1"):
        return "parquet"
    return "tar" if head[257:262] == b"ustar" else None


def is_binary(head: bytes) -> bool:
    """The content cannot be text in any encoding."""
    if head.startswith(BINARY_MAGIC) or (head.startswith(b"RIFF") and head[8:12] in (b"WEBP", b"WAVE", b"AVI ")):
        return True
    if head[4:8] == b"ftyp" or head[1:4] in (b"\r\r\n", b"\x0e\r\n"):  # mp4; CPython bytecode
        return True
    if head.startswith(BOMS) or not head:
        return False
    text = head.replace(b"\0", b"")  # zeros: UTF-16, UTF-32, or holes in a text that decode will judge
    control = len(text) - len(text.translate(None, CONTROL))
    return not text or control > MAX_CONTROL * len(text)


def is_html(head: bytes) -> bool:
    """An HTML document begins here (also in UTF-16)."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = head.replace(b"\0", b"")[2:]
    return HTML.match(head.removeprefix(codecs.BOM_UTF8)) is not None


def media_type_of(head: bytes, name: str) -> str:
    """The media type of a text document that begins with `head`."""
    extension, base = extension_of(name), name.rsplit("/", 1)[-1].lower()
    if extension in SOURCE_CODE or base in SOURCE_NAMES:
        # XHTML is often named .xml
        return "text/html" if extension == "xml" and is_html(head) else "text/x-source"
    if is_html(head) or extension in HTML_NAMES:
        return "text/html"
    return "text/markdown" if extension in MARKDOWN else "text/plain"

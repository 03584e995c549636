"""Build the bundled sample: pack the plain texts of `sample/texts` and `sample/code` into every form that ingest reads.

All words are this project's own, so the bundle can be given away under CC0. The forms (encodings, pages, WARC,
JSON Lines, Parquet, tar) and the planted cases (duplicates, damage, contamination) are made here rather than by
hand, because a byte that somebody typed cannot be explained later. `EXPECTED.jsonl` says what every file and
record is and what should become of it; the pipeline never reads it.

The same texts give the same bytes: no clock, no random state but fixed seeds, archives without dates. The
compressed files also depend on the versions of zlib, zstandard and pyarrow in the lock.

in    sample/texts/*.txt   UTF-8, documents under "=== id | title"; stories.yaml, templates.yaml; sample/code/*
out   sample/{plain,notes,code,pages,crawl,records,duplicates,broken}/** and EXPECTED.jsonl; eval.jsonl is by hand
run   python recipes/make_sample.py [FOLDER]
"""

from __future__ import annotations

import gzip
import html
import io
import json
import random
import shutil
import struct
import sys
import tarfile
import unicodedata
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import opencc
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zstandard

SAMPLE = Path(__file__).resolve().parent / "sample"
LANGUAGES = ("en", "zh-Hans", "zh-Hant", "ja", "ko", "de", "fr", "es", "ru", "ar")
LICENCE = "CC0-1.0"
MADE_FOLDERS = ("plain", "notes", "pages", "crawl", "records", "duplicates", "broken")
LONG_LINE_BYTES = 3 << 20  # above the recipe's ingest.max_record_bytes; a run of one word, so about 10 KB as gzip


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One plain text of our own."""

    id: str
    title: str
    language: str
    body: str


@dataclass(kw_only=True, slots=True)
class Bundle:
    """The files made so far, what is expected of them, and the texts not yet packed."""

    files: dict[str, bytes] = field(default_factory=dict)
    expected: list[dict] = field(default_factory=list)
    queues: dict[str, list[Text]] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)
    home: dict[str, dict] = field(default_factory=dict)  # text id -> file and record that hold its first copy

    def take(self, language: str, count: int = 1) -> list[Text]:
        """The next texts of a language, in the order they were written down."""
        queue = self.queues[language]
        if len(queue) < count:
            raise ValueError(f"texts: {count} more in {language!r} were asked for, {len(queue)} are left; write more")
        taken, self.queues[language] = queue[:count], queue[count:]
        return taken

    def add(self, name: str, data: bytes, what: str, records: list[dict], **facts: object) -> None:
        """Add a file and a line of EXPECTED for it and for each of its records."""
        if name in self.files:
            raise ValueError(f"{name}: made twice; give the second file another name")
        self.files[name] = data
        self.expected.append({"file": name, "what": what, "records": len(records), "bytes": len(data), **facts})
        for number, record in enumerate(records):
            row = {"file": name, "record": number, **record}
            self.expected.append(row)
            if "text" in row and "of" not in row:
                self.home.setdefault(row["text"], row)


def kept(text: Text, **facts: object) -> dict:
    """The line of EXPECTED for a record that holds `text` and should survive."""
    return {"text": text.id, "language": text.language, "fate": "kept", **facts}


def read_texts(path: Path, language: str) -> list[Text]:
    """The documents of one file of plain texts."""
    texts = []
    for chunk in path.read_text(encoding="utf-8").split("=== ")[1:]:
        head, _, body = chunk.partition("\n")
        name, _, title = head.partition(" | ")
        texts.append(Text(id=name, title=title, language=language, body=body.strip() + "\n"))
    return texts


def compose_stories(folder: Path) -> list[Text]:
    """Short tales, each from one paragraph of every slot; two tales share at most a few paragraphs."""
    banks = yaml.safe_load((folder / "stories.yaml").read_text(encoding="utf-8"))
    texts = []
    for bank in banks:
        rng = random.Random(f"{bank['name']}-1")
        orders = {slot: rng.sample(range(len(options)), len(options)) for slot, options in bank["slots"].items()}
        for number in range(bank["count"]):
            hero = bank["heroes"][number % len(bank["heroes"])]
            parts = []
            for step, (slot, options) in enumerate(bank["slots"].items()):
                # Each slot turns at its own pace, so that the same pair of paragraphs seldom meets again.
                turn = number * (step + 1) + number // len(options) * (step + 2)
                parts.append(options[orders[slot][turn % len(options)]])
            body = "\n\n".join(part.strip() for part in parts).replace("{hero}", hero)
            title = bank["title"].replace("{hero}", hero)
            texts.append(
                Text(id=f"{bank['name']}-{number:03d}", title=title, language=bank["language"], body=body + "\n")
            )
    return texts


# --- forms -----------------------------------------------------------------------------------------------------------

PLAIN_FORMS = (
    ("en", "utf-8"), ("en", "utf-16"), ("en", "utf-8-sig"),
    ("zh-Hans", "utf-8"), ("zh-Hans", "gb18030"), ("zh-Hans", "gbk"), ("zh-Hans", "utf-8-sig"), ("zh-Hans", "utf-16"),
    ("zh-Hans", "gb18030"), ("zh-Hant", "big5"), ("zh-Hant", "utf-8"), ("zh-Hant", "big5"), ("zh-Hant", "utf-16"),
    ("ja", "shift_jis"), ("ja", "euc_jp"), ("ko", "euc_kr"), ("ru", "cp1251"), ("ru", "utf-8"), ("de", "cp1252"),
    ("fr", "cp1252"), ("es", "cp1252"), ("ar", "cp1256"), ("ar", "utf-8"),
)  # fmt: skip


def add_plain(bundle: Bundle) -> None:
    """Text files in many encodings; nothing but the bytes says which."""
    for language, encoding in PLAIN_FORMS:
        (text,) = bundle.take(language)
        # "utf-16" would write the byte order of the machine: say it, and write the mark that goes with it.
        data = ("\ufeff" + text.body).encode("utf-16-le") if encoding == "utf-16" else text.body.encode(encoding)
        name = f"plain/{language}/{text.id}.{encoding.replace('_', '-')}.txt"
        bundle.add(name, data, "plain text", [kept(text)], encoding=encoding)


def add_notes(bundle: Bundle) -> None:
    """Markdown with front matter."""
    for language in ("en", "en", "zh-Hans", "zh-Hans", "zh-Hant", "de"):
        (text,) = bundle.take(language)
        front = f"---\ntitle: {json.dumps(text.title, ensure_ascii=False)}\nlang: {language}\nlicense: {LICENCE}\n---\n"
        paragraphs = text.body.strip().split("\n\n")
        body = f"{front}\n# {text.title}\n\n{paragraphs[0]}\n\n> {text.title}\n\n" + "\n\n".join(paragraphs[1:]) + "\n"
        bundle.add(f"notes/{text.id}.md", body.encode(), "Markdown, front matter", [kept(text)], encoding="utf-8")


def add_code(bundle: Bundle, folder: Path) -> None:
    """Source files are input as they are."""
    for path in sorted(folder.iterdir()):
        record = {"text": path.name, "language": "code", "fate": "kept"}
        bundle.add(f"code/{path.name}", path.read_bytes(), "source code", [record], encoding="utf-8")


CHROME = {
    "en": ("Home", "Archive", "About", "Subscribe to our newsletter and never miss a post!", "2 comments",
           "Great read, thanks!", "Related posts", "We use cookies. Accept all", "All rights reserved"),
    "zh-Hans": ("首页", "归档", "关于", "扫码关注，精彩不错过！", "2条评论", "写得真好，学到了", "相关文章",
                "本站使用Cookie，点击同意", "版权所有"),
    "zh-Hant": ("首頁", "彙整", "關於", "訂閱電子報，精彩不漏接！", "2則留言", "寫得真好，受用無窮", "延伸閱讀",
                "本網站使用Cookie，按此同意", "版權所有"),
}  # fmt: skip


def page(text: Text, *, charset: str | None, extra: str = "") -> str:
    """An HTML page with the article amid navigation, an advertisement, comments and scripts."""
    home, archive, about, advert, comments, comment, related, cookies, rights = CHROME.get(text.language, CHROME["en"])
    meta = f'<meta charset="{charset}">\n' if charset else ""
    article = "\n".join(f"<p>{html.escape(part, quote=False)}</p>" for part in text.body.strip().split("\n\n"))
    title = html.escape(text.title, quote=False)
    return f"""<!DOCTYPE html>
<html lang="{text.language}">
<head>
{meta}<title>{title}</title>
<style>body {{ max-width: 40em }} .ad {{ color: red }}</style>
<script>window.pageData = {{"id": "{text.id}", "ads": true}};</script>
</head>
<body>
<div class="cookie-banner" role="dialog">{cookies}</div>
<header><nav><ul><li><a href="/">{home}</a></li><li><a href="/archive">{archive}</a></li>\
<li><a href="/about">{about}</a></li></ul></nav></header>
<main><article>
<h1>{title}</h1>
{article}
{extra}</article></main>
<aside class="ad"><p>{advert}</p></aside>
<section id="comments" class="comments"><h3>{comments}</h3><div class="comment"><p>{comment}</p></div>\
<div class="comment"><p>+1</p></div></section>
<nav class="related"><h3>{related}</h3><ul><li><a href="/a">A</a></li><li><a href="/b">B</a></li></ul></nav>
<footer>&copy; 2024 {rights}</footer>
<script>document.querySelectorAll('.ad').forEach(function (ad) {{ ad.hidden = false; }});</script>
</body>
</html>
"""


TABLE = """<table><thead><tr><th>day</th><th>low water</th><th>high water</th></tr></thead>
<tbody><tr><td>Monday</td><td>03:10</td><td>09:22</td></tr>\
<tr><td>Tuesday</td><td>04:01</td><td>10:14</td></tr></tbody></table>
"""
CODE = """<pre><code class="language-python">def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
</code></pre>
"""
PAGE_FORMS = (  # language, bytes, what the meta element says, extra
    ("en", "utf-8", "utf-8", TABLE), ("en", "utf-8", None, CODE), ("en", "utf-8", "iso-8859-1", ""),
    ("zh-Hans", "utf-8", "utf-8", ""), ("zh-Hans", "gbk", "gb2312", ""), ("zh-Hans", "gb18030", None, ""),
    ("zh-Hans", "gbk", "utf-8", ""), ("zh-Hans", "utf-8", "gbk", ""), ("zh-Hant", "big5", "big5", ""),
    ("zh-Hant", "big5", None, ""), ("zh-Hant", "utf-8", "big5", ""), ("ja", "shift_jis", "shift_jis", ""),
    ("ko", "euc_kr", None, ""), ("ru", "cp1251", "utf-8", ""), ("es", "utf-8", "iso-8859-1", ""),
)  # fmt: skip


def meta_case(encoding: str, charset: str | None) -> str:
    """Whether the meta element is right about the bytes; gb2312 is what pages in GBK call themselves."""
    if charset is None:
        return "meta_absent"
    same = charset == encoding or (charset, encoding) == ("gb2312", "gbk")
    return "meta_right" if same else "meta_wrong"


def add_pages(bundle: Bundle) -> None:
    """HTML files: the meta element right, absent and wrong; and one page that is nothing without its script."""
    for language, encoding, charset, extra in PAGE_FORMS:
        (text,) = bundle.take(language)
        data = page(text, charset=charset, extra=extra).encode(encoding, "xmlcharrefreplace")
        record = kept(text, case=meta_case(encoding, charset))
        bundle.add(f"pages/{language}/{text.id}.html", data, "HTML page", [record], encoding=encoding)
    shell = (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>App</title></head>\n<body><div id="root"></div>'
        "<noscript>Please enable JavaScript.</noscript><p>loading…</p>\n"
        '<script src="/static/app.3f9c.js"></script></body></html>\n'
    )
    record = {"case": "script_shell", "fate": "dropped", "language": "en"}
    bundle.add("pages/app-shell.html", shell.encode(), "page filled in by a script", [record], encoding="utf-8")


def add_tar(bundle: Bundle) -> None:
    """A tar.zst of small pages; every member is a file of one record."""
    texts = [text for language in ("en", "en", "zh-Hans", "zh-Hans", "fr", "ar") for text in bundle.take(language)]
    buffer, records = io.BytesIO(), []
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for text in texts:
            data = page(text, charset="utf-8").encode()
            member = tarfile.TarInfo(f"site/{text.id}.html")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            records.append(kept(text, member=member.name))
    data = zstandard.ZstdCompressor(level=19).compress(buffer.getvalue())
    bundle.add("pages/small-pages.tar.zst", data, "tar of HTML pages", records, encoding="utf-8")


def gzip_bytes(data: bytes) -> bytes:
    """One gzip member without a date or a name."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def json_lines(rows: list[dict]) -> bytes:
    """One JSON object a line."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def row(text: Text) -> dict:
    """The JSON record of a text."""
    url = f"https://sample.example/{text.language}/{text.id}"
    return {"text": text.body, "title": text.title, "url": url, "license": LICENCE}


def add_records(bundle: Bundle) -> None:
    """All texts that nothing else has taken: JSON Lines (plain, gzip, zstd) and Parquet."""
    rest = {language: bundle.take(language, len(queue)) for language, queue in bundle.queues.items()}
    table_texts = [text for language in rest for text in rest[language][::4]]
    table = pa.table({key: [row(text)[key] for text in table_texts] for key in ("text", "title", "url", "license")})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", row_group_size=16)
    records = [kept(text) for text in table_texts]
    bundle.add("records/mixed.parquet", buffer.getvalue(), "Parquet, row groups of 16", records, encoding="utf-8")
    groups = {"en.jsonl.gz": ["en"], "zh-Hans.jsonl.zst": ["zh-Hans"], "zh-Hant.jsonl": ["zh-Hant"]}
    groups["others.jsonl.gz"] = [language for language in LANGUAGES if language not in ("en", "zh-Hans", "zh-Hant")]
    for name, languages in groups.items():
        texts = [text for language in languages for i, text in enumerate(rest[language]) if i % 4]
        data = json_lines([row(text) for text in texts])
        if name.endswith(".gz"):
            data = gzip_bytes(data)
        elif name.endswith(".zst"):
            data = zstandard.ZstdCompressor(level=19).compress(data)
        bundle.add(f"records/{name}", data, "JSON Lines", [kept(text) for text in texts], encoding="utf-8")


# --- crawl -----------------------------------------------------------------------------------------------------------

CRAWL_DATE = "2024-03-01T00:00:00Z"


def warc_record(kind: str, number: int, url: str, block: bytes, media_type: str) -> bytes:
    """One WARC/1.0 record, uncompressed."""
    head = [
        "WARC/1.0", f"WARC-Type: {kind}", f"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012d}>",
        f"WARC-Date: {CRAWL_DATE}", f"WARC-Target-URI: {url}", f"Content-Type: {media_type}",
        f"Content-Length: {len(block)}",
    ]  # fmt: skip
    return "\r\n".join(head).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def chunked(body: bytes, size: int = 700) -> bytes:
    """HTTP/1.1 chunked transfer coding (RFC 9112, section 7.1)."""
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def http_response(body: bytes, *, status: str = "200 OK", media_type: str = "text/html", coding: str = "") -> bytes:
    """An HTTP response; `coding` holds "gzip" and "chunked" as wanted."""
    lines = [f"HTTP/1.1 {status}", "Server: sample", f"Content-Type: {media_type}"]
    if "gzip" in coding:
        body = gzip_bytes(body)
        lines.append("Content-Encoding: gzip")
    if "chunked" in coding:
        body = chunked(body)
        lines.append("Transfer-Encoding: chunked")
    else:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


WARC_FORMS = (  # language, bytes, HTTP charset, meta charset, coding
    ("en", "utf-8", "utf-8", "utf-8", ""), ("en", "utf-8", None, None, "chunked"),
    ("zh-Hans", "gb18030", "gb2312", None, "gzip"), ("zh-Hans", "utf-8", "iso-8859-1", "utf-8", "gzip chunked"),
    ("zh-Hant", "big5", "big5", "big5", ""), ("zh-Hant", "utf-8", None, "utf-8", "chunked"),
    ("ja", "shift_jis", "utf-8", "shift_jis", ""), ("ru", "cp1251", None, None, "gzip"),
    ("de", "utf-8", "utf-8", None, ""), ("fr", "cp1252", "utf-8", None, ""),
)  # fmt: skip


def crawl_items(bundle: Bundle) -> list[tuple[str, str, bytes, str, dict]]:
    """(type, url, block, media type, expected) of the records of the crawl that are in order."""
    items: list[tuple[str, str, bytes, str, dict]] = []
    ignored = {"fate": "not_a_document"}
    info = b"software: danlu sample\r\nformat: WARC File Format 1.0\r\n"
    items.append(("warcinfo", "urn:sample", info, "application/warc-fields", ignored | {"case": "warcinfo"}))
    for language, encoding, http_charset, meta, coding in WARC_FORMS:
        (text,) = bundle.take(language)
        url = f"https://crawl.example/{language}/{text.id}.html"
        request = f"GET /{language}/{text.id}.html HTTP/1.1\r\nHost: crawl.example\r\n\r\n".encode()
        items.append(("request", url, request, "application/http; msgtype=request", ignored | {"case": "request"}))
        body = page(text, charset=meta).encode(encoding, "xmlcharrefreplace")
        media_type = "text/html" + (f"; charset={http_charset}" if http_charset else "")
        case = {"encoding": encoding, "http_charset": http_charset, "meta_charset": meta, "coding": coding, "url": url}
        response = http_response(body, media_type=media_type, coding=coding)
        items.append(("response", url, response, "application/http; msgtype=response", kept(text, **case)))
    others = (
        ("404", http_response(b"<html><body><h1>Not found</h1></body></html>", status="404 Not Found")),
        ("redirect", http_response(b"", status="301 Moved Permanently\r\nLocation: https://crawl.example/new")),
        ("image", http_response(PNG, media_type="image/png")),
    )
    for case_name, block in others:
        expected = ignored | {"case": case_name}
        items.append(("response", f"https://crawl.example/{case_name}", block, "application/http; msgtype=response",
                      expected))  # fmt: skip
    note = b"fetchTimeMs: 112\r\ncharset-detected: utf-8\r\n"
    items.insert(6, ("metadata", items[2][1], note, "application/warc-fields", ignored | {"case": "metadata"}))
    return items


def add_crawl(bundle: Bundle) -> None:
    """A WARC.gz with a broken header in the middle, and one with a damaged gzip member."""
    items = crawl_items(bundle)
    numbered = list(enumerate(items))
    members = [gzip_bytes(warc_record(kind, i, url, block, media)) for i, (kind, url, block, media, _) in numbered]
    records = [expected for *_, expected in items]
    broken = warc_record("response", 900, "https://crawl.example/broken", http_response(b"lost"), "application/http")
    middle = len(members) // 2
    members.insert(middle, gzip_bytes(broken.replace(b"WARC/1.0", b"W#RC/9.x", 1)))
    records.insert(middle, {"case": "broken_warc_header", "fate": "quarantined"})
    bundle.add("crawl/crawl.warc.gz", b"".join(members), "WARC, a gzip member per record", records)

    texts = [text for language in ("en", "zh-Hans", "zh-Hant") for text in bundle.take(language)]
    media_type = "text/html; charset=utf-8"
    blocks = [http_response(page(text, charset="utf-8").encode(), media_type=media_type) for text in texts]
    urls = [f"https://crawl.example/second/{text.id}" for text in texts]
    whole = [gzip_bytes(warc_record("response", 1000 + i, urls[i], blocks[i], "application/http")) for i in range(3)]
    cut = bytearray(whole[1])
    cut[10:50] = bytes([0xFF]) * 40  # after the 10 bytes of header: block type 3, which deflate does not have
    data = whole[0] + bytes(cut) + whole[2]
    records = [kept(texts[0]), {"case": "damaged_gzip_member", "fate": "quarantined"}, kept(texts[2])]
    bundle.add("broken/damaged-member.warc.gz", data, "WARC, second gzip member overwritten", records)
    # The text that was destroyed lives on elsewhere, so that nothing written is lost to training.
    bundle.queues[texts[1].language].append(texts[1])


# --- duplicates ------------------------------------------------------------------------------------------------------


def edit_words(text: str, share: float, seed: str) -> str:
    """Swap about `share` of the words (of the characters, in Chinese) with a neighbour."""
    words = text.split(" ")
    units, joint = (words, " ") if len(words) > 60 else (list(text), "")
    rng = random.Random(seed)
    spots = [i for i in range(len(units) - 1) if units[i].isalnum() and units[i + 1].isalnum()]
    for i in rng.sample(spots, max(1, int(len(units) * share / 2))):
        units[i], units[i + 1] = units[i + 1], units[i]
    return joint.join(units)


BOILERPLATE = {
    "en": "\n\nShare this article with your friends. Read more on our site. Sign up to get the best of the week.\n",
    "zh-Hans": "\n\n本文由网友投稿，转载请注明出处。更多精彩内容，请收藏本站，并分享给您的朋友。\n",
    "zh-Hant": "\n\n本文由網友提供，轉載請註明出處。更多精彩內容，請收藏本站，並分享給您的朋友。\n",
}
TO_HANT, TO_HANS = opencc.OpenCC("s2twp"), opencc.OpenCC("tw2sp")


def variants(text: Text) -> list[tuple[str, str, str]]:
    """(case, expected fate, text) of the copies made of one text."""
    body = text.body
    made = [
        ("exact_copy", "exact_duplicate", body),
        ("whitespace", "exact_duplicate", "  " + body.replace("\n\n", " \r\n\r\n\r\n").replace(". ", ".  ") + "\n\n"),
        ("unicode_form", "exact_duplicate", unicodedata.normalize("NFD", body)),
        ("edited_1", "near_duplicate", edit_words(body, 0.01, text.id)),
        ("edited_5", "near_duplicate", edit_words(body, 0.05, text.id)),
        ("boilerplate_added", "near_duplicate", body.rstrip() + BOILERPLATE.get(text.language, BOILERPLATE["en"])),
        ("cut_short", "near_duplicate", body[: int(len(body) * 0.9)]),
    ]
    if text.language.startswith("zh"):
        made.append(("half_width_punctuation", "near_duplicate", body.translate(HALF_WIDTH)))
    return made


HALF_WIDTH = str.maketrans("，：；？！", ",:;?!")  # as typed on a Western keyboard


def add_duplicates(bundle: Bundle) -> None:
    """Copies of packed texts, each changed in one way; converted twins; and pairs that only look alike."""
    rows, records = [], []
    originals = [bundle.texts[name] for name in DUPLICATED]
    for position, text in enumerate(originals):
        made = variants(text)
        for case, fate, body in (made[position % len(made)], made[(position + 3) % len(made)]):
            rows.append({"text": body, "url": f"https://mirror.example/{text.id}/{case}", "license": LICENCE})
            records.append({"text": text.id, "language": text.language, "case": case, "fate": fate, "of": text.id})
    bundle.add("duplicates/copies.jsonl", json_lines(rows), "changed copies", records, encoding="utf-8")
    for name in TWINS:
        text = bundle.texts[name]
        converter, language = (TO_HANT, "zh-Hant") if text.language == "zh-Hans" else (TO_HANS, "zh-Hans")
        record = {"text": name, "language": language, "case": "script_twin", "fate": "near_duplicate", "of": name}
        data = converter.convert(text.body).encode()
        bundle.add(f"duplicates/twins/{name}.{language}.txt", data, "converted script", [record], encoding="utf-8")
    text = bundle.texts["en-tides"]
    record = {"text": text.id, "language": "en", "case": "exact_copy", "fate": "exact_duplicate", "of": text.id}
    bundle.add("duplicates/tides-copy.txt", text.body.encode(), "exact copy", [record], encoding="utf-8")


DUPLICATED = (
    "en-bread", "en-tides", "en-lighthouse-keeper", "en-compost", "zhs-douya", "zhs-yuncai", "zhs-xiuche", "zhs-qiao",
    "zht-yeshi", "zht-taifeng", "zht-jiushu", "ko-kimchi", "fr-marche", "ja-miso", "ru-sneg", "de-pilze",
)  # fmt: skip
TWINS = ("zhs-shui-fei", "zhs-dengta", "zht-chaye", "zht-shouyu")


def add_templates(bundle: Bundle, folder: Path) -> None:
    """Announcements on one form: the frame is shared, the facts are not, so none is a duplicate."""
    rows, records = [], []
    for template in yaml.safe_load((folder / "templates.yaml").read_text(encoding="utf-8")):
        for number, values in enumerate(template["cases"]):
            body = template["frame"].format(**values)
            name = f"{template['name']}-{number}"
            rows.append({"text": body, "url": f"https://firms.example/{name}", "license": LICENCE})
            records.append({"text": name, "language": template["language"], "case": template["case"], "fate": "kept"})
    bundle.add("duplicates/same-frame.jsonl", json_lines(rows), "look-alikes that differ", records, encoding="utf-8")


# --- damage ----------------------------------------------------------------------------------------------------------


def png(pixel: bytes = b"\x00\x30\x60\x90") -> bytes:
    """A picture of one pixel (PNG 1.2, section 11.2); its deflate stream is a stored block, so no library matters."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    stored = b"\x78\x01\x01" + struct.pack("<HH", len(pixel), len(pixel) ^ 0xFFFF) + pixel
    image = stored + struct.pack(">I", zlib.adler32(pixel))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", image) + chunk(b"IEND", b"")


PNG = png()


def add_broken_lines(bundle: Bundle) -> None:
    """JSON Lines where good and bad take turns."""
    good = [text for language in ("en", "zh-Hans", "ja", "es") for text in bundle.take(language)]
    lines = [json_lines([row(text)]).rstrip(b"\n") for text in good]
    quarantined = {"fate": "quarantined"}
    bad_byte = b'{"text": "A line with one byte \xff that no UTF-8 text can hold, amid words that are in order."}'
    parts = [
        (lines[0], kept(good[0])),
        (bad_byte, quarantined | {"case": "bad_byte", "also": "kept with a replacement character is right as well"}),
        (lines[1], kept(good[1])),
        (b'{"text": "the string never ends', quarantined | {"case": "broken_json"}),
        (b'{"title": "only a title", "url": "https://sample.example/none"}', quarantined | {"case": "no_text"}),
        (b'{"text": null}', quarantined | {"case": "null_text"}),
        (b'["a list", "is not a record"]', quarantined | {"case": "not_an_object"}),
        (lines[2], kept(good[2])),
        (b'{"text": "half a pair \\ud83d and then plain words"}', {"case": "lone_surrogate", "fate": "quarantined",
         "also": "kept with a replacement character is right as well"}),
        (b'{"text": "words \\u0000 with \\u0000 a zero inside"}', {"case": "nul_in_json", "fate": "dropped",
         "also": "the NULs go, and the rest is too short to keep"}),
        (lines[3], kept(good[3])),
    ]  # fmt: skip
    data = b"\n".join(line for line, _ in parts) + b"\n"
    bundle.add("broken/mixed-lines.jsonl", data, "good and bad lines in turn", [record for _, record in parts])


def add_broken_files(bundle: Bundle) -> None:
    """Whole files that are damaged, or are not what their names say."""
    texts = [text for language in ("en", "zh-Hans", "en") for text in bundle.take(language)]
    whole = gzip_bytes(json_lines([row(text) for text in texts]))
    lost = {"case": "cut_gzip", "fate": "quarantined", "also": "the line at the cut; what follows is not there"}
    bundle.add("broken/cut-off.jsonl.gz", whole[: len(whole) * 2 // 3], "gzip cut at two thirds",
               [kept(texts[0]), lost], records_lost=1)  # fmt: skip
    for text in texts[1:]:
        bundle.queues[text.language].append(text)
    nothing = {"case": "empty_file", "fate": "quarantined", "also": "no record at all"}
    bundle.add("broken/empty.txt", b"", "empty file", [nothing])
    bundle.add("broken/picture.html", PNG, "a picture named as a page", [{"case": "binary", "fate": "quarantined"}])
    (text,) = bundle.take("en")
    body = text.body.replace("\n\n", "\n\x00\x00\n\x00").encode()
    bundle.add("broken/nul-bytes.txt", body, "NUL bytes between paragraphs", [kept(text, case="nul_bytes")])
    (text,) = bundle.take("zh-Hans")
    mojibake = text.body.encode("gb18030").decode("latin-1").encode()
    record = kept(text, case="mojibake")
    bundle.add("broken/mojibake.txt", mojibake, "GB18030 read as Latin-1, saved as UTF-8", [record], encoding="utf-8")
    (text,) = bundle.take("fr")
    record = kept(text, case="mojibake")
    data = text.body.encode().decode("cp1252", "replace").encode()
    bundle.add("broken/mojibake-fr.txt", data, "UTF-8 read as Windows-1252, saved as UTF-8", [record], encoding="utf-8")
    line = b'{"text": "' + b"long " * (LONG_LINE_BYTES // 5) + b'"}\n'
    (after,) = bundle.take("en")
    data = gzip_bytes(line + json_lines([row(after)]))
    records = [{"case": "long_line", "fate": "quarantined", "line_bytes": len(line)}, kept(after)]
    bundle.add("broken/long-line.jsonl.gz", data, "a line above ingest.max_record_bytes, then a good one", records)


def add_poor(bundle: Bundle, evaluation: list[dict]) -> None:
    """Readable text that no model should learn from."""
    first, second = "To be announced.", "The page you are looking for has moved. Click here. Click here. "
    menu = "Home | Products | Prices | News | Jobs | Contact | Login | Register | Help | Imprint | Privacy\n" * 12
    noise = " ".join(f"{random.Random(i).getrandbits(64):x}" for i in range(160))
    symbols = "#### @@@ %%% ### ... *** ||| ### $$$ ### ^^^ " * 30
    rows = [
        ("en", "short", "OK."), ("en", "short", first), ("zh-Hans", "short", "好的，收到。"),
        ("ja", "short", "了解です。"),
        ("en", "repetitive", second * 40), ("zh-Hans", "repetitive", "点击下载最新版本，免费使用。" * 80),
        ("en", "boilerplate", menu), ("en", "garbage", noise), ("en", "garbage", symbols),
        ("zh-Hans", "boilerplate", "首页 产品 价格 新闻 招聘 联系我们 登录 注册 帮助\n" * 20),
    ]  # fmt: skip
    records = [{"language": language, "case": case, "fate": "dropped"} for language, case, _ in rows]
    data = json_lines([{"text": text, "license": LICENCE} for *_, text in rows])
    bundle.add("broken/poor.jsonl", data, "short, repetitive and garbage text", records, encoding="utf-8")
    for language in ("en", "zh-Hans"):
        (text,) = bundle.take(language)
        items = [item for item in evaluation if item["lang"] == language][2:6]
        leaked = "\n\n".join(item["context"] + " " + item["choices"][item["answer"]] for item in items)
        record = kept(text, case="contaminated", fate="contaminated", items=[item["id"] for item in items])
        paragraphs = text.body.strip().split("\n\n")
        body = "\n\n".join([paragraphs[0], leaked, *paragraphs[1:]]) + "\n"
        bundle.add(f"broken/contaminated.{language}.txt", body.encode(), "holds items of eval.jsonl", [record],
                   encoding="utf-8")  # fmt: skip


# --- all -------------------------------------------------------------------------------------------------------------


def build(sample: Path = SAMPLE) -> dict[str, bytes]:
    """All files of the bundle that are made, by their names below `sample/`."""
    texts_folder, bundle = sample / "texts", Bundle()
    for language in LANGUAGES:
        bundle.queues[language] = read_texts(texts_folder / f"{language}.txt", language)
    for text in compose_stories(texts_folder):
        bundle.queues[text.language].append(text)
    bundle.texts = {text.id: text for queue in bundle.queues.values() for text in queue}
    evaluation = [json.loads(line) for line in (sample / "eval.jsonl").read_text(encoding="utf-8").splitlines()]

    add_plain(bundle)
    add_notes(bundle)
    add_code(bundle, sample / "code")
    add_pages(bundle)
    add_crawl(bundle)
    add_tar(bundle)
    add_broken_lines(bundle)
    add_broken_files(bundle)
    add_poor(bundle, evaluation)
    add_duplicates(bundle)
    add_templates(bundle, texts_folder)
    add_records(bundle)
    for record in bundle.expected:  # a copy names the place of its original, which may be packed after it
        if "of" in record:
            home = bundle.home[record["of"]]
            if home["file"].split("/")[0] not in ("plain", "records") and record["fate"] == "exact_duplicate":
                record["fate"] = "near_duplicate"  # the original came out of a page or has a heading added
            record["of"] = f"{home['file']}#{home['record']}"
    bundle.files["EXPECTED.jsonl"] = json_lines(bundle.expected)
    return bundle.files


def main() -> None:
    """Write the bundle into the folder named on the command line, or over the one in the tree."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    for folder in MADE_FOLDERS:  # a text that moved into another form leaves no file behind
        shutil.rmtree(target / folder, ignore_errors=True)
    for name, data in build().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()

"""Charsets: danlu's decode against chardet alone and charset-normalizer alone, on the same bytes in one process.

    python benchmarks/charsets.py [files] [matrix] [mojibake] [speed] [--samples 30] [--seed 0]

files     every file of encodings/ with a known truth: its gold text, or the charset in which it was saved
matrix    real text cut to 40, 200 and 2,000 characters, encoded, and read again by each
mojibake  ftfy's cases: how many come back as the fixed text
speed     MB/s of input per charset in files of 20 KB, and the ratio to chardet (detect, then decode)

Texts are compared as NFC with one form of newline and no control characters, which is what danlu yields. No answer
counts as a wrong one. DANLU_DATA names the data folder; default: shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import chardet
import charset_normalizer
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.charset_texts import LANGUAGES, LENGTHS, Texts
from tasks.clean.decode.cascade import DecodeConfig
from tasks.clean.decode.mojibake import repair
from tasks.clean.decode.stage import decode, normalise
from tasks.document import Document, Kept, Origin, RawRecord

DATA = Path(os.environ.get("DANLU_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CJK_CODEC = re.compile("big5|gb|hz|euc|jis|johab|2022|cp9[345]")
CJK_CHAR = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
MIN_CJK_CHARS = 20  # of the truth, for a UTF file to count as CJK


def by_danlu(content: bytes) -> str | None:
    record = RawRecord(
        id="0" * 32,
        content=content,
        media_type="text/plain",
        declared_charset=None,
        source="bench",
        url=None,
        licence=None,
        origin=Origin(file="bench", record=0, offset=0),
    )
    outcome = decode(record, DecodeConfig())
    return outcome.document.text if isinstance(outcome, Kept) and isinstance(outcome.document, Document) else None


def by_chardet(content: bytes) -> str | None:
    charset = chardet.detect(content)["encoding"]
    try:
        return content.decode(charset) if charset else None
    except (LookupError, UnicodeError):
        return None


def by_charset_normalizer(content: bytes) -> str | None:
    best = charset_normalizer.from_bytes(content).best()
    return str(best) if best is not None else None


READERS: dict[str, Callable[[bytes], str | None]] = {
    "danlu": by_danlu,
    "chardet": by_chardet,
    "charset-norm.": by_charset_normalizer,
}


def same(found: str | None, truth: str) -> bool:
    return found is not None and normalise(found)[0] == normalise(truth)[0]


def row(name: str, num: int, right: Counter[str]) -> str:
    return f"{name:34} {num:6}" + "".join(f"{right[reader]:14}" for reader in READERS)


def header(title: str) -> str:
    return f"\n{title:34} {'files':>6}" + "".join(f"{reader:>14}" for reader in READERS)


def truths() -> Iterator[tuple[str, str, bytes, str]]:
    """(path, kind, content, true text) of each file with a known truth."""
    folder = DATA / "encodings"
    packed = io.BytesIO(zstandard.ZstdDecompressor().stream_reader((folder / "files.tar.zst").open("rb")).read())
    with tarfile.open(fileobj=packed) as archive:
        files = {
            member.name.removeprefix("./"): archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }
    for line in (folder / "manifest.jsonl").read_text("utf-8").split("\n"):
        if not line:
            continue
        entry = json.loads(line)
        content = files[entry["path"]]
        if entry["gold"]:
            truth = files[entry["gold"]].decode("utf-8")
        elif entry["decodes_strictly"]:
            truth = content.decode(entry["python_codec"])
        else:
            continue
        if not entry["decodes_strictly"]:
            kind = f"broken: {entry['encoding']}"
        else:
            is_cjk = CJK_CODEC.search(entry["python_codec"]) or len(CJK_CHAR.findall(truth)) > MIN_CJK_CHARS
            kind = "CJK" if is_cjk else "other"
        yield entry["path"], kind, content, truth


def files(_: argparse.Namespace) -> None:
    num: Counter[str] = Counter()
    right: dict[str, Counter[str]] = {}
    misses = []
    for path, kind, content, truth in truths():
        num[kind] += 1
        for name, reader in READERS.items():
            good = same(reader(content), truth)
            right.setdefault(kind, Counter())[name] += good
            if not good and name == "danlu":
                misses.append(f"danlu misses {path} ({kind})")
    print(header("files of encodings/"))
    for kind in sorted(num):
        print(row(kind, num[kind], right[kind]))
    print("\n".join(misses))


def matrix(arguments: argparse.Namespace) -> None:
    texts = Texts(DATA)
    total: Counter[str] = Counter()
    below = []
    print(header(f"round trips, seed {arguments.seed}"))
    for charset in LANGUAGES:
        for length in LENGTHS:
            right: Counter[str] = Counter()
            for content, truth in texts.samples(charset, length, arguments.samples, arguments.seed):
                for name, reader in READERS.items():
                    right[name] += same(reader(content), truth)
            total += right
            worst = right["danlu"] < max(right.values())
            below += [f"{charset} × {length}"] if worst else []
            print(row(f"{charset} × {length}", arguments.samples, right) + (" <" if worst else ""), flush=True)
    print(row("all", arguments.samples * len(LANGUAGES) * len(LENGTHS), total))
    print("danlu is below another in: " + (", ".join(below) or "no cell"))


def mojibake(_: argparse.Namespace) -> None:
    with gzip.open(DATA / "encodings" / "mojibake_ftfy.jsonl.gz", "rt", encoding="utf-8", newline="\n") as file:
        cases = [json.loads(line) for line in file]
    wrong = [case for case in cases if normalise(repair(case["original"]).text)[0] != normalise(case["fixed"])[0]]
    print(f"\nmojibake: {len(cases) - len(wrong)} of {len(cases)} come back as ftfy's fixed text")
    for case in wrong:
        print(f"  {case['original']!r}\n    expected {case['fixed']!r}\n    found    {repair(case['original']).text!r}")


def speed(arguments: argparse.Namespace) -> None:
    texts = Texts(DATA)
    print(f"\n{'speed (20 KB files)':24}{'danlu MB/s':>12}{'chardet MB/s':>14}{'ratio':>8}")
    for charset in ("utf-8", *LANGUAGES):
        contents = [content for content, _ in texts.samples(charset, 10_000, 40, arguments.seed)]
        megabytes = sum(map(len, contents)) / 1e6
        rates = {name: megabytes / seconds(READERS[name], contents) for name in ("danlu", "chardet")}
        ratio = rates["danlu"] / rates["chardet"]
        print(f"{charset:24}{rates['danlu']:12.1f}{rates['chardet']:14.1f}{ratio:8.2f}", flush=True)


def seconds(reader: Callable[[bytes], str | None], contents: list[bytes]) -> float:
    """Processor time of the better of two passes: others on the machine do not count, nor do first-use tables."""
    times = []
    for _ in range(2):
        started = time.process_time()
        for content in contents:
            reader(content)
        times.append(time.process_time() - started)
    return min(times)


PARTS = {"files": files, "matrix": matrix, "mojibake": mojibake, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; all when none is named")
    parser.add_argument("--samples", type=int, default=30, help="round trips per cell")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: expected {', '.join(PARTS)}")
    if not (DATA / "encodings").is_dir():
        sys.exit(f"no folder {DATA / 'encodings'}: set DANLU_DATA to where the shared test data is")
    for part in arguments.parts or PARTS:
        PARTS[part](arguments)


if __name__ == "__main__":
    main()

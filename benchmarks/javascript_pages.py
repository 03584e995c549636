"""How many pages that JavaScript fills are recognised, and how many ordinary ones are taken for such.

    python benchmarks/javascript_pages.py

Data: html/ of the folder that DANLU_DATA names, or of ../shared/data. Halves by hash of the file name show whether a
rule holds beyond the pages it was made on. Prints each miss and each false alarm.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import tarfile
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tasks.clean.page import read_page  # noqa: E402

SETTINGS = {"include_comments": True, "include_tables": True, "fallback": True}


def load(folder: Path) -> tuple[list[dict], dict[str, bytes]]:
    """Gold records, and page bytes by file name."""
    with gzip.open(folder / "gold.jsonl.gz", "rt", encoding="utf-8") as file:
        gold = [json.loads(line) for line in file]
    pages = {}
    with open(folder / "pages.tar.zst", "rb") as packed:
        unpacked = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed)
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    pages[member.name] = content.read()
    return gold, pages


def main() -> None:
    folder = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data")) / "html"
    if not folder.is_dir():
        sys.exit(f"no folder {folder}: set DANLU_DATA to the folder of the test data")
    gold, pages = load(folder)
    counts: dict[tuple[int, bool], list[int]] = {}
    for record in gold:
        name, filled = record["file"], bool(record.get("spa"))
        page = read_page(pages[name].decode("utf-8", "replace"), SETTINGS)
        half = hashlib.sha256(name.encode()).digest()[0] % 2
        cell = counts.setdefault((half, filled), [0, 0])
        cell[0] += page.javascript is not None
        cell[1] += 1
        if filled != (page.javascript is not None):
            print(
                f"{'missed' if filled else 'false alarm'}  {name}  {page.javascript}  text {len(page.text):,} characters"
            )
    print(f"\n{'':10}{'filled by JavaScript':>24}{'ordinary':>20}")
    for half in (0, 1, None):
        cells = []
        for filled in (True, False):
            chosen = [cell for (h, f), cell in counts.items() if f == filled and half in (h, None)]
            flagged, total = sum(c[0] for c in chosen), sum(c[1] for c in chosen)
            cells.append(f"{flagged} of {total} = {flagged / max(total, 1):.1%}")
        print(f"{'all' if half is None else f'half {half}':10}{cells[0]:>24}{cells[1]:>20}")


if __name__ == "__main__":
    main()

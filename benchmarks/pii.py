"""Masking of personal data: what it finds in the corpus, and how fast it is beside the language stage.

    python benchmarks/pii.py [--every 1] [--show KIND]

Reads the JSON-lines and Parquet files of `corpus/` in the data folder (DANLU_DATA, or the shared one). `--show phone`
lists each number masked with what stands around it, to be judged by eye. CPU seconds of one thread; the ratio is taken
in the same run.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tasks.clean.filter.pii import KINDS, PiiConfig, mask, spans
from tasks.clean.language.stage import LanguageConfig, label
from tasks.document import Document, Origin

ROOT = Path(__file__).resolve().parent.parent


def texts(path: Path) -> Iterator[str]:
    if path.suffix == ".parquet":
        yield from pq.read_table(path, columns=["text"])["text"].to_pylist()
        return
    with fsspec.open(str(path), "rb", compression="infer") as file:
        for line in io.TextIOWrapper(file, encoding="utf-8", newline="\n"):
            yield json.loads(line)["text"]


def measure_language(found: list[str]) -> float:
    documents = [Document(id="", text=t, source="", origin=Origin(file="", record=0, offset=0)) for t in found]
    started = time.process_time()
    for document in documents:
        label(document, LanguageConfig())
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=8, help="read one document in so many")
    parser.add_argument("--show", choices=KINDS, help="list what is masked of this kind")
    args = parser.parse_args()
    folder = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data")) / "corpus"
    files = [*sorted(folder.glob("*.jsonl.zst")), *sorted(folder.glob("*.parquet"))]
    if not files:
        sys.exit(f"no corpus in {folder}: set DANLU_DATA to the folder of the shared data")
    print(f"{'file':<28} {'MB':>6} {'mask MB/s':>10} {'of language':>12}  masked")
    for path in files:
        found = list(texts(path))[:: args.every]
        size = sum(len(text.encode("utf-8", "replace")) for text in found) / 1e6
        started = time.process_time()
        counts: Counter[str] = Counter()
        for text in found:
            counts.update(mask(text, PiiConfig())[1])
        seconds = time.process_time() - started
        share = seconds / measure_language(found)
        masked = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()) if number) or "nothing"
        print(f"{path.name:<28} {size:>6.1f} {size / seconds:>10.0f} {share:>11.1%}  {masked}")
        for text in found if args.show else ():
            for span in spans(text):
                if span.kind == args.show:
                    around = text[max(0, span.start - 30) : span.start], text[span.end : span.end + 15]
                    print("   ", repr(around[0]), f"[{text[span.start : span.end]}]", repr(around[1]))


if __name__ == "__main__":
    main()

"""What the tokenizer of a store promises, checked on all text that the store holds.

    python benchmarks/tokenizer_exact.py [STORE] [--name default] [--documents 10000]

Round trip on every decoded text; ids of `transformers` equal to ours on the first documents of the mix; tokens that
spell a character in bytes, per language group, over the whole mix; the vocabulary's shares. `danlu run --until
tokenizer` fills the store. Ends with an error code when a promise is not kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tasks.store.dataset import Dataset, current
from tasks.store.filesystem import Store
from tasks.tokenizer.measures import byte_pieces
from tasks.tokenizer.model import Tokenizer
from tasks.tokenizer.sample import group_of

MAX_ZH_FALLBACK = 0.0005
MAX_SHARE_ERROR = 0.03


def rows(dataset: Dataset) -> Iterator[list[dict]]:
    """Batches of {"text", "language"}."""
    for shard in dataset.shards:
        for batch in dataset.batches(shard.name, ["text", "language"]):
            yield batch.to_pylist()


def round_trip(tokenizer: Tokenizer, dataset: Dataset) -> tuple[int, int, int]:
    """Documents, bytes, and documents that do not come back."""
    documents = num_bytes = wrong = 0
    for batch in rows(dataset):
        texts = [row["text"] for row in batch]
        back = [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)]
        wrong += sum(a != b for a, b in zip(texts, back, strict=True))
        documents += len(texts)
        num_bytes += sum(len(text.encode()) for text in texts)
    return documents, num_bytes, wrong


def unequal_ids(tokenizer: Tokenizer, folder: str, dataset: Dataset, number: int) -> tuple[int, int]:
    """Documents compared, and those that transformers encodes differently."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder)
    compared = wrong = 0
    texts = (row["text"] for batch in rows(dataset) for row in batch)
    while batch := list(islice(texts, min(200, number - compared))):
        ours = [ids.tolist() for ids in tokenizer.encode_batch(batch)]
        wrong += sum(a != b for a, b in zip(ours, theirs(batch)["input_ids"], strict=True))
        compared += len(batch)
    return compared, wrong


def fallback(tokenizer: Tokenizer, dataset: Dataset, groups: list[str]) -> dict[str, tuple[int, int, int]]:
    """Group → tokens, tokens that are bytes, bytes of text."""
    is_byte, _ = byte_pieces(tokenizer)
    tokens, in_bytes, sizes = Counter[str](), Counter[str](), Counter[str]()
    for batch in rows(dataset):
        for row, ids in zip(batch, tokenizer.encode_batch([row["text"] for row in batch]), strict=True):
            group = group_of(row["language"], dict.fromkeys(groups))
            tokens[group] += len(ids)
            in_bytes[group] += int(np.count_nonzero(is_byte[ids]))
            sizes[group] += len(row["text"].encode())
    return {group: (tokens[group], in_bytes[group], sizes[group]) for group in sorted(tokens)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?", default="out/store")
    parser.add_argument("--name", default="default", help="of the pipeline")
    parser.add_argument("--tokenizer", help="pipeline whose tokenizer is checked; default: the same")
    parser.add_argument("--documents", type=int, default=10_000, help="to compare with transformers")
    arguments = parser.parse_args()
    store = Store(arguments.store)
    fitted = current(store, arguments.tokenizer or arguments.name, "tokenizer")
    decoded, mix = (current(store, arguments.name, stage) for stage in ("decode", "mix"))
    if fitted is None or decoded is None or mix is None:
        print(f"{arguments.store}: needs the datasets of decode, mix and tokenizer: danlu run --until tokenizer")
        return 2
    tokenizer, failed = Tokenizer.load(fitted.local("tokenizer.model")), False

    started = time.monotonic()
    documents, num_bytes, wrong = round_trip(tokenizer, decoded)
    seconds = time.monotonic() - started
    print(f"round trip   {documents:,} decoded texts, {num_bytes / 1e6:.1f} MB: {wrong} wrong ({seconds:.0f} s)")
    failed |= wrong > 0

    folder = str(fitted.local_folder([f.name for f in fitted.files("artifact")]) / "hf")
    compared, unequal = unequal_ids(tokenizer, folder, mix, arguments.documents)
    print(f"transformers {compared:,} documents: {unequal} with other ids")
    failed |= unequal > 0

    facts = fitted.manifest.facts
    for group, (tokens, in_bytes, size) in fallback(tokenizer, mix, sorted(facts["vocabulary"])).items():
        rate = in_bytes / max(tokens, 1)
        print(f"mix {group:8} {tokens:,} tokens, {size / tokens:.3f} bytes per token, {100 * rate:.4f} % are bytes")
        failed |= group == "zh" and rate >= MAX_ZH_FALLBACK
    for group, row in facts["vocabulary"].items():
        share, target = row["share"], row["target"]
        print(f"pieces {group:8} {row['num_pieces']:6,}  share {100 * share:.1f} %, target {100 * target:.1f} %")
        failed |= abs(share - target) > MAX_SHARE_ERROR
    print("a promise is NOT kept" if failed else "every promise is kept")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

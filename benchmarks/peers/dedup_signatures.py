"""MinHash signatures of one JSON-lines file by one peer, in its own environment and in this process.

    python dedup_signatures.py {datatrove,datasketch,rensa,text-dedup,data-juicer} FILE.jsonl {zh,en}

Five-unit shingles and 128 permutations (datatrove its default 14 x 8). What a library has no part for is done here in
the cheapest way: datasketch and rensa get the shingles of the lower-cased text, characters of Chinese and words of
English, no Unicode or layout form. Prints one JSON line: CPU seconds without reading, imports and models.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

SIZE, NUM_PERM = 5, 128


def shingles(text: str, group: str) -> list[str]:
    text = text.lower()
    if group == "zh":
        return [text[i : i + SIZE] for i in range(len(text) - SIZE + 1)]
    words = text.split()
    return [" ".join(words[i : i + SIZE]) for i in range(len(words) - SIZE + 1)]


def datatrove(group: str) -> Callable[[list[str]], Any]:
    from datatrove.pipeline.dedup.minhash import MinhashDedupSignature
    from loguru import logger

    logger.remove()
    step = MinhashDedupSignature("unused", language={"zh": "cmn_Hani", "en": "eng"}[group])
    return lambda texts: [step.get_signature(s) for t in texts if (s := step.get_shingles(t)).size]


def datasketch(group: str) -> Callable[[list[str]], Any]:
    from datasketch import MinHash

    def run(texts: list[str]) -> None:
        for text in texts:
            sketch = MinHash(num_perm=NUM_PERM, seed=1)
            if found := shingles(text, group):
                sketch.update_batch([shingle.encode() for shingle in found])

    return run


def rensa(group: str) -> Callable[[list[str]], Any]:
    from rensa import RMinHash

    def run(texts: list[str]) -> None:
        for start in range(0, len(texts), 256):
            sets = [shingles(text, group) for text in texts[start : start + 256]]
            RMinHash.digest_matrix_from_token_sets(sets, NUM_PERM, 1)

    return run


def text_dedup(group: str) -> Callable[[list[str]], Any]:
    import numpy as np
    from text_dedup.minhash import RNG, embed_func, sha1_hash

    prime, largest = np.uint64((1 << 61) - 1), np.uint32((1 << 32) - 1)
    permutations = (
        RNG.randint(1, prime, size=(NUM_PERM,), dtype=np.uint64),
        RNG.randint(0, prime, size=(NUM_PERM,), dtype=np.uint64),
    )
    bands = [(i, i + 8) for i in range(0, NUM_PERM, 8)]
    more = {
        "num_perm": NUM_PERM, "ngram_size": SIZE, "min_length": 5, "hashranges": bands, "permutations": permutations,
        "hash_func": sha1_hash, "dtype": np.uint64, "max_hash": largest, "modulo_prime": prime,
    }  # fmt: skip
    return lambda texts: [embed_func(text, i, **more) for i, text in enumerate(texts)]


def data_juicer(group: str) -> Callable[[list[str]], Any]:
    from data_juicer.ops.deduplicator.document_minhash_deduplicator import DocumentMinhashDeduplicator

    step = DocumentMinhashDeduplicator(
        tokenization={"zh": "character", "en": "space"}[group], num_permutations=NUM_PERM, jaccard_threshold=0.8
    )
    return lambda texts: [step.compute_hash({"text": text}) for text in texts]


PEERS = {
    "datatrove": datatrove,
    "datasketch": datasketch,
    "rensa": rensa,
    "text-dedup": text_dedup,
    "data-juicer": data_juicer,
}


def main() -> None:
    name, path, group = sys.argv[1:4]
    run = PEERS[name](group)
    with open(path, encoding="utf-8", newline="\n") as file:
        texts = [json.loads(line)["text"] for line in file]
    run(texts[:2])
    started = time.process_time()
    run(texts)
    print(json.dumps({"cpu": time.process_time() - started}))


if __name__ == "__main__":
    main()

"""datatrove's four steps of MinHash deduplication over a folder of Parquet files, in this process.

    python datatrove_dedup.py IN_FOLDER OUT_FOLDER

IN_FOLDER holds zh.parquet and en.parquet (columns id, text). All of datatrove's defaults; each file is one rank and is
split into words by its own language. Prints one JSON line: CPU and wall seconds, without imports and models, and how
many documents were left.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from datatrove.pipeline.dedup.minhash import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter
from loguru import logger

LANGUAGES = {"zh": "cmn_Hani", "en": "eng"}


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    logger.remove()
    signing = {}
    for group, language in LANGUAGES.items():
        signing[group] = MinhashDedupSignature(str(out / "signatures"), language=language)
        signing[group].get_shingles("一个词，还有一个词。 One word and another.")  # loads spaCy, jieba's dictionary
    started, wall = time.process_time(), time.monotonic()
    for rank, group in enumerate(LANGUAGES):
        read = ParquetReader(str(source), glob_pattern=f"{group}.parquet", doc_progress=False)
        signing[group].run(read.run(None, 0, 1), rank, len(LANGUAGES))
    num_buckets = signing["zh"].config.num_buckets
    buckets = MinhashDedupBuckets(str(out / "signatures"), str(out / "buckets"))
    for bucket in range(num_buckets):
        buckets.run(None, bucket, num_buckets)
    MinhashDedupCluster(str(out / "buckets"), str(out / "remove")).run(None, 0, 1)
    left = 0
    for rank, group in enumerate(LANGUAGES):
        read = ParquetReader(str(source), glob_pattern=f"{group}.parquet", doc_progress=False)
        keep = MinhashDedupFilter(str(out / "remove"))
        write = ParquetWriter(str(out / "kept"))
        for _ in write.run(keep.run(read.run(None, 0, 1), rank, len(LANGUAGES)), rank, len(LANGUAGES)):
            left += 1
    print(json.dumps({"cpu": time.process_time() - started, "wall": time.monotonic() - wall, "left": left}))


if __name__ == "__main__":
    main()

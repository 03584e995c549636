"""The peers of benchmarks/tokens.py, in this process: CPU seconds of one core.

    python tokens.py batch TOKENIZER_JSON FOLDER          `tokenizers`' own batch encoding of texts in memory
    python tokens.py datatrove TOKENIZER_JSON FOLDER OUT  datatrove's Megatron step, Parquet in, .bin/.idx out

FOLDER holds Parquet files with columns id and text. Prints one JSON line: CPU seconds without imports and loading of
the tokenizer, and the tokens made.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
BATCH = 256


def encode(tokenizer_json: str, source: Path) -> tuple[float, int]:
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_json)
    tokenizer.encode_batch(["warm 热身"])
    texts = [text for path in sorted(source.glob("*.parquet")) for text in pq.read_table(path)["text"].to_pylist()]
    started, tokens = time.process_time(), 0
    for start in range(0, len(texts), BATCH):
        encoded = tokenizer.encode_batch(texts[start : start + BATCH], add_special_tokens=False)
        tokens += sum(len(each.ids) for each in encoded)
    return time.process_time() - started, tokens


def datatrove(tokenizer_json: str, source: Path, out: Path) -> tuple[float, int]:
    from datatrove.pipeline.readers import ParquetReader
    from datatrove.pipeline.tokens.megatron_tokenizer import MegatronDocumentTokenizer
    from loguru import logger

    logger.remove()
    step = MegatronDocumentTokenizer(
        str(out), tokenizer_name_or_path=tokenizer_json, eos_token="</s>", batch_size=BATCH
    )
    step.tokenizer.encode_batch(["warm 热身"])
    started = time.process_time()
    step.run(ParquetReader(str(source), glob_pattern="*.parquet", doc_progress=False).run(None, 0, 1), 0, 1)
    return time.process_time() - started, sum(path.stat().st_size for path in out.rglob("*.bin")) // step.token_size


def main() -> None:
    what, tokenizer_json, source = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    cpu, tokens = (
        encode(tokenizer_json, source) if what == "batch" else datatrove(tokenizer_json, source, Path(sys.argv[4]))
    )
    print(json.dumps({"cpu": cpu, "tokens": tokens}))


if __name__ == "__main__":
    main()

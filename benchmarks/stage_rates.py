"""What each data stage costs a core, and what it costs the one process that drives it: the inputs of `scale.py`.

    python benchmarks/stage_rates.py [--megabytes 8] [--pages 200] [--short 30000]

Four sources run through the pipeline in one process (`workers=0`), each after a small run that loads models and
compiled code: Chinese and English texts, web pages, and short documents (sections of some 650 bytes, where what a
document costs shows, not what a byte does). Times are CPU seconds, children's included. What runs inside parts is the
workers' (it spreads over a cluster); the rest is the driver's (it does not). Left out: semantic dedup (its cost is its
encoder's, see LOG.md), and everything from training on. The data folder is DANLU_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.clean import DATA, cpu_seconds, write_pages, write_texts
from benchmarks.dedup import sections
from flows.order import STAGES
from tasks import stage as stages
from tasks.clean.decontaminate import DecontaminateConfig
from tasks.dedup.semantic import SemanticConfig
from tasks.ingest.config import IngestConfig, sources_from_path
from tasks.store.filesystem import Store
from tasks.tokenizer.stage import TokenizerConfig

LAST = "shards"


@dataclass(kw_only=True)
class Cost:
    """Of one stage over one source."""

    worker: float  # CPU seconds
    driver: float
    documents: int  # read
    kept: int
    text_bytes: int  # UTF-8 of what it read; of the raw files for ingest
    shard_bytes: int  # of the Parquet it kept
    files: int
    sidecar_bytes: int


class Parts:
    """CPU seconds spent inside parts, which run in this process."""

    def __init__(self) -> None:
        self.seconds, self._run = 0.0, stages._run_part
        stages._run_part = self._timed

    def _timed(self, call: Any) -> dict[str, Any]:
        started = cpu_seconds()
        try:
            return self._run(call)
        finally:
            self.seconds += cpu_seconds() - started


def config_of(name: str, source: Path, config: type) -> Any:
    if name == "ingest":
        return IngestConfig(sources=sources_from_path(str(source)))
    if name == "semantic_dedup":
        return SemanticConfig(enabled=False)
    if name == "decontaminate":
        return DecontaminateConfig(eval_files=(str(DATA / "eval" / "unified_small.jsonl.gz"),))
    if name == "tokenizer":
        return TokenizerConfig(vocab_size=8000, hard_vocab_limit=False)
    return config()


def run(source: Path, folder: Path, parts: Parts) -> dict[str, Cost]:
    """Every stage up to LAST over one source, from nothing."""
    store, inputs, costs = Store(str(folder)), dict[str, Any](), dict[str, Cost]()
    size = sum(path.stat().st_size for path in [source, *source.rglob("*")] if path.is_file())
    for stage in STAGES:
        config = config_of(stage.name, source, stage.config)
        before, parts.seconds = cpu_seconds(), 0.0
        wanted = {name: inputs[name] for name in stage.inputs}
        dataset = stages.run_stage(
            stage, store=store, pipeline="rates", config=config, inputs=wanted, workers=0
        ).dataset
        total, files = dataset.manifest.account.total(), dataset.manifest.files
        costs[stage.name] = Cost(
            worker=parts.seconds,
            driver=cpu_seconds() - before - parts.seconds,
            documents=total.read,
            kept=total.kept,
            text_bytes=size,
            shard_bytes=sum(f.bytes for f in files if f.role == "shard"),
            files=len(files),
            sidecar_bytes=sum(f.bytes for f in files if f.role == "sidecar"),
        )
        inputs[stage.name] = dataset
        if stage.name in ("decode", "extract", "filter", "exact_dedup", "minhash_dedup", "decontaminate", "mix"):
            size = text_bytes(dataset)
        if stage.name == LAST:
            return costs
    raise AssertionError(f"no stage {LAST!r}")


def text_bytes(dataset: Any) -> int:
    """UTF-8 bytes of the texts kept."""
    import pyarrow.compute as pc

    columns = (b["text"] for shard in dataset.shards for b in dataset.batches(shard, columns=["text"]))
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)


def write_short(path: Path, number: int) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for group in ("zh", "en"):
            for text in islice(sections(group, number // 2), number // 2):
                file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


def show(name: str, costs: dict[str, Cost]) -> None:
    print(f"\n{name}\n  {HEAD}")
    for stage, c in costs.items():
        megabytes, documents = c.text_bytes / 1e6, max(c.documents, 1)
        print(
            f"  {stage:<16} {c.documents:>8,} {c.kept:>8,} {megabytes:>7.1f} {c.worker:>8.2f} "
            f"{megabytes / max(c.worker, 0.01):>7.1f} {c.driver:>8.2f} {1e6 * c.driver / documents:>7.1f} "
            f"{c.shard_bytes / 1e6:>8.2f} {c.sidecar_bytes / documents:>10.0f}",
            flush=True,
        )


HEAD = "stage               read     kept   MB in worker s    MB/s driver s  us/doc shard MB sidecar B/doc"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=8, help="of text a language")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--short", type=int, default=30_000, help="short documents")
    arguments = parser.parse_args()
    if not (DATA / "corpus").is_dir():
        print(f"no data: set DANLU_DATA to the folder that holds corpus/ (looked in {DATA})")
        return
    parts = Parts()
    with tempfile.TemporaryDirectory(prefix="danlu-rates-") as name:
        folder = Path(name)
        for each in ("pages", "warm"):
            (folder / each).mkdir()
        write_texts(folder / "warm" / "texts.jsonl", "zh", 400_000)
        write_pages(folder / "warm", 8)
        for group in ("zh", "en"):
            write_texts(folder / f"{group}.jsonl", group, int(arguments.megabytes * 1e6))
        write_pages(folder / "pages", arguments.pages)
        write_short(folder / "short.jsonl", arguments.short)
        run(folder / "warm", folder / "warm-store", parts)
        for source in ("zh.jsonl", "en.jsonl", "pages", "short.jsonl"):
            show(source, run(folder / source, folder / f"store-{source}", parts))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"\npeak memory of this process, driver and worker in one: {peak:,.0f} MB")


if __name__ == "__main__":
    main()

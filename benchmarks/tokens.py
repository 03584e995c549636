"""Token shards and loader: speed per core against datatrove, Hugging Face and bare SentencePiece; memory.

    python benchmarks/tokens.py [--quick] [--megabytes 24] [--vocab 32000] [--repeats 3] [--only speed,memory,loader]

Speed: one corpus (Chinese documentation and laws, English novels, program code), one run, every measurement a process
of its own with one thread, danlu and peers in turn; ratios are those of medians, times are CPU seconds. danlu's is the
whole stage: Parquet in, splits and near-duplicates across them, .bin/.idx and sidecar out. datatrove's is its Megatron
step, Parquet in, .bin/.idx out. Hugging Face's and SentencePiece's are the encoding alone, of texts in memory. Both
peers get danlu's tokenizer as exported ("same ids") and a byte-level BPE that Hugging Face's trainer fits to the same
texts ("own BPE").

Memory: the stage on 1, 2 and 4 times the corpus. Loader: batches of 64 samples of 2,049 tokens at random places, as
training asks for them; a node of 8 GPUs at 55,000 tokens/s each wants 440,000. Data folder: DANLU_DATA or
../shared/data. Takes about 10 minutes, `--quick` two.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.clean import DATA, ROOT, Memory, cpu_seconds, measure, peer_python, texts, verdict

PEER = ROOT / "benchmarks" / "peers" / "tokens.py"
GROUPS = ("zh", "en", "code")
SECTIONS = ("speed", "memory", "loader")
SHARD_BYTES = 32_000_000  # of text in one Parquet file
BATCH = 256
FIT_MEGABYTES = 12  # of text that tokenizers are fitted to
NODE_TOKENS = 8 * 55_000  # tokens/s of 8 GPUs that train a 1B model
SEQ_LEN, BATCH_SAMPLES, BATCHES = 2048, 64, 300


# --- the corpus


def group_texts(group: str) -> Iterator[str]:
    import zstandard

    if group != "code":
        yield from texts(group)
        return
    with open(DATA / "corpus" / "source_code.jsonl.zst", "rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8", newline="\n")
        for line in lines:
            yield json.loads(line)["text"]


def write_given(payload: tuple[str, int], config: object, writer: Any) -> None:
    """One group as the mix stage would leave it, repeated from the start when there is less text."""
    from tasks.document import Document, Kept, Origin, document_id

    group, limit = payload
    writer.shard_bytes, done, number = SHARD_BYTES, 0, 0
    while done < limit:
        for text in group_texts(group):
            text = text.encode("utf-8", "replace").decode()
            origin = Origin(file=group, record=number, offset=0)
            identity = document_id("bench", group, number, b"")
            writer.put(Kept(document=Document(id=identity, text=text, source=group, language=group, origin=origin)))
            done, number = done + len(text.encode()), number + 1
            if done >= limit:
                break


def given_mix(folder: Path, megabytes: float) -> tuple[dict[str, Any], Any]:
    """The mix in the store of `folder`, made at the first call; how to run further stages there."""
    from tasks.stage import Part, Stage, run_stage
    from tasks.store.filesystem import Store

    limit = int(megabytes * 1e6 / len(GROUPS))

    def run(run: Any) -> None:
        run.parts(write_given, [Part(name=g, step="given", inputs=(g, str(limit)), payload=(g, limit)) for g in GROUPS])

    how: dict[str, Any] = {"store": Store(str(folder)), "pipeline": "bench", "workers": 0}
    stage = Stage(name="mix", module="tasks.document", config=dict, inputs=(), run=run, summary="")
    return how, run_stage(stage, config={"limit": limit}, inputs={}, **how).dataset


def made(folder: Path, megabytes: float, vocab: int) -> tuple[dict[str, Any], Any, Any]:
    """How to run stages, mix and tokenizer; the last is fitted once for all folders beside one another."""
    from tasks.stage import run_stage

    beside, sample = given_mix(folder.parent / "tokenizer", FIT_MEGABYTES)
    stage = importlib.import_module("tasks.tokenizer.stage").STAGE
    fitted = run_stage(stage, config=stage.config(vocab_size=vocab), inputs={"mix": sample}, **beside).dataset
    return *given_mix(folder, megabytes), fitted


def exported(tokenizer: Any, name: str) -> Path:
    [found] = [file.name for file in tokenizer.manifest.files if file.name.rsplit("/", 1)[-1] == name]
    return tokenizer.local(found)


def mix_texts(mix: Any) -> list[str]:
    return [
        text for shard in mix.shards for batch in mix.batches(shard, ["text"]) for text in batch["text"].to_pylist()
    ]


def fit_own_bpe(folder: Path, mix: Any, vocab: int) -> None:
    """Hugging Face's byte-level BPE as GPT-2 has it, of the same size, fitted to the same texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(mix_texts(mix), trainer)
    tokenizer.save(str(folder / "own_bpe.json"))


# --- what one measuring process does


def shard_process(folder: Path, megabytes: float, vocab: int, watch: bool = False) -> dict[str, Any]:
    """A run of the shards stage from nothing, after one that compiles kernels; peak memory if asked for (it costs)."""
    from tasks.stage import run_stage

    how, mix, tokenizer = made(folder, megabytes, vocab)
    stage = importlib.import_module("tasks.shards.stage").STAGE

    def once() -> Any:
        for done in ("datasets", "parts"):
            shutil.rmtree(folder / done / "shards", ignore_errors=True)
        return run_stage(stage, config=stage.config(), inputs={"mix": mix, "tokenizer": tokenizer}, **how).dataset

    once()
    cpu = cpu_seconds()
    with Memory(watch) as memory:
        dataset = once()
    spent = cpu_seconds() - cpu
    splits = dataset.manifest.facts["splits"].values()
    return {
        "cpu": spent,
        "bytes": sum(split["bytes"] for split in splits),
        "tokens": sum(split["tokens"] for split in splits),
        "left_out": dataset.manifest.facts["left_out"],
        "memory_mb": memory.driver / 1e6,
    }


def bare_process(folder: Path, megabytes: float, vocab: int, out: str) -> dict[str, Any]:
    """SentencePiece alone, whole texts in batches, ids as NumPy arrays or as Python lists."""
    import sentencepiece

    _, mix, tokenizer = made(folder, megabytes, vocab)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(exported(tokenizer, "tokenizer.model")))
    given = mix_texts(mix)
    started, tokens = time.process_time(), 0
    for start in range(0, len(given), BATCH):
        ids = processor.encode(given[start : start + BATCH], out_type="numpy" if out == "numpy" else int, num_threads=1)
        tokens += sum(map(len, ids))
    return {"cpu": time.process_time() - started, "tokens": tokens}


def loader_process(folder: Path, megabytes: float, vocab: int) -> dict[str, Any]:
    """Batches through the loader as training asks for them; page cache warm after the first pass over the files."""
    from tasks.shards.files import token_files
    from tasks.stage import run_stage
    from training.data import TokenDataset

    how, mix, tokenizer = made(folder, megabytes, vocab)
    stage = importlib.import_module("tasks.shards.stage").STAGE
    shards = run_stage(stage, config=stage.config(), inputs={"mix": mix, "tokenizer": tokenizer}, **how).dataset
    root, stems = token_files(shards, "train")
    data = TokenDataset(root, stems, digest=shards.digest, seq_len=SEQ_LEN, seed=0)
    for step in range(data.samples_per_epoch // BATCH_SAMPLES):
        data.batch(step, BATCH_SAMPLES)
    started = time.process_time()
    for step in range(BATCHES):
        data.batch(step, BATCH_SAMPLES)
    return {"cpu": time.process_time() - started, "tokens": BATCHES * BATCH_SAMPLES * SEQ_LEN}


# --- the driver of the measurements


def own(what: str, folder: Path, megabytes: float, vocab: int) -> dict[str, Any]:
    return measure(sys.executable, __file__, "--process", what, folder, megabytes, vocab)


def median(runs: list[dict[str, Any]], key: str = "cpu") -> float:
    return statistics.median(run[key] for run in runs)


def bench_speed(folder: Path, megabytes: float, vocab: int, repeats: int) -> list[dict[str, Any]]:
    _, mix, tokenizer = made(folder, megabytes, vocab)
    fit_own_bpe(folder, given_mix(folder.parent / "tokenizer", FIT_MEGABYTES)[1], vocab)
    source = Path(mix.local(mix.shards[0].name)).parent
    jsons = {"same ids": exported(tokenizer, "tokenizer.json"), "own BPE": folder / "own_bpe.json"}
    python, out = peer_python(), folder / "datatrove"
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(repeats):
        for name, what in (
            ("danlu, whole stage", "shards"),
            ("SentencePiece", "numpy"),
            ("SentencePiece, lists", "int"),
        ):
            runs.setdefault(name, []).append(own(what, folder, megabytes, vocab))
        for name, path in jsons.items():
            runs.setdefault(f"Hugging Face, {name}", []).append(measure(python, PEER, "batch", path, source))
            runs.setdefault(f"datatrove, {name}", []).append(measure(python, PEER, "datatrove", path, source, out))
            shutil.rmtree(out)
    size = runs["danlu, whole stage"][0]["bytes"] / 1e6
    speeds = {name: size / median(of) for name, of in runs.items()}
    ours = speeds["danlu, whole stage"]
    print(f"speed: {size:.1f} MB of text, {vocab:,} pieces; MB/s a core, danlu as a multiple, bytes a token")
    for name, speed in speeds.items():
        print(f"  {name:24} {speed:7.2f} {ours / speed:7.2f}x {size * 1e6 / runs[name][0]['tokens']:7.2f}", flush=True)
    lines = [
        verdict(f"times {name}", ours / speed, 5, ours >= 5 * speed, "")
        for name, speed in speeds.items()
        if name.startswith(("Hugging", "datatrove"))
    ]
    ratio = ours / speeds["SentencePiece"]
    return [*lines, verdict("of bare SentencePiece (NumPy)", ratio, 0.6, ratio >= 0.6, "")]


def bench_memory(folder: Path, megabytes: float, vocab: int) -> list[dict[str, Any]]:
    peaks = []
    for times in (1, 2, 4):
        made(folder / f"memory-{times}", megabytes * times, vocab)  # here, so that the measured process only finds it
        run = own("memory", folder / f"memory-{times}", megabytes * times, vocab)
        peaks.append(run["memory_mb"])
        print(
            f"memory: {run['bytes'] / 1e6:.0f} MB of text: {peaks[-1]:.0f} MB, left out {run['left_out']}", flush=True
        )
        shutil.rmtree(folder / f"memory-{times}")
    growth = max(peaks) / peaks[0]
    return [verdict("peak memory, largest over smallest corpus", growth, 1.2, growth <= 1.2, "one process, PSS")]


def bench_loader(folder: Path, megabytes: float, vocab: int, repeats: int) -> list[dict[str, Any]]:
    runs = [own("loader", folder, megabytes, vocab) for _ in range(repeats)]
    speed = runs[0]["tokens"] / median(runs)
    print(f"loader: {speed / 1e6:.1f} M tokens/s a core")
    times = speed / NODE_TOKENS
    return [verdict("loader, times a node's need", times, 20, times >= 20, f"{NODE_TOKENS:,} tokens/s")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=24)
    parser.add_argument("--vocab", type=int, default=32_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="6 MB, 8,000 pieces, once")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--process", nargs=4, metavar=("WHAT", "FOLDER", "MB", "VOCAB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        what, folder, megabytes, vocab = options.process
        given = (Path(folder), float(megabytes), int(vocab))
        if what in ("shards", "memory"):
            run = shard_process(*given, watch=what == "memory")
        else:
            run = loader_process(*given) if what == "loader" else bare_process(*given, what)
        print(json.dumps(run))
        return
    if not (DATA / "corpus").is_dir():
        print(f"no data: set DANLU_DATA to the folder that holds corpus/ (looked in {DATA})")
        return
    wanted, size, vocab, repeats = options.only.split(","), options.megabytes, options.vocab, options.repeats
    if options.quick:
        size, vocab, repeats = 6, 8000, 1
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="danlu-bench-") as name:
        folder = Path(name)
        if "speed" in wanted:
            results += bench_speed(folder / "speed", size, vocab, repeats)
        if "memory" in wanted:
            results += bench_memory(folder, size, vocab)
        if "loader" in wanted:
            results += bench_loader(folder / "speed", size, vocab, repeats)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"{sum(line['met'] for line in results)} of {len(results)} met")


if __name__ == "__main__":
    main()

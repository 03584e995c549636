"""MinHash deduplication: speed per core against other libraries, end to end against datatrove, memory, scaling.

    python benchmarks/dedup.py [--quick] [--documents 200000] [--repeats 3] [--only signatures,whole,memory,scaling]

Every measurement is a process of its own with one thread; runs of danlu and its peers alternate, ratios are those of
medians, speeds are CPU seconds of a core. danlu's signatures have its whole normal form in them, the others what they
do by themselves (`peers/dedup_signatures.py`). Documents are sections of the corpus, half Chinese, half English, a
tenth of them slightly edited copies; "whole" is the stage minhash_dedup against datatrove's four steps.

Memory is that of one process that does all: anonymous memory, which the kernel cannot take back, and resident memory,
which has mapped files and code in it. Scaling is the wall time of exact_dedup and minhash_dedup together and wants two
idle cores; the share of CPU that the driver spends alone says what two workers can give at most.

The peers' environments are made once in .venv-peers/. The data folder is DANLU_DATA or ../shared/data. The whole takes
about 20 minutes, most of them datatrove's; `--quick` takes a tenth of the documents.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.clean import DATA, PEERS, ROOT, cpu_seconds, measure, peer_python, texts, verdict, write_texts

SCRIPTS = ROOT / "benchmarks" / "peers"
GROUPS = ("zh", "en")
SECTIONS = ("signatures", "whole", "memory", "scaling")
SIGNATURE_PEERS = ("datatrove", "datasketch", "rensa", "text-dedup", "data-juicer")
MEDIAN_CHARACTERS = {"zh": 240, "en": 560}  # of a section; about 650 bytes of UTF-8 either way
COPIES = 0.1
SHARD_DOCUMENTS = 12_500  # about 8 MB
STAGES = {"exact_dedup": "tasks.dedup.exact", "minhash_dedup": "tasks.dedup.minhash"}
LOOK_SECONDS = 0.02  # between two looks at the memory


# --- documents


def sections(group: str, number: int) -> Iterator[str]:
    """`number` documents: the corpus cut into pieces of lognormal length, again and again at other places."""
    generator, made = random.Random(f"{group} sections"), 0
    recent: deque[str] = deque(maxlen=1000)
    middle = MEDIAN_CHARACTERS[group]
    while True:
        for text in texts(group):
            place = generator.randrange(middle)
            while place < len(text) - middle // 4:
                length = int(min(12 * middle, max(middle // 4, generator.lognormvariate(0, 0.8) * middle)))
                if len(recent) > 100 and generator.random() < COPIES:
                    source = generator.choice(recent)
                    cut = generator.randrange(len(source))
                    yield source[:cut] + source[cut + len(source) // 50 :]
                else:
                    recent.append(text[place : place + length])
                    place += length
                    yield recent[-1]
                made += 1
                if made == number:
                    return


def write_documents(folder: Path, number: int) -> float:
    """zh.parquet and en.parquet with half of the documents each; megabytes of text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    num_bytes = 0
    for group in GROUPS:
        found = list(sections(group, number // 2))
        num_bytes += sum(len(text.encode()) for text in found)
        table = pa.table({"id": [f"{group}-{i:07d}" for i in range(len(found))], "text": found})
        pq.write_table(table, folder / f"{group}.parquet", compression="zstd", row_group_size=1000)
    return num_bytes / 1e6


def write_given(payload: tuple[str, int], config: object, writer: Any) -> None:
    """Step "given": one shard of documents as the stage before would leave it."""
    import pyarrow.parquet as pq

    from tasks.document import Document, Kept, Origin, document_id

    path, start = payload
    table = pq.read_table(path).slice(start, SHARD_DOCUMENTS)
    for name, text in zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True):
        identity = document_id("bench", name, 0, text.encode("utf-8", "surrogatepass"))
        origin = Origin(file=name, record=0, offset=0)
        writer.put(Kept(document=Document(id=identity, text=text, source="bench", language="zh", origin=origin)))


def given_dataset(folder: Path, name: str) -> Any:
    """The documents as the dataset of stage `name`, made once; (store, dataset)."""
    import pyarrow.parquet as pq

    from tasks.stage import Part, Stage, run_stage
    from tasks.store.filesystem import Store

    def run(run: Any) -> None:
        run.parts(
            write_given,
            [
                Part(name=f"{group}-{start:07d}", step="given", inputs=(group, str(start)), payload=(str(path), start))
                for group in GROUPS
                for path in [folder / f"{group}.parquet"]
                for start in range(0, pq.read_metadata(path).num_rows, SHARD_DOCUMENTS)
            ],
        )

    stage = Stage(name=name, module="tasks.document", config=dict, inputs=(), run=run, summary="")
    store = Store(str(folder / "store"))
    return store, run_stage(stage, store=store, pipeline="bench", config={}, inputs={}, workers=0).dataset


# --- what one measuring process does


def deduplicate(folder: Path, workers: int, stages: Sequence[str] = ("minhash_dedup",)) -> dict[str, Any]:
    """One run of some stages that finds nothing done before: wall and CPU seconds, `driver` those of this process."""
    from tasks.stage import run_stage

    before = "filter" if "exact_dedup" in stages else "exact_dedup"
    store, dataset = given_dataset(folder, before)
    for done in ("datasets", "parts"):
        for name in stages:
            shutil.rmtree(folder / "store" / done / name, ignore_errors=True)
    wall, cpu, driver = time.monotonic(), cpu_seconds(), time.process_time()
    for name in stages:
        stage = importlib.import_module(STAGES[name]).STAGE
        inputs, config = {stage.inputs[0]: dataset}, stage.config()
        made = run_stage(stage, store=store, pipeline="bench", config=config, inputs=inputs, workers=workers)
        if made.cached:
            raise SystemExit(f"{name} found its result of an earlier run: nothing was measured")
        dataset = made.dataset
    spent = {"cpu": cpu_seconds() - cpu, "wall": time.monotonic() - wall, "driver": time.process_time() - driver}
    return {**spent, "facts": dataset.manifest.facts}


def danlu_process(what: str, folder: Path, warm: Path, workers: int) -> dict[str, Any]:
    """A run after a first small one, which loads kernels and starts workers: of minhash_dedup alone ("whole", or
    "memory" with its peak on the side), or of both stages ("both")."""
    from tasks.spread import shutdown

    stages = tuple(STAGES) if what == "both" else ("minhash_dedup",)
    deduplicate(warm, workers, stages)
    given_dataset(folder, "filter" if what == "both" else "exact_dedup")
    with Peak(what == "memory") as peak:
        run = deduplicate(folder, workers, stages)
    shutdown()
    return {**run, **peak.megabytes}


class Peak:
    """The highest anonymous and resident memory of this process while the block runs, where it is to be watched."""

    def __init__(self, watch: bool):
        self.megabytes = {"anonymous": 0.0, "resident": 0.0}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look if watch else lambda: None, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            with open("/proc/self/status") as file:
                found = {
                    line.split(":")[0]: int(line.split()[1]) for line in file if line.startswith(("VmRSS", "RssA"))
                }
            for name, key in (("anonymous", "RssAnon"), ("resident", "VmRSS")):
                self.megabytes[name] = max(self.megabytes[name], found[key] * 1024 / 1e6)


def signatures_process(path: Path) -> dict[str, Any]:
    """Normal forms and signatures of the texts of a file, from the column that Parquet would give."""
    import pyarrow as pa

    from kernels import minhash
    from tasks.dedup.normalise import fuzzy_codes

    with open(path, encoding="utf-8", newline="\n") as file:
        column = pa.array([json.loads(line)["text"] for line in file], pa.large_string())
    a, b = minhash.permutations(128, 1)
    minhash.sign_codes(*fuzzy_codes(column[:2]), 5, a, b, cap=10)
    started = time.process_time()
    normalising = 0.0
    for start in range(0, len(column), 256):
        before = time.process_time()
        forms = fuzzy_codes(column[start : start + 256])
        normalising += time.process_time() - before
        minhash.sign_codes(*forms, 5, a, b, cap=10)
    return {"cpu": time.process_time() - started, "normalising": normalising}


# --- the driver of the measurements


def danlu(what: str, folder: Path, warm: Path, workers: int = 0) -> dict[str, Any]:
    return measure(sys.executable, __file__, "--process", what, folder, warm, workers)


def python_of(peer: str) -> Path:
    """Python of a peer's environment, made at the first call."""
    if peer == "datatrove":
        return peer_python()
    name = "sketches" if peer in ("datasketch", "rensa") else peer
    folder, wanted = PEERS / name, SCRIPTS / f"dedup_{name.replace('-', '_')}.txt"
    ready = folder / "ready.txt"
    if not ready.exists() or ready.read_text() != wanted.read_text():
        print(f"setting up {folder.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [folder / "bin" / "pip", "install", "--quiet"]
        subprocess.run([*install, "--requirement", wanted], check=True)
        if name == "text-dedup":
            subprocess.run([*install, "--no-deps", "text-dedup==0.4.0"], check=True)
        ready.write_text(wanted.read_text())
    return folder / "bin" / "python"


def median(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def bench_signatures(folder: Path, megabytes: float, repeats: int) -> list[dict[str, Any]]:
    lines = []
    for group in GROUPS:
        path = folder / f"{group}.jsonl"
        size = write_texts(path, group, int(megabytes * 1e6))
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ("danlu", *SIGNATURE_PEERS)}
        for _ in range(repeats):
            runs["danlu"].append(measure(sys.executable, __file__, "--process", "signatures", path, folder, 0))
            for peer in SIGNATURE_PEERS:
                runs[peer].append(measure(python_of(peer), SCRIPTS / "dedup_signatures.py", peer, path, group))
        speeds = {name: size / median(of, "cpu") for name, of in runs.items()}
        form = size / median(runs["danlu"], "normalising")
        print(
            f"signatures {group}: {size:.1f} MB; MB/s a core, and danlu as a multiple; danlu's normal form {form:.0f}"
        )
        for name, speed in speeds.items():
            print(f"  {name:12} {speed:8.2f} {speeds['danlu'] / speed:8.1f}x", flush=True)
        for peer, limit in (("datatrove", 50), ("rensa", 3)):
            ratio = speeds["danlu"] / speeds[peer]
            lines.append(verdict(f"signatures {group}, times {peer}", ratio, limit, ratio >= limit, ""))
    return lines


def bench_whole(folder: Path, warm: Path, documents: int, repeats: int) -> list[dict[str, Any]]:
    given = folder / "whole"
    size = write_documents(given, documents)
    ours = [danlu("whole", given, warm) for _ in range(repeats)]
    out = folder / "datatrove"
    theirs = measure(peer_python(), SCRIPTS / "datatrove_dedup.py", given, out)
    shutil.rmtree(out)
    mine, ratio = median(ours, "cpu"), theirs["cpu"] / median(ours, "cpu")
    print(
        f"whole: {documents:,} documents, {size:.0f} MB; danlu {mine:.1f} s, datatrove {theirs['cpu']:.1f} s a core; "
        f"left {documents - ours[0]['facts']['removed']:,} and {theirs['left']:,}"
    )
    return [verdict("whole, times datatrove", ratio, 20, ratio >= 20, f"{ours[0]['facts']}")]


def bench_memory(folder: Path, warm: Path, documents: int) -> list[dict[str, Any]]:
    runs = []
    for number in (documents // 4, 2 * documents):
        given = folder / f"memory-{number}"
        size = write_documents(given, number)
        runs.append(danlu("memory", given, warm))
        print(
            f"memory: {number:,} documents, {size:.0f} MB of text: anonymous {runs[-1]['anonymous']:.0f} MB, "
            f"resident {runs[-1]['resident']:.0f} MB",
            flush=True,
        )
        shutil.rmtree(given)
    lines = []
    for kind in ("anonymous", "resident"):
        growth = max(run[kind] for run in runs) / runs[0][kind]
        name = f"peak {kind} memory, largest over smallest run"
        lines.append(verdict(name, growth, 1.2, growth <= 1.2, "one process"))
    return lines


def bench_scaling(folder: Path, warm: Path, documents: int, repeats: int) -> list[dict[str, Any]]:
    given = folder / "scaling"
    write_documents(given, documents)
    runs: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(repeats):
        for workers, of in runs.items():
            of.append(danlu("both", given, warm, workers))
    walls = {workers: median(of, "wall") for workers, of in runs.items()}
    alone = median(runs[1], "driver") / median(runs[1], "cpu")
    ratio = walls[1] / walls[2]
    note = (
        f"{documents:,} documents: {walls[1]:.1f} s and {walls[2]:.1f} s; the driver alone spends {alone:.1%} of "
        f"{median(runs[1], 'cpu'):.1f} CPU seconds, so {2 / (1 + alone):.2f} on two idle cores"
    )
    return [verdict("speed of 2 workers over 1", ratio, 1.8, ratio >= 1.8, note)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--megabytes", type=float, default=2, help="of text a language, for signatures")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the documents and text, once")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--process", nargs=4, metavar=("WHAT", "INPUT", "WARM", "WORKERS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        what, source, other, workers = options.process
        run = (
            signatures_process(Path(source))
            if what == "signatures"
            else danlu_process(what, Path(source), Path(other), int(workers))
        )
        print(json.dumps(run))
        return
    if not (DATA / "corpus").is_dir():
        print(f"no data: set DANLU_DATA to the folder that holds corpus/ (looked in {DATA})")
        return
    wanted = options.only.split(",")
    documents, megabytes, repeats = options.documents, options.megabytes, options.repeats
    if options.quick:
        documents, megabytes, repeats = documents // 10, megabytes / 2, 1
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="danlu-bench-") as name:
        folder = Path(name)
        warm = folder / "warm"
        write_documents(warm, 400)
        if "signatures" in wanted:
            results += bench_signatures(folder, megabytes, repeats)
        if "whole" in wanted:
            results += bench_whole(folder, warm, documents, repeats)
        if "memory" in wanted:
            results += bench_memory(folder, warm, documents)
        if "scaling" in wanted:
            results += bench_scaling(folder, warm, documents // 2, repeats)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"{sum(line['met'] for line in results)} of {len(results)} met")


if __name__ == "__main__":
    main()

"""Cleaning, ingest to filter: speed per core against datatrove and trafilatura, scaling, and peak memory.

    python benchmarks/clean.py [--megabytes 8] [--repeats 3] [--only text,html,scaling,memory] [--json FILE]

Every measurement is a process of its own with one thread, runs of danlu and peer alternate, and the ratio is that of
the medians. Speeds are CPU seconds (children's included), so that others on the machine count little. Scaling is wall
time of decode to filter and wants a machine with two idle cores; beside it stands the ratio of the longest paths in CPU
seconds (the driver and its busiest worker, stage by stage), which others on the machine hardly change. danlu's time has
its JSON reader and the Parquet files between its stages in it. The peer's environment is made once in .venv-peers/
(`benchmarks/peers/datatrove.txt`, 0.8 GB). The data folder is DANLU_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PEERS = ROOT / ".venv-peers"
DATA = Path(os.environ.get("DANLU_DATA", ROOT.parent / "shared" / "data"))
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
STAGES = ("ingest", "decode", "extract", "language", "filter")
SECTIONS = ("text", "html", "scaling", "memory")
MEMORY_MEGABYTES = (20, 65, 130)
SAMPLE_SECONDS = 0.05  # between two looks at the memory of the processes


# --- data


def members(name: str) -> Iterator[tuple[str, bytes]]:
    import zstandard

    with open(DATA / "corpus" / name, "rb") as file:
        unpacked = io.BytesIO(zstandard.ZstdDecompressor().stream_reader(file).read())
    with tarfile.open(fileobj=unpacked) as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)):
                yield member.name, content.read()


def texts(group: str) -> Iterator[str]:
    """Chinese documentation and laws, or English novels as plain text."""
    import lxml.html
    import pyarrow.parquet as pq
    import zstandard

    if group == "en":
        for _, page in members("en_books_xhtml.tar.zst"):
            yield lxml.html.document_fromstring(page).text_content().strip()
        return
    laws = iter(pq.read_table(DATA / "corpus" / "zh_hans_laws.parquet", columns=["text"])["text"].to_pylist())
    with open(DATA / "corpus" / "zh_hans_docs.jsonl.zst", "rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8", newline="\n")
        for line in lines:
            yield json.loads(line)["text"]
            if law := next(laws, None):
                yield law


def write_texts(path: Path, group: str, max_bytes: int) -> float:
    """A JSON-lines file of about `max_bytes` of text, repeated from the start when there is less; MB written."""
    num_bytes = 0
    with open(path, "w", encoding="utf-8") as file:
        while num_bytes < max_bytes:
            for text in texts(group):
                file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
                num_bytes += len(text.encode())
                if num_bytes >= max_bytes:
                    break
    return num_bytes / 1e6


def write_pages(folder: Path, max_pages: int) -> int:
    """Web pages of the corpus as files; how many."""
    names = ("handbook_html.tar.zst", "python_doc_html.tar.zst")
    pages = [[(n, c) for n, c in members(name) if n.endswith(".html")] for name in names]
    chosen = [page for of_one in pages for page in of_one[:: max(1, 2 * len(of_one) // max_pages)]]
    for index, (name, content) in enumerate(chosen):
        (folder / f"{index:04d}-{Path(name).name}").write_bytes(content)
    return len(chosen)


def write_warm_up(folder: Path) -> None:
    """A little of everything that is loaded at its first use: by each of two workers, since there are two parts."""
    for index in range(2):
        write_texts(folder / f"texts{index}.jsonl", "zh", 300_000)
        text = next(texts("zh")) + "\n电话：+86 10 6552 9988\n"
        with open(folder / f"texts{index}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"text": text}) + "\n")
    write_pages(folder, 4)


# --- what one measuring process does


def cpu_seconds() -> float:
    """Of this process and of its children, living and ended."""
    import psutil

    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def cpu_of_workers() -> dict[int, float]:
    """CPU seconds of each worker with its children, by process id."""
    import psutil

    spent = {}
    for child in psutil.Process().children(recursive=True):
        try:
            if child.name().startswith("ray::"):
                times = [child.cpu_times(), *(grandchild.cpu_times() for grandchild in child.children(recursive=True))]
                spent[child.pid] = sum(t.user + t.system for t in times)
        except psutil.Error:
            continue
    return spent


def run_stages(source: Path, store_folder: Path, workers: int) -> dict[str, tuple[float, float, float]]:
    """Stage -> (wall, CPU seconds, those of driver and busiest worker) of a run from nothing."""
    import importlib

    from tasks.ingest.config import IngestConfig, sources_from_path
    from tasks.stage import run_stage
    from tasks.store.filesystem import Store

    store, spent = Store(str(store_folder)), {}
    inputs: dict[str, Any] = {}
    for name in STAGES:
        stage = importlib.import_module("tasks.ingest.stage" if name == "ingest" else f"tasks.clean.{name}.stage").STAGE
        config = IngestConfig(sources=sources_from_path(str(source))) if name == "ingest" else stage.config()
        wanted = {key: inputs[key] for key in stage.inputs}
        cpu, workers_cpu = cpu_seconds(), cpu_of_workers()
        wall, driver = time.monotonic(), time.process_time()
        result = run_stage(stage, store=store, pipeline="bench", config=config, inputs=wanted, workers=workers)
        wall, driver = time.monotonic() - wall, time.process_time() - driver
        busiest = max((s - workers_cpu.get(pid, 0.0) for pid, s in cpu_of_workers().items()), default=0.0)
        spent[name] = (wall, cpu_seconds() - cpu, driver + busiest)
        inputs[name] = result.dataset
    return spent


def danlu_process(source: Path, warm: Path, workers: int, watch: bool) -> dict[str, Any]:
    """A run after a first small one, which loads models and starts workers; with `watch`, peak memory on the side.

    Looking at the memory of a process costs it up to 10 ms of CPU: on a busy machine, as much as the work itself.
    """
    from tasks.spread import shutdown

    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run_stages(warm, Path(folder) / "warm", workers)
        start_up = time.monotonic() - started
        with Memory(watch) as memory:
            spent = run_stages(source, Path(folder) / "store", workers)
    shutdown()
    return {
        "cpu": sum(cpu for _, cpu, _ in spent.values()),
        "wall": sum(spent[name][0] for name in STAGES[1:]),
        "path": sum(spent[name][2] for name in STAGES[1:]),
        "walls": {name: wall for name, (wall, _, _) in spent.items()},
        "stages": {name: cpu for name, (_, cpu, _) in spent.items()},
        "paths": {name: path for name, (_, _, path) in spent.items()},
        "start_up": start_up,
        "driver_mb": memory.driver / 1e6,
        "worker_mb": memory.worker / 1e6,
    }


class Memory:
    """Peak memory of this process and of its largest worker while the block runs (PSS: shared pages are shared)."""

    def __init__(self, watch: bool) -> None:
        self.driver = self.worker = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch if watch else lambda: None, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        own = psutil.Process()
        while not self._stop.wait(SAMPLE_SECONDS):
            self.driver = max(self.driver, own.memory_full_info().pss)
            for child in own.children(recursive=True):
                try:
                    if child.name().startswith("ray::"):
                        self.worker = max(self.worker, child.memory_full_info().pss)
                except psutil.Error:
                    continue


def trafilatura_process(folder: Path) -> dict[str, float]:
    """trafilatura alone, on text that was decoded before the clock starts."""
    import trafilatura

    from tasks.clean.decode.cascade import DecodeConfig, decode_bytes

    pages = [decode_bytes(path.read_bytes(), None, True, DecodeConfig()).text for path in sorted(folder.iterdir())]
    trafilatura.extract(pages[0])
    started = time.process_time()
    for page in pages:
        trafilatura.extract(page)
    return {"cpu": time.process_time() - started}


# --- the driver of the measurements


def measure(python: Path | str, *arguments: object) -> dict[str, Any]:
    """Run one measuring process; the JSON of its last line."""
    done = subprocess.run(
        [str(python), *map(str, arguments)],
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def danlu(source: Path, warm: Path, workers: int = 0, *, watch: bool = False) -> dict[str, Any]:
    return measure(sys.executable, __file__, "--process", "danlu-memory" if watch else "danlu", source, warm, workers)


def peer_python() -> Path:
    """Python of the peer's environment, made at the first call."""
    folder, wanted = PEERS / "datatrove", ROOT / "benchmarks" / "peers" / "datatrove.txt"
    ready = folder / "ready.txt"
    if not ready.exists() or ready.read_text() != wanted.read_text():
        print(f"setting up {folder.relative_to(ROOT)} (0.8 GB, about a minute)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--requirement", wanted], check=True)
        ready.write_text(wanted.read_text())
    return folder / "bin" / "python"


def median(runs: list[dict[str, Any]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def shares(run: dict[str, Any], key: str = "stages") -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in run[key].items())


def verdict(what: str, found: float, limit: float, met: bool, note: str) -> dict[str, Any]:
    print(f"  {'met    ' if met else 'NOT MET'} {what}: {found:.2f} (asked for {limit:g}). {note}", flush=True)
    return {"what": what, "found": round(found, 3), "limit": limit, "met": met, "note": note}


def bench_text(folder: Path, warm: Path, megabytes: float, repeats: int) -> list[dict[str, Any]]:
    python, script, lines = peer_python(), ROOT / "benchmarks" / "peers" / "datatrove_clean.py", []
    for group in ("zh", "en"):
        source = folder / f"{group}.jsonl"
        size = write_texts(source, group, int(megabytes * 1e6))
        ours, theirs = [], []
        for repeat in range(repeats):
            ours.append(danlu(source, warm))
            theirs.append(measure(python, script, source, folder / f"datatrove-{group}-{repeat}", group))
        speed, peer = size / median(ours, "cpu"), size / median(theirs, "cpu")
        print(f"text {group}: {size:.1f} MB; danlu {speed:.2f} MB/s, datatrove {peer:.2f} MB/s a core")
        lines.append(verdict(f"text {group}, times datatrove", speed / peer, 4, speed >= 4 * peer, shares(ours[-1])))
    return lines


def bench_html(folder: Path, warm: Path, max_pages: int, repeats: int) -> list[dict[str, Any]]:
    pages = folder / "pages"
    pages.mkdir()
    count, ours, theirs = write_pages(pages, max_pages), [], []
    for _ in range(repeats):
        ours.append(danlu(pages, warm))
        theirs.append(measure(sys.executable, __file__, "--process", "trafilatura", pages, warm, 0))
    mine = statistics.median(run["stages"]["decode"] + run["stages"]["extract"] for run in ours)
    peer = median(theirs, "cpu")
    print(
        f"html: {count} pages; danlu decode + extract {count / mine:.1f}, trafilatura {count / peer:.1f} pages/s a core"
    )
    note = shares(ours[-1])
    return [verdict("html, time of decode + extract over trafilatura's", mine / peer, 1.1, mine <= 1.1 * peer, note)]


def bench_scaling(folder: Path, warm: Path, megabytes: float, repeats: int) -> list[dict[str, Any]]:
    source = folder / "scaling.jsonl"
    write_texts(source, "zh", int(4 * megabytes * 1e6))
    one, two = [], []
    for _ in range(repeats):
        one.append(danlu(source, warm, 1))
        two.append(danlu(source, warm, 2))
    ratio = median(one, "wall") / median(two, "wall")
    for key, what in (("walls", "wall"), ("paths", "longest path, CPU")):
        print(f"scaling, {what}: one {shares(one[-1], key)}; two {shares(two[-1], key)}")
    path = median(one, "path") / median(two, "path")
    note = f"{path:.2f} by longest paths; start-up {two[-1]['start_up']:.1f} s apart; load {os.getloadavg()[0]:.1f}"
    return [verdict("speed of 2 workers over 1", ratio, 1.8, ratio >= 1.8, note)]


def bench_memory(folder: Path, warm: Path) -> list[dict[str, Any]]:
    runs = []
    for size in MEMORY_MEGABYTES:
        source = folder / "memory.jsonl"
        write_texts(source, "zh", size * 1_000_000)
        runs.append(danlu(source, warm, 1, watch=True))
        print(f"memory: {size} MB: worker {runs[-1]['worker_mb']:.0f} MB, driver {runs[-1]['driver_mb']:.0f} MB")
    lines = []
    for key in ("worker_mb", "driver_mb"):
        peaks = [run[key] for run in runs]
        middle = (max(peaks) + min(peaks)) / 2
        spread = (max(peaks) - middle) / middle
        lines.append(
            verdict(f"{key[:-3]} peak memory, ± share", spread, 0.2, spread <= 0.2, f"{peaks[0]:.0f} MB at 20")
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=8, help="of text a language")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--process", nargs=4, metavar=("WHAT", "SOURCE", "WARM", "WORKERS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        what, source, warm, workers = options.process
        run = (
            danlu_process(Path(source), Path(warm), int(workers), what == "danlu-memory")
            if what.startswith("danlu")
            else trafilatura_process(Path(source))
        )
        print(json.dumps(run))
        return
    if not (DATA / "corpus").is_dir():
        print(f"no data: set DANLU_DATA to the folder that holds corpus/ (looked in {DATA})")
        return
    wanted = options.only.split(",")
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="danlu-bench-") as name:
        folder = Path(name)
        warm = folder / "warm"
        warm.mkdir()
        write_warm_up(warm)
        if "text" in wanted:
            results += bench_text(folder, warm, options.megabytes, options.repeats)
        if "html" in wanted:
            results += bench_html(folder, warm, options.pages, options.repeats)
        if "scaling" in wanted:
            results += bench_scaling(folder, warm, options.megabytes, options.repeats)
        if "memory" in wanted:
            results += bench_memory(folder, warm)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"{sum(line['met'] for line in results)} of {len(results)} met")


if __name__ == "__main__":
    main()

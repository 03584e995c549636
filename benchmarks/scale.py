"""The arithmetic of docs/scale.md: 12 TB raw and 5 TB a day on N nodes, from what one core was measured to do.

    python benchmarks/scale.py [--document-bytes 4000]     prints the tables that docs/scale.md holds

A stage's worker time is a cost a byte and a cost a document, solved from two lines that `benchmarks/stage_rates.py`
printed (long texts, short texts). Driver time is per document and does not shrink with nodes. Time on N nodes is the
larger of computing and moving bytes, plus the driver's. What is measured and what is assumed stands apart below.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TB, HOUR, DAY = 1e12, 3600.0, 24.0
NODES = (10, 50, 100)


@dataclass(frozen=True, slots=True)
class Measured:
    """One stage. Of each run: MB read, documents, CPU seconds in parts, CPU seconds of the driver."""

    name: str
    long: tuple[float, int, float, float]  # two runs together: Chinese, English
    short: tuple[float, int, float, float]
    sidecar_bytes: int = 0  # a document, on short texts
    sidecars: int = 0  # files a part
    reasons: int = 0  # files a part of what is dropped or in quarantine, when every reason occurs in it
    steps: int = 1  # calls a part
    driver_more: float = 0.0  # seconds a document that the driver of a large run takes beyond that of the short one

    @property
    def seconds_per_document(self) -> float:
        """Of a worker; nothing where short texts are no dearer a byte."""
        ratio = self.short[0] / self.long[0]
        return max(0.0, (self.short[2] - ratio * self.long[2]) / (self.short[1] - ratio * self.long[1]))

    @property
    def seconds_per_byte(self) -> float:
        return (self.long[2] - self.long[1] * self.seconds_per_document) / (self.long[0] * 1e6)

    @property
    def driver_seconds_per_document(self) -> float:
        """What the short run took more than one of the long ones, which have 400 documents; the clock ticks 0.01 s."""
        more = self.short[3] - self.long[3] / 2
        return more / self.short[1] + self.driver_more if more > 0.015 else 0.0


# python benchmarks/index_scale.py, CPU of the driver a document and its memory
NIGHT_US_PER_OLD = 1.1  # copied into the next index, renamed: a night of 10^6 on 10^8 in 108.5 s
NIGHT_US_PER_NEW_SMALL = 3.4  # at 10^6 new ones
NIGHT_US_PER_NEW = 8.4  # at 5 * 10^7 new ones
NIGHT_BYTES_PER_DOCUMENT = 60  # peak anonymous memory at 10^8
NIGHT_MORE = (NIGHT_US_PER_NEW - NIGHT_US_PER_NEW_SMALL) / 1e6

# python benchmarks/stage_rates.py --megabytes 6 --pages 120 --short 20000, 2026-11-30, two busy cores
STAGES = (
    Measured("ingest", (12.2, 831, 0.24, 0.04), (15.1, 20_000, 0.79, 0.02), reasons=2),
    Measured("decode", (12.2, 831, 0.55, 0.03), (15.1, 19_988, 1.79, 0.01), reasons=1),
    Measured("extract", (12.0, 831, 0.29, 0.03), (14.6, 19_988, 1.06, 0.01), reasons=1),
    Measured("language", (12.0, 831, 2.33, 0.04), (14.6, 19_988, 10.16, 0.03)),
    Measured("filter", (12.0, 831, 0.59, 0.02), (14.6, 19_988, 2.82, 0.01), reasons=17),
    Measured("exact_dedup", (11.8, 800, 0.91, 0.08), (13.9, 17_855, 2.84, 0.14), 59, sidecars=3, reasons=2, steps=4),
    Measured("minhash_dedup", (11.8, 795, 1.24, 0.17), (13.9, 17_827, 0.86, 0.18), 803, 1, 1, 3, NIGHT_MORE),
    Measured("decontaminate", (11.8, 794, 1.05, 0.02), (12.6, 16_330, 4.46, 0.01), reasons=1),
    Measured("mix", (11.8, 794, 0.32, 0.05), (12.6, 16_330, 2.12, 0.01), reasons=1),
    Measured("shards", (11.8, 794, 0.97, 0.08), (12.6, 16_330, 1.46, 0.05), 388, sidecars=2),
)
HTML_EXTRACT_MB_S = 2.0  # the same command's "pages": 10.1 MB of HTML in 5.05 s
HTML_TEXT = 0.21  # 2.1 MB of text in them
PARQUET = 0.35  # bytes kept a byte of text: (1.92 + 2.21) / 12.0 after language
EMBEDDED_PER_SECOND = {"USE (zh)": 187, "MiniLM (en)": 43}  # texts a core, LOG.md 2026-11-30
DRIVER_SECONDS_PER_CALL = 1.4e-3  # 3,000 empty calls through tasks.spread, CPU of the driver
MANIFEST_BYTES_PER_FILE = 220  # manifests of the shared corpus
INDEX_BYTES = 252  # a document: MinHash dedup of the shared corpus, 10,279 documents in 2,594,982 bytes
SCALING = 0.85  # two workers against one: 1.71, LOG.md


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumed:
    """What nobody measured here."""

    raw: float = 12 * TB
    unpacked: float = 28 * TB  # the report's corpus
    daily_raw: float = 5 * TB
    document_bytes: int = 4_000  # of a web page's text: 1,300 Chinese or 4,000 English characters
    cores: int = 64  # a node
    node_bytes_per_second: float = 1.25e9  # 10 Gbit/s to the store
    part_bytes: int = 64 << 20  # of text; tasks.part_writer.SHARD_BYTES
    request_seconds: float = 0.02  # of an object store
    # share of the unpacked bytes that reaches a stage; the last is the report's 3.7 of 28 TB
    reaches: tuple[tuple[str, float], ...] = (
        *((name, 1.0) for name in ("ingest", "decode", "extract", "language", "filter")),
        ("exact_dedup", 0.40),
        ("minhash_dedup", 0.28),
        ("decontaminate", 0.15),
        ("mix", 0.14),
        ("shards", 3.7 / 28),
    )

    def bytes_into(self, stage: str, unpacked: float | None = None) -> float:
        return dict(self.reaches)[stage] * (self.unpacked if unpacked is None else unpacked)

    @property
    def daily_unpacked(self) -> float:
        return self.daily_raw * self.unpacked / self.raw


# --- formulae


def worker_hours(stage: Measured, num_bytes: float, assumed: Assumed) -> float:
    """Core hours in parts."""
    documents = num_bytes / assumed.document_bytes
    return (num_bytes * stage.seconds_per_byte + documents * stage.seconds_per_document) / HOUR


def parts(num_bytes: float, assumed: Assumed) -> int:
    return -int(-num_bytes // assumed.part_bytes)


def driver_hours(stage: Measured, num_bytes: float, assumed: Assumed) -> float:
    """On one machine: what it does a document, handing out calls, and reading raw files for their digests."""
    calls = parts(num_bytes, assumed) * stage.steps
    documents = num_bytes / assumed.document_bytes
    read = num_bytes * assumed.raw / assumed.unpacked / assumed.node_bytes_per_second if stage.name == "ingest" else 0.0
    return (documents * stage.driver_seconds_per_document + calls * DRIVER_SECONDS_PER_CALL + read) / HOUR


def look_up_hours(num_parts: int, assumed: Assumed) -> float:
    """To ask an object store, one after the other, which parts are done: a request for each that is not."""
    return num_parts * assumed.request_seconds / HOUR


def moved(stage: Measured, num_bytes: float, kept: float, assumed: Assumed) -> tuple[float, float]:
    """Bytes read from and written to the store: Parquet in for each step, Parquet out, sidecars out and in again."""
    sidecars = num_bytes / assumed.document_bytes * stage.sidecar_bytes
    read = num_bytes if stage.name == "ingest" else PARQUET * num_bytes
    return read * stage.steps + sidecars, PARQUET * kept + sidecars


def files(stage: Measured, num_bytes: float, assumed: Assumed) -> int:
    """Data files and records of parts."""
    return parts(num_bytes, assumed) * (1 + stage.sidecars + stage.reasons + stage.steps)


def hours_on(nodes: int, stage: Measured, num_bytes: float, kept: float, assumed: Assumed) -> float:
    computing = worker_hours(stage, num_bytes, assumed) / (nodes * assumed.cores * SCALING)
    moving = sum(moved(stage, num_bytes, kept, assumed)) / (nodes * assumed.node_bytes_per_second) / HOUR
    return max(computing, moving) + driver_hours(stage, num_bytes, assumed)


def flow(unpacked: float, assumed: Assumed) -> list[tuple[Measured, float, float]]:
    """(stage, bytes of text into it, bytes it keeps)."""
    into = [assumed.bytes_into(stage.name, unpacked) for stage in STAGES]
    return list(zip(STAGES, into, [*into[1:], into[-1]], strict=True))


# --- tables


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])


def work(assumed: Assumed) -> str:
    rows, total = [], [0.0] * (2 + len(NODES))
    for stage, into, kept in flow(assumed.unpacked, assumed):
        numbers = [worker_hours(stage, into, assumed), driver_hours(stage, into, assumed)]
        numbers += [hours_on(nodes, stage, into, kept, assumed) for nodes in NODES]
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        speed = into / 1e6 / HOUR / numbers[0]
        rows.append(
            [stage.name, f"{into / TB:.1f}", f"{speed:.1f}", f"{numbers[0]:,.0f}", *(f"{n:.2f}" for n in numbers[1:])]
        )
    rows.append(["all", "", "", f"{total[0]:,.0f}", *(f"{n:.1f}" for n in total[1:])])
    return table(
        ["stage", "TB of text in", "MB/s a core", "core hours", "driver h", *(f"h on {n}" for n in NODES)], rows
    )


def traffic(assumed: Assumed) -> str:
    rows = []
    for stage, into, kept in flow(assumed.unpacked, assumed):
        read, written = moved(stage, into, kept, assumed)
        count = files(stage, into, assumed)
        listed = parts(into, assumed) * (1 + stage.sidecars + stage.reasons) * MANIFEST_BYTES_PER_FILE / 1e6
        asking = look_up_hours(parts(into, assumed) * stage.steps, assumed)
        rows.append(
            [
                stage.name,
                f"{parts(into, assumed):,}",
                f"{read / TB:.1f}",
                f"{written / TB:.1f}",
                f"{count:,}",
                f"{listed:,.0f}",
                f"{asking:.1f}",
            ]
        )
    return table(["stage", "parts", "TB read", "TB written", "files", "manifest MB", "h to ask for its parts"], rows)


def pages(assumed: Assumed) -> str:
    """28 TB of HTML instead of text: what `extract` then takes."""
    core = assumed.unpacked / 1e6 / HTML_EXTRACT_MB_S / HOUR
    spread = [f"{core / (n * assumed.cores * SCALING):.1f}" for n in NODES]
    return table(
        ["HTML", "TB in", "TB of text out", "core hours", *(f"h on {n}" for n in NODES)],
        [
            [
                "extract",
                f"{assumed.unpacked / TB:.0f}",
                f"{HTML_TEXT * assumed.unpacked / TB:.1f}",
                f"{core:,.0f}",
                *spread,
            ]
        ],
    )


def meaning(assumed: Assumed) -> str:
    """Embedding all that MinHash keeps, at 0.17 of the unpacked bytes."""
    documents = 0.17 * assumed.unpacked / assumed.document_bytes
    rows = []
    for name, speed in EMBEDDED_PER_SECOND.items():
        core = documents / speed / HOUR
        rows.append(
            [
                name,
                f"{documents / 1e9:.2f}",
                speed,
                f"{core:,.0f}",
                *(f"{core / (n * assumed.cores * SCALING):.1f}" for n in NODES),
            ]
        )
    return table(["encoder", "10^9 documents", "texts/s a core", "core hours", *(f"h on {n}" for n in NODES)], rows)


def day(assumed: Assumed) -> str:
    stages = flow(assumed.daily_unpacked, assumed)
    rows = []
    for nodes in NODES:
        driver = sum(driver_hours(s, b, assumed) for s, b, _ in stages)
        total = sum(hours_on(nodes, s, b, k, assumed) for s, b, k in stages)
        shares = {s.name: hours_on(nodes, s, b, k, assumed) for s, b, k in stages}
        slowest = max(shares, key=lambda name: shares[name])
        rows.append(
            [nodes, nodes * assumed.cores, f"{total:.1f}", f"{driver:.1f}", f"{slowest} ({shares[slowest]:.1f} h)"]
        )
    return table(["nodes", "cores", "h for a day's 5 TB", "of these the driver's", "longest stage"], rows)


def growth(assumed: Assumed) -> str:
    """A year in one store, with each night's run over all that there is."""
    a_day = assumed.bytes_into("minhash_dedup", assumed.daily_unpacked) / assumed.document_bytes
    rows = []
    for days in (1, 10, 30, 365):
        documents, old = days * a_day, (days - 1) * a_day
        row = [
            f"{documents / 1e9:.2f}",
            "yes" if documents < 1 << 32 else "no",
            f"{documents * INDEX_BYTES / TB:.2f}",
            f"{(old * NIGHT_US_PER_OLD + a_day * NIGHT_US_PER_NEW) / 1e6 / HOUR:.1f}",
            f"{documents * NIGHT_BYTES_PER_DOCUMENT / 1e9:,.0f}",
            f"{days * assumed.daily_raw / assumed.node_bytes_per_second / HOUR:,.1f}",
            f"{look_up_hours(parts(days * assumed.daily_unpacked, assumed), assumed):,.1f}",
        ]
        rows.append([days, *row])
    head = [
        "10^9 documents",
        "below 2^32",
        "index TB",
        "h to grow it",
        "driver GB",
        "h to hash raw files",
        "h to ask for parts",
    ]
    return table(["days", *head], rows)


TABLES = {"work": work, "traffic": traffic, "pages": pages, "meaning": meaning, "day": day, "growth": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document-bytes", type=int, default=Assumed().document_bytes)
    assumed = Assumed(document_bytes=parser.parse_args().document_bytes)
    for make in TABLES.values():
        print(make(assumed), end="\n\n")


if __name__ == "__main__":
    main()

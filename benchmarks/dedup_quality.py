"""How right deduplication is: planted copies, the S-curve against theory, natural near-duplicates, meaning, search.

    python benchmarks/dedup_quality.py [--only planted curve natural semantic search]

Reads `dedup/` and `corpus/` below DANLU_DATA or ../shared/data. One thread; some five minutes in all on an idle core.

    planted     the three dedup stages over planted.jsonl.zst; an edited copy counts as due when its true Jaccard to its
                base reaches the threshold, exact, spacing and script-swapped copies always
    curve       how often pairs of known Jaccard meet in a bucket, over 20 seeds, against 1 - (1 - s^rows)^bands
    natural     of the pairs whose true Jaccard reaches a threshold (all pairs, by a sparse product), how many LSH
                proposes; and of the verified pairs, how many the set's own labels call the same
    semantic    see semantic_quality.py
    search      see search_quality.py
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from kernels import minhash
from tasks.dedup import exact, semantic
from tasks.dedup import minhash as minhash_stage
from tasks.dedup.lsh import band_keys, bands_and_rows, candidate_probability
from tasks.dedup.normalise import fuzzy_form
from tasks.document import Document, Kept, Origin, document_id
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

DATA = Path(os.environ.get("DANLU_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
SHINGLE, NUM_PERM, MIN_SHINGLES, WEIGHT = 5, 128, 10, 0.99
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
ALWAYS_DUE = ("exact", "spacing", "script_swapped")
SECTIONS = ("planted", "curve", "natural", "semantic", "search")


def rows_of(name: str) -> list[dict[str, Any]]:
    """The records of dedup/<name>."""
    path = DATA / "dedup" / name
    if path.suffix == ".gz":
        return [json.loads(line) for line in gzip.open(path, "rt", encoding="utf-8", newline="\n")]
    with open(path, "rb") as file:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)
        return [json.loads(line) for line in io.TextIOWrapper(reader, encoding="utf-8", newline="\n")]


# --- planted ---------------------------------------------------------------------------------------------------------


def _given(documents: Sequence[Document]) -> Stage:
    def write(payload: Sequence[Document], config: Any, writer: PartWriter) -> None:
        for document in payload:
            writer.put(Kept(document=document))

    def run(run: StageRun) -> None:
        run.parts(write, [Part(name="planted", step="given", inputs=(), payload=documents)])

    return Stage(name="filter", module="tasks.document", config=dict, inputs=(), run=run, summary="")


def removed_by(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Document id -> evidence of what a dataset's stage removed."""
    rows = [row for f in dataset.files("removed") for batch in dataset.batches(f) for row in batch.to_pylist()]
    return {row["id"]: {"reason": row["reason"], **json.loads(row["evidence"])} for row in rows}


def dedup_planted(planted: Sequence[dict[str, Any]], with_semantic: bool) -> dict[str, dict[str, Any]]:
    """Evidence by name of what the stages remove, one after the other; prints what each did."""
    origin = Origin(file="planted", record=0, offset=0)
    names = {document_id("planted", row["id"], 0, b""): row["id"] for row in planted}
    documents = [
        Document(id=id_, text=row["text"], source=row["part"], language=row["lang"], origin=origin)
        for id_, row in zip(names, planted, strict=True)
    ]
    removed: dict[str, dict[str, Any]] = {}
    stages = [(exact.STAGE, exact.ExactConfig()), (minhash_stage.STAGE, minhash_stage.MinHashConfig())]
    if with_semantic:
        stages.append((semantic.STAGE, semantic.SemanticConfig()))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        options: dict[str, Any] = {"store": store, "pipeline": "planted", "workers": 0}
        dataset = run_stage(_given(documents), config={}, inputs={}, **options).dataset
        for stage, config in stages:
            inputs = {stage.inputs[0]: dataset}
            dataset = run_stage(stage, config=config, inputs=inputs, **options).dataset
            found = removed_by(dataset)
            for id_, evidence in found.items():
                removed[names[id_]] = {**evidence, "stage": stage.name, "kept_id": names[evidence["kept_id"]]}
            facts = dataset.manifest.facts
            cut = facts.get("paragraphs", {}).get("documents_cut")
            print(f"  {stage.name:15} removes {len(found):5}" + (f", cuts {cut}" if cut is not None else ""))
    return removed


def report_planted(with_semantic: bool) -> None:
    planted = rows_of("planted.jsonl.zst")
    print(f"planted: {len(planted):,} documents")
    removed = dedup_planted(planted, with_semantic)
    row_of = {row["id"]: row for row in planted}
    wrong = [i for i, e in removed.items() if row_of[i]["group"] is None or row_of[i]["group"] != group_of(e, row_of)]
    bases = {row["group"]: row["id"] for row in planted if row["kind"] == "base" and row["group"]}
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for row in planted:
        if row["kind"] in ("base", "negative_same_frame") or row["group"] not in bases:
            table[row["kind"]]["gone" if row["id"] in removed else "stay"] += 1
            continue
        jaccard = max(row["jaccard"] or 0.0, row.get("jaccard_after_t2s") or 0.0)
        due = row["kind"] in ALWAYS_DUE or jaccard >= 0.8
        found = row["id"] in removed or bases[row["group"]] in removed  # one of the two goes
        table[row["kind"]][f"{'due' if due else 'other'} {'found' if found else 'missed'}"] += 1
    print(f"  {'kind':20} {'due':>5} {'found':>6} {'below':>6} {'found':>6}   {'alone':>6} {'gone':>5}")
    for kind, c in sorted(table.items()):
        due, below = c["due found"] + c["due missed"], c["other found"] + c["other missed"]
        alone = c["gone"] + c["stay"]
        print(f"  {kind:20} {due:5} {c['due found']:6} {below:6} {c['other found']:6}   {alone:6} {c['gone']:5}")
    found, due = (sum(c["due found"] for c in table.values()), sum(c["due missed"] for c in table.values()))
    print(f"  found of what is due: {found}/{found + due} = {found / (found + due):.2%} (to reach 99 %)")
    print(f"  removed for a survivor of another group: {len(wrong)}/{len(removed)} = {len(wrong) / len(removed):.2%}")
    for id_ in wrong[:10]:
        print(f"    {id_} ({row_of[id_]['kind']}) for {removed[id_]['kept_id']}: {removed[id_]}")
    print(f"  hard negatives removed: {table['negative_same_frame']['gone']} of 249\n")


def group_of(evidence: dict[str, Any], row_of: dict[str, dict[str, Any]]) -> str | None:
    return row_of[evidence["kept_id"]]["group"]


# --- the S-curve -----------------------------------------------------------------------------------------------------


def pairs_of_known_jaccard(texts: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """A text, and the same text with a share of its parts replaced by parts of another."""
    rng = np.random.default_rng(seed)
    for left, right in itertools.pairwise(texts):
        size = int(rng.integers(20, 80))
        parts = [left[i : i + size] for i in range(0, len(left), size)]
        others = [right[i : i + size] for i in range(0, len(right), size)]
        share = rng.uniform(0, 0.5)
        yield left, "".join(rng.choice(others) if rng.random() < share else part for part in parts)


def report_curve(num_seeds: int = 20) -> None:
    """Candidate rate by Jaccard, for the thresholds 0.8 and 0.5, over permutations of `num_seeds` seeds."""
    texts = [fuzzy_form(row["text"][:4000]) for row in rows_of("planted.jsonl.zst") if row["kind"] == "base"]
    pairs = [pair for pair in pairs_of_known_jaccard(texts[:1200], 7) if min(map(len, pair)) > 300]
    flat = [text for pair in pairs for text in pair]
    sets = [minhash.shingle_set(text, SHINGLE) for text in flat]
    jaccard = np.array([minhash.jaccard(a, b) for a, b in zip(sets[::2], sets[1::2], strict=True)])
    shapes = {t: bands_and_rows(t, NUM_PERM, WEIGHT) for t in (0.8, 0.5)}
    met = {t: np.zeros(len(pairs)) for t in shapes}
    errors = np.zeros(len(pairs))
    for seed in range(num_seeds):
        signatures, _, _ = minhash.sign(flat, SHINGLE, *minhash.permutations(NUM_PERM, seed), cap=MIN_SHINGLES)
        errors += (signatures[::2] == signatures[1::2]).mean(axis=1) - jaccard
        for threshold, (bands, rows) in shapes.items():
            keys = band_keys(signatures, bands, rows)
            met[threshold] += (keys[::2] == keys[1::2]).any(axis=1)
    print(
        f"curve: {len(pairs):,} pairs x {num_seeds} seeds; estimate minus true Jaccard {errors.mean() / num_seeds:+.4f}"
    )
    print(f"  {'Jaccard':>11} {'trials':>7}" + "".join(f"   {b}x{r}: met  theory  diff/sd" for b, r in shapes.values()))
    for low in np.arange(0.2, 1.0, 0.05):
        inside = (jaccard >= low) & (jaccard < low + 0.05)
        if not inside.any():
            continue
        line = f"  {low:.2f}-{low + 0.05:.2f}  {inside.sum() * num_seeds:7}"
        for threshold, (bands, rows) in shapes.items():
            theory = np.array([candidate_probability(s, bands, rows) for s in jaccard[inside]])
            rate = met[threshold][inside].sum() / (inside.sum() * num_seeds)
            deviation = np.sqrt((theory * (1 - theory)).sum() * num_seeds) / (inside.sum() * num_seeds)
            line += f"    {rate:9.4f} {theory.mean():7.4f} {(rate - theory.mean()) / max(deviation, 1e-9):+8.1f}"
        print(line)
    print()


# --- natural pairs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Texts, and which belong together by the set's own word."""

    name: str
    texts: list[str]
    labels: list[str]


def natural_sets() -> list[Labelled]:
    sets = []
    for name in ("laws_zh", "licenses_en"):
        rows = rows_of(f"{name}_docs.jsonl.gz")
        sets.append(Labelled(name=name, texts=[r["text"] for r in rows], labels=[r["group"] for r in rows]))
    for name, file, sides in (
        ("tang_poem_editions", "tang_poem_editions.jsonl.gz", ("a", "b")),
        ("hans_hant_docs", "hans_hant_docs.jsonl.gz", ("hans", "hant")),
        ("hans_hant_sentences", "hans_hant_sentences.jsonl.gz", ("hans", "hant")),
    ):
        rows = rows_of(file)
        texts = [row[side] for row in rows for side in sides]
        sets.append(Labelled(name=name, texts=texts, labels=[str(i) for i in range(len(rows)) for _ in sides]))
    return sets


def ratio(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "-"


def all_jaccards(sets: Sequence[np.ndarray], least: float) -> dict[tuple[int, int], float]:
    """Every pair of shingle sets with Jaccard >= least, by a sparse product: no LSH involved."""
    from scipy import sparse

    sizes = np.array([len(s) for s in sets])
    _, columns = np.unique(np.concatenate(sets), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    matrix = sparse.csr_matrix((np.ones(len(columns), dtype=np.int32), columns, starts))
    shared = sparse.triu(matrix @ matrix.T, k=1).tocoo()
    values = shared.data / (sizes[shared.row] + sizes[shared.col] - shared.data)
    near = values >= least
    return {
        (int(a), int(b)): float(v) for a, b, v in zip(shared.row[near], shared.col[near], values[near], strict=True)
    }


def proposed_pairs(signatures: np.ndarray, threshold: float) -> set[tuple[int, int]]:
    """All pairs that share a bucket at the bands chosen for `threshold`."""
    keys = band_keys(signatures, *bands_and_rows(threshold, NUM_PERM, WEIGHT))
    found: set[tuple[int, int]] = set()
    for band in range(keys.shape[1]):
        buckets: dict[int, list[int]] = defaultdict(list)
        for document, key in enumerate(keys[:, band]):
            buckets[int(key)].append(document)
        found.update((a, b) for bucket in buckets.values() for i, a in enumerate(bucket) for b in bucket[i + 1 :])
    return found


def report_natural() -> None:
    print("natural: pairs of each set (recall of LSH against all pairs; precision and recall against labels)")
    print(
        f"  {'set':20} {'docs':>5} {'short':>5} {'t':>4} {'J>=t':>6} {'met':>6} {'recall':>7} {'proposed':>9} "
        f"{'same label':>10} {'precision':>9} {'of labelled':>11} {'recall':>7}"
    )
    for labelled in natural_sets():
        forms = [fuzzy_form(text) for text in labelled.texts]
        signatures, _, distinct = minhash.sign(forms, SHINGLE, *minhash.permutations(NUM_PERM, 1), cap=MIN_SHINGLES)
        comparable = np.flatnonzero(distinct >= MIN_SHINGLES)
        sets = [minhash.shingle_set(forms[i], SHINGLE) for i in comparable]
        labels = [labelled.labels[i] for i in comparable]
        truth = all_jaccards(sets, min(THRESHOLDS))
        counts = Counter(labelled.labels)
        num_labelled = sum(n * (n - 1) // 2 for n in counts.values())  # of short documents too: they count as missed
        for threshold in THRESHOLDS:
            due = {pair for pair, value in truth.items() if value >= threshold}
            proposed = proposed_pairs(signatures[comparable], threshold)
            met = due & proposed
            same = sum(labels[a] == labels[b] for a, b in met)
            print(
                f"  {labelled.name:20} {len(forms):5} {len(forms) - len(comparable):5} {threshold:4} {len(due):6} "
                f"{len(met):6} {ratio(len(met), len(due)):>7} {len(proposed):9} {same:10} "
                f"{ratio(same, len(met)):>9} {num_labelled:11} {ratio(same, num_labelled):>7}"
            )
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    arguments = parser.parse_args()
    if not (DATA / "dedup").is_dir():
        print(f"no folder {DATA / 'dedup'}: set DANLU_DATA to the folder of shared test data")
        return
    if "planted" in arguments.only:
        report_planted(with_semantic="semantic" in arguments.only)
    if "curve" in arguments.only:
        report_curve()
    if "natural" in arguments.only:
        report_natural()
    if {"semantic", "search"} & set(arguments.only):
        from benchmarks import search_quality, semantic_quality

        if "semantic" in arguments.only:
            semantic_quality.report_semantic(DATA)
        if "search" in arguments.only:
            search_quality.report_search(DATA)


if __name__ == "__main__":
    main()

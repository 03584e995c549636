"""The bundled sample through every cleaning stage: each planted case meets the fate that EXPECTED.jsonl states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.engine import Request, Run, upto
from flows.pretrain import STAGES
from flows.terminal import TerminalWatcher

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
DEDUP = {"exact_dedup": "exact_duplicate", "minhash_dedup": "near_duplicate", "semantic_dedup": "near_duplicate"}
NO_DOCUMENT = ("not_a_response", "http_status", "media_type")
# Edits that leave less than 0.8 of the 5-shingles: MinHash keeps them; semantic dedup may or may not find them
BELOW_THRESHOLD = ("edited_5", "cut_short")


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The cleaning stages, run on all sources but the machine's own Python environment."""
    store = str(tmp_path_factory.mktemp("store"))
    request = Request(store=store, recipe=str(RECIPES / "sample.yaml"), settings=("ingest.sources.5.max_files=1",))
    with Run(request, TerminalWatcher()) as run:
        for stage in upto(STAGES, "decontaminate"):
            run.step(stage)
        yield run


def fates(run: Run) -> dict[tuple[str, int], str]:
    """(file, record) -> what became of it."""
    found: dict[tuple[str, int], str] = {}
    for stage, result in run.results.items():
        for role in ("removed", "quarantine", *(["shard"] if stage == "decontaminate" else [])):
            for entry in result.dataset.files(role):
                for batch in result.dataset.batches(entry):
                    for row in batch.to_pylist():
                        found[place(row)] = fate_of(stage, role, row)
    return found


def place(row: dict[str, Any]) -> tuple[str, int]:
    prefix = "code/" if row["source"] == "sample_code" else ""
    return prefix + row["origin"]["file"], row["origin"]["record"]


def fate_of(stage: str, role: str, row: dict[str, Any]) -> str:
    if role != "removed":
        return {"shard": "kept", "quarantine": "quarantined"}[role]
    if row["reason"] in NO_DOCUMENT:
        return "not_a_document"
    return DEDUP.get(stage, "contaminated" if stage == "decontaminate" else "dropped")


def expected() -> list[dict[str, Any]]:
    lines = (RECIPES / "sample" / "EXPECTED.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [case for case in map(json.loads, lines) if "fate" in case]
    for case in cases:
        if "member" in case:
            case["file"], case["record"] = f"{case['file']}!{case['member']}", 0
    return cases


@pytest.mark.slow
def test_every_planted_case_meets_its_fate(cleaned: Run) -> None:
    found = fates(cleaned)
    wrong = []
    for case in expected():
        fate = found.get((case["file"], case["record"]), "lost")
        allowed = {case["fate"]}
        if case["fate"] == "near_duplicate":
            allowed |= {"exact_duplicate"} | ({"kept"} if case["case"] in BELOW_THRESHOLD else set())
        if fate not in allowed:
            wrong.append(f"{case['file']}#{case['record']}: expected {case['fate']}, found {fate}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_the_account_adds_up_from_the_first_stage_to_the_last(cleaned: Run) -> None:
    totals = [result.dataset.manifest.account.total() for result in cleaned.results.values()]
    assert all(total.balance == 0 for total in totals)
    assert [t.read for t in totals[1:]] == [t.kept for t in totals[:-1]]

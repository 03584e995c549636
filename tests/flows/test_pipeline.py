"""Properties of the pipeline as a whole: what runs again and what does not, and what never changes a digest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

STAGES = (
    "ingest", "decode", "extract", "language", "filter", "exact_dedup", "minhash_dedup", "semantic_dedup",
    "decontaminate", "mix", "tokenizer", "shards", "train", "evaluate", "export", "report",
)  # fmt: skip
NO_RAY = {"RAY_ADDRESS": "127.0.0.1:1"}  # nothing listens there: whatever starts Ray fails

pytestmark = pytest.mark.slow


def test_json_prints_one_object_per_stage_whose_account_adds_up_and_follows(finished: Any) -> None:
    kept: dict[str, int] = {}
    rows = finished.answer.rows  # fails where standard output holds anything else
    assert [row["name"] for row in rows] == list(STAGES)
    for row in rows:
        assert set(row) >= {"name", "dataset", "digest", "status", "seconds", "account"}
        assert row["status"] == "run" and len(row["digest"]) == 64 and Path(row["dataset"], "manifest.json").exists()
        account = row["account"]
        for counts in (account, *account["rows"]):
            lost = sum(counts["dropped"].values()) + sum(counts["quarantined"].values())
            assert counts["in"] == counts["kept"] + lost
        if account["rows"]:
            read = {s: sum(r["in"] for r in account["rows"] if r["source"] == s) for s in ("text", "web", "rest")}
            assert row["name"] == "ingest" or read == kept
            kept = {s: sum(r["kept"] for r in account["rows"] if r["source"] == s) for s in ("text", "web", "rest")}
    assert {"filter", "exact_dedup", "minhash_dedup"} <= {r["name"] for r in rows if r["account"]["dropped"]}
    assert rows[0]["account"]["quarantined"]


def test_a_second_run_recomputes_nothing_and_starts_no_ray(finished: Any, danlu: Any) -> None:
    again = danlu("run", "--config", finished.recipe, "--store", finished.store, "--json", **NO_RAY)
    assert [row["status"] for row in again.rows] == ["cached"] * len(STAGES)
    assert again.digests == finished.answer.digests


def test_a_threshold_that_drops_more_reruns_the_filter_and_what_depends_on_it(
    finished: Any, danlu: Any, kit: Any, tmp_path: Path
) -> None:
    store = kit.copy_of(finished.store, tmp_path / "store")
    call = ("run", "--config", finished.recipe, "--store", store, "--workers", "0", "--json", "--until", "mix")
    changed = danlu(*call, "--set", "filter.min_chars=300")
    assert changed.ran == list(STAGES[4:10])
    assert changed.rows[4]["why"] == ["config.min_chars: 80 -> 300"]
    assert danlu(*call).ran == []  # the old datasets are still there


def test_a_threshold_that_alters_no_document_reruns_the_filter_alone(
    finished: Any, danlu: Any, kit: Any, tmp_path: Path
) -> None:
    store = kit.copy_of(finished.store, tmp_path / "store")
    setting = ("--set", "filter.gopher.max_words=90000")
    asked = danlu("why", "filter", "--store", store, "--json", *setting).rows[0]
    assert asked["runs"] and asked["why"] == ["config.gopher.max_words: 100000 -> 90000"]
    assert [name for name, why in asked["before"].items() if why] == ["filter"]
    changed = danlu("run", "--config", finished.recipe, "--store", store, "--workers", "0", "--json", *setting)
    assert changed.ran == ["filter"] and changed.digests == finished.answer.digests


def test_an_edit_of_code_reruns_the_stages_that_reach_it_and_a_comment_none(
    finished: Any, kit: Any, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    for package in ("flows", "tasks", "training", "kernels", "recipes"):
        shutil.copytree(kit.ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "sample"))
    danlu = kit.Danlu(tmp_path, tree)

    def stages_after(module: str, code: str) -> list[str]:
        path = tree / module
        before = path.read_text()
        path.write_text(before + code)
        reasons = danlu("why", "report", "--store", finished.store, "--json").rows[0]["before"]
        path.write_text(before)
        return [stage for stage, why in reasons.items() if why]

    assert stages_after("tasks/clean/filter/stage.py", "\n# a comment\n") == []
    assert stages_after("tasks/clean/filter/stage.py", "\nADDED = 1\n") == ["filter"]
    assert stages_after("tasks/mix.py", "\nADDED = 1\n") == ["mix"]
    assert stages_after("tasks/dedup/normalise.py", "\nADDED = 1\n") == [*STAGES[5:9], "shards", "report"]
    assert stages_after("training/model.py", "\nADDED = 1\n") == ["train", "evaluate", "export"]
    assert stages_after("tasks/store/tables.py", "\nADDED = 1\n") == []


@pytest.mark.parametrize("workers", ["0", "2"])
def test_workers_and_paths_do_not_reach_the_digests(
    finished: Any, danlu: Any, kit: Any, tmp_path: Path, workers: str
) -> None:
    """The store, the recipe and the inputs lie elsewhere than in the run with one worker."""
    kit.lay_out(danlu.folder / "else where")
    other = danlu("run", "--config", "else where/recipe.yaml", "--store", "s", "--workers", workers, "--json")
    assert other.digests == finished.answer.digests
    assert other.ran == list(STAGES)


def test_a_moved_store_is_still_whole(finished: Any, danlu: Any, kit: Any, tmp_path: Path) -> None:
    kit.copy_of(finished.store, tmp_path / "first").rename(tmp_path / "moved")
    again = danlu("run", "--config", finished.recipe, "--store", "moved", "--json", **NO_RAY)
    assert again.ran == [] and all(str(tmp_path / "moved") in row["dataset"] for row in again.rows)


def test_a_new_file_adds_to_the_old_parts_and_equals_a_fresh_run(kit: Any, danlu: Any, tmp_path: Path) -> None:
    """Each file is above `small_file_bytes`, so it is a part of its own."""
    sample = kit.ROOT / "recipes" / "sample"
    for name in ("plain", "pages/en"):
        shutil.copytree(sample / name, tmp_path / "raw" / name)
    call = ("run", "--input", "raw", "--workers", "0", "--until", "minhash-dedup", "--json",
            "--set", "ingest.small_file_bytes=1")  # fmt: skip
    danlu(*call, "--store", "grown")
    shards = {path.name: path.stat().st_ino for path in (tmp_path / "grown/datasets").glob("decode/*/shards/*")}
    shutil.copy(sample / "notes" / "de-pilze.md", tmp_path / "raw" / "plain" / "de")
    grown, fresh = danlu(*call, "--store", "grown"), danlu(*call, "--store", "fresh")
    assert grown.ran == list(STAGES[:7]) and grown.digests == fresh.digests
    [folder] = [row["dataset"] for row in grown.rows if row["name"] == "decode"]
    now = {path.name: path.stat().st_ino for path in Path(folder, "shards").iterdir()}
    assert len(now) == len(shards) + 1
    assert shards.items() <= now.items()  # linked, not written again

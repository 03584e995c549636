"""Garbage collection: what is referenced, and all it was made from, stays."""

from __future__ import annotations

from pathlib import Path

from tasks.store.account import Account
from tasks.store.collect import collect, garbage
from tasks.store.dataset import Dataset, set_current
from tasks.store.filesystem import Store
from tasks.store.manifest import Manifest


def publish(store: Store, stage: str, key: str, made_from: Dataset | None = None) -> Dataset:
    inputs = {made_from.stage: {"key": made_from.key, "digest": made_from.digest}} if made_from else {}
    manifest = Manifest(stage=stage, key=key, key_parts={}, config={}, inputs=inputs, files=[], account=Account())
    store.write_json(f"datasets/{stage}/{key}/manifest.json", manifest.to_json())
    return Dataset(store, f"datasets/{stage}/{key}", manifest)


def test_only_what_no_reference_leads_to_goes(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    old, new = publish(store, "mix", "a" * 32), publish(store, "mix", "b" * 32)
    checkpoint = publish(store, "train", "c" * 32, made_from=old)
    orphan = publish(store, "train", "d" * 32, made_from=new)
    set_current(store, "nightly", checkpoint)
    set_current(store, "nightly", new)
    assert [g.folder for g in garbage(store)] == [orphan.folder]
    assert [g.folder for g in collect(store)] == [orphan.folder]
    assert Dataset.find(store, "mix", old.key) and Dataset.find(store, "mix", new.key)
    assert collect(store) == []


def test_an_unfinished_folder_stays_while_it_is_young(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.write("datasets/mix/unfinished/shards/a.parquet", b"x")
    assert garbage(store) == []
    assert [g.folder for g in garbage(store, unfinished_hours=0)] == ["datasets/mix/unfinished"]


def test_records_of_collected_parts_go_too(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    orphan = publish(store, "mix", "a" * 32)
    store.write_json("parts/mix/00/part.json", {"folder": orphan.folder, "files": []})
    store.write_json("parts/mix/00/other.json", {"folder": "datasets/mix/kept", "files": []})
    collect(store)
    assert store.names("parts/mix/00") == ["other.json"]

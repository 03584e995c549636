"""The store over a local folder, memory:// and an S3-compatible server; manifests, accounts, keys, collection."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.store.account import Account, AccountError, Counts
from tasks.store.filesystem import Store, StoreError, digest_of
from tasks.store.keys import code_version, content_key, difference
from tasks.store.manifest import FileEntry, Manifest


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(str(tmp_path / "s") if request.param == "local" else f"memory://{tmp_path.name}")


def test_what_is_written_is_read_back_listed_and_removed(store: Store) -> None:
    store.write("a/b.txt", b"one")
    store.write_json("a/c.json", {"x": "é"})
    assert store.open("a/b.txt").read() == b"one"
    assert store.read_json("a/c.json") == {"x": "é"}
    assert store.sizes("a") == {
        "b.txt": 3,
        "c.json": len(json.dumps({"x": "é"}, indent=1, ensure_ascii=False).encode()) + 1,
    }
    assert store.names("a") == ["b.txt", "c.json"]
    store.copy("a/b.txt", "d/e.txt")
    store.remove("a")
    assert store.names("a") == [] and store.open("d/e.txt").read() == b"one"


def test_a_failed_write_leaves_nothing_under_any_name(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with pytest.raises(RuntimeError), store.temporary("a/b") as path:
        path.write_bytes(b"half")
        raise RuntimeError
    assert store.sizes("") == {}


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A real file system with no room: a tmpfs of 64 KiB where mounting is allowed."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"needs permission to mount a tmpfs: {mounted.stderr.decode().strip()}")
    try:
        store = Store(str(small / "store"))
        with pytest.raises(StoreError, match="no space left"):
            store.write("big", os.urandom(1 << 20))
        assert store.sizes("") == {}
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_sweep_removes_what_dead_writers_left_and_nothing_else(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.write("d/whole", b"x")
    (tmp_path / "d" / ".writing-abc-999999999").write_bytes(b"half")
    (tmp_path / "d" / f".writing-abc-{os.getppid()}").write_bytes(b"at work")
    store.sweep("d")
    assert sorted(store.sizes("d")) == [f".writing-abc-{os.getppid()}", "whole"]


def entry(name: str, role: str = "shard", sha256: str = "0") -> FileEntry:
    return FileEntry(name=name, role=role, bytes=1, sha256=sha256)


def manifest(*files: FileEntry) -> Manifest:
    return Manifest(stage="s", key="k", key_parts={}, config={}, inputs={}, files=list(files), account=Account())


def test_the_digest_covers_kept_content_and_not_evidence_or_logs() -> None:
    plain = manifest(entry("shards/a.parquet"))
    assert plain.digest == manifest(*plain.files, entry("removed/x/a.parquet", "removed"), entry("log", "log")).digest
    assert plain.digest != manifest(entry("shards/a.parquet", sha256="1")).digest


def test_an_edited_manifest_is_refused() -> None:
    data = manifest(entry("shards/a.parquet")).to_json()
    data["files"][0]["sha256"] = "f"
    with pytest.raises(StoreError, match="edited"):
        Manifest.from_json(data, "here")


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["en", "zh-Hans"]), st.sampled_from(["kept", "x", "y"])))
)
def test_merged_accounts_add_up_like_one_account(outcomes: list[tuple[str, str, str]]) -> None:
    parts = [Account(), Account()]
    for number, (source, language, fate) in enumerate(outcomes):
        counts = parts[number % 2].counts(source, language)
        counts.read += 1
        if fate == "kept":
            counts.kept += 1
        else:
            counts.dropped[fate] += 1
    whole = Account()
    for part in parts:
        whole.merge(part)
    whole.check("s")
    assert whole.total().read == len(outcomes)
    assert Account.from_rows(whole.to_rows()).to_rows() == whole.to_rows()


def test_an_account_that_lacks_a_document_names_where() -> None:
    account = Account()
    account.counts("news", "en").add(Counts(3, 1, Counter(short=1)))
    with pytest.raises(AccountError, match=r"news/en: in 3 ≠ kept 1 \+ dropped 1 \+ quarantined 0"):
        account.check("filter")


def test_a_stage_must_read_what_the_one_before_it_kept() -> None:
    before, after = Account(), Account()
    before.counts("news", "und").add(Counts(3, 3))
    after.counts("news", "en").add(Counts(2, 2))
    with pytest.raises(AccountError, match="news: decode kept 3, extract read 2"):
        after.check_follows("extract", "decode", before)


def key(**changes: object) -> str:
    values: dict = {"stage": "s", "modules": ("tasks.document",), "config": {"a": 1}, "inputs": {"i": "d"}} | changes
    return content_key(**values)[0]


def test_a_key_changes_with_config_input_and_raw_input_and_with_nothing_else() -> None:
    assert key() == key()
    assert len({key(), key(config={"a": 2}), key(inputs={"i": "e"}), key(raw_inputs={"f": "1"}), key(stage="t")}) == 5


def test_code_version_follows_imports_and_leaves_the_store_out() -> None:
    code, libraries = code_version(("tasks.clean.decode.stage",))
    assert {"tasks.clean.decode.stage", "tasks.document", "tasks.clean.decode.charsets"} <= set(code)
    assert not any(name.startswith(("tasks.store", "tasks.stage", "tasks.spread")) for name in code)
    assert "chardet" in libraries


def test_a_comment_or_docstring_does_not_change_the_code_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tasks.store.keys as keys

    path = tmp_path / "m.py"
    monkeypatch.setattr(keys, "_source_file", lambda name: path)

    def version(source: str) -> dict[str, str]:
        path.write_text(source)
        code_version.cache_clear()
        return code_version(("tasks.m",))[0]

    plain = version("def f():\n    return 1\n")
    assert version('"""Docs."""\ndef f():\n    """Docs."""\n    return 1  # one\n') == plain
    assert version("def f():\n    return 2\n") != plain
    code_version.cache_clear()


def test_the_difference_of_two_keys_names_the_changed_setting() -> None:
    old = {"config": {"min_chars": 80, "languages": ["en"]}, "inputs": {"decode": "a" * 64}}
    new = {"config": {"min_chars": 100, "languages": ["en"]}, "inputs": {"decode": "b" * 64}}
    assert difference(old, new) == [
        "config.min_chars: 80 -> 100",
        f"inputs.decode: {'a' * 12} -> {'b' * 12}",
    ]
    assert digest_of(old) != digest_of(new)

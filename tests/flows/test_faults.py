"""The table of faults, from raw file to filter through the command line: a clear error or a quarantined record, and
nothing lost. The bytes in quarantine are the bytes of the fault."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app

TEXT = (
    "The ferry leaves the northern pier at seven and returns before noon. Nobody on the island owns a car, so the "
    "people walk to the shop with the baskets they have carried since they were children, and number {n} is a letter."
)


def line(n: int) -> bytes:
    return json.dumps({"text": TEXT.format(n=n)}).encode() + b"\n"


class Place:
    """Raw files, a store, and what `danlu run` made of them."""

    def __init__(self, folder: Path):
        self.raw, self.store = folder / "raw", folder / "store"
        self.raw.mkdir(parents=True)

    def run(self, code: int = 0, until: str = "filter", settings: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        call = [
            "run",
            "--input",
            str(self.raw),
            "--store",
            str(self.store),
            "--workers",
            "0",
            "--until",
            until,
            "--json",
        ]
        result = CliRunner().invoke(app, [*call, *(word for s in settings for word in ("--set", s))])
        self.error = result.stderr
        assert result.exit_code == code, f"{result.stderr}\n{result.exception!r}"
        return [json.loads(row) for row in result.stdout.splitlines()]

    def table(self, stage: str, kind: str) -> list[dict[str, Any]]:
        """All rows of shards, removed or quarantine."""
        files = sorted(self.store.glob(f"datasets/{stage}/*/{kind}/**/*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def check(self, kept: int, quarantined: dict[str, list[bytes]]) -> None:
        """Run; `kept` documents reach the end, and the quarantine of ingest holds these bytes, by reason."""
        rows = self.run()
        for row in rows:
            account = row["account"]
            lost = sum(account["dropped"].values()) + sum(account["quarantined"].values())
            assert account["in"] == account["kept"] + lost
        for before, row in itertools.pairwise(rows):
            assert row["account"]["in"] == before["account"]["kept"]
        assert rows[0]["account"]["in"] == rows[0]["account"]["kept"] + sum(map(len, quarantined.values()))
        assert rows[-1]["account"]["kept"] == kept
        held = self.table("ingest", "quarantine")
        found = {reason: [row["content"] for row in held if row["reason"] == reason] for reason in quarantined}
        assert found == quarantined and all(row["detail"] for row in held)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_bad_byte_mid_jsonl_costs_its_line(place: Place) -> None:
    bad = line(2).replace(b"island", b"isl\xffnd")
    (place.raw / "a.jsonl").write_bytes(line(1) + bad + line(3))
    place.check(2, {"bad_utf8": [bad.rstrip(b"\n")]})


def test_a_broken_json_line_costs_its_line(place: Place) -> None:
    bad = line(2)[:70] + b"\n"
    (place.raw / "a.jsonl").write_bytes(line(1) + bad + line(3))
    place.check(2, {"bad_json": [bad.rstrip(b"\n")]})


def test_a_truncated_gzip_costs_the_line_at_the_cut(place: Place) -> None:
    lines = [json.dumps({"text": TEXT.format(n=n), "noise": os.urandom(400).hex()}).encode() + b"\n" for n in range(40)]
    whole = gzip.compress(b"".join(lines))
    (place.raw / "a.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    rows = place.run()
    kept, [cut] = rows[0]["account"]["kept"], place.table("ingest", "quarantine")
    assert 10 < kept < 40 and rows[-1]["account"]["kept"] == kept
    assert rows[0]["account"]["in"] == kept + 1
    assert "gzip" in cut["detail"] and lines[kept].startswith(cut["content"]) and cut["content"]
    assert cut["origin"] == {"file": "a.jsonl.gz", "record": kept, "offset": sum(map(len, lines[:kept]))}


def test_an_empty_file_is_quarantined(place: Place) -> None:
    (place.raw / "a.jsonl").write_bytes(line(1))
    (place.raw / "empty.txt").touch()
    place.check(1, {"empty_file": [b""]})


def test_a_line_of_50_mb_is_passed_over_and_the_next_is_read(place: Place) -> None:
    long = b'{"text": "' + b"x" * (50 << 20) + b'"}\n'
    (place.raw / "a.jsonl").write_bytes(line(1) + long + line(2))
    rows = place.run()
    assert rows[0]["account"]["quarantined"] == {"too_long": 1}
    assert rows[0]["account"]["in"] == 3 and rows[-1]["account"]["kept"] == 2
    [held] = place.table("ingest", "quarantine")
    assert held["content"] and long.startswith(held["content"])
    assert f"{len(long) - 1:,}" in held["detail"] or f"{len(long):,}" in held["detail"]  # how long the whole is
    assert held["origin"]["offset"] == len(line(1))  # and where it is


def test_nul_bytes_go_from_the_text_and_nothing_else(place: Place) -> None:
    text = TEXT.format(n=1)
    (place.raw / "a.txt").write_bytes(text.replace("island", "isl\0and").encode())
    (place.raw / "b.jsonl").write_bytes(line(2).replace(b"island", b"isl\\u0000and"))
    place.check(2, {})
    assert sorted(row["text"] for row in place.table("filter", "shards")) == [text, TEXT.format(n=2)]


def test_a_lone_surrogate_costs_its_line(place: Place) -> None:
    bad = line(2).replace(b"island", b"isl\\ud800and")
    (place.raw / "a.jsonl").write_bytes(line(1) + bad + line(3))
    place.check(2, {"lone_surrogate": [bad.rstrip(b"\n")]})


def test_a_link_to_nowhere_is_quarantined_and_read_once_it_leads_somewhere(place: Place) -> None:
    (place.raw / "a.jsonl").write_bytes(line(1))
    (place.raw / "gone.txt").symlink_to(place.raw / "nowhere")
    place.check(1, {"unreadable_file": [b""]})
    (place.raw / "nowhere").write_text(TEXT.format(n=2))
    shutil.rmtree(place.store)
    place.check(3, {})  # by both its names


def test_a_file_without_permission_is_quarantined(kit: Any) -> None:
    """A real user that may not read: root may read anything."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to become a user without permission")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "place")
        (place.raw / "a.jsonl").write_bytes(line(1))
        (place.raw / "closed.jsonl").write_bytes(line(2))
        os.chmod(place.raw / "closed.jsonl", 0o000)
        for path in (Path(folder), place.raw.parent):
            os.chmod(path, 0o777)
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        code = "import sys, flows.cli; sys.exit(flows.cli.main())"
        call = [kit.sys.executable, "-c", code, "run", "--input", "raw", "--store", "store", "--workers", "0",
                "--until", "filter", "--json"]  # fmt: skip
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        environment = clean | {"PYTHONPATH": str(kit.ROOT), "HOME": folder, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [*become, *call], cwd=place.raw.parent, env=environment, capture_output=True, text=True, timeout=120
        )
        if "Permission denied" in done.stderr and done.returncode in (126, 127):
            pytest.skip(f"the other user may not start Python here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        rows = [json.loads(row) for row in done.stdout.splitlines()]
        assert rows[0]["account"]["quarantined"] == {"unreadable_file": 1} and rows[-1]["account"]["kept"] == 1
        [held] = place.table("ingest", "quarantine")
        assert held["origin"]["file"] == "closed.jsonl" and "ermission" in held["detail"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"needs permission to mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_the_rerun_completes_once_there_is_room(
    small_disk: Path, place: Place
) -> None:
    for number in range(20):
        lines = (json.dumps({"text": f"{TEXT.format(n=n)} {os.urandom(300).hex()}"}) for n in range(30))
        (place.raw / f"{number:02}.jsonl").write_text("\n".join(lines))
    expected = {row["name"]: row["digest"] for row in place.run(settings=("ingest.small_file_bytes=1",))}
    place.store = small_disk / "store"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_500_000))
    rows = place.run(code=1, settings=("ingest.small_file_bytes=1",))
    assert "no space left" in place.error and "danlu gc" in place.error and "Traceback" not in place.error
    assert len(rows) < 5
    assert not list(place.store.rglob(".writing-*"))
    ballast.unlink()
    again = place.run(settings=("ingest.small_file_bytes=1",))
    assert {row["name"]: row["digest"] for row in again} == expected


@pytest.mark.parametrize("where", ["setting", "recipe"])
def test_an_unknown_config_key_names_the_nearest(place: Place, tmp_path: Path, where: str) -> None:
    (place.raw / "a.jsonl").write_bytes(line(1))
    if where == "setting":
        place.run(code=1, settings=("filter.min_char=3",))
        error = place.error
    else:
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(f"ingest: {{sources: [{{name: a, path: {place.raw}}}]}}\nfilter: {{min_char: 3}}\n")
        result = CliRunner().invoke(app, ["run", "--config", str(recipe), "--store", str(place.store)])
        assert result.exit_code == 1 and result.stdout == ""
        error = result.stderr
    assert error.strip() == "error: filter.min_char: unknown key; did you mean 'min_chars'?"
    assert not place.store.exists()

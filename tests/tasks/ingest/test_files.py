"""Which files are found, how they are grouped, and what cannot be opened."""

from __future__ import annotations

import hashlib
import os

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from tasks.ingest.config import IngestConfig, SourceConfig, sources_from_path
from tasks.ingest.files import list_files
from tasks.ingest.parts import group_files, input_digests, plan_parts


def config(path, **source) -> IngestConfig:
    return IngestConfig(sources=(SourceConfig(name="source", path=str(path), **source),))


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def paths(config):
    return [file.path for file in list_files(config)]


def test_files_are_sorted_and_hidden_ones_left_out(tmp_path):
    write(tmp_path, "b.txt", "a/c.txt", ".hidden", ".git/x", "a/__pycache__/y.pyc", "a/b/d.txt")
    assert paths(config(tmp_path)) == ["a/b/d.txt", "a/c.txt", "b.txt"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (("*.py",), (), ["a.py", "x/b.py", "x/y/c.py"]),
        (("x/*.py",), (), ["x/b.py"]),
        (("x/**",), ("*.txt",), ["x/b.py", "x/y/c.py"]),
        ((), ("./a.py", "x/y/**"), ["d.txt", "x/b.py", "x/d.txt"]),
    ],
)
def test_globs_choose_by_relative_path(tmp_path, include, exclude, expected):
    write(tmp_path, "a.py", "d.txt", "x/b.py", "x/d.txt", "x/y/c.py")
    assert paths(config(tmp_path, include=include, exclude=exclude)) == expected


def test_digests_do_not_depend_on_where_the_folder_lies(tmp_path):
    write(tmp_path / "one", "a.txt", "b/c.txt")
    write(tmp_path / "elsewhere" / "two", "a.txt", "b/c.txt")
    one, two = config(tmp_path / "one"), config(tmp_path / "elsewhere" / "two")
    assert input_digests(one) == input_digests(two)
    assert input_digests(one)["source/a.txt"] == hashlib.sha256(b"a.txt").hexdigest()
    assert one.key_settings() == two.key_settings()
    assert plan_parts(one, list_files(one)) == plan_parts(two, list_files(two))


def test_the_settings_that_reach_a_record_change_the_digests_and_the_others_do_not(tmp_path):
    write(tmp_path, "a.txt")
    plain = input_digests(config(tmp_path))
    assert input_digests(config(tmp_path, licence="MIT")) != plain
    assert input_digests(config(tmp_path, share=0.5, priority=3)) == plain


def test_a_loop_of_links_ends_and_a_linked_folder_is_read(tmp_path):
    write(tmp_path / "root", "a.txt")
    write(tmp_path / "other", "b.txt")
    os.symlink(tmp_path / "root", tmp_path / "root" / "loop")
    os.symlink(tmp_path / "other", tmp_path / "root" / "linked")
    assert paths(config(tmp_path / "root")) == ["a.txt", "linked/b.txt"]


def test_a_dangling_link_is_listed_with_its_error(tmp_path):
    write(tmp_path, "a.txt")
    os.symlink(tmp_path / "nowhere", tmp_path / "b.txt")
    good, bad = list_files(config(tmp_path))
    assert good.error is None
    assert bad.error == "FileNotFoundError: No such file or directory"


class GuardedFileSystem(LocalFileSystem):
    """A local file system that refuses what is named "secret", as the system does to anyone but root."""

    protocol = "guarded"

    def ls(self, path, detail=False, **options):
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return super().ls(path, detail=detail, **options)

    def open(self, path, mode="rb", **options):
        if path.endswith("secret.txt"):
            raise PermissionError(13, "Permission denied", path)
        return super().open(path, mode, **options)


@pytest.fixture
def guarded():
    fsspec.register_implementation("guarded", GuardedFileSystem, clobber=True)


def test_what_may_not_be_read_is_listed_and_stops_nothing(tmp_path, guarded):
    write(tmp_path, "a.txt", "secret.txt", "secret/b.txt", "z.txt")
    files = list_files(config(f"guarded://{tmp_path}"))
    assert [(file.path, file.error) for file in files] == [
        ("a.txt", None),
        ("secret", "PermissionError: Permission denied"),
        ("secret.txt", "PermissionError: Permission denied"),
        ("z.txt", None),
    ]


def test_a_missing_source_and_one_without_matching_files_are_errors_that_name_it(tmp_path):
    with pytest.raises(ValueError, match=r"sources: 'source': expected a file or folder at path .*gone"):
        list_files(config(tmp_path / "gone"))
    write(tmp_path, "a.txt")
    with pytest.raises(ValueError, match=r"'source': none of the 1 files .* match include \['\*\.md'\]"):
        list_files(config(tmp_path, include=("*.md",)))


def test_max_files_is_a_stable_choice(tmp_path):
    write(tmp_path, *(f"{n}.txt" for n in range(40)))
    few = paths(config(tmp_path, max_files=5))
    assert len(few) == 5 and set(few) <= set(paths(config(tmp_path, max_files=10)))
    assert sum(os.path.getsize(tmp_path / p) for p in paths(config(tmp_path, max_bytes=60))) <= 60


def test_an_object_store_url_is_a_source():
    fs = fsspec.filesystem("memory")
    fs.pipe({"/bucket/a.txt": b"one", "/bucket/b/c.txt": b"two"})
    try:
        assert paths(config("memory://bucket")) == ["a.txt", "b/c.txt"]
        assert [s.name for s in sources_from_path("memory://bucket")] == ["b", "bucket"]
        assert paths(config("memory://bucket/a.txt")) == ["a.txt"]
    finally:
        fs.rm("/bucket", recursive=True)


def test_a_new_file_disturbs_only_its_own_group(tmp_path):
    write(tmp_path, *(f"{n:04d}.txt" for n in range(1500)))
    one = config(tmp_path)
    before = {part.inputs for part in plan_parts(one, list_files(one))}
    write(tmp_path, "0700b.txt")
    after = {part.inputs for part in plan_parts(one, list_files(one))}
    assert len(before) > 5
    assert len(before - after) == 1 and len(after - before) <= 2


def test_a_large_file_is_a_part_of_its_own_and_nothing_is_lost(tmp_path):
    write(tmp_path, "a.txt", "c.txt")
    (tmp_path / "b.txt").write_bytes(b"x" * (300 << 10))
    one = config(tmp_path)
    groups = [[file.path for file in group] for group in group_files(list_files(one), one)]
    assert groups == [["a.txt", "c.txt"], ["b.txt"]]


def test_part_names_are_unique_and_free_of_folders(tmp_path):
    write(tmp_path, *(f"{n}/{'名' * 40} 1.txt" for n in range(300)))
    one = config(tmp_path)
    names = [part.name for part in plan_parts(one, list_files(one))]
    assert len(set(names)) == len(names) and not any("/" in name or " " in name for name in names)
    assert all(len(name.encode()) < 200 for name in names)


def test_a_bare_path_becomes_a_source_for_each_container_and_folder(tmp_path):
    write(tmp_path, "news.jsonl.gz", "news.parquet", "crawl.warc.gz", "html/a.html", "x.txt", "deep/er/y.md", ".z/q")
    (tmp_path / "hollow").mkdir()
    sources = sources_from_path(str(tmp_path))
    names = {s.name: s.path.removeprefix(str(tmp_path)) for s in sources}
    assert names == {
        "crawl": "/crawl.warc.gz",
        "deep": "/deep",
        "html": "/html",
        "news": "/news.jsonl.gz",
        "news.parquet": "/news.parquet",
        tmp_path.name.replace(" ", "-"): "",
    }
    assert paths(IngestConfig(sources=sources[-1:])) == ["x.txt"]
    assert sum(len(list_files(IngestConfig(sources=(s,)))) for s in sources) == 6


def test_a_bare_file_becomes_one_source(tmp_path):
    write(tmp_path, "news.jsonl")
    [source] = sources_from_path(str(tmp_path / "news.jsonl"))
    assert source.name == "news" and paths(IngestConfig(sources=(source,))) == ["news.jsonl"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "a/b", "path": "x"}, "name: expected a word"),
        ({"name": "a", "path": "x", "share": 2.0}, "share: expected 0 to 1"),
        ({"name": "a", "path": "x", "media_type": "image/png"}, "media_type: expected one of"),
        ({"name": "a", "path": "x", "max_files": 0}, "max_files: expected at least 1"),
    ],
)
def test_wrong_settings_name_the_key(settings, message):
    with pytest.raises(ValueError, match=message):
        SourceConfig(**settings)


def test_two_sources_of_one_name_are_an_error():
    with pytest.raises(ValueError, match="found twice: a"):
        IngestConfig(sources=(SourceConfig(name="a", path="x"), SourceConfig(name="a", path="y")))

"""The README tells the truth: its commands come first, its tree is the tree, its table is the stages."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from flows.order import STAGES
from flows.sizes import size_cells, size_row
from tasks.stage import Stage
from training.sizes import SIZES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGES = ("flows", "tasks", "training", "kernels", "benchmarks")


def tree_paths() -> list[str]:
    """The files and folders that the README's tree names, as paths."""
    block = README.split("## The tree")[1].split("```")[1]
    paths, parents = [], []
    for line in filter(str.strip, block.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        parents = [*parents[:depth], name.rstrip("/")]
        paths.append("/".join(parents))
    return paths


def test_the_two_commands_come_first() -> None:
    commands = re.findall(r"^    (\S.*)$", README, flags=re.MULTILINE)
    assert [command.split("#")[0].strip() for command in commands[:2]] == ["make run", "make test"]


def test_every_path_of_the_tree_exists() -> None:
    assert [path for path in tree_paths() if not (ROOT / path).exists()] == []


def test_every_module_is_in_the_tree() -> None:
    named = set(tree_paths())
    modules = [p.relative_to(ROOT).as_posix() for package in PACKAGES for p in (ROOT / package).rglob("*.py")]
    modules += [p.relative_to(ROOT).as_posix() for p in (ROOT / "recipes").glob("*.[py]*")]
    assert sorted(m for m in modules if not m.endswith("__init__.py") and m not in named) == []


def test_the_table_of_stages_is_the_stages() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", README, flags=re.MULTILINE)
    assert [(name, text) for name, _, text in rows] == [(stage.name, stage.summary) for stage in STAGES]
    assert [reads for _, reads, _ in rows] == [reads_of(stage) for stage in STAGES]


def reads_of(stage: Stage) -> str:
    if stage.name == "report":
        return "all of them"
    return ", ".join(stage.inputs) or "raw files"


def test_the_table_of_sizes_is_the_sizes() -> None:
    rows = re.findall(r"^\| (\d+[mb]) \| (.*) \|$", README, flags=re.MULTILINE)
    assert [[name, *cells.split(" | ")] for name, cells in rows] == [
        size_cells(size_row(name, vocab_size=0, ranks=8, precision="bf16")) for name in SIZES
    ]


def test_recipes_are_yaml_and_name_only_stages() -> None:
    known = {"name", *(stage.name for stage in STAGES)}
    for path in sorted((ROOT / "recipes").glob("*.yaml")):
        assert set(yaml.safe_load(path.read_text(encoding="utf-8"))) <= known, path.name

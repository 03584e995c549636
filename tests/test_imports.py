"""The shape of the project: imports point one way, rules know neither Ray nor Prefect."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "flows": {"flows", "tasks", "training", "kernels"},
    "tasks": {"tasks", "training", "kernels"},
    "training": {"training", "kernels"},
    "kernels": {"kernels"},
}


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        wrong = (imports(path) & MAY_IMPORT.keys()) - MAY_IMPORT[package]
        assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(wrong)}"


def test_only_the_spreader_knows_ray_and_only_flows_know_prefect() -> None:
    for package in ("tasks", "training", "kernels"):
        for path in sorted((ROOT / package).rglob("*.py")):
            known = imports(path) & {"ray", "prefect"}
            allowed = {"ray"} if path == ROOT / "tasks" / "spread.py" else set()
            assert known <= allowed, f"{path.relative_to(ROOT)} imports {', '.join(known - allowed)}"


def test_a_local_package_called_kernels_does_not_break_transformers() -> None:
    """`transformers` looks for a package of that name; ours must neither be taken for it nor hide it."""
    import sentence_transformers
    import transformers

    import kernels

    assert kernels.__file__ is not None and Path(kernels.__file__).is_relative_to(ROOT)
    assert transformers.LlamaConfig and sentence_transformers.SentenceTransformer


def test_every_module_opens_with_what_it_does() -> None:
    for package in MAY_IMPORT:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if source.strip():
                assert ast.get_docstring(ast.parse(source)), f"{path.relative_to(ROOT)} has no docstring"

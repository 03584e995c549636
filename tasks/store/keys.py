"""Content keys: a dataset is named by what it was made from, never by a path or a time.

    key = SHA-256 of (stage, input digests, raw-file digests, resolved config, code version, store format)

The code version of a stage covers its own module and, through the imports found in the source, every project module
that it uses, plus the versions of the third-party distributions they import. Modules are compared by syntax tree
without docstrings, so that a comment or a reformatting reruns nothing. The store and the stage runner are not part
of it: they move records and never change one; a change in how they write raises `STORE_FORMAT` instead.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tasks.store.filesystem import digest_of

STORE_FORMAT = 1  # raise when tables.py or stage.py write other bytes for the same records
PROJECT_PACKAGES = ("tasks", "training", "kernels")
INFRASTRUCTURE = ("tasks.store", "tasks.stage", "tasks.spread", "tasks.settings")


def content_key(
    *,
    stage: str,
    modules: Iterable[str],
    config: Mapping[str, Any],
    inputs: Mapping[str, str],
    raw_inputs: Mapping[str, str] | None = None,
) -> tuple[str, dict[str, Any]]:
    """The key of a dataset (64 hex digits) and the parts it was made of.

    `inputs` maps stage to dataset digest; `raw_inputs` maps file to SHA-256 for what comes from outside the store.
    """
    code, libraries = code_version(tuple(modules))
    parts = {
        "stage": stage,
        "format": STORE_FORMAT,
        "inputs": dict(inputs),
        "raw_inputs": dict(raw_inputs or {}),
        "config": dict(config),
        "code": code,
        "libraries": libraries,
    }
    return digest_of(parts), parts


def difference(old: Mapping[str, Any], new: Mapping[str, Any], limit: int = 8) -> list[str]:
    """What changed between the parts of two keys, a line each: `config.min_chars: 80 -> 100`."""
    lines = _difference(old, new, "")
    return [*lines[:limit], f"… and {len(lines) - limit} more"] if len(lines) > limit else lines


def _difference(old: Any, new: Any, path: str) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for key in sorted(old.keys() | new.keys(), key=str):
            name = f"{path}.{key}" if path else str(key)
            if key not in old:
                lines.append(f"{name}: new, {shorten(new[key])}")
            elif key not in new:
                lines.append(f"{name}: gone, was {shorten(old[key])}")
            else:
                lines += _difference(old[key], new[key], name)
        return lines
    return [] if old == new else [f"{path}: {shorten(old)} -> {shorten(new)}"]


def shorten(value: Any) -> str:
    """A value as one short word; digests by their first 12 digits."""
    text = str(value)
    is_digest = len(text) == 64 and all(c in "0123456789abcdef" for c in text)
    return text[:12] if is_digest else text if len(text) <= 60 else text[:57] + "…"


@functools.cache
def code_version(modules: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Digest of each project module that `modules` reach through imports, and the version of each distribution."""
    code: dict[str, str] = {}
    third_party: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in code or _is_infrastructure(name):
            continue
        path = _source_file(name)
        if path is None:
            continue
        tree = ast.parse(path.read_bytes())
        code[name] = _tree_digest(tree)
        for imported in _imports(tree, name, is_package=path.name == "__init__.py"):
            if imported.split(".")[0] in PROJECT_PACKAGES:
                pending.append(imported)
            elif imported.split(".")[0] not in sys.stdlib_module_names:
                third_party.add(imported.split(".")[0])
    return dict(sorted(code.items())), _versions(third_party)


def _is_infrastructure(name: str) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in INFRASTRUCTURE)


def _source_file(name: str) -> Path | None:
    """The file of a project module; None when the name is an attribute of a module, not a module."""
    package, *rest = name.split(".")
    spec = importlib.util.find_spec(package)  # of a whole dotted name it would import what is above: torch, for a key
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, *rest)
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if candidate.is_file():
                return candidate
    return None


def _imports(tree: ast.AST, module: str, is_package: bool) -> set[str]:
    """Absolute names of all that `module` imports, at any depth of its code; `from a import b` gives a and a.b."""
    names: set[str] = set()
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            names.add(base)
            if base.split(".")[0] in PROJECT_PACKAGES:
                names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def _tree_digest(tree: ast.AST) -> str:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _versions(imports: Iterable[str]) -> dict[str, str]:
    names = {distribution for name in imports for distribution in _distributions().get(name, [])}
    return {name: importlib.metadata.version(name) for name in sorted(names)}

"""Rules of a user's own: plain Python functions that a recipe names.

    user_rules: ["${recipe}/my_rules.py:drop_short_poems", "my_package.rules:drop_adverts"]

    def drop_short_poems(text, metrics, language):
        return "short_poem" if language == "lzh" and metrics["num_chars"] < 20 else None

A rule returns the reason to drop a document, or None. It is loaded before a run starts (an error there is an error of
the setting); one that raises on a document, or returns what is no reason, does not stop the run: the document is
quarantined under `user_rule_failed` with the error. Workers load a rule from the same absolute path, so on a cluster
the file must lie where all see it. The SHA-256 of the rule's file is part of the stage's key: a changed rule runs
again. What that file itself imports is not watched.

in    "module:function" or "path/to/file.py:function"
out   UserRule
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType

REASON = re.compile("[a-z][a-z0-9_]{0,63}")  # a folder name under removed/

Function = Callable[[str, Mapping[str, float], str], str | None]


class UserRuleError(ValueError):
    """A user's rule raised on a document, or returned what is no reason."""


@dataclass(frozen=True, slots=True)
class UserRule:
    """A rule, and where it comes from."""

    function: Function
    name: str  # of the function
    file: Path
    sha256: str


def load(rule: str) -> UserRule:
    """The rule of that name. Raises ValueError when it cannot be found or imported."""
    place, separator, name = rule.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise ValueError(f"user_rules: expected 'module:function' or 'path/to/file.py:function', found {rule!r}")
    file = source_file(place)
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    module = _module(file, digest)
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"user_rules: {file} has no function {name!r}")
    return UserRule(function=function, name=name, file=file, sha256=digest)


def source_file(place: str) -> Path:
    """The absolute path of a rule's file: as given, or where Python finds the module (or the working folder has it)."""
    if place.endswith(".py"):
        file = Path(place).expanduser().absolute()
        if not file.is_file():
            raise ValueError(f"user_rules: no file {file}")
        return file
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError) as error:
        raise ValueError(f"user_rules: the module {place!r} cannot be found ({error})") from error
    beside = Path(*place.split(".")).with_suffix(".py").absolute()
    if spec is None and beside.is_file():
        return beside
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ValueError(f"user_rules: no module {place!r} is installed, and there is no file {beside}")
    return Path(spec.origin).absolute()


@functools.lru_cache(maxsize=64)
def _module(file: Path, digest: str) -> ModuleType:
    """The file run as a module of its own name, once for each content."""
    name = f"danlu_user_rules_{digest[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"user_rules: {file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"user_rules: {file} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def absolute(rule: str) -> str:
    """`rule` with the absolute path of its file, so that every process finds the same."""
    place, _, name = rule.rpartition(":")
    return f"{source_file(place)}:{name}"


def verdict_of_user(
    rules: Iterable[UserRule], text: str, metrics: Mapping[str, float], language: str
) -> tuple[str, str] | None:
    """(rule, reason) of the first rule that drops the document. Raises UserRuleError naming the rule that fails."""
    seen = MappingProxyType(dict(metrics))
    for rule in rules:
        where = f"{rule.file.name}:{rule.name}"
        try:
            reason = rule.function(text, seen, language)
        except Exception as error:  # the user's code may raise anything, and bad input stops no run
            raise UserRuleError(f"{where} raised {type(error).__name__}: {error}") from error
        if reason is None:
            continue
        if not isinstance(reason, str) or not REASON.fullmatch(reason):
            raise UserRuleError(f"{where} returned {reason!r}; expected None or a reason such as 'short_poem'")
        return where, reason
    return None

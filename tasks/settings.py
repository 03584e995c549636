"""Turn YAML (plain dicts) into frozen config dataclasses, strictly.

An unknown key, a missing key and a value of the wrong type are errors that name the key by its full path and, for
an unknown one, the nearest valid key. Nothing is guessed: "3" is not 3, and 3 is accepted where a float is due.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class ConfigError(ValueError):
    """A config key is unknown, missing or holds a value of the wrong type or range."""


def from_dict(kind: type[T], values: Mapping[str, Any], path: str = "") -> T:
    """Build dataclass `kind` from `values`; nested dataclasses, tuples, dicts and optionals are followed.

    Raises ConfigError, naming the key by its dotted path below `path`.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path or 'config'}: expected a mapping of keys, found {values!r}")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(sorted(known))}"
            raise ConfigError(f"{join(path, key)}: unknown key; {hint}")
    arguments = {}
    for name, item in known.items():
        if name in values:
            arguments[name] = convert(hints[name], values[name], join(path, name))
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{join(path, name)}: required, but not given")
    try:
        return kind(**arguments)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{path + ': ' if path else ''}{error}") from error


def join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def convert(hint: Any, value: Any, path: str) -> Any:
    """`value` as the type `hint`, or ConfigError naming `path`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is typing.Literal:
        if value not in args:
            raise ConfigError(f"{path}: expected one of {', '.join(map(repr, args))}, found {value!r}")
        return value
    if origin in (typing.Union, types.UnionType):
        return convert_union(args, value, path)
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path}: expected a list, found {value!r}")
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(convert(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if len(args) != len(value):
            raise ConfigError(f"{path}: expected {len(args)} items, found {len(value)}")
        return tuple(convert(arg, item, f"{path}[{i}]") for i, (arg, item) in enumerate(zip(args, value, strict=True)))
    if origin in (dict, Mapping) or (origin is not None and isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path}: expected a mapping, found {value!r}")
        return {convert(args[0], k, path): convert(args[1], v, join(path, k)) for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML 1.1 reads 3e-4 as text
        try:
            return float(value)
        except ValueError:
            pass
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{path}: expected {hint.__name__}, found {type(value).__name__} {value!r}")
    return value


def convert_union(args: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in args:
        return None
    errors = []
    for arg in args:
        if arg is not type(None):
            try:
                return convert(arg, value, path)
            except ConfigError as error:
                errors.append(str(error))
    raise ConfigError(errors[0] if len(errors) == 1 else f"{path}: no alternative fits: {'; '.join(errors)}")


def to_dict(value: Any) -> Any:
    """The plain form of a config (dicts, lists, scalars): what is keyed, printed and saved."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_dict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_dict(v) for v in value]
    return value


def key_settings(config: Any) -> Any:
    """What of a config enters a content key: all of it, unless its class says less.

    A config that holds paths gives `key_settings() -> dict` without them; what the paths lead to is keyed by content.
    """
    own = getattr(config, "key_settings", None)
    return to_dict(own() if own is not None else config)

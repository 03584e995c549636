"""Which licences a source may bring: allowed and denied names, and what an unrecorded licence means.

A licence is an SPDX expression ("MIT OR Apache-2.0", "(MIT AND CC-BY-4.0) OR GPL-2.0+", "GPL-2.0 WITH
Classpath-exception-2.0") or any other text ("public domain (laws)"), which is one name. An expression passes when the
rights of one of its alternatives (OR) pass, and each of those that hold together (AND) must. Names are compared with
patterns ("CC-BY-*") without regard to case; a denied name is denied even when it is allowed.

in    the licence of a document as its source recorded it
out   None to pass, or why not
ref   SPDX 2.3, annex D (licence expressions)
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

UNRECORDED = ("", "noassertion", "none", "unknown", "other")
TOKEN = re.compile(r"(\(|\)|\bOR\b|\bAND\b)")  # SPDX writes its operators in capitals
EXCEPTION = re.compile(r"\s+WITH\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class LicencePolicy:
    """What a source may bring."""

    allow: tuple[str, ...] | None = None  # patterns; None: any that is not denied
    deny: tuple[str, ...] = ()  # patterns
    unknown: Literal["keep", "drop"] | None = None  # no licence recorded; None: drop where `allow` is given, else keep

    @property
    def drops_unknown(self) -> bool:
        return self.allow is not None if self.unknown is None else self.unknown == "drop"


Expression = str | tuple[Literal["OR", "AND"], tuple["Expression", ...]]


def refusal(licence: str | None, policy: LicencePolicy) -> str | None:
    """Why `policy` refuses a document of this licence, or None."""
    if licence is None or licence.strip().lower() in UNRECORDED:
        return "no licence is recorded" if policy.drops_unknown else None
    expression = parsed(licence)
    if holds(expression, policy):
        return None
    refused = [name for name in names_of(expression) if not accepts(name, policy)]
    denied = [name for name in refused if _is_denied(name, policy)]
    return f"denied: {', '.join(denied)}" if denied else f"not among the allowed: {', '.join(refused)}"


def holds(expression: Expression, policy: LicencePolicy) -> bool:
    """Whether an alternative of `expression` passes."""
    if isinstance(expression, str):
        return accepts(expression, policy)
    operator, operands = expression
    passed = [holds(operand, policy) for operand in operands]
    return any(passed) if operator == "OR" else all(passed)


def accepts(name: str, policy: LicencePolicy) -> bool:
    """Whether one name passes; "X WITH exception" passes as itself or as X."""
    if _is_denied(name, policy):
        return False
    return policy.allow is None or any(_matches(form, policy.allow) for form in (name, EXCEPTION.split(name)[0]))


def _is_denied(name: str, policy: LicencePolicy) -> bool:
    return any(_matches(form, policy.deny) for form in (name, EXCEPTION.split(name)[0]))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def names_of(expression: Expression) -> list[str]:
    """The names in an expression, in order."""
    if isinstance(expression, str):
        return [expression]
    return [name for operand in expression[1] for name in names_of(operand)]


@functools.lru_cache(maxsize=4096)
def parsed(licence: str) -> Expression:
    """`licence` as an expression; a text that is none ("public domain (laws OR decrees)") is one name."""
    tokens = [token for part in TOKEN.split(licence) if (token := part.strip())]
    try:
        expression = _alternatives(tokens)
        return expression if not tokens else licence.strip()
    except ValueError:
        return licence.strip()


def _alternatives(tokens: list[str]) -> Expression:
    """alternative { OR alternative }: takes what it reads off `tokens`."""
    return _joined("OR", [_together(tokens), *_rest(tokens, "OR", _together)])


def _together(tokens: list[str]) -> Expression:
    """operand { AND operand }: AND binds tighter than OR."""
    return _joined("AND", [_operand(tokens), *_rest(tokens, "AND", _operand)])


def _rest(tokens: list[str], operator: str, read: Callable[[list[str]], Expression]) -> Iterator[Expression]:
    while tokens and tokens[0] == operator:
        tokens.pop(0)
        yield read(tokens)


def _joined(operator: Literal["OR", "AND"], operands: list[Expression]) -> Expression:
    return operands[0] if len(operands) == 1 else (operator, tuple(operands))


def _operand(tokens: list[str]) -> Expression:
    """A name, or an expression in parentheses. Raises ValueError for anything else."""
    token = tokens.pop(0) if tokens else ")"
    if token not in ("(", ")", "OR", "AND"):
        return token
    if token != "(":
        raise ValueError(f"expected a licence name, found {token!r}")
    inner = _alternatives(tokens)
    if not tokens or tokens.pop(0) != ")":
        raise ValueError("a parenthesis is not closed")
    return inner

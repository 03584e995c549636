"""What is read in which proportion and order: the `train.data` settings.

Without any, all documents are one stream in one shuffled order. Components (named groups of sources and languages) get
shares of the sequences, by phases: constant, or a linear ramp to `end_shares`. A mixture changed in mid-run is an
entry of `changes` with the step at which it takes effect, a skipped document or range of steps one of `skip`: the
whole history of a run stands in its config, so any position of it can be computed again.

in    YAML values below train.data
out   DataConfig; `resolve` turns steps and tokens into samples
ref   report 004 (general 60-70 %, domain 20-30 %, code 10 %; a new domain from 10 % to 30 %);
      report 000 section 2.3 (sampling by frequent characters, 1.8 times the sequences of short tokens)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.settings import require

# of a mixture whose components have these names and no phases; the middles of report 004's ranges
DEFAULT_SHARES = {"general": 0.65, "domain": 0.25, "code": 0.10}
Shares = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentConfig:
    """Which documents belong to a component: the first component whose patterns fit takes a document."""

    sources: tuple[str, ...] = ()  # shell patterns of source names; empty: any
    languages: tuple[str, ...] = ()  # shell patterns of languages; empty: any


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseConfig:
    """Shares of the sequences for a number of steps or tokens; with neither, to the end of the run.

    Steps are those of the global batch size in the config: where that may change in mid-run, give tokens.
    """

    shares: dict[str, float]
    end_shares: dict[str, float] = field(default_factory=dict)  # empty: constant; else a straight line to these
    steps: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        require(self.steps >= 0, "steps", "0 (to the end) or more", self.steps, "remove the sign")
        require(self.tokens >= 0, "tokens", "0 (to the end) or more", self.tokens, "remove the sign")
        require(not (self.steps and self.tokens), "tokens", "steps or tokens, not both", self.tokens, "keep one")
        for key, shares in (("shares", self.shares), ("end_shares", self.end_shares)):
            for name, share in shares.items():
                require(0 <= share <= 1, f"{key}.{name}", "a share from 0 to 1", share, "0.65 is 65 %")
            total = math.fsum(shares.values())
            if shares or key == "shares":
                require(abs(total - 1) < 1e-6, key, "shares that add up to 1", total, "change one of them")
        ends = bool(self.steps or self.tokens) or not self.end_shares
        require(ends, "end_shares", "a phase with steps or tokens", "neither", "say how long the ramp is")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeConfig:
    """Other phases from a step on. They are counted from that step."""

    from_step: int  # the first step, counted from 0, that reads by them
    phases: tuple[PhaseConfig, ...]

    def __post_init__(self) -> None:
        require(self.from_step > 0, "from_step", "1 or more", self.from_step, "for the start, change `phases`")
        require(bool(self.phases), "phases", "at least one", (), "say the shares from this step on")


@dataclass(frozen=True, kw_only=True, slots=True)
class SkipConfig:
    """What is left out from a step on: documents, or the sequences that some steps would have read.

    Each sequence left out is replaced by the next of its component. Steps are counted from 0; a range names what it
    would have read under the entries above it.
    """

    documents: tuple[str, ...] = ()
    from_step: int = 0  # of `documents`
    steps: tuple[int, int] | None = None  # first, and one past the last
    reason: str = ""

    def __post_init__(self) -> None:
        one = bool(self.documents) != (self.steps is not None)
        require(one, "skip", "either documents or steps", (self.documents, self.steps), "make two entries of it")
        require(self.from_step >= 0, "from_step", "0 or more", self.from_step, "remove the sign")
        if self.steps is not None:
            first, stop = self.steps
            require(0 <= first < stop, "steps", "[first, stop) with 0 <= first < stop", self.steps, "swap them")
            require(not self.from_step, "from_step", "0 with steps", self.from_step, "a range starts at its first step")

    @property
    def first_step(self) -> int:
        return self.steps[0] if self.steps is not None else self.from_step


@dataclass(frozen=True, kw_only=True, slots=True)
class CurriculumConfig:
    """Short documents first: the sequences of the first `fraction` of the steps go by length of document."""

    fraction: float = 0.0  # of the run's steps; 0: off

    def __post_init__(self) -> None:
        require(0 <= self.fraction <= 1, "fraction", "from 0 to 1", self.fraction, "0.1 is a tenth of the steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyConfig:
    """Fewer of the documents that are heavy in a few characters (training/data/characters.py)."""

    characters: str = "的了在"
    target_share: float = 0.0  # of these among the characters of what is read (report 000: 0.051); 0: off
    min_kept_fraction: float = 0.5  # of the tokens of `languages`: no more is given up to reach the target
    languages: tuple[str, ...] = ("zh*",)  # shell patterns: other documents are left alone

    def __post_init__(self) -> None:
        require(0 <= self.target_share < 1, "target_share", "0 to below 1", self.target_share, "0.051 is 5.1 %")
        require(bool(self.characters), "characters", "at least one", self.characters, "set target_share to 0 instead")
        ok = 0 < self.min_kept_fraction <= 1
        require(ok, "min_kept_fraction", "above 0, at most 1", self.min_kept_fraction, "0.5 keeps half")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortTokensConfig:
    """More sequences of components whose tokens are short, the tokens of a step staying what they are.

    Sequences are packed, so each costs the same; what a short token lacks is text. Report 000's 1.8 times the batch
    is therefore 1.8 times that component's sequences within the step, at the others' expense.
    """

    below_chars_per_token: float = 0.0  # report 000: 2.0; 0: off
    factor: float = 1.8

    def __post_init__(self) -> None:
        ok = self.below_chars_per_token >= 0
        require(ok, "below_chars_per_token", "0 (off) or more", self.below_chars_per_token, "2.0 is the report's")
        require(self.factor >= 1, "factor", "1 or more", self.factor, "1.8 is the report's")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """What is read, in which proportion and order."""

    components: dict[str, ComponentConfig] = field(default_factory=dict)  # empty: all documents as one
    phases: tuple[PhaseConfig, ...] = ()
    changes: tuple[ChangeConfig, ...] = ()
    skip: tuple[SkipConfig, ...] = ()
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    frequency: FrequencyConfig = field(default_factory=FrequencyConfig)
    short_tokens: ShortTokensConfig = field(default_factory=ShortTokensConfig)
    max_epochs: float = 4.0  # of a component: warn beyond (Muennighoff et al. 2023: up to 4 are nearly as good as new)

    def __post_init__(self) -> None:
        named = [(f"phases[{i}]", phase) for i, phase in enumerate(self.phases)]
        for c, change in enumerate(self.changes):
            named += [(f"changes[{c}].phases[{i}]", phase) for i, phase in enumerate(change.phases)]
        for key, phase in named:
            for name in {**phase.shares, **phase.end_shares}:
                have = ", ".join(self.components) or "none"
                require(name in self.components, f"{key}.shares", f"names of components ({have})", name, "add it there")
        for key, phases in (("phases", self.phases), *(("changes", c.phases) for c in self.changes)):
            for phase in phases[:-1]:
                ok = bool(phase.steps or phase.tokens)
                require(ok, key, "steps or tokens in every phase but the last", phase.shares, "say how long it lasts")
        if self.components and not self.phases:
            ok = set(self.components) == set(DEFAULT_SHARES)
            advice = f"only components named {', '.join(DEFAULT_SHARES)} have default shares"
            require(ok, "phases", "shares for the components", list(self.components), advice)
        steps = [change.from_step for change in self.changes]
        require(steps == sorted(set(steps)), "changes", "ascending from_step", steps, "sort them")
        if self.short_tokens.below_chars_per_token:
            require(bool(self.components), "short_tokens", "components", {}, "make one of the languages in question")

    @property
    def initial_phases(self) -> tuple[PhaseConfig, ...]:
        return self.phases or (PhaseConfig(shares=dict(DEFAULT_SHARES)),)

    @property
    def needs_characters(self) -> bool:
        """Whether the tokenizer's pieces have to be looked into (training/data/characters.py)."""
        return bool(self.frequency.target_share or self.short_tokens.below_chars_per_token)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DataConfig:
        """Rebuild what `dataclasses.asdict` made, possibly by way of JSON; unknown keys raise TypeError."""
        values = dict(values)
        values["components"] = {
            name: ComponentConfig(**{k: tuple(v) for k, v in entry.items()})
            for name, entry in values["components"].items()
        }
        values["phases"] = phases(values["phases"])
        values["changes"] = tuple(ChangeConfig(**(c | {"phases": phases(c["phases"])})) for c in values["changes"])
        values["skip"] = tuple(
            SkipConfig(**(s | {"documents": tuple(s["documents"]), "steps": tuple(s["steps"]) if s["steps"] else None}))
            for s in values["skip"]
        )
        frequency = values["frequency"]
        values["frequency"] = FrequencyConfig(**(frequency | {"languages": tuple(frequency["languages"])}))
        values["curriculum"] = CurriculumConfig(**values["curriculum"])
        values["short_tokens"] = ShortTokensConfig(**values["short_tokens"])
        return cls(**values)


def phases(values: Sequence[Mapping[str, Any]]) -> tuple[PhaseConfig, ...]:
    return tuple(PhaseConfig(**phase) for phase in values)


def with_shares(config: DataConfig, change: Any) -> DataConfig:
    """The same config with `change(shares) -> shares` applied to the shares of every phase."""

    def changed(phase: PhaseConfig) -> PhaseConfig:
        end = change(phase.end_shares) if phase.end_shares else {}
        return dataclasses.replace(phase, shares=change(phase.shares), end_shares=end)

    return dataclasses.replace(
        config,
        phases=tuple(changed(phase) for phase in config.initial_phases) if config.components else (),
        changes=tuple(
            dataclasses.replace(c, phases=tuple(changed(phase) for phase in c.phases)) for c in config.changes
        ),
    )

"""Drop documents that are too short, repetitive, garbled or unwanted, from the metrics measured before.

Only a user's own rules and the masking of kept documents read text here: any other document's fate follows from its
metrics, language, media type and licence, so a changed threshold costs seconds. Policies come first, then length,
garbage, and the published rules of `rules.py`, then the user's. The lengths of all documents that come in are counted
per language, so that the report can show what another least length would drop.

in    Document    metrics of `metrics.measure` are in `document.metrics`
out   Document    a subset, order kept, personal data masked; each drop names its reason, the figure and the limit
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.clean.filter import lengths
from tasks.clean.filter.licences import LicencePolicy, refusal
from tasks.clean.filter.pii import PiiConfig, masked
from tasks.clean.filter.rules import (
    C4Config,
    CodeConfig,
    FineWebConfig,
    GopherConfig,
    Rule,
    Verdict,
    by_language,
    c4_rules,
    code_rules,
    fineweb_rules,
    first_broken,
    gopher_rules,
)
from tasks.clean.filter.user_rules import UserRule, UserRuleError, absolute, load, verdict_of_user
from tasks.clean.language.code_shape import CODE
from tasks.clean.language.identify import wanted
from tasks.clean.words import is_unspaced
from tasks.document import UNKNOWN_LANGUAGE, Document, Dropped, Outcome, Quarantined
from tasks.settings import to_dict
from tasks.stage import PartWriter, Stage, StageRun
from tasks.store.account import AccountError
from tasks.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterConfig:
    """Every limit is inclusive; None switches its rule off."""

    min_chars: int | None = 80  # 95 % of useful samples have 78 or more (field report 000)
    min_chars_by_language: dict[str, int] = field(default_factory=dict)  # "zh-Hant": 40; "zh" covers both scripts
    max_garbage_ratio: float | None = 0.01  # ours: U+FFFD, private use, unassigned; decode keeps at most as many
    gopher: GopherConfig = field(default_factory=GopherConfig)
    c4: C4Config = field(default_factory=C4Config)
    fineweb: FineWebConfig = field(default_factory=FineWebConfig)
    code: CodeConfig = field(default_factory=CodeConfig)
    min_quality: float | None = None  # of the metric of `language.quality_model` (danlu train-quality)
    pii: PiiConfig = field(default_factory=PiiConfig)  # what is masked in the documents kept
    drop_unknown_language: bool = False
    languages_of_source: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # source -> the languages it may be in
    licences: tuple[str, ...] | None = None  # allowed, as patterns ("CC-BY-*"); None: any that is not denied
    denied_licences: tuple[str, ...] = ()  # patterns
    unknown_licence: Literal["keep", "drop"] | None = None  # None: drop where `licences` is given, else keep
    licences_of_source: dict[str, LicencePolicy] = field(default_factory=dict)  # instead of the three above
    user_rules: tuple[str, ...] = ()  # "path/to/file.py:function" or "module:function" (user_rules.py)

    def __post_init__(self) -> None:
        for rule in self.user_rules:
            load(rule)  # an error in it is an error of this setting, before anything runs
        object.__setattr__(self, "user_rules", tuple(absolute(rule) for rule in self.user_rules))

    def key_settings(self) -> dict[str, Any]:
        """A user's rule is keyed by its function and the content of its file, never by where that lies."""
        settings: dict[str, Any] = {name: to_dict(getattr(self, name)) for name in self.__dataclass_fields__}
        return settings | {"user_rules": [{"function": rule.name, "sha256": rule.sha256} for rule in load_all(self)]}

    def licence_policy(self, source: str) -> LicencePolicy:
        """What `source` may bring."""
        general = LicencePolicy(allow=self.licences, deny=self.denied_licences, unknown=self.unknown_licence)
        return self.licences_of_source.get(source, general)


def drop_reason(
    metrics: Mapping[str, float], language: str, config: FilterConfig, media_type: str = "text/plain"
) -> str | None:
    """Why a document with these metrics should go (`"too_short"`, …), or None to keep it."""
    found = verdict(metrics, language, config, media_type)
    return found.reason if found else None


def verdict(
    metrics: Mapping[str, float], language: str, config: FilterConfig, media_type: str = "text/plain"
) -> Verdict | None:
    """The first rule that a document with these metrics breaks. KeyError when a metric was never measured."""
    if config.min_quality is not None and "quality" not in metrics:
        raise ValueError(
            f"filter.min_quality is {config.min_quality}, and no document has the metric quality: set "
            "language.quality_model to a model that `danlu train-quality` made, or filter.min_quality to null"
        )
    return first_broken(rules_for(language, media_type, config), metrics)


def rules_for(language: str, media_type: str, config: FilterConfig) -> Iterator[Rule]:
    """The rules that a document of this kind is held to, in order."""
    minimum = by_language(config.min_chars_by_language, language, config.min_chars)
    yield Rule("too_short", "num_chars", minimum, None)
    yield Rule("garbage_characters", "garbage_ratio", None, config.max_garbage_ratio)
    if config.min_quality is not None:
        yield Rule("low_quality", "quality", config.min_quality, None)
    if language == CODE:
        yield from code_rules(config.code)
        return
    yield from gopher_rules(config.gopher, language, is_unspaced(language))
    if media_type in config.c4.media_types:
        yield from c4_rules(config.c4)
    if media_type in config.fineweb.media_types:
        yield from fineweb_rules(config.fineweb)


def policy_verdict(document: Document, config: FilterConfig) -> Dropped | None:
    """The drop that source, language or licence ask for, whatever the text is like."""
    refused = refusal(document.licence, config.licence_policy(document.source))
    if refused:
        evidence: dict[str, str | float | int] = {"licence": document.licence or "none recorded", "why": refused}
        return Dropped(document=document, reason="licence", evidence=evidence)
    allowed = config.languages_of_source.get(document.source)
    if allowed and not wanted(document.language, allowed):
        return Dropped(document=document, reason="unwanted_language", evidence={"language": document.language})
    if config.drop_unknown_language and document.language == UNKNOWN_LANGUAGE:
        confidence = document.metrics.get("language_confidence", 0.0)
        return Dropped(document=document, reason="unknown_language", evidence={"language_confidence": confidence})
    return None


def judge(document: Document, config: FilterConfig, user_rules: Sequence[UserRule] | None = None) -> Outcome:
    """The one outcome of `document`; `user_rules` are those of `config`, loaded once for many documents."""
    if refused := policy_verdict(document, config):
        return refused
    if found := verdict(document.metrics, document.language, config, document.media_type):
        evidence: dict[str, str | float | int] = {"metric": found.metric, "found": found.found, "limit": found.limit}
        return Dropped(document=document, reason=found.reason, evidence=evidence)
    loaded = load_all(config) if user_rules is None else user_rules
    if loaded and (answer := user_outcome(document, loaded)):
        return answer
    return masked(document, config.pii)


def load_all(config: FilterConfig) -> list[UserRule]:
    return [load(rule) for rule in config.user_rules]


def user_outcome(document: Document, rules: Sequence[UserRule]) -> Dropped | Quarantined | None:
    """What the user's rules say; a document on which one of them fails is set apart with the error."""
    try:
        found = verdict_of_user(rules, document.text, document.metrics, document.language)
    except UserRuleError as error:
        return Quarantined(
            id=document.id,
            content=document.text.encode("utf-8", "surrogatepass"),
            reason="user_rule_failed",
            detail=str(error),
            source=document.source,
            origin=document.origin,
            url=document.url,
            licence=document.licence,
            language=document.language,
        )
    if found is None:
        return None
    return Dropped(document=document, reason=found[1], evidence={"rule": found[0]})


def process(documents: Iterator[Document], config: FilterConfig) -> Iterator[Outcome]:
    user_rules = load_all(config)
    for document in documents:
        yield judge(document, config, user_rules)


def filter_shard(payload: dict[str, Any], config: FilterConfig, writer: PartWriter) -> dict[str, Any]:
    """Judge one shard, counting the length of every document that comes in."""
    counts: dict[str, Counter[int]] = {}
    user_rules, read = load_all(config), 0
    for document in Dataset.load(payload["dataset"]).documents(payload["shard"]):
        assert isinstance(document, Document)
        read += 1
        counts.setdefault(document.language, Counter())[lengths.bucket(len(document.text))] += 1
        writer.put(judge(document, config, user_rules))
    if writer.account.total().read != read:
        raise AccountError(f"{payload['shard']}: read {read} documents, answered {writer.account.total().read}")
    return {"lengths": {language: dict(sorted(found.items())) for language, found in sorted(counts.items())}}


def run(run: StageRun) -> None:
    """A part per shard; the lengths of all of them become a fact of the dataset."""
    results = run.parts(filter_shard, run.shard_parts("filter"))
    merged = lengths.merge(result.result["lengths"] for result in results)
    run.output.facts = {"lengths": lengths.table(merged)}


STAGE = Stage(
    name="filter",
    module=__name__,
    config=FilterConfig,
    inputs=("language",),
    run=run,
    summary="drop by length, shape, repetition, garbage, language, licence and own rules; mask personal data",
)

"""The whole pipeline's settings: one dataclass per stage, filled from a recipe (YAML), `--set` and `--input`.

What one stage's settings say about another's is wired here once: a source's `priority` decides which copy the dedup
stages keep, its `share` what the mix stage aims at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tasks.clean.decode.stage import DecodeConfig
from tasks.clean.decontaminate import DecontaminateConfig
from tasks.clean.extract.stage import ExtractConfig
from tasks.clean.filter.stage import FilterConfig
from tasks.clean.language.stage import LanguageConfig
from tasks.dedup.exact import ExactConfig
from tasks.dedup.minhash import MinHashConfig
from tasks.dedup.semantic import SemanticConfig
from tasks.evaluate import EvaluateConfig
from tasks.export import ExportConfig
from tasks.ingest.config import IngestConfig
from tasks.ingest.inputs import sources_from_path
from tasks.mix import MixConfig
from tasks.report.build import ReportConfig
from tasks.settings import ConfigError, from_dict, to_dict
from tasks.shards.splits import ShardsConfig
from tasks.tokenizer.config import TokenizerConfig
from training.config import TrainConfig
from training.hosts import read_hostfile
from training.sizes import SIZES

DEFAULT_RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "default.yaml"


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """Settings of every stage, by stage name, in the order of the stages."""

    name: str = "default"  # which pipeline's datasets are current: several can share a store
    ingest: IngestConfig
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    extract: ExtractConfig = field(default_factory=ExtractConfig)
    language: LanguageConfig = field(default_factory=LanguageConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    exact_dedup: ExactConfig = field(default_factory=ExactConfig)
    minhash_dedup: MinHashConfig = field(default_factory=MinHashConfig)
    semantic_dedup: SemanticConfig = field(default_factory=SemanticConfig)
    decontaminate: DecontaminateConfig = field(default_factory=DecontaminateConfig)
    mix: MixConfig = field(default_factory=MixConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    shards: ShardsConfig = field(default_factory=ShardsConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    report: ReportConfig = field(default_factory=ReportConfig)


def load_config(
    recipe: str | Path | None, *, settings: Sequence[str] = (), inputs: Sequence[str] = (), name: str | None = None
) -> PipelineConfig:
    """The resolved settings of a run.

    `settings` are `key=value` with dotted keys (`filter.min_chars=100`) and YAML values; `inputs` are paths that
    replace the recipe's sources. Raises ConfigError, naming the key.
    """
    path = Path(recipe) if recipe else DEFAULT_RECIPE
    values = read_recipe(path)
    if inputs:
        named = [source for given in inputs for source in sources_from_path(given)]
        values["ingest"] = {**(values.get("ingest") or {}), "sources": [to_dict(s) for s in unique_names(named)]}
    for setting in settings:
        apply_setting(values, setting)
    if name:
        values["name"] = name
    values = {k: {} if v is None and k != "name" else v for k, v in values.items()}  # `filter:` with nothing below it
    if not values.get("ingest") or (isinstance(values["ingest"], dict) and not values["ingest"].get("sources")):
        raise ConfigError("no input: give --input PATH, or a recipe (--config FILE) with ingest.sources")
    name_model(values)
    config = wire(from_dict(PipelineConfig, values))
    if config.train.hosts.hostfile:  # now, and not after hours of data stages
        read_hostfile(Path(config.train.hosts.hostfile), config.train.world_size)
    return config


def name_model(values: dict[str, Any]) -> None:
    """Put the numbers of `train.model.size` where the recipe leaves them open."""
    model = (values.get("train") or {}).get("model")
    if not isinstance(model, dict) or "size" not in model:
        return
    size = model.pop("size")
    if size not in SIZES:
        raise ConfigError(f"train.model.size: expected one of {', '.join(SIZES)}, found {size!r}")
    values["train"]["model"] = SIZES[size] | model


def read_recipe(path: Path) -> dict[str, Any]:
    """The recipe as plain values, `${recipe}` replaced by the absolute folder it lies in."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: the recipe cannot be read ({error.strerror})") from error
    try:
        values = yaml.safe_load(text.replace("${recipe}", str(path.resolve().parent))) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of stage names, found {type(values).__name__}")
    return values


def apply_setting(values: dict[str, Any], setting: str) -> None:
    """Set one dotted key in place; a list is reached by index (`ingest.sources.0.share=0.4`)."""
    key, separator, text = setting.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {setting!r}: expected key=value, such as filter.min_chars=100")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {key}: {text!r} is not valid YAML: {error}") from error
    *parents, last = key.split(".")
    node: Any = values
    for depth, parent in enumerate(parents, 1):
        if isinstance(node, list):
            node = node[list_index(node, parent, key)]
        else:
            if node.get(parent) is None:
                node[parent] = {}
            node = node[parent]
        if not isinstance(node, dict | list):
            raise ConfigError(f"--set {key}: {'.'.join(parents[:depth])} holds the value {node!r}, not settings")
    if isinstance(node, list):
        node[list_index(node, last, key)] = value
    else:
        node[last] = value


def list_index(node: list[Any], text: str, key: str) -> int:
    if not text.isdigit() or int(text) >= len(node):
        raise ConfigError(f"--set {key}: {text!r} is no index of a list of {len(node)}")
    return int(text)


def unique_names(sources: Sequence[Any]) -> list[Any]:
    """The sources, a second one of the same name renamed `name-2`."""
    seen: dict[str, int] = {}
    unique = []
    for source in sources:
        seen[source.name] = seen.get(source.name, 0) + 1
        count = seen[source.name]
        unique.append(source if count == 1 else dataclasses.replace(source, name=f"{source.name}-{count}"))
    return unique


def wire(config: PipelineConfig) -> PipelineConfig:
    """Hand the sources' priorities and shares to the stages that act on them, unless the recipe did."""
    sources = config.ingest.sources
    priority = {s.name: s.priority for s in sources if s.priority}
    shares = {s.name: s.share for s in sources if s.share is not None}
    changes: dict[str, Any] = {}
    for stage in ("exact_dedup", "minhash_dedup", "semantic_dedup"):
        settings = getattr(config, stage)
        if priority and not settings.source_priority:
            changes[stage] = dataclasses.replace(settings, source_priority=priority)
    if shares and not config.mix.shares:
        changes["mix"] = dataclasses.replace(config.mix, shares=shares)
    if not config.report.run_name:
        changes["report"] = dataclasses.replace(config.report, run_name=config.name)
    return dataclasses.replace(config, **changes)


def to_yaml(config: PipelineConfig) -> str:
    """The resolved settings as YAML."""
    return yaml.safe_dump(to_dict(config), allow_unicode=True, sort_keys=False)

"""Recipes, `--set`, `--input`, and what is wired between stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.config import load_config, to_yaml
from flows.order import STAGES
from tasks.settings import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "recipes" / "sample.yaml"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "name: own\ningest:\n  sources:\n"
        "    - {name: good, path: '${recipe}/good', priority: 3, share: 0.7}\n"
        "    - {name: web, path: '${recipe}/web'}\n"
    )
    return path


def test_the_settings_have_one_group_per_stage_in_order() -> None:
    config = load_config(SAMPLE)
    assert [key for key in type(config).__dataclass_fields__ if key != "name"] == [stage.name for stage in STAGES]
    assert all(isinstance(getattr(config, stage.name), stage.config) for stage in STAGES)


def test_the_resolved_settings_are_a_recipe_for_the_same_run(tmp_path: Path) -> None:
    config = load_config(SAMPLE, settings=["filter.min_chars=33"])
    (tmp_path / "resolved.yaml").write_text(to_yaml(config))
    assert load_config(tmp_path / "resolved.yaml") == config


def test_priority_and_share_of_a_source_reach_the_stages_that_act_on_them(recipe: Path) -> None:
    config = load_config(recipe)
    assert config.minhash_dedup.source_priority == config.exact_dedup.source_priority == {"good": 3}
    assert config.mix.shares == {"good": 0.7}
    assert config.ingest.sources[0].path == f"{recipe.parent}/good"
    own = load_config(recipe, settings=["mix.shares={good: 0.2}", "exact_dedup.source_priority={web: 1}"])
    assert own.mix.shares == {"good": 0.2} and own.exact_dedup.source_priority == {"web": 1}


def test_a_hostfile_that_does_not_fit_is_refused_before_the_first_stage(tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("worker-0 slots=1\nworker-1 slots=1\n")
    settings = [f"train.hosts.hostfile={tmp_path / 'hostfile'}"]
    assert load_config(SAMPLE, settings=settings).train.hosts.network_interface == ""
    with pytest.raises(ValueError, match=r"world_size: expected the sum of the slots in .*hostfile \(2\), found 1"):
        load_config(SAMPLE, settings=[*settings, "train.world_size=1"])
    with pytest.raises(ConfigError, match=r"hosts.network_interface: expected a hostfile with it"):
        load_config(SAMPLE, settings=["train.hosts.network_interface=eth0"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("filter.min_char=1", r"filter\.min_char: unknown key; did you mean 'min_chars'\?"),
        ("filtr.min_chars=1", r"filtr: unknown key; did you mean 'filter'\?"),
        ("filter.min_chars=many", r"filter\.min_chars: expected int, found str 'many'"),
        ("filter.min_chars", r"expected key=value"),
        ("=3", r"expected key=value"),
        ("filter=3", r"filter: expected a mapping"),
        ("filter.min_chars.x=3", r"filter\.min_chars: expected int"),
        ("name.x.y=3", r"--set name\.x\.y: name holds the value 'own', not settings"),
        ("ingest=3", r"^ingest: expected a mapping of keys, found 3"),
        ("ingest.sources.7.share=1", r"'7' is no index of a list of 2"),
        ("ingest.sources.0.shar=1", r"sources\[0\]\.shar: unknown key; did you mean 'share'\?"),
        ("train.steps=[1", r"train\.steps.*not valid YAML"),
    ],
)
def test_a_wrong_setting_is_named(recipe: Path, setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(recipe, settings=[setting])


def test_a_list_a_mapping_and_an_item_of_a_list_can_be_set(recipe: Path) -> None:
    config = load_config(
        recipe,
        settings=[
            "filter.licences=[MIT, CC0-1.0]",
            "filter.min_chars_by_language={zh-Hant: 20}",
            "ingest.sources.1.share=0.1",
            "train.lr=3e-4",
            "train.model.num_layers=2",
        ],
    )
    assert config.filter.licences == ("MIT", "CC0-1.0") and config.filter.min_chars_by_language == {"zh-Hant": 20}
    assert config.ingest.sources[1].share == 0.1 and config.train.lr == 3e-4 and config.train.model.num_layers == 2


def test_a_group_with_nothing_below_it_has_its_defaults(recipe: Path) -> None:
    recipe.write_text(f"{recipe.read_text()}filter:\n  # min_chars: 3\n")
    assert load_config(recipe).filter.min_chars == 80
    assert load_config(recipe, settings=["filter.min_chars=3"]).filter.min_chars == 3


def test_inputs_replace_the_sources_and_a_name_that_comes_twice_is_numbered(recipe: Path, tmp_path: Path) -> None:
    for folder in ("a/books", "b/books"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.txt").write_text("x")
    config = load_config(recipe, inputs=[str(tmp_path / "a"), str(tmp_path / "b")])
    assert [source.name for source in config.ingest.sources] == ["books", "books-2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "not valid YAML"), ("- a", "expected a mapping of stage names, found list"), ("", "no input")],
)
def test_a_recipe_that_is_none_is_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "r.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "absent.yaml")

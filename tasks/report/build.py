"""Collect what every stage left behind and render it as one HTML file.

The page may be read long after the store is gone, so it holds all it shows. `report.html` is a log, not content: it
shows times and throughput, which differ from run to run. `figures.json` beside it holds the figures that do not.

in    the datasets of any stages that ran; with only the data stages, the page ends there
out   report.html (log), figures.json (artifact)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import markupsafe

from tasks.report import figures, measure, samples, vocabulary
from tasks.report.curves import panels, read_metrics
from tasks.report.plots import draw
from tasks.report.template import render_page
from tasks.report.text import visible
from tasks.review import labels, rates
from tasks.settings import to_dict
from tasks.stage import Part, Stage, StageRun
from tasks.store.dataset import Dataset

CONTENTS = (  # (id of the section, what must be there for it)
    ("account", "account"), ("decay", "decay_by_source"), ("lengths", "lengths"), ("review", "reviewed"),
    ("tokens", "tokens_by_source"), ("vocabulary", "vocabulary_sizes"), ("figures", "facts"),
    ("training", "curves"), ("evaluation", "evaluation"), ("samples", "generated"), ("dropped", "dropped"),
    ("quarantined", "quarantined"), ("lineage", ""), ("configuration", ""), ("reproduce", "command"),
)  # fmt: skip
ALWAYS = ("lineage", "configuration")
LOST = ("ingest", *figures.CLEANING[1:], "mix")  # the stages that may drop or quarantine


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportConfig:
    """What the report shows."""

    run_name: str = ""  # the pipeline's name when empty
    command: str = ""  # the exact command that reproduces the run; shown as it is
    samples_per_reason: int = 3
    max_sample_chars: int = 1500
    max_sample_bytes: int = 400  # of a quarantined record
    measure_bytes: bool = True  # read every ingested and usable text once to state bytes per source

    def __post_init__(self) -> None:
        for name in ("samples_per_reason", "max_sample_chars", "max_sample_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more, found {getattr(self, name)}; 0 shows none")

    def key_settings(self) -> dict[str, Any]:
        """The command names paths, and no key may depend on where a store lies."""
        return {name: value for name, value in to_dict(self).items() if name != "command"}


def render(
    datasets: Mapping[str, Dataset],
    run_facts: Mapping[str, Any],
    config: ReportConfig | None = None,
    measured: Mapping[str, measure.Bytes] | None = None,
) -> str:
    """The report of `datasets` (by stage name) as HTML.

    `run_facts`: "name" and "command" override the config's; "states" maps stage to what this run did (cached, run).
    """
    config = config or ReportConfig()
    if measured is None:
        measured = measure.measure_all(datasets) if config.measure_bytes else {}
    return render_page(collect(datasets, run_facts, config, measured))


def collect(
    datasets: Mapping[str, Dataset],
    run_facts: Mapping[str, Any],
    config: ReportConfig,
    measured: Mapping[str, measure.Bytes],
) -> dict[str, Any]:
    """All that the template shows, as plain values."""
    unknown = sorted(datasets.keys() - {*figures.STAGES, *figures.BESIDE})
    if unknown:
        raise ValueError(f"no stage is called {', '.join(unknown)}; stages: {', '.join(figures.STAGES)}")
    present = {stage: datasets[stage] for stage in figures.STAGES if stage in datasets and stage != "report"}
    accounts = {stage: d.manifest.account for stage, d in present.items() if d.manifest.account.rows}
    evaluation = load_json(present.get("evaluate"), "evaluation.json")
    view: dict[str, Any] = {
        "name": run_facts.get("name") or config.run_name or "danlu run",
        "command": run_facts.get("command") or config.command,
        "stages": list(present),
        "num_stages": len(figures.STAGES) - 1,
        "missing": [stage for stage in figures.STAGES if stage not in present and stage != "report"],
        **account_view(accounts),
        **decay_view(accounts, measured),
        "reviewed": reviewed(present),
        "lengths": present["filter"].manifest.facts.get("lengths") if "filter" in present else None,
        **token_view(present.get("shards")),
        **vocabulary_view(datasets.get(vocabulary.STAGE)),
        "facts": [(stage, rows) for stage, d in present.items() if (rows := fact_rows(d))],
        **training_view(present.get("train"), vocab_size(present)),
        "evaluation": evaluation,
        "generated": generated(present.get("evaluate"), config.max_sample_chars),
        **lost_view(present, config),
        **lineage_view(present, run_facts.get("states") or {}),
        "configuration": [
            (stage, figures.flatten(d.manifest.config)) for stage, d in present.items() if d.manifest.config
        ],
    }
    view["tiles"] = tiles(view)
    view["contents"] = [(name, name.capitalize(), name in ALWAYS or bool(view[key])) for name, key in CONTENTS]
    return view


def fact_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """A stage's facts but those that have a section of their own."""
    facts = {key: value for key, value in dataset.manifest.facts.items() if key not in ("config", "lengths")}
    return figures.flatten(figures.readable(facts)) if facts else []


def vocab_size(present: Mapping[str, Dataset]) -> int | None:
    manifests = [present[stage].manifest for stage in ("train", "tokenizer") if stage in present]
    found = [figures.find(m.facts, "vocab_size") or figures.find(m.config, "vocab_size") for m in manifests]
    return next((number for number in found if number), None)


def reviewed(present: Mapping[str, Dataset]) -> list[rates.ErrorRates]:
    """The measured error rates of the stages that lost documents; none when nobody has labelled any."""
    measured = [rates.measure(present[stage]) for stage in LOST if stage in present]
    return [found for found in measured if found.lost] if any(found.num_labelled for found in measured) else []


def lost_view(present: Mapping[str, Dataset], config: ReportConfig) -> dict[str, Any]:
    """Samples of dropped and quarantined records, in stage order."""
    number = config.samples_per_reason
    stages = [present[stage] for stage in LOST if stage in present]
    return {
        "dropped": [r for d in stages for r in samples.dropped(d, number, config.max_sample_chars)],
        "quarantined": [r for d in stages for r in samples.quarantined(d, number, config.max_sample_bytes)],
    }


def account_view(accounts: Mapping[str, figures.Account]) -> dict[str, Any]:
    rows = [figures.line(stage, account.total()) for stage, account in accounts.items()]
    return {
        "account": rows,
        "unbalanced": [row.name for row in rows if not row.balanced],
        "account_details": [
            (stage, figures.lines(account.by_source()), figures.lines(account.by_language()))
            for stage, account in accounts.items()
        ],
    }


def decay_view(accounts: Mapping[str, figures.Account], measured: Mapping[str, measure.Bytes]) -> dict[str, Any]:
    raw, usable = measured.get("raw"), measured.get("usable")
    cleaning = [stage for stage in figures.CLEANING if stage in accounts]
    by_source = figures.decay(accounts, "source", raw.by_source if raw else None, usable.by_source if usable else None)
    return {
        "decay_by_source": by_source,
        "decay_by_language": figures.decay(accounts, "language", None, usable.by_language if usable else None),
        "last_cleaning": cleaning[-1] if cleaning else "",
    }


def token_view(shards: Dataset | None) -> dict[str, Any]:
    """Tokens per source and language, summed over the sidecars of the token shards."""
    totals = measure.token_sums(shards) if shards else {"source": {}, "language": {}}
    return {f"tokens_by_{axis}": figures.token_lines(groups) for axis, groups in totals.items()}


def vocabulary_view(compared: Dataset | None) -> dict[str, Any]:
    """The vocabulary experiment, where there was one."""
    comparison = load_json(compared, "comparison.json")
    if not comparison:
        return {"vocabulary_sizes": None, "vocabulary_rows": [], "vocabulary_groups": [], "vocabulary_curves": []}
    return {
        "vocabulary_sizes": comparison,
        "vocabulary_rows": vocabulary.rows(comparison),
        "vocabulary_groups": vocabulary.groups(comparison),
        "vocabulary_curves": [(p.title, markupsafe.Markup(draw(p))) for p in vocabulary.panels(comparison)],
    }


def training_view(train: Dataset | None, vocab_size: int | None) -> dict[str, Any]:
    """The drawn panels of the training metrics (our own SVG, the one thing on the page that is not escaped), and the
    run's turning points."""
    drawn = panels(metrics_rows(train, "metrics.jsonl"), vocab_size)
    return {
        "curves": [(panel.title, markupsafe.Markup(draw(panel))) for panel in drawn],
        "events": [event_line(row) for row in metrics_rows(train, "events.jsonl")],
    }


def metrics_rows(train: Dataset | None, name: str) -> list[dict[str, Any]]:
    entry = next((f for f in train.manifest.files if f.name.rsplit("/", 1)[-1] == name), None) if train else None
    if train is None or entry is None:
        return []
    with train.open(entry.name) as file:
        return read_metrics(file, f"{train.url}/{entry.name}")


def event_line(row: Mapping[str, Any]) -> tuple[str, str]:
    detail = ", ".join(f"{key} {value}" for key, value in row.items() if key not in ("kind", "step", "time"))
    return f"step {row.get('step', '–')}", f"{row.get('kind', '')}{': ' if detail else ''}{detail}"


def load_json(dataset: Dataset | None, name: str) -> Any:
    if dataset is None or all(entry.name != name for entry in dataset.manifest.files):
        return None
    with dataset.open(name) as file:
        return json.loads(file.read())


def generated(evaluate: Dataset | None, max_chars: int) -> list[dict[str, str]]:
    """Generated samples with hidden characters made visible."""
    found = load_json(evaluate, "samples.json") or []
    return [
        {
            "label": visible(str(sample["label"]), 200),
            "prompt": visible(sample["prompt"], max_chars),
            "text": visible(sample["text"], max_chars),
        }
        for sample in found
    ]


def lineage_view(present: Mapping[str, Dataset], states: Mapping[str, str]) -> dict[str, Any]:
    rows = [
        {
            "stage": stage,
            "digest": dataset.digest,
            "key": dataset.key,
            "inputs": [
                (name, ref["digest"])
                for name, ref in sorted(dataset.manifest.inputs.items(), key=lambda item: figures.order(item[0]))
            ],
            "state": states.get(stage, "–"),
            "seconds": dataset.manifest.seconds,
            "created": dataset.manifest.created,
        }
        for stage, dataset in present.items()
    ]
    return {"lineage": rows, "has_run_states": bool(states)}


def tiles(view: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The handful of figures that a reader wants first."""
    found = []
    if decays := view["decay_by_source"]:
        raw, usable = sum(d.raw for d in decays), sum(d.usable for d in decays)
        found += [("raw records", f"{raw:,}"), ("usable", f"{usable:,}")]
        found += [("usable / raw", f"{100 * usable / raw:.1f} %")] if raw else []
    if tokens := view["tokens_by_source"]:
        found.append(("tokens", f"{sum(row['tokens'] for row in tokens):,}"))
    if overall := (view["evaluation"] or {}).get("overall"):
        found += [
            ("held-out perplexity", f"{overall[0]['perplexity']:,.1f}"),
            ("bits per byte", f"{overall[0]['bits_per_byte']:.3f}"),
        ]
    return found


def run(run: StageRun) -> None:
    """Measure, render, write."""
    config: ReportConfig = run.config
    measured = measure_parts(run) if config.measure_bytes else {}
    view = collect(run.inputs, {}, config, measured)
    page = render_page(view).encode()
    run.output.add_file("report.html", page, role="log")
    content = json.dumps(figures.plain(view), ensure_ascii=False, indent=1, sort_keys=True)
    run.output.add_file("figures.json", content.encode() + b"\n")
    run.output.facts = {"num_stages": len(view["stages"]), "html_bytes": len(page)}


def measure_parts(run: StageRun) -> dict[str, measure.Bytes]:
    """Bytes of raw and usable text, a part per shard."""
    parts = []
    for kind, dataset in measure.datasets(run.inputs).items():
        for shard in dataset.shards:
            payload = (kind, dataset.reference(), shard.name)
            parts.append(Part(name=f"{dataset.stage}-{shard.stem}", step=kind, inputs=(shard.sha256,), payload=payload))
    return measure.merge(result.result for result in run.parts(measure.part, parts))


STAGE = Stage(
    name="report",
    module=__name__,
    config=ReportConfig,
    inputs=("ingest",),
    optional_inputs=(*figures.STAGES[1:-1], *figures.BESIDE),
    run=run,
    beside=labels.digests,
    summary="Write one self-contained HTML report of every stage that ran.",
)

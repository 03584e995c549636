"""Collect what every stage left behind and render it as one HTML file.

The page may be read long after the store is gone, so it holds all it shows. `report.html` is a log, not content: it
shows times and throughput, which differ from run to run. `figures.json` beside it holds the figures that do not.

in    the datasets of any stages that ran; with only the data stages, the page ends there
out   report.html (log), figures.json (artifact)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import markupsafe

from tasks.report import figures, measure, samples
from tasks.report.curves import panels, read_metrics
from tasks.report.plots import draw
from tasks.report.template import render_page
from tasks.report.text import visible
from tasks.stage import Part, Stage, StageRun
from tasks.store.dataset import Dataset

LOST = ("ingest", *figures.CLEANING[1:], "mix")  # the stages that may drop or quarantine


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportConfig:
    """What the report shows."""

    run_name: str = "danlu run"
    command: str = ""  # the exact command that reproduces the run; shown as it is
    samples_per_reason: int = 3
    max_sample_chars: int = 1500
    max_sample_bytes: int = 400  # of a quarantined record
    measure_bytes: bool = True  # read every ingested and usable text once to state bytes per source

    def __post_init__(self) -> None:
        for name in ("samples_per_reason", "max_sample_chars", "max_sample_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more, found {getattr(self, name)}; 0 shows none")


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
    return render_page(collect(datasets, run_facts, config, measured or {}))


def collect(
    datasets: Mapping[str, Dataset],
    run_facts: Mapping[str, Any],
    config: ReportConfig,
    measured: Mapping[str, measure.Bytes],
) -> dict[str, Any]:
    """All that the template shows, as plain values."""
    unknown = sorted(datasets.keys() - set(figures.STAGES))
    if unknown:
        raise ValueError(f"no stage is called {', '.join(unknown)}; stages: {', '.join(figures.STAGES)}")
    present = {stage: datasets[stage] for stage in figures.STAGES if stage in datasets and stage != "report"}
    accounts = {stage: d.manifest.account for stage, d in present.items() if d.manifest.account.rows}
    evaluation = load_json(present.get("evaluate"), "evaluation.json")
    view: dict[str, Any] = {
        "name": run_facts.get("name") or config.run_name,
        "command": run_facts.get("command") or config.command,
        "stages": list(present),
        "num_stages": len(figures.STAGES) - 1,
        "missing": [stage for stage in figures.STAGES if stage not in present and stage != "report"],
        **account_view(accounts),
        **decay_view(accounts, measured),
        **token_view(present.get("shards")),
        "facts": [
            (stage, rows)
            for stage, d in present.items()
            if (rows := figures.flatten(d.manifest.facts)) != [("", "(empty)")]
        ],
        "curves": curves(present.get("train")),
        "evaluation": evaluation,
        "generated": generated(present.get("evaluate"), config.max_sample_chars),
        "dropped": [
            r
            for s in LOST
            if s in present
            for r in samples.dropped(present[s], config.samples_per_reason, config.max_sample_chars)
        ],
        "quarantined": [
            r
            for s in LOST
            if s in present
            for r in samples.quarantined(present[s], config.samples_per_reason, config.max_sample_bytes)
        ],
        **lineage_view(present, run_facts.get("states") or {}),
        "configuration": [
            (stage, figures.flatten(d.manifest.config)) for stage, d in present.items() if d.manifest.config
        ],
    }
    view["tiles"] = tiles(view)
    view["contents"] = [
        ("account", "Account", view["account"]), ("decay", "Decay", view["decay_by_source"]), ("tokens", "Tokens", view["tokens_by_source"]),
        ("figures", "Figures", view["facts"]), ("training", "Training", view["curves"]), ("evaluation", "Evaluation", view["evaluation"]),
        ("samples", "Samples", view["generated"]), ("dropped", "Dropped", view["dropped"]), ("quarantined", "Quarantined", view["quarantined"]),
        ("lineage", "Lineage", True), ("configuration", "Configuration", True), ("reproduce", "Reproduce", view["command"]),
    ]  # fmt: skip
    return view


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
    totals: dict[str, dict[str, Counter[str]]] = {"source": {}, "language": {}}
    for entry in measure.sidecars(shards):
        for batch in shards.batches(entry, ["source", "language", "num_tokens", "num_bytes"]) if shards else ():
            for row in batch.to_pylist():
                for axis, groups in totals.items():
                    groups.setdefault(row[axis], Counter()).update(
                        documents=1, tokens=row["num_tokens"], bytes=row["num_bytes"]
                    )
    return {f"tokens_by_{axis}": figures.token_lines(groups) for axis, groups in totals.items()}


def curves(train: Dataset | None) -> list[tuple[str, markupsafe.Markup]]:
    """The drawn panels of the training metrics: our own SVG, the one thing on the page that is not escaped."""
    entry = next((f for f in train.manifest.files if f.name.endswith("metrics.jsonl")), None) if train else None
    if train is None or entry is None:
        return []
    with train.open(entry.name) as file:
        records = read_metrics(file, f"{train.url}/{entry.name}")
    drawn = panels(
        records, figures.find(train.manifest.facts, "vocab_size") or figures.find(train.manifest.config, "vocab_size")
    )
    return [(panel.title, markupsafe.Markup(draw(panel))) for panel in drawn]


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
        found += [("decay rate (usable / raw)", f"{100 * usable / raw:.1f} %")] if raw else []
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
    run.output.add_file("report.html", render_page(view).encode(), role="log")
    content = json.dumps(figures.plain(view), ensure_ascii=False, indent=1, sort_keys=True)
    run.output.add_file("figures.json", content.encode() + b"\n")
    run.output.facts = {"num_stages": len(view["stages"]), "html_bytes": len(render_page(view).encode())}


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
    optional_inputs=figures.STAGES[1:-1],
    run=run,
    summary="Write one self-contained HTML report of every stage that ran.",
)

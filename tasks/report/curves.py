"""metrics.jsonl to the panels of the training section.

in    JSON lines of the trainer: {"kind": "step" | "validation", "step": …, "loss": …, …}
out   panels for `plots.draw`; a quantity that the run did not write has no panel
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from tasks.report.plots import Panel, Point

# (title, log scale, {label: (kind of row, field)})
PANELS: tuple[tuple[str, bool, dict[str, tuple[str, str]]], ...] = (
    ("Loss (nats per token)", False, {"training": ("step", "loss"), "validation": ("validation", "loss")}),
    ("Gradient norm", True, {"before clipping": ("step", "grad_norm")}),
    ("Learning rate", False, {"lr": ("step", "lr")}),
    ("Throughput (tokens per second)", False, {"tokens/s": ("step", "tokens_per_second")}),
)


def read_metrics(lines: Iterable[bytes], where: str) -> list[dict[str, Any]]:
    """The records of a metrics file. Raises ValueError naming the line that is not a JSON object with a step."""
    records = []
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            record = json.loads(raw)
        except ValueError as error:
            raise ValueError(f"{where}, line {number}: expected a JSON object, found {raw[:80]!r} ({error})") from error
        if not isinstance(record, dict):
            raise ValueError(f"{where}, line {number}: expected a JSON object, found {raw[:80]!r}")
        records.append(record)
    return records


def points(records: Iterable[dict[str, Any]], kind: str, name: str) -> list[Point]:
    """(step, value) of one field of one kind of row; a step that was run again after a resume counts as it last ran."""
    by_step = {
        record["step"]: float(record[name])
        for record in records
        if record.get("kind") == kind
        and isinstance(record.get(name), int | float)
        and isinstance(record.get("step"), int)
    }
    return sorted(by_step.items())


def panels(records: list[dict[str, Any]], vocab_size: int | None) -> list[Panel]:
    """The panels for which there are points. ln(vocab_size) is the loss of a model that knows nothing."""
    result = []
    for title, log_scale, fields in PANELS:
        series = {label: found for label, (kind, name) in fields.items() if (found := points(records, kind, name))}
        if not series:
            continue
        is_loss = ("step", "loss") in fields.values()
        result.append(
            Panel(
                title=title,
                series=series,
                log_scale=log_scale,
                reference=math.log(vocab_size) if is_loss and vocab_size else None,
                reference_label=f"ln({vocab_size:,}) = {math.log(vocab_size):.2f}" if is_loss and vocab_size else "",
            )
        )
    return result

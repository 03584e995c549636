"""`danlu sizes`: the models a recipe can name, and the memory of their states per rank and ZeRO stage."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from flows.options import JsonOption, guarded
from tasks.settings import ConfigError
from training.config import ModelConfig
from training.sizes import SIZES, USUAL_VOCABULARY, count_parameters, state_bytes

ZERO_STAGES = (0, 1, 2, 3)
MIN_WIDTH = 110


def sizes(
    ranks: Annotated[int, typer.Option(help="Ranks that share the states.", min=1)] = 8,
    precision: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    vocab_size: Annotated[int, typer.Option(help="Vocabulary; 0: the size's usual one.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """The models that `train.model.size` names: parameters, and GiB of weights, gradients and optimizer on each rank.

    Activations and communication buckets come on top.
    """

    def action() -> None:
        if precision not in ("bf16", "fp16", "fp32"):
            raise ConfigError(f"--precision: expected bf16, fp16 or fp32, found {precision!r}")
        rows = [size_row(name, vocab_size, ranks, precision) for name in SIZES]
        if as_json:
            for row in rows:
                print(json.dumps(row))
            return
        console = Console()
        console.width = max(console.width, MIN_WIDTH)
        console.print(size_table(rows, ranks, precision))

    guarded(action)


def size_row(name: str, vocab_size: int, ranks: int, precision: Any) -> dict[str, Any]:
    config = ModelConfig(**SIZES[name], vocab_size=vocab_size or USUAL_VOCABULARY[name])
    parameters = count_parameters(config)
    return {
        "size": name,
        "layers": config.num_layers,
        "width": config.hidden_size,
        "vocabulary": config.vocab_size,
        "parameters": parameters,
        "state_bytes": [state_bytes(parameters, stage, ranks, precision) for stage in ZERO_STAGES],
    }


def size_table(rows: list[dict[str, Any]], ranks: int, precision: str) -> Table:
    table = Table(title=f"GiB of states on each of {ranks} ranks, {precision}", box=SIMPLE)
    for column in ("size", "layers", "width", "vocabulary", "parameters"):
        table.add_column(column, justify="left" if column == "size" else "right")
    for stage in ZERO_STAGES:
        table.add_column(f"ZeRO {stage}", justify="right", style="cyan")
    for row in rows:
        table.add_row(*size_cells(row))
    return table


def size_cells(row: dict[str, Any]) -> list[str]:
    """A row as people read it."""
    counts = [f"{row[key]:,}" for key in ("layers", "width", "vocabulary", "parameters")]
    return [row["size"], *counts, *(f"{size / (1 << 30):.3g}" for size in row["state_bytes"])]

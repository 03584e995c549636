"""`danlu review STAGE`: look at what a stage decided, say whether it was right, and see how often it was wrong.

Documents are shown on standard output, one beside the other; `--label` asks about each, `--html` writes the same as a
page whose buttons make a file for `--labels`. Labels lie in the store beside the datasets and change none of them;
a report that shows the stage's error rates is written anew by the next run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows import terminal
from flows.options import DEFAULT_STORE, INTERRUPTED, JsonOption, NameOption, StoreOption, guarded, open_dataset
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

if TYPE_CHECKING:
    from tasks.review.beside import Case, Group
    from tasks.review.rates import ErrorRates, Rate

TERMINAL_CHARS, PAGE_CHARS = 700, 4000  # of each text
ANSWERS = {"r": "right", "w": "wrong", "u": "unsure", "s": "skip", "q": "quit"}
QUESTION = "right, wrong, unsure, skip or quit? A note may follow:"


def review(
    stage: Annotated[str, typer.Argument(help="Stage name, such as filter; or a dataset's key or path.")],
    store: StoreOption = DEFAULT_STORE,
    reason: Annotated[
        list[str] | None,
        typer.Option(help="Only this reason; may be repeated. Also: kept (a sample of all), changed, below."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Documents per reason.")] = 10,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write a page instead, with buttons to label.")] = None,
    label: Annotated[bool, typer.Option("--label", help="Ask about each document; go on where it was left.")] = False,
    labels: Annotated[Path | None, typer.Option(help="Take labels from a file of JSON lines.")] = None,
    rates: Annotated[bool, typer.Option("--rates", help="Only show the error rates measured so far.")] = False,
    name: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look at a sample of what a stage dropped and kept, label it, and measure how often the stage was wrong.

    danlu review filter --reason too_short --samples 20

    danlu review filter --label
    """

    def action() -> None:
        from tasks.review import beside, page
        from tasks.review import rates as measuring

        dataset = in_its_store(open_dataset(store, stage, name))
        if labels is not None:
            take_labels(dataset, labels)
        if (labels is None or html or label) and not rates:
            groups = beside.collect(dataset, reason or (), samples, seed)
            if not groups:
                raise ValueError(f"{dataset.url}: holds no documents that could be reviewed")
            if label:
                ask(dataset, groups)
            elif html:
                html.parent.mkdir(parents=True, exist_ok=True)
                html.write_text(page.render(dataset, groups, PAGE_CHARS), encoding="utf-8")
                terminal.console.print(f"page: {terminal.escape(str(html))}", soft_wrap=True)
                return
            elif as_json:
                show_json(dataset, groups)
                return
            else:
                show(dataset, groups)
        measured = measuring.measure(dataset)
        if as_json:
            print(json.dumps(measured.to_json(), ensure_ascii=False))
        else:
            Console(highlight=False).print(*rate_lines(measured), sep="\n")

    guarded(action)


def in_its_store(dataset: Dataset) -> Dataset:
    """A dataset that was opened by its path, as one of the store it lies in: its labels belong there."""
    root = dataset.store.url.removesuffix(f"/datasets/{dataset.stage}")
    if root == dataset.store.url:
        return dataset
    return Dataset.open_folder(Store(root), f"datasets/{dataset.stage}/{dataset.folder}")


def take_labels(dataset: Dataset, path: Path) -> None:
    """Store the labels of a file. Raises ValueError, and stores none, when one does not fit the dataset."""
    from tasks.review import labels as labelling
    from tasks.review import rates as measuring

    given = labelling.parse(path.read_bytes(), str(path))
    labelling.check(dataset, given, str(path))
    labelling.add(dataset, given)
    measuring.store(dataset)
    terminal.console.print(f"{len(given):,} labels stored in {dataset.store.url}/{labelling.file_of(dataset)}")


def ask(dataset: Dataset, groups: list[Group]) -> None:
    """Ask about each document that has no label yet; every answer is stored at once, so that stopping loses none."""
    from tasks.review import labels as labelling
    from tasks.review import rates as measuring

    known, console = labelling.load(dataset).by_key, Console(highlight=False)
    cases = [(group, case) for group in groups for case in group.cases if case.key not in known]
    num_done = sum(len(group.cases) for group in groups) - len(cases)
    console.print(f"{len(cases):,} documents to label" + (f", {num_done:,} have a label" if num_done else ""))
    given = 0
    try:
        for number, (group, case) in enumerate(cases, start=1):
            console.rule(f"{number} of {len(cases)} · {group.reason}")
            console.print(case_table(dataset, case, console))
            verdict, note = answer()
            if verdict == "quit":
                break
            if verdict != "skip":
                id_, reason, near = case.key
                made = labelling.Label(
                    id=id_, stage=dataset.stage, reason=reason, near=near, verdict=verdict, note=note
                )
                labelling.add(dataset, [made])
                given += 1
    except (typer.Abort, KeyboardInterrupt):
        terminal.console.print(f"\n[yellow]stopped.[/yellow] {given:,} labels are stored; the same command goes on.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if given:
            measuring.store(dataset)


def answer() -> tuple[str, str]:
    """(right, wrong, unsure, skip or quit; note), asked until it is one of them."""
    while True:
        word, _, note = typer.prompt(QUESTION, prompt_suffix=" ").strip().partition(" ")
        for letter, verdict in ANSWERS.items():
            if word and word.lower() in (letter, verdict):
                return verdict, note.strip()
        typer.echo(f"answer {', '.join(f'{letter} ({verdict})' for letter, verdict in ANSWERS.items())}")


def show(dataset: Dataset, groups: list[Group]) -> None:
    console = Console(highlight=False)
    for group in groups:
        number = f"{group.count:,} in all" if group.count is not None else "not counted"
        console.rule(f"{dataset.stage} · {group.reason} · {number}, {len(group.cases):,} shown")
        for case in group.cases:
            console.print(case_table(dataset, case, console))


def case_table(dataset: Dataset, case: Case, console: Console) -> Table:
    """One case: what is judged on the left, what it is judged against on the right. Text is never read as markup.

    Marked passages are in reverse video, or between ⟦ and ⟧ where the output is no terminal.
    """
    from tasks.review.view import sides

    table = Table(show_header=False, expand=True, width=console.width)
    cells = []
    for side in sides(case, dataset.stage, TERMINAL_CHARS):
        table.add_column(ratio=1, overflow="fold")
        cell = Text(f"{side.title}\n", style="bold")
        for fact, value in side.facts:
            cell.append(f"{fact}: {value}\n", style="not bold dim")
        for passage in side.passages:
            text = f"⟦{passage.text}⟧" if passage.marked and not console.is_terminal else passage.text
            cell.append(text, style="not bold reverse" if passage.marked else "not bold")
        cells.append(cell)
    table.add_row(*cells)
    return table


def show_json(dataset: Dataset, groups: list[Group]) -> None:
    """One line a case; `label` is what a line of a label file says of it, but for the verdict."""
    for group in groups:
        for case in group.cases:
            row = {"group": group.reason, "count": group.count, **dataclasses.asdict(case)}
            row["limit"] = case.limit._asdict() if case.limit else None
            row["label"] = dict(zip(("id", "reason", "near"), case.key, strict=True)) | {"stage": dataset.stage}
            print(json.dumps(row, ensure_ascii=False, default=lambda content: content.hex()))


def rate_lines(rates: ErrorRates) -> Iterator[Table | str]:
    """The error rates as a table, and what they come to."""
    from tasks.review.rates import numbers

    table = Table(title=f"error rates of {rates.stage} (95 % limits)", box=box.SIMPLE)
    for column in ("reason", "documents", "labelled", "wrong", "unsure", "rate", "estimated wrong"):
        table.add_column(column, justify="left" if column == "reason" else "right")
    named = [(rate.reason, rate) for rate in rates.lost]
    named += [("kept (miss rate)", rates.kept)] + [(f"kept, near {rate.reason}", rate) for rate in rates.near]
    named += [("changed", rates.changed)] if rates.changed.labelled or rates.changed.unsure else []
    for title, rate in named:
        table.add_row(title, *rate_cells(rate))
    yield table
    if rates.wrongly_lost:
        more = f"; {rates.num_not_reviewed:,} were lost for reasons not reviewed" if rates.num_not_reviewed else ""
        yield f"wrongly dropped, estimated over the reviewed reasons: {numbers(rates.wrongly_lost)}{more}"
    if rates.num_carried or rates.num_left:
        from_others = f"labels carried over from other datasets of {rates.stage}"
        yield f"{rates.num_carried:,} {from_others}, {rates.num_left:,} did not"


def rate_cells(rate: Rate) -> list[str]:
    from tasks.review.rates import numbers, percent

    counts = [f"{rate.count:,}" if rate.count is not None else "–", *(f"{n:,}" for n in (rate.labelled, rate.wrong))]
    counts.append(f"{rate.unsure:,}")
    return [*counts, percent(rate.rate), numbers(rate.estimated)]

"""`danlu forget`: a document must not be used any more. What used it, and which copies come back in its place."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from flows.options import DEFAULT_STORE, JsonOption, NameOption, StoreOption, guarded, latest_pipeline
from flows.order import STAGES
from tasks.dedup import forgotten
from tasks.stage import Stage
from tasks.store.dataset import current
from tasks.store.filesystem import Store

DEDUP = ("exact_dedup", "minhash_dedup", "semantic_dedup")


def forget(
    ids: Annotated[list[str], typer.Argument(help="Document ids, 32 hex digits each.")],
    store: StoreOption = DEFAULT_STORE,
    name: NameOption = None,
    note: Annotated[str, typer.Option(help="Why, and who asked: kept with the id.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what used it and what would come back.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the ids off the list again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put documents on the store's list of what must not be used; the next run drops them and elects survivors anew.

    Says what each was used in (datasets, token shards, training steps, checkpoints) and which documents went for it.
    """

    def action() -> None:
        opened = Store(store)
        pipeline = name or latest_pipeline(opened)[0]
        for row in [uses_of(opened, pipeline, STAGES, identity) for identity in dict.fromkeys(ids)]:
            if not dry_run:
                change = forgotten.remove if undo else lambda s, i: forgotten.add(s, i, note)
                row["changed"] = change(opened, row["document"])
            print(json.dumps(row, ensure_ascii=False) if as_json else "\n".join(lines_of(row, undo)))
        if not dry_run and not as_json:
            print("the next `danlu run` honours the list; `danlu gc` then deletes datasets that no pipeline leads to")

    guarded(action)


def uses_of(store: Store, pipeline: str, stages: tuple[Stage, ...], document: str) -> dict[str, Any]:
    """The journey of a document (`trace.py`), and the documents that were dropped as copies of it.

    Raises ValueError when no stage has seen the id.
    """
    from flows.trace import journey_of_document  # loads torch

    if not forgotten.ID.fullmatch(document):
        raise ValueError(f"document id: expected 32 hex digits, found {document!r}")
    return {**journey_of_document(store, pipeline, stages, document), "copies": copies_of(store, pipeline, document)}


def copies_of(store: Store, pipeline: str, document: str) -> list[dict[str, Any]]:
    """The documents that each dedup stage dropped for this one: they compete again once it is forgotten.

    Of several, those stay that no better-ranked survivor resembles; which ones, the next run says.
    """
    found = []
    for stage in DEDUP:
        dataset = current(store, pipeline, stage)
        for entry in dataset.files("removed") if dataset else ():
            for batch in dataset.batches(entry, columns=["id", "source", "evidence"]) if dataset else ():
                for row in batch.to_pylist():
                    evidence = json.loads(row["evidence"])
                    if evidence.get("kept_id") == document:
                        similarity = evidence.get("similarity")
                        found.append(
                            {"stage": stage, "document": row["id"], "source": row["source"], "similarity": similarity}
                        )
    return found


def lines_of(row: dict[str, Any], undo: bool = False) -> list[str]:
    """What a person reads about one document."""
    changed = row.get("changed")
    action = {None: "would be forgotten", True: "is on the list", False: "was on the list before"}[changed]
    if undo and changed is not None:
        action = "is off the list" if changed else "was not on the list"
    lines = [f"document {row['document']} {action}"]
    lines += [f"  {place['stage']:<15} {place['fate']:<12} {place['file']}" for place in row["stages"]]
    lines.append(f"  trained on it in steps: {', '.join(map(str, row['steps'])) or 'none'}")
    lines.append(f"  checkpoints: {', '.join(row['checkpoints']) or 'none'}")
    lines.append(f"  dropped as copies of it, and elected anew: {len(row['copies']) or 'none'}")
    for copy in row["copies"]:
        lines.append(f"    {copy['stage']:<15} {copy['document']} {copy['source']} similarity {copy['similarity']}")
    return lines

"""Take documents out of a stage's input by their row, without making an object of any.

Shards pass through as Arrow batches; a document that goes is written with its evidence below `removed/<reason>`. The
files are those that one outcome per document would give, byte for byte.

in    rows of the input and, for each, columns of evidence
out   the dataset's shards and what was removed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from tasks.dedup.survivors import Catalogue
from tasks.stage import Part, PartWriter, StageRun
from tasks.store.dataset import Dataset
from tasks.store.tables import ROW_GROUP_ROWS

DIGITS = 6  # of evidence that is not whole


def drop_documents(
    run: StageRun, documents: Catalogue, numbers: np.ndarray, evidence: Mapping[str, np.ndarray], reason: str
) -> None:
    """Write the input without the documents `numbers` (ascending); `evidence` has a value for each in every column."""
    reference, names = run.input.reference(), sorted(evidence)
    bounds = np.searchsorted(numbers, documents.starts)
    parts = []
    for shard, start, low, high in zip(run.input.shards, documents.starts, bounds[:-1], bounds[1:], strict=False):
        columns = {name: evidence[name][low:high] for name in names}
        payload = {
            "dataset": reference,
            "shard": shard.name,
            "rows": numbers[low:high] - start,
            "evidence": columns,
            "reason": reason,
        }
        inputs = (shard.sha256, _digest(payload["rows"], columns))
        parts.append(Part(name=shard.stem, step="drop", inputs=inputs, payload=payload, settings={"reason": reason}))
    run.parts(drop_shard, parts)


def _digest(rows: np.ndarray, columns: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(rows.astype("<i8").tobytes())
    for name, values in columns.items():
        digest.update(f"{name} {values.dtype.str} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def drop_shard(payload: dict, config: object, writer: PartWriter) -> None:
    """Step "drop": one shard without some of its rows."""
    rows, lines = payload["rows"], evidence_lines(payload["evidence"])
    start = 0
    for batch in Dataset.load(payload["dataset"]).batches(payload["shard"], batch_rows=ROW_GROUP_ROWS):
        low, high = np.searchsorted(rows, (start, start + batch.num_rows))
        writer.put_columns(batch, rows[low:high] - start, payload["reason"], lines[low:high])
        start += batch.num_rows


def evidence_lines(evidence: Mapping[str, np.ndarray]) -> list[str]:
    """One JSON object per row of the columns, keys in order, as `to_row` writes evidence."""
    columns = [_values(evidence[name]) for name in sorted(evidence)]
    return [
        json.dumps(dict(zip(sorted(evidence), values, strict=True)), ensure_ascii=False)
        for values in zip(*columns, strict=True)
    ]


def _values(column: np.ndarray) -> list:
    """Python values: text of bytes, floats rounded."""
    if column.dtype.kind == "S":
        return [value.decode() for value in column.tolist()]
    if column.dtype.kind == "f":
        return [round(value, DIGITS) for value in column.tolist()]
    return column.tolist()

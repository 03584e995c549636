"""The ingest stage: raw files in, raw records out, every byte accounted for.

in    the files of the sources
out   RawRecord            in the order of source, file and record
"""

from __future__ import annotations

from typing import Any

from tasks.document import Outcome
from tasks.ingest.config import IngestConfig
from tasks.ingest.files import RawFile, file_path, list_files, open_source
from tasks.ingest.outcomes import Outcomes
from tasks.ingest.parts import digests_of, plan_parts
from tasks.ingest.read import read_file, read_range
from tasks.stage import PartWriter, Stage, StageRun

# The listing that the key of a run was made from, until the run takes it: files are hashed once, and what is read is
# what was keyed.
_listed: dict[IngestConfig, list[RawFile]] = {}


def raw_inputs(config: IngestConfig) -> dict[str, str]:
    """Digests of the files outside the store: what the key of this stage is made from."""
    files = list_files(config)
    _listed.clear()
    _listed[config] = files
    return digests_of(config, files)


def read_part(payload: dict[str, Any], config: IngestConfig, writer: PartWriter) -> None:
    """Read the files of one part, or the range of one."""
    part = payload.get("range")
    # A range is a shard: it was cut by the bytes of the file, and a little more or less makes no second one.
    writer.shard_bytes = 2 * config.shard_bytes if part else config.shard_bytes
    source = config.source(payload["source"])
    fs, root = open_source(source)
    is_file = fs.isfile(root)
    for path, error in payload["files"]:
        if error is not None:
            writer.put(unreadable(Outcomes(source, config, path), error))
            continue
        with fs.open(file_path(root, path, is_file), "rb") as file:
            found = read_range(file, path, source, config, part) if part else read_file(file, path, source, config)
            for outcome in found:
                writer.put(outcome)


def unreadable(outcomes: Outcomes, error: str) -> Outcome:
    """The outcome of a file that could not be opened when the sources were listed."""
    return outcomes.quarantined(b"", "unreadable_file", f"{error}; make it readable and run again")


def run(run: StageRun) -> None:
    """List, plan, read."""
    files = _listed.pop(run.config, None) or list_files(run.config)
    run.parts(read_part, plan_parts(run.config, files))
    run.output.facts["num_files"] = len(files)
    run.output.facts["num_bytes"] = sum(file.size for file in files)


STAGE = Stage(
    name="ingest",
    module=__name__,
    config=IngestConfig,
    inputs=(),
    run=run,
    raw_inputs=raw_inputs,
    summary="Read the sources (WARC, HTML, text, JSON lines, Parquet, tar …) into raw records.",
)

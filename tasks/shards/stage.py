"""The shards stage: documents to token ids, ready for training.

Each mix shard becomes, per split, a pair of token files and a sidecar (`encode.py`). Every document
ends with EOS; those of a group with a marker, such as code, begin with it.
A new mix shard adds files and redoes no training file, as long as the tokenizer is the same, and of validation only
those with a document that resembles what is new. The files are a function of mix, tokenizer and config.

    encode       each document to its split (splits.py); token files of the training documents
    compare      candidates for validation that resemble a training document (near.py)
    validation   token files of the others
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from tasks.shards.encode import encode_part, validation_part
from tasks.shards.files import SPLITS, TRAIN, VALIDATION
from tasks.shards.near import left_out, sidecar_of
from tasks.shards.splits import ShardsConfig
from tasks.stage import Part, Stage, StageRun
from tasks.store.filesystem import digest_of
from tasks.tokenizer.markers import Markers
from tasks.tokenizer.model import EOS_ID

log = logging.getLogger(__name__)


def run(run: StageRun) -> None:
    mix, tokenizer = run.inputs["mix"], run.inputs["tokenizer"]
    model = next(f for f in tokenizer.files("artifact") if f.name == "tokenizer.model")
    given = {"dataset": mix.reference(), "tokenizer": tokenizer.reference()}
    fitted = (model.sha256, Markers.of(tokenizer).digest)
    encoded = run.parts(encode_part, run.shard_parts("encode", inputs=fitted, tokenizer=tokenizer.reference()))
    near = left_out(run, encoded) if run.config.validation_max_jaccard is not None else {}
    parts = []
    for shard, result in zip(mix.shards, encoded, strict=True):
        if name := sidecar_of(result, "candidates"):
            rows = near.get(shard.name, {})
            payload = {**given, "shard": shard.name, "candidates": name, "left_out": rows}
            inputs = (shard.sha256, *fitted, digest_of(sorted(rows.items())))
            parts.append(Part(name=shard.stem, step="validation", inputs=inputs, payload=payload))
    results = [*encoded, *run.parts(validation_part, parts)]
    totals: Counter[tuple[str, ...]] = Counter()
    for result in results:
        for *key, number in result.result["counts"]:
            totals[tuple(key)] += number
    run.output.facts = facts(totals) | {
        "eos_id": EOS_ID,
        "vocab_size": tokenizer.manifest.facts["vocab_size"],
        "tokenizer": {"digest": tokenizer.digest, "model_sha256": model.sha256},
        "dtype": "int32",
        "left_out": sum(map(len, near.values())),  # of validation, for their likeness to training
    }
    check_splits(run.output.facts["splits"], run.config)


def facts(totals: Counter[tuple[str, ...]]) -> dict[str, Any]:
    """Documents, tokens and bytes by split, and within it by source and language."""
    splits: dict[str, Any] = {}
    for split in SPLITS:
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for (where, source, language, what), number in sorted(totals.items()):
            if where == split:
                rows.setdefault((source, language), {"source": source, "language": language})[what] = number
        sums = {what: sum(row[what] for row in rows.values()) for what in ("documents", "tokens", "bytes")}
        splits[split] = {**sums, "rows": list(rows.values())}
    return {"splits": splits}


def check_splits(splits: dict[str, Any], config: ShardsConfig) -> None:
    """Raise ValueError without training documents; warn without the validation ones that were asked for."""
    if not splits[TRAIN]["documents"]:
        raise ValueError(
            f"no document is left to train on ({splits[VALIDATION]['documents']} went to validation): look at the "
            f"account of the stages before, or lower validation_fraction ({config.validation_fraction})"
        )
    if config.validation_fraction and not splits[VALIDATION]["documents"]:
        log.warning(
            "shards: none of %d documents fell to validation at validation_fraction %g: raise it to evaluate",
            splits[TRAIN]["documents"],
            config.validation_fraction,
        )


STAGE = Stage(
    name="shards",
    module=__name__,
    config=ShardsConfig,
    inputs=("mix", "tokenizer"),
    run=run,
    summary="Encode the mix into token shards (.bin/.idx) with a sidecar that names each document.",
)

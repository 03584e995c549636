"""Drop near-duplicates: MinHash-LSH proposes pairs, the true Jaccard of their shingles decides.

Shingles are five consecutive units of `fuzzy_form(text)`: words in spaced scripts, characters in unspaced ones, so
layout, Unicode form, case and Traditional or Simplified script cost nothing. A document goes only if a document that
stays is at least `threshold` similar to *it*; likeness is not passed on along a chain. Documents with too few distinct
shingles are left to exact dedup, for short texts share signatures by chance.

Trade-off: at the defaults 18 bands of 7 rows propose 98.6 % of the pairs at Jaccard 0.8 and 99.9 % at 0.85; a pair
whose estimated Jaccard is more than `estimate_margin` (4 standard deviations of 128 permutations) below the threshold
is not read again. The price of a removal that is always verified is reading the candidates' texts twice.

A run leaves an index (`index.py`), and the next compares new documents alone with all of history (`night.py`). It
keeps and removes what one run over everything would, with the same evidence, given the same `source_priority`: so a
new document that ranks before an old survivor displaces it.

The signatures of a shard lie in `signatures/<part>.u32`: uint32 [documents, num_perm], little-endian, row by row.

in    Document
out   Document            a subset, order kept; the rest is `minhash_duplicate` with kept_id, similarity, estimated
ref   Broder 1997; Lee et al. 2022, arXiv:2107.06499, section 4.2
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernels import minhash
from tasks.dedup import sidecars, survivors
from tasks.dedup.index import DIGEST_BYTES, fixed_bytes
from tasks.dedup.night import Night
from tasks.dedup.normalise import fuzzy_codes
from tasks.dedup.removal import drop_documents
from tasks.stage import PartWriter, Stage, StageRun

REASON = "minhash_duplicate"
SIGNED = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("length", pa.int64()),
        ("digest", pa.binary(DIGEST_BYTES)),  # of the text as it is
        ("comparable", pa.bool_()),  # has min_shingles distinct shingles
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MinHashConfig:
    threshold: float = 0.8  # true Jaccard at or above which a document goes
    shingle_size: int = 5  # units: words, or characters of unspaced scripts
    min_shingles: int = 10  # distinct; documents with fewer are deduplicated exactly only
    num_perm: int = 128
    seed: int = 1  # of the permutations
    false_negative_weight: float = 0.99  # of datasketch's optimiser; verification removes false positives
    estimate_margin: float = 0.15  # 4 * sqrt(0.8 * 0.2 / 128) = 0.14
    source_priority: dict[str, int] = field(default_factory=dict)  # higher stays; sources not named have 0
    max_source_loss: float = 0.95  # of a source's documents; more stops the run
    min_source_documents: int = 100  # sources with fewer are not guarded

    def __post_init__(self) -> None:
        for name in ("threshold", "false_negative_weight", "max_source_loss"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, found {value}")
        for name in ("shingle_size", "min_shingles", "num_perm", "min_source_documents"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        if not 0 <= self.estimate_margin <= 1:
            raise ValueError(f"estimate_margin must be between 0 and 1, found {self.estimate_margin}")


def sign_shard(payload: dict, config: MinHashConfig, writer: PartWriter) -> None:
    """Step "sign": the sidecar `signatures` of one shard, and the signatures themselves in a matrix file."""
    a, b = minhash.permutations(config.num_perm, config.seed)
    described, signed = [], [b""]
    for batch in sidecars.shard_batches(payload, ["id", "source", "text"]):
        texts = batch["text"]
        signatures, _, distinct = minhash.sign_codes(
            *fuzzy_codes(texts), config.shingle_size, a, b, cap=config.min_shingles
        )
        lengths, comparable = pc.utf8_length(texts).cast(pa.int64()), pa.array(distinct >= config.min_shingles)
        columns = [batch["id"], batch["source"], lengths, text_digests(texts), comparable]
        described.append(pa.RecordBatch.from_arrays(columns, schema=SIGNED))
        signed.append(signatures.astype("<u4", copy=False).tobytes())
    writer.table("signatures", pa.Table.from_batches(described, schema=SIGNED), dictionary=["source"])
    name, rows = f"signatures/{writer.name}{sidecars.MATRIX}", sum(batch.num_rows for batch in described)
    writer.file(name, b"".join(signed), role="sidecar", rows=rows)


def text_digests(texts: pa.Array) -> pa.Array:
    """What each text is recognised by in later runs: 128-bit BLAKE2b of its UTF-8."""
    column = texts.cast(pa.large_string())
    _, bounds, data = column.buffers()
    offsets = np.frombuffer(bounds, np.int64, len(column) + 1, 8 * column.offset).tolist() if len(column) else [0]
    view = memoryview(data or b"")
    digests = b"".join(
        blake2b(view[start:stop], digest_size=DIGEST_BYTES).digest() for start, stop in pairwise(offsets)
    )
    return fixed_bytes(np.frombuffer(digests, np.uint8), DIGEST_BYTES)


def run(run: StageRun) -> None:
    config: MinHashConfig = run.config
    settings = {name: getattr(config, name) for name in ("shingle_size", "min_shingles", "num_perm", "seed")}
    results = run.parts(sign_shard, run.shard_parts("sign", settings))
    names = [shard.stem for shard in run.input.shards]
    documents = survivors.catalogue(
        names, sidecars.read_sidecars(run, results, ["id", "source", "length"]), run.scratch()
    )
    night = Night(run, results, documents)
    decided = night.decisions()
    survivors.guard_sources(
        documents, decided.documents, config.max_source_loss, config.min_source_documents, "minhash_dedup"
    )
    run.output.facts["index"]["bytes"] = night.write_index(decided)
    drop_documents(run, documents, decided.documents, decided.evidence(documents), REASON)


STAGE = Stage(
    name="minhash_dedup",
    module=__name__,
    config=MinHashConfig,
    inputs=("exact_dedup",),
    run=run,
    summary="Drop near-duplicates: MinHash-LSH proposes, true Jaccard against the survivor decides.",
)

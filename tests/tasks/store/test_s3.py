"""The same stages on an object store: S3 as moto serves it on localhost, and memory:// without workers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.engine import Request, Run
from flows.order import STAGES
from tasks import spread
from tasks.stage import Stage, StageResult
from tasks.store.collect import collect, garbage
from tasks.store.filesystem import Store

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "recipes" / "sample"
WANTED = STAGES[:5]
SETTINGS = ("tokenizer.vocab_size=2000", "tokenizer.hard_vocab_limit=false", "semantic_dedup.enabled=false")


class Quiet:
    def stage_started(self, stage: Stage) -> None: ...
    def progress(self, stage: str, done: float, total: float, note: str) -> None: ...
    def stage_finished(self, stage: Stage, result: StageResult) -> None: ...


def run(store: str, workers: int, stages: tuple[Stage, ...], *settings: str) -> dict[str, StageResult]:
    inputs = (str(SAMPLE / "pages" / "en"), str(SAMPLE / "plain" / "en"), str(SAMPLE / "broken" / "mixed-lines.jsonl"))
    with Run(Request(store=store, inputs=inputs, settings=(*SETTINGS, *settings), workers=workers), Quiet()) as made:
        made.remember()
        return {stage.name: made.step(stage) for stage in stages}


def digests(results: dict[str, StageResult]) -> dict[str, str]:
    return {name: result.dataset.digest for name, result in results.items()}


@pytest.fixture(scope="module")
def upto_shards() -> tuple[Stage, ...]:
    return STAGES[: [stage.name for stage in STAGES].index("shards") + 1]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, upto_shards: tuple[Stage, ...]) -> dict[str, str]:
    return digests(run(str(tmp_path_factory.mktemp("local") / "store"), 0, upto_shards))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"danlu-{uuid.uuid4().hex[:8]}"
    client: Any = boto3.client("s3")
    client.create_bucket(Bucket=name)
    yield f"s3://{name}/store"
    spread.shutdown()
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.mark.slow
def test_an_s3_store_gives_the_local_digests_is_cached_and_collected(
    bucket: str, local: dict[str, str], upto_shards: tuple[Stage, ...]
) -> None:
    first = run(bucket, 1, upto_shards)
    assert digests(first) == local
    again = run(bucket, 1, upto_shards)
    assert all(result.cached for result in again.values())
    changed = run(bucket, 0, WANTED, "filter.min_chars=400")
    assert [name for name, result in changed.items() if not result.cached] == ["filter"]
    store = Store(bucket)
    # The changed filter is current now; the old one stays, for the shards were made from it.
    assert garbage(store, unfinished_hours=0) == []
    run(bucket, 0, WANTED)
    assert [item.folder for item in collect(store)] == [changed["filter"].dataset.folder]
    assert all(result.cached for result in run(bucket, 0, upto_shards).values())


def test_a_store_in_memory_gives_the_local_digests(local: dict[str, str], upto_shards: tuple[Stage, ...]) -> None:
    url = f"memory://{uuid.uuid4().hex}"
    assert digests(run(url, 0, upto_shards)) == local
    assert all(result.cached for result in run(url, 0, upto_shards).values())
    Store(url).remove("")

"""A small real store: raw records through decode, language, filter and both dedup stages, at any number of shards."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.clean.decode import stage as decode
from tasks.clean.filter import stage as filter
from tasks.clean.language import stage as language
from tasks.dedup import exact, minhash
from tasks.document import Kept, Origin, RawRecord, document_id
from tasks.stage import Part, PartWriter, Stage, StageRun, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store

HOSTILE = "</pre><script>document.title='owned'</script>[bold red]\u202e\x1b[31m"
WORDS = re.findall(
    r"\w+",
    "river miller brother boat barn sack water winter market bread smith furnace iron colour copper glass window door "
    "garden apple pear walnut ladder rope bucket well stone road bridge horse cart wheel axle saddle letter ink paper "
    "table chair lamp oil candle cupboard kettle spoon plate cellar roof tile chimney smoke ash ember spark wind rain "
    "thunder cloud hill meadow fence gate lamb shepherd whistle drum song dance fiddle harvest barley oats hay scythe",
)
JOINTS = ("the", "of", "and", "with", "to", "be", "that", "have", "in", "on", "by", "under", "over", "beside")


def prose(seed: int, num_words: int) -> str:
    """English enough for the filters, and unlike any other seed's."""
    chance = random.Random(seed)
    pairs = (f"{chance.choice(JOINTS)} {chance.choice(WORDS)}" for _ in range(num_words // 2))
    return "It was the time to " + " ".join(pairs) + "."


def contents() -> list[bytes]:
    long = prose(99, 200)
    found = [f"short {HOSTILE} {word}" for word in WORDS[:9]]
    found += [prose(seed, 60) for seed in range(24)]
    found += [f"{prose(seed, 40)} " + f"{WORDS[seed]} of gold " * 20 for seed in range(12)]
    found += [long, f"\n\n{long}\n", *(long.replace(f" {word} ", f" {word}s ") for word in WORDS[:4])]
    found += ["今天天气很好，我们一起去公园散步吧。", prose(7, 60) + " CafÃ© crÃ¨me, dÃ©jÃ  vu, naÃ¯ve, Ã©tÃ©."]
    return [*(text.encode() for text in found), b"\x00\x01\x02\xff\xfe\x00" * 40, b"\xef\xbb\xbf \r\n "]


@dataclass(frozen=True, kw_only=True)
class RawConfig:
    num_shards: int = 1


def put_part(numbers: list[int], config: RawConfig, writer: PartWriter) -> None:
    everything = contents()
    for number in numbers:
        content = everything[number]
        writer.put(
            Kept(
                document=RawRecord(
                    id=document_id("s", "a", number, content),
                    content=content,
                    media_type="text/plain",
                    declared_charset=None,
                    source=f"source <b>{number % 2}",
                    url=None,
                    licence=None,
                    origin=Origin(file=HOSTILE, record=number, offset=0),
                )
            )
        )


def put_all(run: StageRun) -> None:
    numbers, step = list(range(len(contents()))), run.config.num_shards
    parts = [Part(name=f"{i}", step="put", inputs=(f"{i}",), payload=numbers[i::step]) for i in range(step)]
    run.parts(put_part, parts)


INGEST = Stage(name="ingest", module="tasks.document", config=RawConfig, inputs=(), run=put_all, summary="")
CHAIN = (decode.STAGE, language.STAGE, filter.STAGE, exact.STAGE, minhash.STAGE)
BEFORE = {"decode": "ingest", "language": "decode", "filter": "language", "exact_dedup": "filter"}
BEFORE |= {"minhash_dedup": "exact_dedup"}


def run_chain(folder: Path, num_shards: int = 1, **filter_settings: int) -> dict[str, Dataset]:
    """Stage -> dataset. The language stage reads decode directly: nothing here is a page."""
    store = Store(str(folder))
    config = RawConfig(num_shards=num_shards)
    found = {"ingest": run_stage(INGEST, store=store, pipeline="t", config=config, inputs={}, workers=0).dataset}
    for stage in CHAIN:
        settings = filter_settings if stage.name == "filter" else {}
        given = {stage.inputs[0]: found[BEFORE[stage.name]]}
        done = run_stage(stage, store=store, pipeline="t", config=stage.config(**settings), inputs=given, workers=0)
        found[stage.name] = done.dataset
    return found


@pytest.fixture(scope="session")
def run_review_chain() -> Callable[..., dict[str, Dataset]]:
    return run_chain


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """Shared, so read only."""
    return run_chain(tmp_path_factory.mktemp("chain"))


@pytest.fixture
def own_chain(tmp_path: Path) -> dict[str, Dataset]:
    """To be labelled."""
    return run_chain(tmp_path / "store")


@pytest.fixture(scope="module", name="prose")
def prose_fixture() -> Callable[[int, int], str]:
    return prose

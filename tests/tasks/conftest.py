"""A model trained for a few real steps, in the datasets that evaluate and export read."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sentencepiece
import torch
from safetensors.torch import save_file

from tasks.document import document_id
from tasks.stage import Stage, run_stage
from tasks.store.dataset import Dataset
from tasks.store.filesystem import Store
from tasks.tokenizer.export import huggingface_files
from tasks.tokenizer.model import EOS_ID, Tokenizer, seal
from training.config import ModelConfig
from training.indexed import IndexedWriter
from training.initial import initialise
from training.model import Decoder

TEXTS = [
    ("web", "en", "The furnace burns day and night, and the smith watches the colour of the iron. "),
    ("web", "de", "Der Ofen brennt Tag und Nacht, und der Schmied achtet auf die Farbe des Eisens. "),
    ("books", "zh-Hans", "炉火纯青，百炼成钢。铁匠日夜守着炉子，看着铁的颜色。"),
    ("books", "en", "It was the best of iron, it was the worst of iron, it was the age of steel. "),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class NoConfig:
    tied: bool = True


def documents() -> list[tuple[str, str, str, str]]:
    """(id, source, language, text): four of each kind, of different lengths."""
    found = []
    for number in range(16):
        source, language, sentence = TEXTS[number % 4]
        text = sentence * (1 + number // 4) + f"No. {number}."
        found.append((document_id(source, "a", number, text.encode()), source, language, text))
    return found


def train_tokenizer() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for _, _, _, text in documents()] * 3), model_writer=model, vocab_size=400,
        model_type="unigram", byte_fallback=True, pad_id=3, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=False, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return seal(model.getvalue())


def tokenizer_stage(run):
    model = train_tokenizer()
    run.output.add_file("tokenizer.model", model)
    for name, content in huggingface_files(model).items():
        run.output.add_file(f"hf/{name}", content)


def shards_stage(run):
    tokenizer = Tokenizer.load(run.inputs["tokenizer"].local("tokenizer.model"))
    folder = run.scratch()
    writer = IndexedWriter(folder / "a")
    rows = []
    for key, source, language, text in documents():
        ids = np.append(tokenizer.encode(text), EOS_ID).astype("<i4")
        writer.add(ids)
        rows.append({"id": key, "source": source, "language": language, "num_tokens": len(ids)})
        rows[-1]["num_bytes"] = len(text.encode())
    writer.close()
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    for suffix in ("bin", "idx", "parquet"):
        run.output.add_file(f"validation/a.{suffix}", folder / f"a.{suffix}")


def train_stage(run):
    tokenizer = Tokenizer.load(run.inputs["tokenizer"].local("tokenizer.model"))
    shape = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "intermediate_size": 67}
    config = ModelConfig(vocab_size=tokenizer.vocab_size, max_seq_len=48, tie_embeddings=run.config.tied, **shape)
    model = initialise(Decoder(config), seed=1)
    line = torch.tensor(np.concatenate([np.append(tokenizer.encode(t), EOS_ID) for *_, t in documents()])).long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(60):
        window = line[(step * 37) % (len(line) - 33) :][:33]
        loss = model(window[None, :-1], window[None, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    folder = run.scratch()
    save_file(model.state_dict(), folder / "model.safetensors")
    run.output.add_file("checkpoint/model.safetensors", folder / "model.safetensors")
    state = {"step": 60, "tokens": 60 * 32, "config": {"model": shape_of(config), "seq_len": 32}}
    run.output.add_file("checkpoint/state.json", json.dumps(state).encode())


def shape_of(config: ModelConfig) -> dict:
    return {name: getattr(config, name) for name in config.__dataclass_fields__}


def run_training(folder: Path, tied: bool = True) -> dict[str, Dataset]:
    """The tokenizer, shards and train datasets of a fresh store."""
    store, datasets = Store(str(folder)), {}
    stages = (
        ("tokenizer", (), tokenizer_stage),
        ("shards", ("tokenizer",), shards_stage),
        ("train", ("tokenizer",), train_stage),
    )
    for name, inputs, function in stages:
        stage = Stage(name=name, module="tasks.document", config=NoConfig, inputs=inputs, run=function, summary="")
        given = {i: datasets[i] for i in inputs}
        config = NoConfig(tied=tied)
        datasets[name] = run_stage(stage, store=store, pipeline="t", config=config, inputs=given, workers=0).dataset
    return datasets


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    torch.set_num_threads(1)
    return run_training(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def trained_untied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    return run_training(tmp_path_factory.mktemp("untied"), tied=False)

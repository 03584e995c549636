import dataclasses
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from tasks import evaluate
from tasks.evaluate import EvaluateConfig, choose, score, windows
from tasks.generate import GenerateConfig, Prompt, continue_tokens, generate_all
from tasks.stage import run_stage
from tasks.tokenizer.model import EOS_ID
from tasks.trained import ModelError, load_model, load_tokenizer
from tasks.validation import held_out_documents

SMALL = GenerateConfig(prompts=("The furnace",), max_new_tokens=12, documents_per_language=1, prompt_tokens=4)


@pytest.fixture(scope="module")
def model(trained):
    return load_model(trained["train"])


@pytest.fixture(scope="module")
def documents(trained):
    return list(held_out_documents(trained["shards"]))


def run_evaluate(trained, **changes):
    config = EvaluateConfig(generate=SMALL, **changes)
    arguments = {"store": trained["train"].store, "pipeline": "t", "config": config, "workers": 0}
    return run_stage(evaluate.STAGE, inputs={k: trained[k] for k in ("train", "tokenizer", "shards")}, **arguments)


@pytest.mark.parametrize(("length", "seq_len", "stride"), [(1, 8, 4), (8, 8, 4), (9, 8, 8), (100, 8, 3), (100, 8, 1)])
def test_windows_score_each_token_once_with_the_promised_context(length, seq_len, stride):
    tokens = np.arange(10, 10 + length, dtype=np.int32)
    cut = windows(0, tokens, seq_len, stride)
    scored = np.concatenate([w.tokens[-w.num_scored :] for w in cut])
    assert scored.tolist() == tokens.tolist()
    assert all(len(w.tokens) <= seq_len + 1 for w in cut)
    assert cut[0].tokens[0] == EOS_ID
    assert all(len(w.tokens) - w.num_scored > seq_len - stride for w in cut[1:])


def test_scores_are_those_of_a_plain_forward_pass(model, documents):
    short = [d.tokens()[: 7 * (number % 6) + 5] for number, d in enumerate(documents)]  # 5 to 40: batches are padded
    batched = score(model, short, seq_len=48, stride=24, batch_size=3)
    for tokens, found in zip(short, batched, strict=True):
        line = torch.tensor([EOS_ID, *tokens.tolist()])
        with torch.inference_mode():
            expected = F.cross_entropy(model(line[None, :-1])[0], line[1:], reduction="sum")
        assert found == pytest.approx(float(expected), rel=1e-5)


def test_more_context_scores_better_than_less(model, documents):
    long = [d.tokens() for d in documents if d.num_tokens > 96]
    assert sum(score(model, long, 32, 8, 4)) < sum(score(model, long, 8, 8, 4))


def test_held_out_documents_are_the_texts_without_their_eos(trained, documents, model):
    tokenizer = load_tokenizer(trained["tokenizer"], model)
    assert len(documents) == 16
    for d in documents:
        assert EOS_ID not in d.tokens()
        assert len(tokenizer.decode(d.tokens()).encode()) == d.num_bytes


def test_what_is_not_scored_is_counted(documents):
    config = EvaluateConfig(max_documents=2, max_document_tokens=100)
    chosen, skipped = choose(documents, config)
    assert len(chosen) + sum(skipped.values()) == len(documents)
    assert all(d.num_tokens <= 100 for d in chosen)
    assert choose(reversed(documents), config) == (chosen, skipped)


def test_the_stage_reports_ratios_of_sums_and_is_deterministic(trained):
    result = run_evaluate(trained)
    report = json.loads(result.dataset.open("evaluation.json").read())
    [overall] = report["overall"]
    for table in ("by_source", "by_language", "by_source_and_language"):
        for figure in ("num_documents", "num_tokens", "num_bytes", "num_skipped"):
            assert sum(row[figure] for row in report[table]) == overall[figure]
    nats = sum(row["loss"] * row["num_tokens"] for row in report["by_source"])
    assert overall["bits_per_byte"] == pytest.approx(nats / math.log(2) / overall["num_bytes"])
    assert overall["perplexity"] == pytest.approx(math.exp(overall["loss"]))
    assert overall["loss"] < 0.75 * math.log(353)  # it has learned something
    files = {f.name: f.sha256 for f in result.dataset.manifest.files}
    trained["train"].store.remove(result.dataset.folder)
    assert {f.name: f.sha256 for f in run_evaluate(trained).dataset.manifest.files} == files


def test_damaged_weights_are_refused(trained, tmp_path):
    weights = load_file(trained["train"].local("checkpoint/model.safetensors"))
    weights["model.norm.weight"][3] = float("nan")
    save_file(weights, tmp_path / "model.safetensors")

    class Damaged:  # the train dataset with one other file
        url = "damaged"

        def __getattr__(self, name):
            return getattr(trained["train"], name)

        def local(self, name):
            return tmp_path / "model.safetensors"

    with pytest.raises(ModelError, match=r"not finite numbers in 1 tensors \(model.norm.weight\)"):
        load_model(Damaged())


def test_a_tokenizer_of_another_model_is_refused(trained):
    model = load_model(trained["train"])
    model.config = dataclasses.replace(model.config, vocab_size=100)
    with pytest.raises(ModelError, match="at most the model's 100 ids, found 353"):
        load_tokenizer(trained["tokenizer"], model)


def test_greedy_is_the_argmax_and_a_seed_gives_the_same_sample(model, trained):
    tokenizer = load_tokenizer(trained["tokenizer"], model)
    prompt = Prompt.of_text("The furnace", tokenizer)
    [first, *_] = continue_tokens(model, prompt.token_ids, 0.0, 1, SMALL)
    with torch.inference_mode():
        logits = model(torch.tensor([[EOS_ID, *prompt.token_ids]]))[0, -1]
    assert first == int(logits.argmax())
    hot = [continue_tokens(model, prompt.token_ids, 1.0, seed, SMALL) for seed in (1, 1, 2)]
    assert hot[0] == hot[1] != hot[2]


def test_another_prompt_changes_no_sample(model, trained):
    tokenizer = load_tokenizer(trained["tokenizer"], model)
    prompts = [Prompt.of_text(text, tokenizer) for text in ("The furnace", "炉火")]
    assert generate_all(model, tokenizer, prompts, SMALL)[2:] == generate_all(model, tokenizer, prompts[1:], SMALL)


def test_a_stride_above_the_window_is_refused():
    with pytest.raises(ValueError, match=r"stride: expected 0 to seq_len \(16\), found 17"):
        EvaluateConfig(seq_len=16, stride=17)

import json

import pytest
import torch

from tasks import export
from tasks.export import ExportConfig, ExportError, differing_texts, tokenizer_files, verify, write_folder
from tasks.stage import run_stage
from tasks.trained import load_model, load_tokenizer

TRICKY = [
    "Emoji 👨‍👩‍👧‍👦 🏳️‍🌈 🇨🇳",
    "爐火純青 炉火纯青 \u3000 全角",
    "if x:\n\t\treturn {'a': 1}  # comment\r\n",
    "\u2581 ▁▁ literal",
    "</s><s><0x0A>",
    "a" * 5000,
    "\x00\x01\x7f\u202e\ufeff\u2028",
    " ",
    "\n\n\n",
]


def run_export(datasets, **changes):
    inputs = {name: datasets[name] for name in ("train", "tokenizer")}
    arguments = {"store": datasets["train"].store, "pipeline": "t", "workers": 0}
    return run_stage(export.STAGE, config=ExportConfig(**changes), inputs=inputs, **arguments)


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf")
    write_folder(folder, load_model(trained["train"]), tokenizer_files(trained["tokenizer"]))
    return folder


@pytest.mark.parametrize("kind", ["trained", "trained_untied"])
def test_the_export_computes_what_the_model_computes(kind, request):
    datasets = request.getfixturevalue(kind)
    result = run_export(datasets)
    facts = result.dataset.manifest.facts
    assert 0 <= facts["max_logit_difference"] <= 1e-4
    assert facts["compared_logits"] == 4 * 48 * 353 and facts["compared_texts"] == len(export.SAMPLE_TEXTS)
    names = {f.name for f in result.dataset.files("artifact")}
    assert {"hf/config.json", "hf/model.safetensors", "hf/generation_config.json", "hf/README.md"} <= names
    config = json.loads(result.dataset.open("hf/config.json").read())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["tie_word_embeddings"] == (kind == "trained")


def test_exporting_again_gives_the_same_bytes(trained):
    first = run_export(trained, model_name="again")
    files = {f.name: f.sha256 for f in first.dataset.manifest.files}
    trained["train"].store.remove(first.dataset.folder)
    assert {f.name: f.sha256 for f in run_export(trained, model_name="again").dataset.manifest.files} == files


def test_token_ids_are_equal_on_tricky_texts(folder, trained):
    tokenizer = load_tokenizer(trained["tokenizer"], load_model(trained["train"]))
    assert differing_texts(folder, tokenizer, TRICKY) == []


def test_one_changed_weight_fails_the_check(folder, trained):
    model = load_model(trained["train"])
    tokenizer = load_tokenizer(trained["tokenizer"], model)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.mul_(1.02)
    with pytest.raises(ExportError, match=r"within max_logit_difference = 0.0001 .* found a difference of"):
        verify(folder, model, tokenizer, ExportConfig())


def test_a_missing_weight_is_named(trained, tmp_path):
    from safetensors.torch import load_file, save_file

    model = load_model(trained["train"])
    tokenizer = load_tokenizer(trained["tokenizer"], model)
    write_folder(tmp_path, model, tokenizer_files(trained["tokenizer"]))
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ExportError, match=r"missing_keys.*model\.norm\.weight"):
        verify(tmp_path, model, tokenizer, ExportConfig())


def test_a_changed_tokenizer_fails_the_check(trained, tmp_path):
    model = load_model(trained["train"])
    tokenizer = load_tokenizer(trained["tokenizer"], model)
    files = tokenizer_files(trained["tokenizer"])
    changed = json.loads(files["tokenizer.json"])
    changed["normalizer"] = {"type": "Lowercase"}
    write_folder(tmp_path, model, {**files, "tokenizer.json": json.dumps(changed).encode()})
    with pytest.raises(ExportError, match="expected equal token ids, found others on"):
        verify(tmp_path, model, tokenizer, ExportConfig())


def test_the_model_card_escapes_names_and_states_figures(trained):
    result = run_export(trained, model_name="a|b <script>")
    card = result.dataset.open("hf/README.md").read().decode()
    assert "<script>" not in card and "a&#124;b" in card
    assert "| parameters |" in card and trained["train"].digest in card


def test_a_tolerance_of_zero_is_refused():
    with pytest.raises(ValueError, match="max_logit_difference: expected above 0, found 0"):
        ExportConfig(max_logit_difference=0)

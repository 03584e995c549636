"""Settings of a run: what is refused, and how its length is worked out."""

from __future__ import annotations

import pytest

from training.config import ModelConfig, RunSpec, TrainConfig


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"global_batch_size": 12, "micro_batch_size": 4, "world_size": 2}, "for example 16"),
        ({"steps": 5, "num_epochs": 1.0}, "at most one of steps"),
        ({"seq_len": 1024}, "model.max_seq_len"),
        ({"zero_stage": 4}, "zero_stage"),
        ({"grad_clip": 0.0}, "grad_clip"),
        ({"offload_optimizer": "cpu", "zero_stage": 1}, "zero_stage 3 with backend deepspeed"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_remedy(changes, named):
    with pytest.raises(ValueError, match=named):
        TrainConfig(**changes)


def test_length_is_worked_out_from_epochs_tokens_or_one_epoch():
    base = {"seq_len": 64, "global_batch_size": 16}
    for length, steps in (({"num_epochs": 2.0}, 25), ({"token_budget": 10_000}, 10), ({}, 12), ({"steps": 7}, 7)):
        resolved = TrainConfig(**base, **length).resolve(vocab_size=300, num_samples=200)
        assert (resolved.steps, resolved.model.vocab_size) == (steps, 300)


def test_a_vocabulary_other_than_the_tokenizers_is_refused():
    with pytest.raises(ValueError, match="tokenizer's 300"):
        TrainConfig(model=ModelConfig(vocab_size=299)).resolve(vocab_size=300, num_samples=10)


def test_the_loss_is_made_by_chunks_where_its_logits_are_many_unless_told():
    def chunked(vocab_size, **changes):
        return TrainConfig(model=ModelConfig(vocab_size=vocab_size), **changes).chunked_loss

    assert not chunked(2_048)  # 8 x 256 x 2^11 = 2^22
    assert chunked(2_049) and chunked(85_000)
    assert chunked(300, loss="chunked") and not chunked(85_000, loss="plain")


def test_how_a_run_is_watched_is_no_part_of_its_key():
    one, two = TrainConfig(stall_timeout_seconds=60, keep_checkpoints=9), TrainConfig()
    assert one.key_settings() == two.key_settings()
    assert TrainConfig(activation_checkpointing="both").key_settings() == two.key_settings()  # the same bits
    assert TrainConfig(zero_stage=3).key_settings() != two.key_settings()
    three = TrainConfig(zero_stage=3)
    assert "offload_optimizer" not in three.key_settings()  # as before there was one
    assert TrainConfig(zero_stage=3, offload_optimizer="cpu").key_settings() != three.key_settings()


def test_a_spec_read_back_from_its_file_is_the_same(make_spec, tmp_path):
    spec = make_spec()
    spec.write(tmp_path / "run.json")
    assert RunSpec.read(tmp_path / "run.json") == spec

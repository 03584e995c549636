"""The decoder as `transformers` knows it: the same tensors, the same logits.

Names already agree, so the state dict only gains the tied `lm_head.weight` when asked for. With qk_norm the twin is
Qwen3ForCausalLM, which is LLaMA with a norm on queries and keys.

in    state dict of training.model.Decoder, ModelConfig
out   state dict and config.json values for LlamaForCausalLM (or Qwen3ForCausalLM)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from training.config import ModelConfig

if TYPE_CHECKING:
    from torch import Tensor


def to_hugging_face(state_dict: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Tensors under transformers' names. Tied: `lm_head.weight` is left out, transformers ties it itself."""
    expected = "lm_head.weight" in state_dict
    if expected == config.tie_embeddings:
        raise ValueError(
            f"tie_embeddings is {config.tie_embeddings}, but the weights {'hold' if expected else 'lack'} "
            "lm_head.weight: the config is not the one these weights were trained with"
        )
    return {name: tensor.detach().contiguous() for name, tensor in state_dict.items()}


def from_hugging_face(state_dict: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """The reverse: drops the tied copy of the output matrix and the rotary buffers of old exports."""
    kept = {name: t for name, t in state_dict.items() if not name.endswith("rotary_emb.inv_freq")}
    if config.tie_embeddings:
        kept.pop("lm_head.weight", None)
    return kept


def hugging_face_config(
    config: ModelConfig, *, bos_token_id: int | None = None, eos_token_id: int | None = None, dtype: str = "float32"
) -> dict[str, Any]:
    """The values of config.json. Token ids are the tokenizer's; None where it has none."""
    kind = "qwen3" if config.qk_norm else "llama"
    return {
        "architectures": ["Qwen3ForCausalLM" if config.qk_norm else "LlamaForCausalLM"],
        "model_type": kind,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_seq_len,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "bos_token_id": bos_token_id,
        "eos_token_id": eos_token_id,
        "dtype": dtype,
    }

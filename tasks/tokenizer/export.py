"""The same tokenizer as a folder that `transformers.AutoTokenizer.from_pretrained` loads, with equal ids.

The chunking of `tasks/tokenizer/model.py` lives inside the exported `tokenizer.json` as pre-tokenizers, so nothing has
to be done to a text beforehand. No BOS or EOS is added by default, and `<s>` in a text stays the three letters it is
(`split_special_tokens`), as in danlu's own encoder: a web page cannot forge an end of document.

A unigram export is exact by construction (scores that add up exactly). A BPE export lists every pair that makes up a
piece as a merge, in the order of the piece's rank; SentencePiece breaks ties between two pairs for the same piece by
place, Hugging Face by rank, so equality of ids is measured (`mismatches`) rather than given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tokenizers

from tasks.tokenizer.model import (
    CHUNK_PATTERN,
    CONTROL_PIECES,
    LITERAL_PATTERN,
    Piece,
    Tokenizer,
    is_unigram,
    proto_of,
)

MAX_LENGTH = 1_000_000_000_000  # the tokenizer has no limit of its own; the model's is in its config


def huggingface_files(model: bytes) -> dict[str, bytes]:
    """File name → bytes of the Hugging Face folder."""
    special = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), CONTROL_PIECES, strict=True))
    config = special | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "model_max_length": MAX_LENGTH,
    }
    files = {
        "tokenizer.json": tokenizer_json(model),
        "tokenizer_config.json": config,
        "special_tokens_map.json": special,
    }
    return {name: json.dumps(value, ensure_ascii=False, indent=1).encode() for name, value in files.items()}


def tokenizer_json(model: bytes) -> dict[str, Any]:
    proto = proto_of(model)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(proto),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                split(CHUNK_PATTERN, "Isolated"),
                split(LITERAL_PATTERN, "MergedWithPrevious"),
            ],
        },
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": unigram_model(proto) if is_unigram(proto) else bpe_model(proto),
    }


def split(pattern: str, behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def added_tokens(proto: Any) -> list[dict[str, Any]]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    kinds = {Piece.UNKNOWN: True, Piece.CONTROL: True, Piece.USER_DEFINED: False}
    return [
        {"id": i, "content": piece.piece, **flags, "special": kinds[piece.type]}
        for i, piece in enumerate(proto.pieces)
        if piece.type in kinds
    ]


def unigram_model(proto: Any) -> dict[str, Any]:
    # Hugging Face takes the lowest score of all pieces as the base of "unknown", SentencePiece that of normal ones:
    # control and byte pieces get the lowest normal score, which changes neither.
    lowest = min(piece.score for piece in proto.pieces if piece.type == Piece.NORMAL)
    vocab = [[p.piece, p.score if p.type == Piece.NORMAL else lowest] for p in proto.pieces]
    return {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": True}


def bpe_model(proto: Any) -> dict[str, Any]:
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    normal = {piece.piece for piece in proto.pieces if piece.type == Piece.NORMAL}
    merges = []
    for piece in sorted((p for p in proto.pieces if p.type == Piece.NORMAL), key=lambda p: -p.score):
        text = piece.piece
        pairs = [(text[:i], text[i:]) for i in range(1, len(text))]
        merges += [list(pair) for pair in pairs if pair[0] in normal and pair[1] in normal]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": CONTROL_PIECES[0],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": True,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": merges,
    }


def mismatches(tokenizer: Tokenizer, files: dict[str, bytes], texts: Sequence[str]) -> list[int]:
    """Which of `texts` the exported tokenizer encodes differently."""
    exported = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
    exported.encode_special_tokens = True
    theirs = exported.encode_batch(list(texts), add_special_tokens=False)
    ours = tokenizer.encode_batch(texts)
    return [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a.tolist() != b.ids]

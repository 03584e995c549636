"""The tokenizer: text to ids and back, exactly, with SentencePiece doing the work.

`decode(encode(x)) == x` holds for every string of Unicode scalar values, which SentencePiece alone does not give:
it writes a space as U+2581 and reads every U+2581 back as a space. `seal` therefore rewrites a trained model so that
its pieces hold real spaces and its normaliser escapes nothing; U+2581 itself is then an unknown character and goes
through its three bytes. Two more hazards are closed here, since the Hugging Face export must give equal ids:

- Unigram scores are rounded to multiples of 2**-7 and a text is encoded in chunks of at most 4,096 characters (cut
  after a newline where there is one). Sums then stay exact in float32, which SentencePiece uses, and in float64,
  which Hugging Face uses: no path is chosen by rounding, and a 50 MB line costs no accuracy.
- Hugging Face looks byte and control pieces up as if they were text, so the six letters `<0x41>` would become one
  byte. Both sides cut a text after the "<" of such a literal, and no piece can span a cut.

The rounding moves a score by at most 0.004 nats; encoding is as fast as bare SentencePiece's (28 MB/s on one core).
in    str             no lone surrogates (they have no UTF-8 form)
out   int32 ids       no BOS, no EOS: the shards stage ends each document with EOS
ref   Kudo 2018, arXiv:1804.10959 (unigram); Kudo & Richardson 2018, arXiv:1808.06226 (SentencePiece)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3
CONTROL_PIECES = ("<unk>", "<s>", "</s>", "<pad>")

CHUNK_CHARS = 4096
# Both patterns are read by Python's re and by Oniguruma (in Hugging Face tokenizers): hence no (?s), which differs.
CHUNK_PATTERN = rf"[\s\S]{{0,{CHUNK_CHARS - 1}}}\n|[\s\S]{{1,{CHUNK_CHARS}}}"
LITERAL_PATTERN = r"<(?=0x[0-9A-F]{2}>|unk>|s>|/s>|pad>)"
CHUNKS = re.compile(CHUNK_PATTERN.replace(r"[\s\S]", "."), re.DOTALL)  # the same language, three times as fast
LITERALS = re.compile(LITERAL_PATTERN)

SCORE_STEP = 2.0**-7
MIN_SCORE = -22.0  # with SentencePiece's penalty of 10 for an unknown: 4,096 x 32 / 2**-7 = 2**24, exact in float32
SYMBOL_SCORE = 24.0  # above any sum of scores that a path around the symbol could save

NO_IDS = np.empty(0, dtype=np.int32)
PROTO: Any = sentencepiece_model_pb2  # generated: its classes are made when it is imported
Piece = PROTO.ModelProto.SentencePiece


def proto_of(model: bytes) -> Any:
    """The parsed `model` file."""
    return PROTO.ModelProto.FromString(model)


def is_unigram(proto: Any) -> bool:
    return proto.trainer_spec.model_type == PROTO.TrainerSpec.UNIGRAM


def seal(model: bytes) -> bytes:
    """The trained `model` with real spaces in its pieces and scores that add up exactly (see the module docstring)."""
    proto = proto_of(model)
    unigram = is_unigram(proto)
    for piece in proto.pieces:
        if piece.type in (Piece.NORMAL, Piece.USER_DEFINED):
            piece.piece = piece.piece.replace("\u2581", " ")
        if piece.type == Piece.NORMAL:
            if unigram:
                piece.score = round_score(piece.score)
        elif piece.type == Piece.USER_DEFINED and unigram:
            # SentencePiece would score it by a formula that float32 cannot hold; as a normal piece it has our score
            piece.type, piece.score = Piece.NORMAL, SYMBOL_SCORE
    proto.normalizer_spec.escape_whitespaces = False
    return proto.SerializeToString(deterministic=True)


def round_score(score: float) -> float:
    """The nearest score whose sums are exact."""
    return max(round(score / SCORE_STEP) * SCORE_STEP, MIN_SCORE)


def chunks_of(text: str) -> list[str]:
    """`text` in the pieces that are encoded apart; joined they are `text` again."""
    chunks = CHUNKS.findall(text)
    if LITERALS.search(text) is None:
        return chunks
    return [part for chunk in chunks for part in cut_after(LITERALS, chunk)]


def cut_after(pattern: re.Pattern[str], text: str) -> list[str]:
    ends = [match.end() for match in pattern.finditer(text)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]


class Tokenizer:
    """A sealed SentencePiece model."""

    def __init__(self, model: bytes):
        self.model = model
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def load(cls, path: Path | str) -> Tokenizer:
        return cls(Path(path).read_bytes())

    @property
    def vocab_size(self) -> int:
        return self.processor.get_piece_size()

    def encode(self, text: str) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32 ids of each text. Raises ValueError for a text with a lone surrogate."""
        chunked = [chunks_of(text) for text in texts]
        flat = [chunk for chunks in chunked for chunk in chunks]
        try:
            ids = self.processor.encode(flat, out_type="numpy", num_threads=1)  # twice as fast as lists of int
        except TypeError as error:  # what its binding says of a str without a UTF-8 form
            refuse_surrogates(texts)
            raise error
        ends = list(accumulate(len(chunks) for chunks in chunked))
        starts = [0, *ends]
        return [np.concatenate(ids[a:b] or [NO_IDS]) for a, b in zip(starts, ends, strict=False)]

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        return self.processor.decode([int(i) for i in ids])


def refuse_surrogates(texts: Sequence[str]) -> None:
    """Raise ValueError for the first text that UTF-8 cannot hold."""
    for number, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {number} of {len(texts)}: expected text that UTF-8 can hold, found a lone surrogate at "
                f"character {error.start}; the decode stage replaces them: run the text through it"
            ) from error

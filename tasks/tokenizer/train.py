"""Fit a tokenizer to a language-balanced sample. Same rows in the same order and same config → same bytes.

Nothing is normalised: no Unicode form is changed, no space is added, taken away or merged, a new line and a tab are
symbols of their own. What the vocabulary lacks is spelled in UTF-8 bytes. Unigram is the default: it encodes some
four times as fast as SentencePiece's BPE, its export is exact, and its pieces can be chosen by language group
(tasks/tokenizer/vocabulary.py). BPE trains some ten times as fast; its pieces cannot be chosen, since each is made
of others, so there the shares are those of the sample, and what became of them is reported.

in    rows (group, text, times) of the sample, in a fixed order; the characters of the corpus by group
out   a sealed model (tasks/tokenizer/model.py), and the pieces each group got
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sentencepiece

from tasks.tokenizer import vocabulary
from tasks.tokenizer.characters import CharCounts, characters_of
from tasks.tokenizer.compounds import find_compounds, start_score
from tasks.tokenizer.config import BUILT_IN_SYMBOLS, TokenizerConfig
from tasks.tokenizer.model import (
    BOS_ID,
    EOS_ID,
    MIN_SCORE,
    PAD_ID,
    SYMBOL_SCORE,
    UNK_ID,
    Piece,
    Tokenizer,
    proto_of,
    round_score,
    seal,
)
from tasks.tokenizer.prepare import covering, is_allowed, lines_of, required_characters
from tasks.tokenizer.vocabulary import Row

# Partial sums of the EM steps are added up by thread: another number of threads would give other bytes.
NUM_THREADS = 4
CANDIDATES = 1.5  # times the wanted pieces are fitted first
LEAST_COVERAGE = 0.98  # of SentencePiece's own choice of characters; ours are required beside it
NUM_FINAL_ROUNDS = 2  # of counting and scoring, once the pieces are chosen


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A tokenizer, and what its pieces are used for in the sample."""

    tokenizer: Tokenizer
    shares: dict[str, dict[str, float]]  # of the pieces, by group: num_pieces, share, target
    compounds: list[str]  # words that became pieces in post-processing
    num_characters: int  # that must be pieces


def silent(note: str) -> None:
    """Shows nothing."""


def fit(
    rows: Sequence[Row],
    characters: Mapping[str, CharCounts],
    config: TokenizerConfig,
    say: Callable[[str], None] = silent,
) -> Fitted:
    """All three stages. Raises ValueError when the sample has too little text for `vocab_size`."""
    groups = sorted({group for group, _, _ in rows})
    wanted = vocabulary.quotas(groups, config, config.vocab_size)
    required = required_characters(characters, wanted, config)
    must = {char: group for group, chars in sorted(required.items(), reverse=True) for char in chars}
    if config.model_type == "bpe":
        say("BPE")
        model = train((text for _, text, times in rows for _ in range(times)), config, must, config.vocab_size)
        tokenizer, compounds = without_disallowed(model, config), list[str]()
    else:
        candidates = fit_candidates(rows, required, wanted, config, say)
        tokenizer, compounds = select(candidates, rows, must, config, say)
        check_size(tokenizer, config)
    used = vocabulary.usage(tokenizer, rows, groups)
    shares = vocabulary.realised(used, tokenizer, must, config)
    return Fitted(tokenizer=tokenizer, shares=shares, compounds=compounds, num_characters=len(must))


def fit_candidates(
    rows: Sequence[Row],
    required: Mapping[str, list[str]],
    wanted: Mapping[str, int],
    config: TokenizerConfig,
    say: Callable[[str], None],
) -> Tokenizer:
    """A model fitted to each group alone, their pieces united: a joint one would leave some groups without enough."""
    mixed: dict[str, float] = {}  # piece: how often it would be used, up to a factor
    model = b""
    for group in sorted(wanted):
        say(f"candidates of {group}")
        texts = [text for g, text, times in rows if g == group for _ in range(times)]
        chars = required.get(group, [])
        frequent = covering(characters_of([(group, text, 1) for text in texts])[group], LEAST_COVERAGE)
        size = int(wanted[group] * CANDIDATES) + len({*chars, *frequent}) + vocabulary.num_fixed(config)
        model = train(texts, config, chars, size)
        for piece in proto_of(model).pieces:
            if piece.type == Piece.NORMAL and piece.score < SYMBOL_SCORE and is_allowed(piece.piece, config):
                mixed[piece.piece] = mixed.get(piece.piece, 0.0) + math.exp(piece.score) * wanted[group]
    if not model:
        raise ValueError("the tokenizer could not be fitted: the sample holds no text. Is there any text in the input?")
    total = sum(mixed.values())
    scores = {piece: round_score(math.log(weight / total)) for piece, weight in mixed.items()}
    missing = {char for chars in required.values() for char in chars} - scores.keys()
    scores |= dict.fromkeys([*sorted(missing), *(b for b in vocabulary.blanks() if b not in scores)], MIN_SCORE)
    return vocabulary.build(model, scores, config)


def without_disallowed(model: bytes, config: TokenizerConfig) -> Tokenizer:
    """A BPE model without the pieces that mix scripts or are too long; nothing allowed is made of those."""
    proto = proto_of(model)
    kept = [p for p in proto.pieces if p.type != Piece.NORMAL or is_allowed(p.piece, config)]
    del proto.pieces[:]
    proto.pieces.extend(kept)
    return Tokenizer(proto.SerializeToString(deterministic=True))


def select(
    tokenizer: Tokenizer, rows: Sequence[Row], must: dict[str, str], config: TokenizerConfig, say: Callable[[str], None]
) -> tuple[Tokenizer, list[str]]:
    """The pieces that stay, scored by their use; and the compounds among them."""
    groups = sorted({group for group, _, _ in rows})
    pieces = list(vocabulary.learned(tokenizer, config).values())
    sizes = shrinking(tokenizer.vocab_size, config.vocab_size)
    used = vocabulary.usage(tokenizer, rows, groups)
    scores = vocabulary.rescore(tokenizer, used.counts.sum(axis=0), pieces)
    compounds: list[str] = []
    for number, size in enumerate([*sizes, config.vocab_size]):
        say(f"{size:,} pieces")
        tokenizer = vocabulary.build(tokenizer.model, scores, config)
        used = vocabulary.usage(tokenizer, rows, groups)
        if number == len(sizes):  # the vocabulary is as large as wanted: see which frequent words it splits
            found = find_compounds(tokenizer, rows, config)
            must, compounds = {**must, **found}, sorted(found)
        kept = vocabulary.choose(tokenizer, used, must, config, size)
        scores = vocabulary.rescore(tokenizer, used.counts.sum(axis=0), kept)
        scores |= {word: start_score(tokenizer, word) for word in compounds}
    for _ in range(NUM_FINAL_ROUNDS):
        tokenizer = vocabulary.build(tokenizer.model, scores, config)
        counts = vocabulary.usage(tokenizer, rows, groups).counts.sum(axis=0)
        scores = vocabulary.rescore(tokenizer, counts, [piece for piece in scores if piece not in vocabulary.blanks()])
    return vocabulary.build(tokenizer.model, scores, config), compounds


def shrinking(size: int, wanted: int) -> list[int]:
    """Sizes of the vocabulary from `size` down to `wanted`."""
    sizes = []
    while (size := int(size * vocabulary.SHRINK)) > wanted:
        sizes.append(size)
    return [*sizes, wanted]


def check_size(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    found = tokenizer.vocab_size
    if found < config.vocab_size and config.hard_vocab_limit:
        raise ValueError(
            f"vocab_size: {config.vocab_size:,} pieces do not exist in the sample; it supports {found:,}. Set "
            f"vocab_size to at most {found}, feed more text, or set hard_vocab_limit: false (unigram)"
        )


def train(texts: Iterable[str], config: TokenizerConfig, required: Iterable[str], vocab_size: int) -> bytes:
    """What SentencePiece makes of `texts`, sealed: of unigram candidates, of BPE the vocabulary.

    Raises ValueError when the texts are too few, or too varied, for `vocab_size`.
    """
    out = io.BytesIO()
    is_bpe = config.model_type == "bpe"
    symbols = vocabulary.symbol_pieces(config) if is_bpe else config.symbols
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines_of(texts),
            model_writer=out,
            vocab_size=vocab_size,
            model_type=config.model_type,
            character_coverage=LEAST_COVERAGE,
            required_chars="".join(char for char in required if char != " "),
            byte_fallback=True,
            user_defined_symbols=[*BUILT_IN_SYMBOLS, *(symbol.replace(" ", "\u2581") for symbol in symbols)],
            hard_vocab_limit=is_bpe,
            split_digits=config.split_digits,
            max_sentencepiece_length=config.max_piece_chars,
            allow_whitespace_only_pieces=True,  # indentation of code
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=PAD_ID,
            num_threads=NUM_THREADS,
            num_sub_iterations=1,  # 2, the default: the same bytes per token (zh 3.404, 3.405) for 1.6 times the time
            max_sentence_length=1 << 20,  # skip no line: they are cut already
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(explain(str(error), config)) from error
    return seal(out.getvalue())


def explain(message: str, config: TokenizerConfig) -> str:
    """SentencePiece's error in terms of our settings."""
    if match := re.search(r"Vocabulary size too high.*<= (\d+)", message):
        limit = int(match[1])
        return (
            f"vocab_size: {config.vocab_size:,} pieces do not exist in the sample; it supports {limit:,}. Set "
            f"vocab_size to at most {limit}, feed more text, or set hard_vocab_limit: false (unigram)"
        )
    if match := re.search(r"smaller than required_chars.*?(\d+) vs (\d+)", message):
        return (
            f"vocab_size: {config.vocab_size:,} is less than the {int(match[2]):,} pieces that the characters need. "
            f"Raise it above {match[2]}, or lower max_char_share ({config.max_char_share})"
        )
    return f"SentencePiece could not train on the sample: {message}. Is there any text in the input?"

"""Choose the pieces: so many for each language group, the most useful first.

A unigram model is fitted to more pieces than wanted. What each piece is worth is the likelihood that the sample loses
without it (Kudo 2018, section 3.2): its count times the score it has over the best other way to spell it. Each group
keeps its most valuable pieces up to its share of the vocabulary; a piece belongs to the group in which it is most
frequent per token. Then counts and scores are taken anew with what is left (Viterbi counts, not expected ones: they
cost one pass of encoding), and the next round drops more.

Trade-off: with fixed shares the vocabulary is not the best one for the sample as a whole (a group gets pieces that
save less than those another group must do without); that is the price of a promise about each language.

in    a sealed model with too many pieces, the sample, what must stay
out   a sealed model whose pieces keep to the shares, and how many each group has
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.tokenizer.config import OTHER, WHITESPACE_RUNS, TokenizerConfig
from tasks.tokenizer.model import CONTROL_PIECES, PROTO, SYMBOL_SCORE, Piece, Tokenizer, proto_of, round_score

SMOOTHING = 0.1  # a count for pieces that the sample does not use
BATCH_CHARS = 1_000_000
SHRINK = 0.8  # of the pieces stay in a round

Row = tuple[str, str, int]  # group, text, times it enters the sample


@dataclass(frozen=True, kw_only=True)
class Usage:
    """How often each piece of a model is used: `counts[g, i]` by group and id."""

    groups: list[str]
    counts: np.ndarray  # float64, groups × vocabulary

    def group_of_pieces(self) -> np.ndarray:
        """Index of the group in which each piece has the highest share of the tokens; -1 where it is not used."""
        rates = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        return np.where(self.counts.sum(axis=0) > 0, rates.argmax(axis=0), -1)


def usage(tokenizer: Tokenizer, rows: Iterable[Row], groups: Sequence[str]) -> Usage:
    """Encode the sample and count."""
    names = sorted(groups)
    counts = np.zeros((len(names), tokenizer.vocab_size))
    for group, times, texts in batches(rows):
        ids = np.concatenate([*tokenizer.encode_batch(texts), np.empty(0, np.int32)])
        counts[names.index(group)] += times * np.bincount(ids, minlength=tokenizer.vocab_size)
    return Usage(groups=names, counts=counts)


def batches(rows: Iterable[Row]) -> Iterable[tuple[str, int, list[str]]]:
    """(group, times, texts) of neighbouring rows that agree in both."""
    held: dict[tuple[str, int], list[str]] = {}
    sizes: dict[tuple[str, int], int] = {}
    for group, text, times in rows:
        key = (group, times)
        held.setdefault(key, []).append(text)
        sizes[key] = sizes.get(key, 0) + len(text)
        if sizes[key] >= BATCH_CHARS:
            yield group, times, held.pop(key)
            del sizes[key]
    for (group, times), texts in held.items():
        yield group, times, texts


def build(model: bytes, scores: Mapping[str, float], config: TokenizerConfig) -> Tokenizer:
    """`model` with these pieces, best first, behind the control, symbol and byte pieces.

    Its symbols have the score that always wins; their variants with a space in front (of forced merges) too.
    """
    proto = proto_of(model)
    fixed = [piece for piece in proto.pieces if piece.type in (Piece.UNKNOWN, Piece.CONTROL, Piece.BYTE)]
    control, of_bytes = fixed[: len(CONTROL_PIECES)], fixed[len(CONTROL_PIECES) :]
    symbols = [normal(symbol, SYMBOL_SCORE) for symbol in symbol_pieces(config)]
    learned = [normal(piece, score) for piece, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))]
    del proto.pieces[:]
    proto.pieces.extend([*control, *symbols, *of_bytes, *learned])
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return Tokenizer(proto.SerializeToString(deterministic=True))


def symbol_pieces(config: TokenizerConfig) -> list[str]:
    """Symbols, and forced merges as they stand behind a space."""
    return [*config.symbols, *(f" {word}" for word in config.forced_merges if f" {word}" not in config.symbols)]


def num_fixed(config: TokenizerConfig) -> int:
    """Pieces that no language group's share counts: control, bytes, symbols, runs of blanks."""
    return len(CONTROL_PIECES) + 256 + len(symbol_pieces(config)) + len(blanks())


def blanks() -> tuple[str, ...]:
    return ("\n", "\t", *WHITESPACE_RUNS)


def normal(text: str, score: float) -> Piece:
    return PROTO.ModelProto.SentencePiece(piece=text, score=score, type=Piece.NORMAL)


def quotas(groups: Iterable[str], config: TokenizerConfig, vocab_size: int) -> dict[str, int]:
    """Pieces for each of `groups` (those with text), so that they add up to a vocabulary of `vocab_size`."""
    shares = {group: config.language_shares.get(group, 0.0) for group in sorted(groups)}
    total, pieces = sum(shares.values()), max(vocab_size - num_fixed(config), 0)
    exact = {group: pieces * share / total for group, share in shares.items()}
    result = {group: int(number) for group, number in exact.items()}
    for group in sorted(exact, key=lambda g: (result[g] - exact[g], g))[: pieces - sum(result.values())]:
        result[group] += 1
    return result


def learned(tokenizer: Tokenizer, config: TokenizerConfig) -> dict[int, str]:
    """id → piece of all that can be chosen."""
    fixed = {*symbol_pieces(config), *blanks()}
    pieces = enumerate(proto_of(tokenizer.model).pieces)
    return {i: p.piece for i, p in pieces if p.type == Piece.NORMAL and p.piece not in fixed}


def rescore(tokenizer: Tokenizer, counts: np.ndarray, pieces: Iterable[str]) -> dict[str, float]:
    """Log probabilities of `pieces` and the blanks by their counts under `tokenizer`."""
    ids = {p.piece: i for i, p in enumerate(proto_of(tokenizer.model).pieces) if p.type == Piece.NORMAL}
    wanted = [*pieces, *blanks()]
    numbers = np.array([counts[ids[piece]] if piece in ids else 0.0 for piece in wanted]) + SMOOTHING
    values = np.log(numbers / numbers.sum())
    return {piece: round_score(float(value)) for piece, value in zip(wanted, values, strict=True)}


def losses(tokenizer: Tokenizer, counts: np.ndarray, pieces: Mapping[int, str]) -> dict[str, float]:
    """What the sample's log-likelihood loses without each piece; infinite where nothing else can spell it."""
    processor, result = tokenizer.processor, {}
    scores = {i: processor.get_score(i) for i in pieces}
    byte_score = min(scores.values(), default=0.0) - 10.0  # what an unknown character costs
    for i, piece in pieces.items():
        if len(piece) == 1:
            result[piece] = float(counts[i]) * 3  # characters that need not stay: three bytes for one token
            continue
        found = processor.nbest_encode_as_ids(piece, nbest_size=2)
        other = next((ids for ids in found if ids != [i]), None)
        if other is None:
            result[piece] = float("inf")
        else:
            result[piece] = float(counts[i]) * (scores[i] - sum(scores.get(j, byte_score) for j in other))
    return result


def choose(
    tokenizer: Tokenizer, used: Usage, must: Mapping[str, str], config: TokenizerConfig, vocab_size: int
) -> dict[str, str]:
    """Piece → group of the pieces that stay in a vocabulary of at most `vocab_size`.

    `must`: pieces that stay whatever they are worth → the group they belong to where the sample does not show it.
    """
    pieces, total = learned(tokenizer, config), used.counts.sum(axis=0)
    index = used.group_of_pieces()
    worth = losses(tokenizer, total, {i: piece for i, piece in pieces.items() if piece not in must})
    members: dict[str, list[str]] = {group: [] for group in used.groups}
    fixed: dict[str, list[str]] = {group: [] for group in used.groups}
    present = set(pieces.values())
    for i, piece in pieces.items():
        group = used.groups[index[i]] if index[i] >= 0 else must.get(piece, used.groups[-1])
        (fixed if piece in must else members)[group].append(piece)
    for piece, group in must.items():
        if piece not in present:
            fixed[group].append(piece)
    for group in members:
        members[group].sort(key=lambda piece: (-worth[piece], piece))
    available = {group: len(members[group]) for group in members}
    needed = {group: len(fixed[group]) for group in fixed}
    room = allot(quotas(used.groups, config, vocab_size), needed, available)
    return {
        piece: group
        for group in used.groups
        for piece in [*fixed[group], *members[group][: max(room[group] - needed[group], 0)]]
    }


def allot(wanted: Mapping[str, int], needed: Mapping[str, int], available: Mapping[str, int]) -> dict[str, int]:
    """Pieces per group: as wanted, but at least those needed and at most those there are. What some groups have too
    much or leave changes the others in proportion to what they want (the factor is found by halving)."""
    total = min(sum(wanted.values()), sum(needed.values()) + sum(available.values()))

    def room(factor: float) -> dict[str, float]:
        return {g: min(max(factor * n, needed[g]), needed[g] + available[g]) for g, n in wanted.items()}

    low, high = 0.0, 1.0
    while sum(room(high).values()) < total and high < 1e9:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(room(middle).values()) < total else (low, middle)
    return whole(room(high), total)


def whole(room: Mapping[str, float], total: int) -> dict[str, int]:
    """Whole numbers near `room` that do not add up to more than `total`, where `room` does not."""
    result = {group: int(number + 1e-6) for group, number in room.items()}
    left = min(total, round(sum(room.values()))) - sum(result.values())
    for group in sorted(room, key=lambda g: (result[g] - room[g], g))[: max(left, 0)]:
        result[group] += 1
    return result


def realised(
    used: Usage, tokenizer: Tokenizer, must: Mapping[str, str], config: TokenizerConfig
) -> dict[str, dict[str, float]]:
    """Pieces of each group by where they are used most, beside the share each was to have.

    A required character that the sample does not hold counts for the group that requires it, other pieces that it
    does not use for "other" (or the last group).
    """
    rest = OTHER if OTHER in used.groups else used.groups[-1]
    index, numbers = used.group_of_pieces(), dict.fromkeys(used.groups, 0)
    for i, piece in learned(tokenizer, config).items():
        numbers[used.groups[index[i]] if index[i] >= 0 else must.get(piece, rest)] += 1
    shares = {group: config.language_shares.get(group, 0.0) for group in used.groups}
    total, of_all = max(sum(numbers.values()), 1), sum(shares.values())
    return {
        group: {"num_pieces": numbers[group], "share": numbers[group] / total, "target": shares[group] / of_all}
        for group in used.groups
    }

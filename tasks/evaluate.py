"""Held-out perplexity and bits per byte, per source and language, and samples at fixed seeds.

Scoring rule: each document is scored alone and whole. Its context begins with EOS, as at every document boundary of
training; every token of its text is predicted once; the EOS after it is context for nothing and is not scored, since
it stands for no byte. A document longer than the window is read by windows that advance by `stride`: every token
but those of the first window sees at least seq_len - stride tokens before it.

    loss = nats / tokens        perplexity = e^loss        bits_per_byte = nats / ln 2 / UTF-8 bytes

Bits per byte compares models with different tokenizers; perplexity does not. A group's figures are ratios of sums,
so long documents weigh more. The cost is bounded by `max_documents` per source and language (the smallest ids, a
fair sample) and by `max_document_tokens`; what is not scored for either is counted in `num_skipped`.

in    train (weights), tokenizer, shards (validation split)
out   evaluation.json, samples.json
ref   Hugging Face, "Perplexity of fixed-length models" (strided windows); Gao et al. 2020 (The Pile),
      arXiv:2101.00027, section 3.1 (bits per byte)
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.generate import GenerateConfig, Prompt, generate_all
from tasks.stage import Stage, StageRun
from tasks.tokenizer.model import EOS_ID
from tasks.trained import ModelError, fixed_threads, load_model, load_state, load_tokenizer
from tasks.validation import HeldOut, held_out_documents

if TYPE_CHECKING:  # torch loads when a model does: the command line answers without it
    from training.model import Decoder


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluateConfig:
    """How much is scored and how."""

    max_documents: int = 50  # per source and language
    max_group_tokens: int = 20_000  # of a source and language together; 1,300 tokens/s at 2.7 M parameters on one core
    max_document_tokens: int = 65_536  # longer documents are not scored, and counted
    seq_len: int = 0  # of the window; 0: the length the model was trained at
    stride: int = 0  # tokens between windows; 0: half of seq_len
    batch_size: int = 8  # windows per forward pass
    num_threads: int = 1  # part of the result: sums in another order differ in the last digits
    generate: GenerateConfig = field(default_factory=GenerateConfig)

    def __post_init__(self) -> None:
        for name in ("max_documents", "max_group_tokens", "max_document_tokens", "batch_size", "num_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, found {getattr(self, name)}")
        if self.seq_len < 0 or self.stride < 0 or (self.seq_len and self.stride > self.seq_len):
            raise ValueError(
                f"stride: expected 0 to seq_len ({self.seq_len}), found {self.stride}; "
                "a larger one would leave tokens between windows unscored"
            )


@dataclass(frozen=True, slots=True)
class Window:
    """One forward pass's share of a document: `tokens` are read, the last `num_scored` of them are predicted."""

    document: int
    tokens: np.ndarray  # int64, inputs and targets overlap by one: reads tokens[:-1], predicts tokens[1:]
    num_scored: int


@dataclass(slots=True)
class Score:
    """Sums over documents."""

    num_documents: int = 0
    num_tokens: int = 0
    num_bytes: int = 0
    nats: float = 0.0
    num_skipped: int = 0

    def add(self, other: Score) -> None:
        self.num_documents += other.num_documents
        self.num_tokens += other.num_tokens
        self.num_bytes += other.num_bytes
        self.nats += other.nats
        self.num_skipped += other.num_skipped

    def to_row(self, **names: str) -> dict[str, Any]:
        loss = self.nats / self.num_tokens if self.num_tokens else None
        return {
            **names,
            "num_documents": self.num_documents,
            "num_tokens": self.num_tokens,
            "num_bytes": self.num_bytes,
            "num_skipped": self.num_skipped,
            "loss": loss,
            "perplexity": math.exp(loss) if loss is not None and loss < 700 else None,  # e^709 is the last float
            "bits_per_byte": self.nats / math.log(2) / self.num_bytes if self.num_bytes else None,
        }


def windows(document: int, tokens: np.ndarray, seq_len: int, stride: int) -> list[Window]:
    """Cut one document so that each token is scored exactly once (rule: module docstring)."""
    line = np.concatenate(([EOS_ID], tokens)).astype(np.int64)
    cut, scored = [], 0
    while scored < len(tokens):
        end = min(len(tokens), seq_len if not scored else scored + stride)
        begin = max(0, end - seq_len)
        cut.append(Window(document, line[begin : end + 1], end - scored))
        scored = end
    return cut


def score(model: Decoder, documents: Sequence[np.ndarray], seq_len: int, stride: int, batch_size: int) -> list[float]:
    """Nats of each document. Windows are batched by length; padding comes last, where causal attention ignores it."""
    cut = [window for i, tokens in enumerate(documents) for window in windows(i, tokens, seq_len, stride)]
    cut.sort(key=lambda window: len(window.tokens))  # stable, so the order is the documents' own
    nats = [0.0] * len(documents)
    for start in range(0, len(cut), batch_size):
        batch = cut[start : start + batch_size]
        for window, found in zip(batch, score_batch(model, batch), strict=True):
            nats[window.document] += found
    return nats


def score_batch(model: Decoder, batch: Sequence[Window]) -> list[float]:
    """Nats of each window's scored tokens, in one forward pass."""
    import torch
    import torch.nn.functional as F

    line_BT = torch.full((len(batch), max(len(w.tokens) for w in batch)), EOS_ID, dtype=torch.int64)
    for row, window in enumerate(batch):
        line_BT[row, : len(window.tokens)] = torch.from_numpy(window.tokens)
    with torch.inference_mode():
        logits_BTV = model(line_BT[:, :-1]).float()
        loss_BT = F.cross_entropy(logits_BTV.transpose(1, 2), line_BT[:, 1:], reduction="none").double()
    lasts = [len(window.tokens) - 1 for window in batch]
    return [
        float(loss_BT[row, last - window.num_scored : last].sum())
        for row, (window, last) in enumerate(zip(batch, lasts, strict=True))
    ]


def choose(documents: Iterable[HeldOut], config: EvaluateConfig) -> tuple[list[HeldOut], dict[tuple[str, str], int]]:
    """The documents to score, by id, and how many are not, per (source, language)."""
    groups: defaultdict[tuple[str, str], list[HeldOut]] = defaultdict(list)
    for document in documents:
        groups[document.source, document.language].append(document)
    chosen, skipped = [], {}
    for group, members in sorted(groups.items()):
        fitting = sorted((d for d in members if 0 < d.num_tokens <= config.max_document_tokens), key=lambda d: d.id)
        taken = within(fitting[: config.max_documents], config.max_group_tokens)
        chosen += taken
        skipped[group] = len(members) - len(taken)
    return chosen, skipped


def within(documents: list[HeldOut], max_tokens: int) -> list[HeldOut]:
    """The first documents, as many as `max_tokens` hold, and at least one."""
    totals = np.cumsum([d.num_tokens for d in documents])
    return documents[: max(1, int(np.searchsorted(totals, max_tokens, side="right")))]


def tables(scores: dict[tuple[str, str], Score]) -> dict[str, Any]:
    """Rows over all, by source, by language and by both."""
    overall = Score()
    by_source: defaultdict[str, Score] = defaultdict(Score)
    by_language: defaultdict[str, Score] = defaultdict(Score)
    for (source, language), found in sorted(scores.items()):
        for total in (overall, by_source[source], by_language[language]):
            total.add(found)
    return {
        "overall": [overall.to_row(name="all")],
        "by_source": [total.to_row(name=name) for name, total in sorted(by_source.items())],
        "by_language": [total.to_row(name=name) for name, total in sorted(by_language.items())],
        "by_source_and_language": [s.to_row(source=a, language=b) for (a, b), s in sorted(scores.items())],
    }


def run(run: StageRun) -> None:
    """Score the validation split, generate, write both."""
    config: EvaluateConfig = run.config
    train = run.inputs["train"]
    model = load_model(train)
    tokenizer = load_tokenizer(run.inputs["tokenizer"], model)
    seq_len = config.seq_len or load_state(train)["config"]["seq_len"]
    if seq_len > model.config.max_seq_len:
        raise ValueError(
            f"evaluate.seq_len: expected at most the model's max_seq_len ({model.config.max_seq_len}), found "
            f"{seq_len}; 0 takes the length it was trained at"
        )
    stride = config.stride or max(1, seq_len // 2)
    chosen, skipped = choose(held_out_documents(run.inputs["shards"]), config)
    with fixed_threads(config.num_threads):
        scores = score_groups(run, model, chosen, skipped, seq_len, stride)
        prompts = [Prompt.of_text(text, tokenizer) for text in config.generate.prompts]
        prompts += document_prompts(chosen, config.generate, tokenizer)
        generated = generate_all(model, tokenizer, prompts, config.generate)
    found = tables(scores)
    note = (
        f"Validation documents scored whole, in windows of {seq_len} tokens that advance by {stride}; each begins "
        f"after an end-of-document token. At most {config.max_documents} documents and {config.max_group_tokens:,} "
        f"tokens per source and language, and no document above {config.max_document_tokens:,}; the others are counted "
        "as not scored."
    )
    write_json(run, "evaluation.json", {"note": note, "seq_len": seq_len, "stride": stride, **found})
    write_json(run, "samples.json", generated)
    run.output.facts = {key: value for key, value in found["overall"][0].items() if key != "name"}
    run.output.facts |= {"num_samples": len(generated), "seq_len": seq_len, "stride": stride}


def score_groups(
    run: StageRun,
    model: Decoder,
    chosen: list[HeldOut],
    skipped: dict[tuple[str, str], int],
    seq_len: int,
    stride: int,
) -> dict[tuple[str, str], Score]:
    """Score group by group, so that a group's figures do not depend on which others there are."""
    scores = {group: Score(num_skipped=number) for group, number in skipped.items()}
    for done, (group, total) in enumerate(scores.items()):
        run.progress(done, len(scores), f"{group[0]} / {group[1]}")
        members = [d for d in chosen if (d.source, d.language) == group]
        found = score(model, [d.tokens() for d in members], seq_len, stride, run.config.batch_size)
        for document, nats in zip(members, found, strict=True):
            if not math.isfinite(nats):
                raise ModelError(f"document {document.id}: expected a finite loss, found {nats}; the model is damaged")
            total.add(Score(1, document.num_tokens, document.num_bytes, nats))
    run.progress(len(scores), len(scores), "scored")
    return scores


def document_prompts(chosen: list[HeldOut], config: GenerateConfig, tokenizer: Any) -> list[Prompt]:
    """The beginnings of the first `documents_per_language` chosen documents of each language."""
    by_language: defaultdict[str, list[HeldOut]] = defaultdict(list)
    for document in sorted(chosen, key=lambda d: d.id):
        by_language[document.language].append(document)
    return [
        Prompt.of_document(d.tokens()[: config.prompt_tokens], d.id, language, tokenizer)
        for language, members in sorted(by_language.items())
        for d in members[: config.documents_per_language]
    ]


def write_json(run: StageRun, name: str, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False)
    run.output.add_file(name, text.encode("utf-8", "backslashreplace") + b"\n")


STAGE = Stage(
    name="evaluate",
    module=__name__,
    config=EvaluateConfig,
    inputs=("train", "tokenizer", "shards"),
    run=run,
    summary="Score the held-out split (perplexity, bits per byte per source and language) and generate samples.",
)

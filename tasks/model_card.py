"""The README of an export: what the model is, what it was trained on, how well it does, how to load it.

Text alone and a function of its inputs: no date and no path, so that the same model gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.store.dataset import Dataset

if TYPE_CHECKING:
    from training.model import Decoder

LOAD = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("hf")
tokenizer = AutoTokenizer.from_pretrained("hf")
inputs = tokenizer("</s>", split_special_tokens=False, return_tensors="pt")  # a document begins after EOS
print(tokenizer.decode(model.generate(inputs["input_ids"], max_new_tokens=50)[0]))
```"""


def model_card(
    name: str,
    licence: str,
    model: Decoder,
    state: Mapping[str, Any],
    max_logit_difference: float,
    inputs: Mapping[str, Dataset],
) -> str:
    """Markdown with the YAML header that model hubs read."""
    shape = model.config
    figures = [
        ("parameters", f"{model.num_parameters():,}"),
        ("layers × hidden size", f"{shape.num_layers} × {shape.hidden_size}"),
        ("heads (key-value heads)", f"{shape.num_heads} ({shape.num_kv_heads})"),
        ("vocabulary", f"{shape.vocab_size:,}"),
        ("context", f"{shape.max_seq_len:,} tokens (trained at {state['config']['seq_len']:,})"),
        ("steps", f"{state['step']:,}"),
        ("tokens seen", f"{state['tokens']:,}"),
    ]
    digests = [(stage, dataset.digest) for stage, dataset in sorted(inputs.items()) if stage != "evaluate"]
    sections = [
        f"---\nlibrary_name: transformers\npipeline_tag: text-generation\nlicense: {json.dumps(licence)}\n---\n",
        f"# {escape(name)}\n",
        "A decoder trained by danlu from raw text; every document behind it is accounted for in the run's report.\n",
        table(("", ""), figures),
        evaluation(inputs.get("evaluate")),
        "## Load\n\n" + LOAD + "\n",
        "## Checked\n\n"
        f"Before it was published it was loaded again with transformers: its logits lie within "
        f"{max_logit_difference:g} of the trained model's, and its token ids are equal on sample texts of "
        "many scripts.\n",
        "## Made from\n\n" + table(("dataset", "digest"), [(stage, f"`{digest}`") for stage, digest in digests]),
    ]
    return "\n".join(section for section in sections if section)


def evaluation(evaluate: Dataset | None) -> str:
    if evaluate is None:
        return ""
    with evaluate.open("evaluation.json") as file:
        found = json.loads(file.read())
    rows = [*found["overall"], *found["by_source"], *found["by_language"]]
    lines = [
        (escape(r["name"]), f"{r['num_documents']:,}", number(r["perplexity"]), number(r["bits_per_byte"]))
        for r in rows
    ]
    return "## Held-out\n\n" + table(("", "documents", "perplexity", "bits per byte"), lines) + f"\n{found['note']}\n"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.4g}"


def escape(text: str) -> str:
    """Names come from configs: keep them from breaking a table or becoming markup."""
    return "".join(f"&#{ord(c)};" if c in "|<>&`*_[]\\\n\r" else c for c in text)

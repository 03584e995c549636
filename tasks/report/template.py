"""The page. Jinja2 with autoescape: every value is escaped but the drawn SVG, which is ours alone.

The page has no script, and its Content-Security-Policy forbids any: should an escape ever be missed, nothing runs
and nothing is fetched.
"""

from __future__ import annotations

from typing import Any

import jinja2
import markupsafe

from tasks.report.macros import MACROS
from tasks.report.style import CSS
from tasks.report.text import visible
from tasks.review.rates import numbers, percent

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

PAGE = """
{%- from "macros" import account_table, decay_table, error_table, length_table, token_table, score_table %}
{%- from "macros" import key_values, lost_records, vocabulary_table %}
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{{ name }} · danlu report</title>
<style>
{{ css }}
</style>
</head>
<body>
<header class="top"><div>
<div class="eyebrow">danlu 丹炉 · raw text to checkpoint</div>
<h1>{{ name }}</h1>
<div class="soft">{{ stages|length }} of {{ num_stages }} stages have a dataset
{%- if missing %}; not yet: {{ missing|join(", ") }}{% endif %}</div>
<div class="tiles">
{% for label, value in tiles %}<div class="tile"><b>{{ value }}</b><span>{{ label }}</span></div>
{% endfor %}
</div></div></header>
<nav class="contents"><div>
{% for id, title, present in contents if present %}<a href="#{{ id }}">{{ title }}</a>
{% endfor %}
</div></nav>
<main>

{% if account %}
<section id="account"><h2>Account</h2>
<p class="soft">Nothing is lost silently: at each stage, in = kept + dropped + quarantined.
{% if unbalanced %}<span class="bad">It does not add up at: {{ unbalanced|join(", ") }}.</span>
{% else %}<span class="good">It adds up at every stage shown.</span>{% endif %}</p>
<div>{% for kind in ("kept", "dropped", "quarantined") %}
<span class="key"><i class="{{ kind }}"></i>{{ kind }}</span>{% endfor %}</div>
{{ account_table(account, "stage") }}
<h3>Per source and language</h3>
{% for stage, by_source, by_language in account_details %}
<details><summary>{{ stage }}
<span class="soft">sources: {{ by_source|length }}, languages: {{ by_language|length }}</span></summary>
{{ account_table(by_source, "source") }}{{ account_table(by_language, "language") }}
</details>
{% endfor %}
</section>
{% endif %}

{% if decay_by_source %}
<section id="decay"><h2>Decay rate</h2>
<p class="soft">Usable records over raw records, up to and including {{ last_cleaning }}. A record lost before its
language was known counts as “und”.</p>
{{ decay_table(decay_by_source, "source") }}{{ decay_table(decay_by_language, "language") }}
</section>
{% endif %}

{% if lengths %}
<section id="lengths"><h2>Lengths</h2>
<p class="soft">Of the documents that reach the filter: the share that a least length (filter.min_chars) would drop,
and the length that a share of them does not exceed, in characters.</p>
{{ length_table(lengths) }}
</section>
{% endif %}

{% if reviewed %}
<section id="review"><h2>Measured error rates</h2>
<p class="soft">Reviewers judged a random sample of each reason (danlu review): how many were wrong, the rate with its
95 % limits, and how many of all that means. A kept document is wrong when it should have been dropped.</p>
{% for stage in reviewed %}
<details{% if stage.num_labelled %} open{% endif %}><summary>{{ stage.stage }} <span class="soft">
{%- if stage.wrongly_lost %}wrongly lost, estimated: {{ stage.wrongly_lost|estimate }}
{%- if stage.num_not_reviewed %}; {{ stage.num_not_reviewed|count }} lost for reasons not reviewed{% endif %}
{%- else %}not reviewed{% endif %}
{%- if stage.num_carried %}; {{ stage.num_carried|count }} labels carried over{% endif %}</span></summary>
{{ error_table(stage) }}</details>
{% endfor %}
</section>
{% endif %}

{% if tokens_by_source %}
<section id="tokens"><h2>Tokens</h2>
<p class="soft">In the token shards, each document's end-of-document token included.</p>
{{ token_table(tokens_by_source, "source") }}{{ token_table(tokens_by_language, "language") }}
</section>
{% endif %}

{% if vocabulary_sizes %}
{% set advice = vocabulary_sizes.recommendation %}
<section id="vocabulary"><h2>Vocabulary sizes</h2>
<p class="soft">Each size fitted to samples that share no document, all measured on the same held-out text. In
brackets: tokens that spell a character in bytes, or stand for an unknown one.</p>
{% if advice.size %}<p><b>{{ advice.size|count }} pieces:</b> {{ advice.reason }}.
{% if advice.samples_agree is not none %}{{ "Both samples conclude the same." if advice.samples_agree
  else "The samples conclude differently: " ~ advice.by_sample.values()|map("count")|join(", ") ~ "." }}{% endif %}</p>
{% else %}<p>{{ advice.reason }}</p>{% endif %}
{{ vocabulary_table(vocabulary_rows, vocabulary_groups, vocabulary_sizes.hidden_size) }}
<div class="plots">
{% for title, svg in vocabulary_curves %}<figure><figcaption>{{ title }}</figcaption>{{ svg }}</figure>
{% endfor %}
</div>
</section>
{% endif %}

{% if facts %}
<section id="figures"><h2>Figures by stage</h2>
<p class="soft">What each stage measured of its own work.</p>
{% for stage, rows in facts %}
<details{% if stage in ("tokenizer", "train") %} open{% endif %}><summary>{{ stage }}
<span class="soft">{{ rows|length }} figures</span></summary>{{ key_values(rows) }}</details>
{% endfor %}
</section>
{% endif %}

{% if curves or events %}
<section id="training"><h2>Training</h2>
<div class="plots">
{% for title, svg in curves %}<figure><figcaption>{{ title }}</figcaption>{{ svg }}</figure>
{% endfor %}
</div>
{% if events %}
<details><summary>Events
<span class="soft">{{ events|length }}: starts, resumes, checkpoints, decisions</span></summary>
{{ key_values(events) }}</details>
{% endif %}
</section>
{% endif %}

{% if evaluation %}
<section id="evaluation"><h2>Evaluation</h2>
<p class="soft">{{ evaluation.note }}</p>
{{ score_table(evaluation.overall, "all") }}
{{ score_table(evaluation.by_source, "source") }}
{{ score_table(evaluation.by_language, "language") }}
{% if evaluation.by_source_and_language %}
<details><summary>Source by language</summary>
{{ score_table(evaluation.by_source_and_language, "both") }}</details>
{% endif %}
</section>
{% endif %}

{% if generated %}
<section id="samples"><h2>Generated samples</h2>
<p class="soft">Fixed seeds; the prompt is underlined.</p>
{% for sample in generated %}
<div class="record"><p class="note">{{ sample.label }}</p>
<pre class="text" dir="auto"><span class="prompt">{{ sample.prompt }}</span>{{ sample.text }}</pre></div>
{% endfor %}
</section>
{% endif %}

{% if dropped %}
<section id="dropped"><h2>Dropped documents</h2>
<p class="soft">A fair sample per reason (the smallest ids). Of a duplicate, the document that was kept stands beside
it.</p>
{{ lost_records(dropped) }}
</section>
{% endif %}

{% if quarantined %}
<section id="quarantined"><h2>Quarantined records</h2>
<p class="soft">Records that could not be read; their bytes are kept. Bytes that are not UTF-8 are shown as \\xNN.</p>
{{ lost_records(quarantined) }}
</section>
{% endif %}

<section id="lineage"><h2>Lineage</h2>
<div class="scroll"><table>
<tr><th>stage</th><th>dataset</th><th>key</th><th>made from</th>
{% if has_run_states %}<th>this run</th>{% endif %}<th class="n">seconds</th><th>finished (UTC)</th></tr>
{% for row in lineage %}
<tr><td class="name">{{ row.stage }}</td>
<td><code title="{{ row.digest }}">{{ row.digest[:12] }}</code></td>
<td><code title="{{ row.key }}">{{ row.key[:12] }}</code></td>
<td class="from">{% for stage, digest in row.inputs %}{{ stage }} <code title="{{ digest }}">{{ digest[:12] }}</code>
{%- if not loop.last %}, {% endif %}{% endfor %}</td>
{% if has_run_states %}<td>{{ row.state }}</td>{% endif %}
<td class="n">{{ "%.1f"|format(row.seconds) }}</td><td class="n">{{ row.created[:19]|replace("T", " ") }}</td></tr>
{% endfor %}
</table></div>
</section>

<section id="configuration"><h2>Configuration</h2>
{% for stage, rows in configuration %}
<details><summary>{{ stage }} <span class="soft">{{ rows|length }} keys</span></summary>{{ key_values(rows) }}</details>
{% endfor %}
</section>

{% if command %}
<section id="reproduce"><h2>Reproduce</h2>
<p class="soft">The command that made this run; where nothing changed it finds every dataset and computes nothing.</p>
<pre>{{ command }}</pre>
</section>
{% endif %}
</main>
<footer>Written by danlu. One file, no script, nothing fetched.</footer>
</body>
</html>
"""


def size(num_bytes: float) -> str:
    """1234567 -> 1.23 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if num_bytes < 1000 or unit == "TB":
            break
        num_bytes /= 1000
    return f"{num_bytes:,.0f} {unit}" if unit == "B" else f"{num_bytes:,.3g} {unit}"


def figure(value: float | None) -> str:
    """Three decimals, or the order of magnitude of what does not fit a column."""
    if value is None:
        return "–"
    return f"{value:,.3f}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.2e}"


def render_page(view: dict[str, Any]) -> str:
    """The page of a view; raises jinja2.UndefinedError when the view lacks a name (ours to fix)."""
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"page": PAGE, "macros": MACROS}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=lambda n: f"{n:,}", size=size, figure=figure, shown=visible)
    environment.filters.update(rate=percent, estimate=numbers)
    return environment.get_template("page").render(css=markupsafe.Markup(CSS), policy=POLICY, **view)

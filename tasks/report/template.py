"""The page. Jinja2 with autoescape: every value is escaped but the drawn SVG, which is ours alone.

The page has no script, and its Content-Security-Policy forbids any: should an escape ever be missed, nothing runs
and nothing is fetched.
"""

from __future__ import annotations

from typing import Any

import jinja2
import markupsafe

from tasks.report.style import CSS
from tasks.report.text import visible

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{{ name }} · danlu report</title>
<style>{{ css }}</style>
</head>
<body>
{%- macro percent(value) -%}{{ "–" if value is none else "%.1f %%"|format(100 * value) }}{%- endmacro %}
{%- macro reasons(items) -%}
<div class="reasons">{% for reason, n in items %}<span>{{ reason }} <b>{{ n|count }}</b></span>{% endfor %}</div>
{%- endmacro %}
{%- macro account_table(rows, first, totals) %}
<div class="scroll"><table>
<tr><th>{{ first }}</th><th class="n">in</th><th class="n">kept</th><th class="n">dropped</th><th class="n">quarantined</th><th></th><th>reasons</th></tr>
{% for row in rows %}
<tr><td class="name">{{ row.name }}{% if not row.balanced %} <span class="bad">does not add up ({{ row.counts.balance }})</span>{% endif %}</td>
<td class="n">{{ row.counts.read|count }}</td><td class="n">{{ row.counts.kept|count }}</td>
<td class="n">{{ row.counts.dropped.total()|count }}</td><td class="n">{{ row.counts.quarantined.total()|count }}</td>
<td><div class="bar">{% for part in ("kept", "dropped", "quarantined") %}<i class="{{ part }}" style="width:{{ "%.2f"|format(row.share(part)) }}%"></i>{% endfor %}</div></td>
<td>{{ reasons(row.dropped + row.quarantined) }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}
{%- macro decay_table(rows, first) %}
<div class="scroll"><table>
<tr><th>{{ first }}</th><th class="n">raw</th><th class="n">usable</th><th class="n">rate</th><th></th>{% if rows and rows[0].raw_bytes is not none %}<th class="n">raw bytes</th>{% endif %}{% if rows and rows[0].usable_bytes is not none %}<th class="n">usable bytes</th>{% endif %}<th>lost at</th></tr>
{% for row in rows %}
<tr><td class="name">{{ row.name }}</td><td class="n">{{ row.raw|count }}</td><td class="n">{{ row.usable|count }}</td>
<td class="n"><b>{{ percent(row.rate) }}</b></td>
<td><div class="bar"><i class="kept" style="width:{{ "%.2f"|format(100 * (row.rate or 0)) }}%"></i></div></td>
{% if row.raw_bytes is not none %}<td class="n">{{ row.raw_bytes|size }}</td>{% endif %}
{% if row.usable_bytes is not none %}<td class="n">{{ row.usable_bytes|size }}</td>{% endif %}
<td>{{ reasons(row.losses) }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}
{%- macro key_values(rows) %}
<div class="scroll"><table>{% for key, value in rows %}<tr><td><code>{{ key }}</code></td><td>{{ value|shown(600) }}</td></tr>{% endfor %}</table></div>
{%- endmacro %}
{%- macro lost_records(groups) %}
{% for group in groups %}
<details><summary>{{ group.name }} <span class="soft">at {{ group.stage }} · {{ group.count|count }} in all, {{ group.samples|length }} shown</span></summary>
{% for sample in group.samples %}
<div class="record"><p class="note"><code>{{ sample.id }}</code> · {{ sample.source }} · {{ sample.language }} · {{ sample.origin }}</p>
{% if sample.evidence %}<p class="note">{% for key, value in sample.evidence %}{{ key }}: <b>{{ value }}</b>{% if not loop.last %} · {% endif %}{% endfor %}</p>{% endif %}
{% if sample.partner_text is not none %}
<div class="pair"><div><span class="label">dropped</span><pre class="text" dir="auto">{{ sample.text }}</pre></div>
<div><span class="label">kept: {{ sample.partner_id }}</span><pre class="text" dir="auto">{{ sample.partner_text }}</pre></div></div>
{% else %}<pre dir="auto">{{ sample.text }}</pre>{% endif %}
</div>
{% endfor %}
</details>
{% endfor %}
{%- endmacro %}
<header class="top"><div><div class="eyebrow">danlu 丹炉 · raw text to checkpoint</div><h1>{{ name }}</h1>
<div class="soft">{{ stages|length }} of {{ num_stages }} stages have a dataset{% if missing %}; not yet: {{ missing|join(", ") }}{% endif %}</div>
<div class="tiles">{% for label, value in tiles %}<div class="tile"><b>{{ value }}</b><span>{{ label }}</span></div>{% endfor %}</div>
</div></header>
<nav class="contents"><div>
{% for id, title, present in contents if present %}<a href="#{{ id }}">{{ title }}</a>{% endfor %}
</div></nav>
<main>
{% if account %}
<section id="account"><h2>Account</h2>
<p class="soft">Nothing is lost silently: at each stage, in = kept + dropped + quarantined.
{% if unbalanced %}<span class="bad">It does not add up at: {{ unbalanced|join(", ") }}.</span>{% else %}<span class="good">It adds up at every stage shown.</span>{% endif %}</p>
<div><span class="key"><i class="kept"></i>kept</span><span class="key"><i class="dropped"></i>dropped</span><span class="key"><i class="quarantined"></i>quarantined</span></div>
{{ account_table(account, "stage") }}
<h3>Per source and language</h3>
{% for stage, by_source, by_language in account_details %}
<details><summary>{{ stage }} <span class="soft">{{ by_source|length }} sources, {{ by_language|length }} languages</span></summary>
{{ account_table(by_source, "source") }}{{ account_table(by_language, "language") }}</details>
{% endfor %}
</section>
{% endif %}
{% if decay_by_source %}
<section id="decay"><h2>Decay rate</h2>
<p class="soft">Usable records over raw records, up to and including {{ last_cleaning }}. A record lost before its language was
known counts as “und”.</p>
{{ decay_table(decay_by_source, "source") }}{{ decay_table(decay_by_language, "language") }}
</section>
{% endif %}
{% if tokens_by_source %}
<section id="tokens"><h2>Tokens</h2>
{% for first, rows in (("source", tokens_by_source), ("language", tokens_by_language)) %}
<div class="scroll"><table>
<tr><th>{{ first }}</th><th class="n">documents</th><th class="n">tokens</th><th class="n">share</th><th></th><th class="n">bytes</th><th class="n">bytes per token</th></tr>
{% for row in rows %}
<tr><td class="name">{{ row.name }}</td><td class="n">{{ row.documents|count }}</td><td class="n">{{ row.tokens|count }}</td><td class="n">{{ percent(row.share) }}</td>
<td><div class="bar"><i class="plain" style="width:{{ "%.2f"|format(100 * row.share) }}%"></i></div></td>
<td class="n">{{ row.bytes|size }}</td><td class="n">{{ "–" if not row.tokens else "%.2f"|format(row.bytes / row.tokens) }}</td></tr>
{% endfor %}
</table></div>
{% endfor %}
</section>
{% endif %}
{% if facts %}
<section id="figures"><h2>Figures by stage</h2>
<p class="soft">What each stage measured of its own work.</p>
{% for stage, rows in facts %}<details{% if stage in ("tokenizer", "train") %} open{% endif %}><summary>{{ stage }} <span class="soft">{{ rows|length }} figures</span></summary>{{ key_values(rows) }}</details>{% endfor %}
</section>
{% endif %}
{% if curves %}
<section id="training"><h2>Training</h2>
<div class="plots">{% for title, svg in curves %}<figure><figcaption>{{ title }}</figcaption>{{ svg }}</figure>{% endfor %}</div>
</section>
{% endif %}
{% if evaluation %}
<section id="evaluation"><h2>Evaluation</h2>
<p class="soft">{{ evaluation.note }}</p>
{% for first, rows in (("all", evaluation.overall), ("source", evaluation.by_source), ("language", evaluation.by_language)) if rows %}
<div class="scroll"><table>
<tr><th>{{ first }}</th><th class="n">documents</th><th class="n">tokens</th><th class="n">perplexity</th><th class="n">bits per byte</th><th class="n">loss</th><th class="n">not scored</th></tr>
{% for row in rows %}
<tr><td class="name">{{ row.name }}</td><td class="n">{{ row.num_documents|count }}</td><td class="n">{{ row.num_tokens|count }}</td><td class="n">{{ row.perplexity|figure }}</td>
<td class="n"><b>{{ row.bits_per_byte|figure }}</b></td><td class="n">{{ row.loss|figure }}</td><td class="n">{{ row.num_skipped|count }}</td></tr>
{% endfor %}
</table></div>
{% endfor %}
</section>
{% endif %}
{% if generated %}
<section id="samples"><h2>Generated samples</h2>
<p class="soft">Fixed seeds; the prompt is grey.</p>
{% for sample in generated %}
<div class="record"><p class="note">{{ sample.label }}</p><pre class="text" dir="auto"><span class="prompt">{{ sample.prompt }}</span>{{ sample.text }}</pre></div>
{% endfor %}
</section>
{% endif %}
{% if dropped %}
<section id="dropped"><h2>Dropped documents</h2>
<p class="soft">A fair sample per reason (the smallest ids). Of a duplicate, the document that was kept stands beside it.</p>
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
<tr><th>stage</th><th>dataset</th><th>key</th><th>made from</th>{% if has_run_states %}<th>this run</th>{% endif %}<th class="n">seconds</th><th>finished (UTC)</th></tr>
{% for row in lineage %}
<tr><td class="name">{{ row.stage }}</td><td><code title="{{ row.digest }}">{{ row.digest[:12] }}</code></td><td><code title="{{ row.key }}">{{ row.key[:12] }}</code></td>
<td>{% for stage, digest in row.inputs %}{{ stage }} <code title="{{ digest }}">{{ digest[:12] }}</code>{% if not loop.last %}, {% endif %}{% endfor %}</td>
{% if has_run_states %}<td>{{ row.state }}</td>{% endif %}<td class="n">{{ "%.1f"|format(row.seconds) }}</td><td>{{ row.created[:19] }}</td></tr>
{% endfor %}
</table></div>
</section>
<section id="configuration"><h2>Configuration</h2>
{% for stage, rows in configuration %}<details><summary>{{ stage }} <span class="soft">{{ rows|length }} keys</span></summary>{{ key_values(rows) }}</details>{% endfor %}
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
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(count=lambda n: f"{n:,}", size=size, figure=figure, shown=visible)
    return environment.from_string(PAGE).render(css=markupsafe.Markup(CSS), **view)

"""The tables that the page repeats, as Jinja2 macros; escaped like the page itself."""

from __future__ import annotations

MACROS = """
{%- macro percent(value) -%}{{ "–" if value is none else "%.1f %%"|format(100 * value) }}{%- endmacro %}

{%- macro bar(parts) -%}
<td class="bars"><div class="bar">
{%- for kind, width in parts %}<i class="{{ kind }}" style="width:{{ "%.2f"|format(width) }}%"></i>{% endfor -%}
</div></td>
{%- endmacro %}

{%- macro head(first, numbers, last="") %}
<tr><th>{{ first }}</th>
{% for name in numbers %}{% if name == "|" %}<th class="bars"></th>{% else %}<th class="n">{{ name }}</th>{% endif %}
{% endfor %}
{% if last %}<th>{{ last }}</th>{% endif %}
</tr>
{%- endmacro %}

{%- macro reasons(items) -%}
<div class="reasons">
{%- for reason, n in items %}<span>{{ reason }} <b>{{ n|count }}</b></span>{% endfor -%}
</div>
{%- endmacro %}

{%- macro account_table(rows, first) %}
<div class="scroll"><table>
{{ head(first, ["in", "kept", "dropped", "quarantined", "|"], "reasons") }}
{% for row in rows %}
<tr><td class="name">{{ row.name|shown(60) }}
{% if not row.balanced %}<span class="bad">does not add up ({{ row.counts.balance }})</span>{% endif %}</td>
<td class="n">{{ row.counts.read|count }}</td><td class="n">{{ row.counts.kept|count }}</td>
<td class="n">{{ row.counts.dropped.total()|count }}</td>
<td class="n">{{ row.counts.quarantined.total()|count }}</td>
{% set shares = [("kept", row.share("kept")), ("dropped", row.share("dropped"))] %}
{{ bar(shares + [("quarantined", row.share("quarantined"))]) }}
<td>{{ reasons(row.dropped + row.quarantined) }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro decay_table(rows, first) %}
{% set raw_bytes = rows[0].raw_bytes is not none %}
{% set usable_bytes = rows[0].usable_bytes is not none %}
{% set numbers = ["raw", "usable", "rate", "|"] %}
<div class="scroll"><table>
{% set numbers = numbers + (["raw bytes"] if raw_bytes else []) + (["usable bytes"] if usable_bytes else []) %}
{{ head(first, numbers, "lost at") }}
{% for row in rows %}
<tr><td class="name">{{ row.name|shown(60) }}</td>
<td class="n">{{ row.raw|count }}</td><td class="n">{{ row.usable|count }}</td>
<td class="n"><b>{{ percent(row.rate) }}</b></td>{{ bar([("kept", 100 * (row.rate or 0))]) }}
{% if raw_bytes %}<td class="n">{{ row.raw_bytes|size }}</td>{% endif %}
{% if usable_bytes %}<td class="n">{{ row.usable_bytes|size }}</td>{% endif %}
<td>{{ reasons(row.losses) }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro error_table(stage) %}
<div class="scroll"><table>
{{ head("reason", ["documents", "labelled", "wrong", "rate (95 %)", "estimated wrong"]) }}
{% for row in stage.lost + [stage.kept] + stage.near %}
<tr><td class="name">{% if row.outcome == "kept" and row.reason != "kept" %}kept, near {% endif %}
{{- row.reason|shown(60) }}</td><td class="n">{% if row.count is none %}–{% else %}{{ row.count|count }}{% endif %}</td>
<td class="n">{{ row.labelled|count }}</td><td class="n">{{ row.wrong|count }}</td>
<td class="n">{{ row.rate|rate }}</td><td class="n">{{ row.estimated|estimate }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro length_table(lengths) %}
<div class="scroll"><table>
<tr><th>language</th><th class="n">documents</th>
{% for threshold in lengths.thresholds %}<th class="n">&lt; {{ threshold|count }}</th>{% endfor %}
{% for q in lengths.quantiles %}<th class="n">{{ "%g"|format(100 * q) }} % have at most</th>{% endfor %}
</tr>
{% for row in lengths.rows %}
<tr><td class="name">{{ row.language|shown(60) }}</td><td class="n">{{ row.documents|count }}</td>
{% for below in row.below %}<td class="n">{{ percent(below / row.documents) }}</td>{% endfor %}
{% for length in row.quantiles %}<td class="n"><b>{{ length|count }}</b></td>{% endfor %}
</tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro token_table(rows, first) %}
<div class="scroll"><table>
{{ head(first, ["documents", "tokens", "share", "|", "of them held out", "bytes", "bytes per token"]) }}
{% for row in rows %}
<tr><td class="name">{{ row.name|shown(60) }}</td>
<td class="n">{{ row.documents|count }}</td><td class="n"><b>{{ row.tokens|count }}</b></td>
<td class="n">{{ percent(row.share) }}</td>{{ bar([("plain", 100 * row.share)]) }}
<td class="n">{{ row.held_out|count }}</td>
<td class="n">{{ row.bytes|size }}</td>
<td class="n">{{ "–" if not row.tokens else "%.2f"|format(row.bytes / row.tokens) }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro vocabulary_table(rows, groups, hidden_size) %}
<div class="scroll"><table>
<tr><th>vocabulary</th>{% for group in groups %}<th class="n">bytes/token {{ group }}</th>{% endfor %}
<th class="n">tokens/word en</th><th class="n">Rényi</th><th class="n">pieces used</th>
<th class="n">embedding, bf16 ({{ hidden_size }} wide)</th></tr>
{% for row in rows %}
<tr><td class="name">{{ row.name|shown(60) }}</td>
{% if row.note %}<td colspan="{{ groups|length + 4 }}">{{ row.note }}</td>
{% else %}
{% for group in groups %}{% set found = row.groups.get(group) %}
<td class="n">{% if found %}<b>{{ "%.3f"|format(found.bytes_per_token) }}</b>
<span class="soft">({{ "%.3f %%"|format(100 * found.byte_fallback_rate) }})</span>{% else %}–{% endif %}</td>
{% endfor %}
{% set en = row.groups.get("en") %}
<td class="n">{{ "%.2f"|format(en.tokens_per_word) if en and en.tokens_per_word else "–" }}</td>
<td class="n">{{ row.renyi_efficiency|figure }}</td><td class="n">{{ percent(row.used_share) }}</td>
<td class="n">{{ row.embedding_bytes.bf16|size if row.embedding_bytes else "–" }}</td>
{% endif %}</tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro score_table(rows, first) %}
<div class="scroll"><table>
{{ head(first, ["documents", "tokens", "loss", "perplexity", "bits per byte", "not scored"]) }}
{% for row in rows %}
{% set name = row.name if "name" in row else row.source ~ " / " ~ row.language %}
<tr><td class="name">{{ name|shown(60) }}</td>
<td class="n">{{ row.num_documents|count }}</td><td class="n">{{ row.num_tokens|count }}</td>
<td class="n">{{ row.loss|figure }}</td><td class="n">{{ row.perplexity|figure }}</td>
<td class="n"><b>{{ row.bits_per_byte|figure }}</b></td><td class="n">{{ row.num_skipped|count }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro key_values(rows) %}
<div class="scroll"><table class="pairs">
{% for key, value in rows %}
<tr><td><code>{{ key|shown(200) }}</code></td><td>{{ value|shown(600) }}</td></tr>
{% endfor %}
</table></div>
{%- endmacro %}

{%- macro text_block(label, text) -%}
<div>{% if label %}<span class="label">{{ label }}</span>{% endif %}
<pre class="text" dir="auto">{{ text }}</pre></div>
{%- endmacro %}

{%- macro lost_records(groups) %}
{% for group in groups %}
<details><summary>{{ group.name }}
<span class="soft">at {{ group.stage }} · {{ group.count|count }} in all,
{{ group.samples|length }} shown</span></summary>
{% for sample in group.samples %}
<div class="record">
<p class="note"><code>{{ sample.id }}</code> · {{ sample.source|shown(120) }} · {{ sample.language }}
· {{ sample.origin }}</p>
{% if sample.evidence %}<p class="note">
{% for key, value in sample.evidence %}{{ key }}: <b>{{ value }}</b>{% if not loop.last %} · {% endif %}{% endfor %}
</p>{% endif %}
{% if sample.partner_text is not none %}
<div class="pair">{{ text_block("dropped", sample.text) }}
{{ text_block("kept: " ~ sample.partner_id, sample.partner_text) }}</div>
{% else %}{{ text_block("", sample.text) }}{% endif %}
</div>
{% endfor %}
</details>
{% endfor %}
{%- endmacro %}
"""

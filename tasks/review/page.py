"""The sample of a review as one HTML file: both sides of each case, buttons to label, and the rates measured so far.

Everything is escaped by Jinja2, and hostile characters are made visible. The one script, which gathers the buttons
into a label file, is named by its hash in the Content-Security-Policy: no other would run, and nothing is fetched.

out   HTML; its button "Download labels" saves the JSON lines that `danlu review --labels` reads
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import jinja2
import markupsafe

from tasks.report.style import CSS
from tasks.review import labels as labelling
from tasks.review import rates as measuring
from tasks.review.beside import Group
from tasks.review.view import Side, sides
from tasks.store.dataset import Dataset

SCRIPT = """
const count = () => document.querySelectorAll("fieldset input:checked").length;
document.addEventListener("change", () => { document.getElementById("given").textContent = count(); });
document.getElementById("download").addEventListener("click", () => {
  const lines = [];
  for (const chosen of document.querySelectorAll("fieldset input:checked")) {
    const field = chosen.closest("fieldset"), { id, stage, reason, near } = field.dataset;
    const note = field.querySelector("input[type=text]").value;
    lines.push(JSON.stringify({ id, stage, reason, near, verdict: chosen.value, note, at: new Date().toISOString() }));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines.map(line => line + "\\n"), { type: "application/x-ndjson" }));
  link.download = document.body.dataset.stage + "-labels.jsonl";
  link.click();
});
"""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    f"script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
)
MORE_CSS = """
mark { background: color-mix(in srgb, var(--accent) 30%, transparent); color: inherit; border-radius: 2px; }
fieldset { border: 0; padding: 0; margin: .4rem 0 0; display: flex; flex-wrap: wrap; gap: .8rem; align-items: center;
  font-size: .88rem; }
fieldset input[type=text] { flex: 1; min-width: 8rem; font: inherit; color: inherit; background: var(--shade);
  border: 1px solid var(--line); border-radius: 6px; padding: .2rem .5rem; }
button { font: inherit; color: var(--card); background: var(--accent); border: 0; border-radius: 8px;
  padding: .4rem .9rem; cursor: pointer; }
.save { position: sticky; bottom: 0; background: var(--page); border-top: 1px solid var(--line); padding: .7rem 0; }
"""

PAGE = """
{%- macro side_block(side, number) %}
<div><p class="note"><b>{{ side.title }}</b>
{% for name, value in side.facts %}· {{ name }}: <b>{{ value }}</b>
{% endfor %}</p>
<pre class="text" dir="auto">
{%- for piece in side.passages %}{% if piece.marked %}<mark>{{ piece.text }}</mark>{% else %}{{ piece.text }}{% endif %}
{%- endfor %}</pre>
{% if side.key %}
{% set given = verdicts.get((side.key.id, side.key.reason, side.key.near), "") %}
<fieldset data-id="{{ side.key.id }}" data-stage="{{ side.key.stage }}" data-reason="{{ side.key.reason }}"
data-near="{{ side.key.near }}">
{% for verdict in ("right", "wrong", "unsure") %}
<label><input type="radio" name="{{ number }}" value="{{ verdict }}"> {{ verdict }}</label>
{% endfor %}
<input type="text" aria-label="note" placeholder="note" maxlength="2000">
{% if given %}<span class="soft">labelled {{ given }} before</span>{% endif %}
</fieldset>
{% endif %}</div>
{%- endmacro %}
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>review of {{ stage }} · danlu</title>
<style>
{{ css }}
</style>
</head>
<body data-stage="{{ stage }}">
<header class="top"><div>
<div class="eyebrow">danlu 丹炉 · review</div>
<h1>{{ stage }}</h1>
<div class="soft">Was each decision right? A document that was dropped and should have been kept is wrong, and so is a
kept one that should have gone.</div>
</div></header>
<main>
<section id="rates"><h2>Error rates</h2>
<div class="scroll"><table>
<tr><th>reason</th><th class="n">documents</th><th class="n">labelled</th><th class="n">wrong</th>
<th class="n">rate (95 %)</th><th class="n">estimated wrong</th></tr>
{% for row in rates.lost + [rates.kept] + rates.near %}
<tr><td class="name">{% if row.outcome == "kept" and row.reason != "kept" %}kept, near {{ row.reason }}
{%- else %}<a href="#{{ row.reason }}">{{ row.reason }}</a>{% endif %}</td><td class="n">{{ row.count|count }}</td>
<td class="n">{{ row.labelled|count }}</td><td class="n">{{ row.wrong|count }}</td>
<td class="n">{{ row.rate|percent }}</td><td class="n">{{ row.estimated|numbers }}</td></tr>
{% endfor %}
</table></div></section>
{% for group, cases in groups %}
<section id="{{ group.reason }}"><h2>{{ group.reason }}</h2>
<p class="soft">{{ group.outcome }}{% if group.count is not none %}, {{ group.count|count }} in all{% endif %},
{{ cases|length }} shown</p>
{% for sides in cases %}{% set at = loop.index %}
<div class="record"><div class="pair">
{% for side in sides %}{{ side_block(side, group.reason ~ "-" ~ at ~ "-" ~ loop.index) }}{% endfor %}
</div></div>
{% endfor %}
</section>
{% endfor %}
<div class="save"><button id="download" type="button">Download labels</button>
<span class="soft"><b id="given">0</b> given. Then: <code>danlu review {{ stage }} --labels FILE</code></span></div>
</main>
<script>{{ script }}</script>
</body>
</html>
"""


def render(dataset: Dataset, groups: Sequence[Group], max_chars: int) -> str:
    """The page; a text is shown up to `max_chars`."""
    shown: list[tuple[Group, list[list[Side]]]] = [
        (group, [sides(case, dataset.stage, max_chars) for case in group.cases]) for group in groups
    ]
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        count=lambda n: "–" if n is None else f"{n:,}", percent=measuring.percent, numbers=measuring.numbers
    )
    known = {key: label.verdict for key, label in labelling.load(dataset).by_key.items()}
    view: dict[str, Any] = {"stage": dataset.stage, "groups": shown, "rates": measuring.measure(dataset)}
    return environment.from_string(PAGE).render(
        css=markupsafe.Markup(CSS + MORE_CSS),
        script=markupsafe.Markup(SCRIPT),
        policy=POLICY,
        verdicts=known,
        **view,
    )

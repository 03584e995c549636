"""The page of a review: hostile text stays text, and the buttons name what they label."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from tasks.report import render as render_report
from tasks.review import beside, labels, page
from tasks.review.labels import Label
from tasks.store.dataset import Dataset


@pytest.fixture(scope="module")
def html(chain: dict[str, Dataset]) -> str:
    return page.render(chain["filter"], beside.collect(chain["filter"]), 2000)


def test_no_markup_or_hidden_character_of_a_document_survives(html: str) -> None:
    assert html.count("&lt;/pre&gt;&lt;script&gt;") >= 9  # texts and file names
    assert len(re.findall("<script", html)) == 1
    assert not re.search("[\u202e\x1b]", html) and "\\u202e\\x1b[31m" in html
    assert "source &lt;b&gt;" in html and "source <b>" not in html


def test_the_one_script_is_the_one_that_the_policy_allows(html: str) -> None:
    [script] = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall('http-equiv="Content-Security-Policy" content="(.*?)"', html)
    assert f"sha256-{digest}" in policy.replace("&#43;", "+") and "default-src" in policy


def test_each_judged_document_has_buttons_that_name_it(chain: dict[str, Dataset], html: str) -> None:
    for group in beside.collect(chain["filter"]):
        for case in group.cases:
            assert re.search(
                f'data-id="{case.record.id}" data-stage="filter" data-reason="{group.reason}"\ndata-near=""', html
            )
    assert 'data-near="repeated_ngram"' in html


def test_what_differs_between_duplicates_is_marked(chain: dict[str, Dataset]) -> None:
    html = page.render(chain["minhash_dedup"], beside.collect(chain["minhash_dedup"]), 4000)
    assert re.search(r"<mark>\w+s? </mark>", html)


def test_the_report_shows_the_rates_once_there_are_labels(own_chain: dict[str, Dataset]) -> None:
    before = render_report(own_chain, {})
    [group] = beside.collect(own_chain["filter"], ["too_short"], 4)
    labels.add(
        own_chain["filter"],
        [Label(id=c.record.id, stage="filter", reason="too_short", verdict="wrong") for c in group.cases],
    )
    after = render_report(own_chain, {})
    assert 'id="review"' not in before and 'id="review"' in after
    section = after[after.index('id="review"') : after.index("</section>", after.index('id="review"'))]
    assert "100.0 % (51.0–100.0)" in section and "not reviewed" in section and "repeated_ngram" in section

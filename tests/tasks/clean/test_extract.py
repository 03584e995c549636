"""Extract: pages, markup, and the pages that hold nothing."""

import pytest

from tasks.clean.extract import ExtractConfig, extract, main_text, process, text_blocks
from tasks.clean.markup import strip_inline_tags, strip_markdown
from tasks.document import Document, Dropped, Kept, Origin

EN = "The furnace turns raw text into a checkpoint, and each document keeps its name on the way to the model."
ZH = "这座炉子把原始文本炼成检查点，每一篇文档在通往模型的路上都保留自己的编号，任何一步都可以追溯到它的来源。"


def page(text: str, media_type: str = "text/html") -> Document:
    return Document(
        id="0" * 32, text=text, source="test", media_type=media_type, origin=Origin(file="a", record=0, offset=0)
    )


def article(body: str) -> str:
    return (
        "<html><head><title>t</title><script>var hidden = 1;</script></head><body>"
        '<nav><ul><li><a href="/">Home</a></li><li><a href="/x">Shop now</a></li></ul></nav>'
        f"<article><h1>Title</h1>{body}</article><footer>Copyright 2026, all rights reserved</footer></body></html>"
    )


@pytest.mark.parametrize("text", [EN, ZH])
def test_main_text_is_kept_and_boilerplate_goes(text):
    outcome = extract(page(article(f"<p>{text}</p>" * 1 + f"<p>Second. {text}</p>")), ExtractConfig())
    assert isinstance(outcome, Kept)
    assert text in outcome.document.text
    assert "Shop now" not in outcome.document.text and "hidden" not in outcome.document.text
    assert "extract_fallback" not in outcome.document.metrics


def test_tables_and_code_stay_as_text():
    table = "<table><tr><td>alpha</td><td>beta</td></tr></table>"
    code = "<pre><code>def f(x):\n    return x</code></pre>"
    text, _ = main_text(article(f"<p>{EN}</p>{table}{code}<p>{EN}</p>"), ExtractConfig())
    assert "alpha" in text and "beta" in text
    assert "def f(x):" in text and "return x" in text


def test_page_without_text_is_dropped_with_its_size():
    outcome = extract(page('<html><body><div id="chart"></div><script>draw()</script></body></html>'), ExtractConfig())
    assert isinstance(outcome, Dropped)
    assert outcome.reason == "no_text"
    assert outcome.evidence["page_chars"] > 50


def test_fallback_is_recorded(monkeypatch):
    monkeypatch.setattr("trafilatura.extract", lambda *args, **kwargs: None)
    outcome = extract(page(article(f"<p>{EN}</p>")), ExtractConfig())
    assert isinstance(outcome, Kept)
    assert outcome.document.metrics["extract_fallback"] == 1.0
    assert outcome.document.text == f"Title\n{EN}"
    assert isinstance(extract(page(article(f"<p>{EN}</p>")), ExtractConfig(fallback=False)), Dropped)


def test_text_blocks_survive_broken_pages():
    assert text_blocks("") == text_blocks("<!-- -->") == ""
    assert text_blocks("<p>one<p>two<br>three</b></div>") == "one\ntwo\nthree"


def test_a_crash_in_the_parser_costs_that_page_only(monkeypatch, caplog):
    def crash(*args, **kwargs):
        raise RecursionError("too deep")

    monkeypatch.setattr("trafilatura.extract", crash)
    outcomes = list(process(iter([page("<p>x</p>"), page("plain", "text/plain")]), ExtractConfig()))
    assert [type(outcome).__name__ for outcome in outcomes] == ["Quarantined", "Kept"]
    assert outcomes[0].reason == "extract_failed" and "too deep" in caplog.text


def test_page_above_the_size_limit_is_dropped_unread():
    outcome = extract(page("<p>" + "x" * 100), ExtractConfig(max_page_chars=50))
    assert isinstance(outcome, Dropped) and outcome.reason == "page_too_large"


def test_front_matter_comments_and_tags_leave_markdown_but_code_stays():
    head = "---\ntitle: a\n---\n# Head <!-- note -->\n\n"
    text = head + "<strong>bold</strong> `<b>x</b>`\n\n```html\n<!-- kept --><b>y</b>\n```\n"
    assert strip_markdown(text) == "# Head \n\nbold `<b>x</b>`\n\n```html\n<!-- kept --><b>y</b>\n```\n"


def test_a_rule_at_the_top_is_no_front_matter():
    assert strip_markdown("---\n春眠不觉晓\n---\n处处闻啼鸟") == "---\n春眠不觉晓\n---\n处处闻啼鸟"


def test_only_paired_tags_leave_plain_text():
    assert strip_inline_tags("<strong>小侠挥金</strong>\n且说<em>史<b>云</b></em>") == "小侠挥金\n且说史云"
    assert strip_inline_tags("use the <b> tag if a < b and c > d") == "use the <b> tag if a < b and c > d"


def test_program_text_is_not_touched():
    source = "<b>x</b> = 1  <!-- a -->\n"
    outcome = extract(page(source, "text/x-source"), ExtractConfig())
    assert isinstance(outcome, Kept) and outcome.document.text == source


def test_order_of_pages_does_not_change_their_text():
    pages = [page(article(f"<p>{text}</p><p>{text}</p>")) for text in (EN, ZH, EN)]
    config = ExtractConfig()
    assert list(process(iter(pages), config)) == list(process(iter(pages[::-1]), config))[::-1]

"""Extract: pages, markup, and the pages that hold nothing."""

import pytest

from tasks.clean.extract.main_text import main_text, text_blocks
from tasks.clean.extract.markup import strip_inline_tags, strip_markdown
from tasks.clean.extract.sandbox import SandboxFailure
from tasks.clean.extract.stage import ExtractConfig, extract, process
from tasks.document import Document, Dropped, Kept, Origin, Quarantined

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
    text = main_text(article(f"<p>{EN}</p>{table}{code}<p>{EN}</p>")).text
    assert "alpha" in text and "beta" in text
    assert "def f(x):" in text and "return x" in text


def test_page_without_text_is_dropped_with_its_size():
    outcome = extract(page(f"<html><head><title>{'t' * 50}</title></head><body></body></html>"), ExtractConfig())
    assert isinstance(outcome, Dropped)
    assert outcome.reason == "no_text"
    assert outcome.evidence["page_chars"] > 50


def test_fallback_is_recorded(monkeypatch):
    monkeypatch.setattr("trafilatura.extract", lambda *args, **kwargs: None)
    outcome = extract(page(article(f"<p>{EN}</p>")), ExtractConfig(isolate=False))
    assert isinstance(outcome, Kept)
    assert outcome.document.metrics["extract_fallback"] == 1.0
    assert outcome.document.text == f"Title\n{EN}"
    assert isinstance(extract(page(article(f"<p>{EN}</p>")), ExtractConfig(fallback=False, isolate=False)), Dropped)


def test_text_blocks_survive_broken_pages():
    assert text_blocks("") == text_blocks("<!-- -->") == ""
    assert text_blocks("<p>one<p>two<br>three</b></div>") == "one\ntwo\nthree"


def test_a_crash_in_the_parser_costs_that_page_only(monkeypatch, caplog):
    def crash(*args, **kwargs):
        raise RecursionError("too deep")

    monkeypatch.setattr("trafilatura.extract", crash)
    outcomes = list(process(iter([page("<p>x</p>"), page("plain", "text/plain")]), ExtractConfig(isolate=False)))
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


SHELL = '<html><body><p>Shop</p><div id="chart"></div><script>draw()</script></body></html>'


def test_a_page_that_a_script_was_to_fill_is_dropped_with_a_hint():
    outcome = extract(page(SHELL), ExtractConfig())
    assert isinstance(outcome, Dropped) and outcome.reason == "javascript_page"
    assert outcome.evidence["found"] == "hollow" and "danlu[render]" in str(outcome.evidence["hint"])


def test_policies_for_pages_that_a_script_was_to_fill():
    kept = extract(page(SHELL), ExtractConfig(javascript_pages="keep"))
    assert isinstance(kept, Kept) and kept.document.text == "Shop" and kept.document.metrics["javascript_page"] == 1.0
    quarantined = extract(page(SHELL), ExtractConfig(javascript_pages="quarantine"))
    assert isinstance(quarantined, Quarantined) and quarantined.content == SHELL.encode()
    labels = [f"<p>Oak chair number {n}, 45 cm high</p>" for n in range(20)]
    long = article("".join(labels) + '<div class="skeleton"></div>' * 5)
    assert isinstance(extract(page(long), ExtractConfig()), Kept)
    assert isinstance(extract(page(long), ExtractConfig(javascript_pages="drop")), Dropped)


def test_a_page_that_takes_too_long_or_too_much_is_quarantined_with_its_bytes():
    row = "<tr>" + "<td>cell text here</td>" * 10 + "</tr>"  # 2 MB of table: 2 s and 110 MB
    pages = [page(article(f"<p>{EN}</p>" * 2)), page(article(f"<p>{EN}</p><table>{row * 8000}</table>"))]
    for config, reason in (
        (ExtractConfig(page_timeout_seconds=0.5), "extract_timeout"),
        (ExtractConfig(page_memory_mb=40), "extract_memory"),
    ):
        outcomes = list(process(iter([*pages, pages[0]]), config))
        assert [type(outcome).__name__ for outcome in outcomes] == ["Kept", "Quarantined", "Kept"]
        assert outcomes[1].reason == reason and outcomes[1].content == pages[1].text.encode()


def test_a_page_that_kills_the_child_is_quarantined():
    def killed(html):
        raise SandboxFailure("crashed", "SIGSEGV")

    outcome = extract(page("<p>x</p>"), ExtractConfig(), killed)
    assert isinstance(outcome, Quarantined) and outcome.reason == "extract_crashed"


def test_pages_read_the_same_with_and_without_isolation():
    pages = [page(article(f"<p>{text}</p><p>{text}</p>")) for text in (EN, ZH)] + [page(SHELL), page("\ud800<p>")]
    assert list(process(iter(pages), ExtractConfig())) == list(process(iter(pages), ExtractConfig(isolate=False)))

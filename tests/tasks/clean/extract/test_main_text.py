"""Main text: what stays, what goes, and which of the two readings is believed."""

import pytest

from benchmarks import extraction
from tasks.clean.extract.boilerplate import is_phrase, manual_blocks
from tasks.clean.extract.main_text import main_text
from tasks.clean.extract.page_blocks import read_page

EN = "The furnace turns raw text into a checkpoint, and each document keeps its name on the way to the model."
ZH = "这座炉子把原始文本炼成检查点，每一篇文档在通往模型的路上都保留自己的编号，任何一步都可以追溯到它的来源。"
JA = "この炉は生のテキストをチェックポイントに変え、どの文書もモデルに届くまで自分の番号を持ち続けます。"
KO = "이 용광로는 원시 텍스트를 체크포인트로 바꾸며 모든 문서는 모델에 이르는 길에서 자기 번호를 지닙니다."


def page(body: str, head: str = "") -> str:
    menu = "".join(f'<li><a href="/{i}">Menu entry {i}</a></li>' for i in range(8))
    return (
        f"<html><head><title>t</title>{head}</head><body><nav><ul>{menu}</ul></nav>{body}"
        '<div class="site-footer"><p>Copyright 2026, all rights reserved by the owner.</p></div></body></html>'
    )


def article(body: str, sentence: str = EN) -> str:
    paragraphs = "".join(f"<p>{i}. {sentence}</p>" for i in range(4))
    return page(f'<div class="post-body"><h1>Title of it</h1>{paragraphs}{body}<p>9. {sentence}</p></div>')


@pytest.mark.parametrize("sentence", [EN, ZH, JA, KO])
def test_paragraphs_stay_a_line_each_and_menus_go(sentence):
    lines = main_text(article("", sentence)).text.split("\n")
    assert [line for line in lines if sentence in line] == [f"{i}. {sentence}" for i in (0, 1, 2, 3, 9)]
    assert not any("Menu entry" in line or "Copyright" in line for line in lines)


def test_cells_of_a_row_share_a_line():
    table = "<table><tr><th>ton</th><th>Preis</th></tr><tr><td>alpha</td><td>12</td></tr></table>"
    assert "alpha | 12" in main_text(article(table)).text
    assert "alpha | 12" in main_text(article(table, ZH)).text
    assert "alpha" not in main_text(article(table, ZH), include_tables=False).text


def test_code_keeps_its_lines():
    code = "<pre><code>def f(x):\n    if x:\n        return x</code></pre>"
    assert "def f(x):\n    if x:\n        return x" in main_text(article(code, ZH)).text
    text = main_text(article(code)).text
    assert [line.strip() for line in text.split("\n") if "x" in line and EN not in line][:3] == [
        "def f(x):",
        "if x:",
        "return x",
    ]


MATHML = '<math alttext="E=mc^2"><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></math>'
ANNOTATED = "<math><semantics><mi>E</mi><annotation encoding='application/x-tex'>E=mc^2</annotation></semantics></math>"
FORMULAS = {
    "mathml": MATHML,
    "wikipedia": f'<span class="mwe-math-element"><span style="display: none;">{MATHML}</span></span>',
    "katex": f'<span class="katex"><span class="katex-mathml">{ANNOTATED}</span>'
    '<span class="katex-html" aria-hidden="true">E=mc2</span></span>',
    "mathjax": '<span class="MathJax_Preview">E=mc2</span><script type="math/tex">E=mc^2</script>',
}


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("sentence", [EN, ZH])
def test_a_formula_becomes_its_tex_once(kind, sentence):
    text = main_text(article(f"<p>It is known that {FORMULAS[kind]} holds, says the text.</p>", sentence)).text
    assert "It is known that $E=mc^2$ holds, says the text." in text


@pytest.mark.parametrize(
    "line",
    [
        "相关阅读",
        "【延伸阅读】",
        "上一篇：昨天的文章",
        "责任编辑：王小明",
        "(责编：张三、李四)",
        "版权声明：本文由作者原创",
        "扫码关注公众号",
        "长按识别二维码关注我们",
        "广告",
        "相關閱讀",
        "関連記事",
        "スポンサーリンク",
        "次の記事",
        "관련기사",
        "무단 전재 및 재배포 금지",
    ],
)
def test_fixed_phrases_around_a_cjk_text_go(line):
    assert is_phrase(line)
    text = main_text(article(f"<p>{line}</p>", ZH)).text
    assert line not in text and text.count(ZH) == 5


@pytest.mark.parametrize(
    "line",
    [
        "相关阅读能力的研究在过去十年里有了很大的进展",
        "广告业在今年的增长超过了预期",
        "下一篇论文将讨论这个问题",
        "编辑部昨天收到了一封信",
        "関連記事を書いた記者は語った",
        "版权意识在今天的社会里越来越强",
    ],
)
def test_sentences_that_begin_like_a_phrase_stay(line):
    assert not is_phrase(line)


@pytest.mark.parametrize("mark", ["sidebar", "related-posts", "social-share", "ad_slot", "cookieConsent", "newsletter"])
def test_a_marked_box_goes(mark):
    noise = "Nobody came to this page to read what is written in this box beside the text."
    text = main_text(article(f'<div class="{mark}"><p>{noise}</p></div>')).text
    assert noise not in text and text.count(EN) == 5


def test_a_mark_around_the_whole_page_is_not_believed():
    body = "".join(f"<p>{i}. {EN}</p>" for i in range(6))
    assert main_text(page(f'<div class="sidebar ad"><div>{body}</div></div>')).text.count(EN) == 6


def test_comments_below_an_article_go_unless_asked_for():
    said = "I read this twice and still disagree with the author about the furnace."
    html = article(f'<div class="comments"><p>{said}</p></div>')
    assert said not in main_text(html).text
    assert said in main_text(html, include_comments=True).text


@pytest.mark.parametrize("heading", ["Related articles", "About the author", "3 Comments", "网友评论（12）"])
def test_a_heading_of_other_texts_ends_an_article(heading):
    html = article(f"<h3>{heading}</h3><p>Somebody wrote this elsewhere, and it is not the text.</p>")
    text = main_text(html.replace(f"<p>9. {EN}</p>", "")).text
    assert heading not in text and "Somebody" not in text and text.count(EN) == 4


def test_such_a_heading_near_the_beginning_ends_nothing():
    body = "".join(f"<p>{i}. {EN}</p>" for i in range(8))
    assert main_text(page(f"<div><p>{EN}</p><h3>Disclaimer</h3>{body}</div>")).text.count(EN) == 9


def test_what_a_forum_says_of_a_poster_goes():
    head = '<script type="application/ld+json">{"@type": "DiscussionForumPosting"}</script>'
    posts = "".join(f"<div><p>Joined: Feb 1998</p><p>Posts: 108{i}</p><p>Answer {i}: {EN}</p></div>" for i in range(5))
    text = main_text(page(f'<div id="thread"><p>{EN}</p>{posts}</div>', head)).text
    assert "Answer 4" in text and "Joined:" not in text and "Posts:" not in text


def test_shortcodes_of_page_builders_go_and_other_brackets_stay():
    text = main_text(article(f'<p>[vc_row type="full"]Inside [1] of it: {EN}[/vc_row]</p>')).text
    assert f"Inside [1] of it: {EN}" in text and "vc_row" not in text
    assert "a[my_index]" in main_text(article("<pre>a[my_index] = b</pre>")).text


def test_a_part_that_trafilatura_leaves_out_is_filled_in():
    body = ["".join(f"<p>{i}. {EN}</p>" for i in part) for part in (range(9), range(9, 18))]
    steps = "".join(f"<details><summary>Fold</summary>Step {i}: {EN}</details>" for i in range(3))
    text = main_text(page(f"<div><h1>Title of it</h1>{body[0]}{steps}{body[1]}</div>")).text
    assert f"Step 2: {EN}" in text and text.count(EN) == 21


def test_posts_of_a_forum_are_main_text():
    posts = "".join(
        f'<div class="comment"><div class="comment-body"><p>Answer {i}: {EN}</p></div></div>' for i in range(5)
    )
    head = '<script type="application/ld+json">{"@type": "DiscussionForumPosting"}</script>'
    text = main_text(page(f'<div id="thread"><h1>How?</h1><p>{EN}</p>{posts}</div>', head)).text
    assert all(f"Answer {i}: {EN}" in text for i in range(5))


def test_a_list_of_offers_and_a_product_keep_their_parts():
    offers = "".join(
        f'<div class="card"><h3>Furnace {i}</h3><p>A furnace of size {i} that heats a hall in an hour.</p></div>'
        for i in range(12)
    )
    text = main_text(page(f"<section><h1>Furnaces</h1>{offers}</section>")).text
    assert all(f"A furnace of size {i} that" in text for i in range(12))
    specification = "<table><tr><td>Weight</td><td>12 kg</td></tr><tr><td>Heat</td><td>900 K</td></tr></table>"
    product = page(f"<div><h1>Furnace</h1><p>{EN}</p>{specification}<div><p>Second: {EN}</p></div></div>")
    assert "12 kg" in main_text(product).text and "Second: " in main_text(product).text


def test_a_page_without_text_has_none():
    assert [main_text(html).method for html in ("", "<!-- -->", "<html><head></head></html>")] == ["none"] * 3


@pytest.mark.parametrize("nest", ["<div>", "<table><tr><td>", "<span>", "<div class='ad'>"])
def test_deep_nesting_ends_without_an_error(nest):
    assert EN in main_text(nest * 500 + EN).text  # whatever the boxes say of themselves
    assert main_text(nest * 5000 + EN).text in ("", EN)  # libxml2 reads no deeper than 2,048 levels


def test_text_behind_a_comment_stays():
    sentence = EN.replace(", and", "<!-- -->, and")
    for html in (article("", sentence), article("", ZH.replace("，", "<!-- -->，"))):
        assert main_text(html).text.count(EN if "furnace" in html else ZH) == 5


def test_a_box_called_article_body_is_the_text():
    noise = "".join(f"<p>Reader {i} wrote at length about what the weather was like on that day.</p>" for i in range(3))
    body = "".join(f"<p>{i}. {EN}</p>" for i in range(4))
    html = page(f'<div><div itemprop="articleBody"><div class="ad">{body}</div></div>{noise}</div>')
    assert main_text(html).text.count(EN) == 4 and "Reader" not in main_text(html).text


def manual(more: str = "", code: str = "<pre>def f(x):\n    return x</pre>") -> str:
    """A long section and a short one, which any rule by size alone would leave out."""
    long = "".join(f"<p>{i}. {EN}</p>" for i in range(18))
    return page(f'<div role="main"><section>{long}{code}</section><section><p>Last. {EN}</p></section>{more}</div>')


def test_the_main_box_of_a_manual_is_the_text_with_the_lines_of_its_code():
    found = main_text(manual())
    assert found.method == "blocks"
    assert "def f(x):\n    return x\n" in found.text and f"Last. {EN}" in found.text
    assert "Menu entry" not in found.text and "Copyright" not in found.text


@pytest.mark.parametrize(
    "html",
    [
        manual(code=""),
        manual(more=f'<div class="related">{"".join(f"<p>Other {i}. {EN}</p>" for i in range(4))}</div>'),
        manual().replace("<nav>", f'<div role="main"><p>Another. {EN}</p></div><nav>'),
    ],
    ids=["no code", "much in it is marked as something else", "two of them"],
)
def test_a_main_box_that_is_no_manual_is_weighed_like_any_page(html):
    assert manual_blocks(read_page(html), include_comments=False) is None


def test_a_page_of_megabytes_is_read_once_through():
    lines = main_text("".join(f"<p>{i} {EN}</p>" for i in range(20_000))).text.split("\n")
    assert len(lines) == 20_000 and lines[-1] == f"19999 {EN}"


def test_the_text_does_not_depend_on_pages_before():
    pages = [article("", sentence) for sentence in (EN, ZH, JA)]
    forward = [main_text(html) for html in pages]
    assert forward == [main_text(html) for html in pages[::-1]][::-1]


@pytest.mark.slow
def test_shared_pages_beat_trafilatura_on_every_type(shared_data):
    result = extraction.measure(shared_data)
    ours, theirs = extraction.scores(result, "danlu"), extraction.scores(result, "trafilatura")
    assert ours["all"] >= theirs["all"] + 0.029
    for kind in extraction.TYPES:
        assert ours[kind] >= theirs[kind], kind

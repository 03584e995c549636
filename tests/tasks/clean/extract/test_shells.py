"""Pages that JavaScript fills: each kind of evidence, in many languages, and the ordinary pages next to it."""

import pytest

from tasks.clean.extract.main_text import main_text
from tasks.clean.extract.page import read_page
from tasks.clean.extract.shells import javascript_evidence

SCRIPT = '<script src="/app.js"></script>'
SENTENCE = "The furnace turns raw text into a checkpoint, and each document keeps its name on the way to the model. "
SETTINGS = {"include_comments": True, "include_tables": True, "fallback": True}


def evidence(body: str, head: str = "") -> str | None:
    html = f"<html><head><title>A title</title>{head}</head><body>{body}</body></html>"
    return javascript_evidence(html, main_text(html).text)


@pytest.mark.parametrize(
    "body",
    [
        f'<div id="chart"></div>{SCRIPT}',
        f'<div id="root">\n<!-- app -->\n</div>{SCRIPT}',
        f'<nav>Home Shop Help</nav><main id="content"> … </main><footer>Impressum</footer>{SCRIPT}',
        f"<app-root></app-root>{SCRIPT}",
        f"<p>{SENTENCE[:40]}</p><div class='lds-spinner'></div>{SCRIPT}",
        SCRIPT,
        '<a href="#main">Skip</a><div id="main">...</div>',  # saved without its scripts
    ],
)
def test_a_container_that_a_script_was_to_fill_is_hollow(body):
    assert evidence(body) == "hollow"


@pytest.mark.parametrize(
    "text",
    [
        "Loading…",
        "Please wait",
        "Chargement en cours",
        "Seite wird geladen",
        "Cargando contenido",
        "A carregar",
        "Caricamento in corso",
        "Ładowanie strony",
        "Načítání",
        "Yükleniyor",
        "Идёт загрузка",
        "Завантаження",
        "Φόρτωση",
        "טוען",
        "جارٍ التحميل",
        "در حال بارگذاری",
        "लोड हो रहा है",
        "กำลังโหลด",
        "Đang tải",
        "数据加载中，请稍候",
        "正在加载",
        "載入中",
        "読み込み中です",
        "불러오는 중",
    ],
)
def test_a_page_that_says_it_is_loading_in_any_language(text):
    assert evidence(f"<div><p>{text}</p></div>") == "loading"


@pytest.mark.parametrize(
    "text",
    [
        "You need to enable JavaScript to run this app.",
        "Bitte aktivieren Sie JavaScript.",
        "Veuillez activer JavaScript pour afficher cette page.",
        "请启用 JavaScript 后再访问本页面",
        "本網站需要啟用 JavaScript",
        "このページを見るにはジャバスクリプトを有効にしてください",
        "자바스크립트를 활성화해 주세요",
        "Включите джаваскрипт в браузере",
        "يرجى تفعيل جافا سكريبت",
        "कृपया जावास्क्रिप्ट सक्षम करें",
    ],
)
def test_a_notice_that_javascript_is_needed_in_any_language(text):
    assert evidence(f"<noscript>{text}</noscript><div>Menu</div>") == "notice"
    assert evidence(f"<div>{text}</div>") == "notice"
    assert evidence(f"<noscript>{text}</noscript><article>{f'<p>{SENTENCE}</p>' * 10}</article>") is None


def test_labels_around_spinners_are_waiting():
    tiles = "".join(f"<div><h3>Offer {n}</h3><span class='ant-spin'></span></div>" for n in range(12))
    assert evidence(f"<p>{SENTENCE}</p>{tiles}") == "waiting"


def test_a_framework_s_page_without_sentences_is_unfilled_and_one_with_sentences_is_not():
    state = '<script id="__NEXT_DATA__" type="application/json">{"props":{}}</script>'
    labels = "".join(f"<div><h3>Offer {n}</h3><p>from {n} euros a month</p></div>" for n in range(20))
    assert evidence(labels + state) == "framework"
    assert evidence(labels) is None
    assert evidence(f"<article>{f'<p>{SENTENCE}</p>' * 8}</article>{state}") is None


def test_skeletons_among_labels_count_and_those_beside_an_article_do_not():
    skeletons = '<div class="MuiSkeleton-root"></div>' * 6
    labels = "".join(f"<div><h3>Oak chair {n}</h3><p>{n}99 euros, 45 cm high</p></div>" for n in range(90))
    assert evidence(f"<main>{labels}{skeletons}</main>") == "skeleton"
    assert evidence(f"<article>{f'<p>{SENTENCE}</p>' * 20}</article><section>{skeletons}</section>") is None


def test_many_empty_islands_count_and_filled_ones_do_not():
    text = f"<p>{SENTENCE}</p>" * 8
    assert evidence(text + "<astro-island></astro-island>" * 12) == "islands"
    assert evidence(text + f"<astro-island><p>{SENTENCE}</p></astro-island>" * 12) is None
    assert evidence(text + "<my-icon></my-icon>" * 12) is None


@pytest.mark.parametrize(
    "body",
    [
        "<section id='part-1'><h2>Book I</h2><p>Miss Brooke</p></section>",
        f"<h1>It works!</h1><p>The server runs.</p>{SCRIPT}",
        f'<main id="photo"><img src="a.jpg"></main><p>A bridge in Porto</p>{SCRIPT}',
        f'<div id="content"><p>静夜思</p><p>床前明月光，疑是地上霜。举头望明月，低头思故乡。</p></div>{SCRIPT}',
        f'<div id="ad"></div><div id="text"><p>{SENTENCE * 2}</p></div>{SCRIPT}',
        f"<p>{SENTENCE}</p><p>Loading docks of the harbour, please wait for the ferry. {SENTENCE * 2}</p>",
        f"<p>How to enable JavaScript in a browser. {SENTENCE * 3}</p>",
        "",
    ],
)
def test_short_pages_that_are_complete_are_not_flagged(body):
    assert evidence(body) is None


@pytest.mark.parametrize(
    "html", ["", "<", "<!-- -->", "<frameset><frame src=a></frameset>", "<noscript><noscript>", "\0"]
)
def test_broken_pages_have_no_evidence_and_raise_nothing(html):
    assert javascript_evidence(html, "") is None


def test_text_that_stands_in_noscript_for_readers_without_scripts_is_the_page_s_text():
    posts = "".join(f"<div class='post'><p>Post {n}. {SENTENCE * 2}</p></div>" for n in range(9))
    page = read_page(f"<html><body><div id='app'></div><noscript>{posts}</noscript>{SCRIPT}</body></html>", SETTINGS)
    assert page.javascript is None and page.text.count("The furnace") == 18
    page = read_page(f"<html><body><div id='app'></div><noscript>Sorry</noscript>{SCRIPT}</body></html>", SETTINGS)
    assert page.javascript == "hollow"

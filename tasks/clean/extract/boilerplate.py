"""Which blocks of a page are its main text, by what marks them, how much of them is linked, and where they stand.

A marked box goes only while it holds a small share of the page: sites put "sidebar" or "ad" on the box around
everything. Then blocks made of links go, then all that lies outside the smallest box with most of the prose. Fixed
phrases of Chinese, Japanese and Korean sites (related articles, previous/next, editor on duty, scan the code) go
by what they say, since those sites mark little. Thresholds: measured on 305 pages, both halves by hash of the name.

in    Page
out   list[bool]    a block each
"""

from __future__ import annotations

import re
from itertools import accumulate

from tasks.clean.extract.page_blocks import Block, Box, Page

STRONG_MARKS = frozenset(("nav", "footer", "popup", "unseen", "comment", "share", "ad"))
MAX_STRONG_SHARE = 0.5
MAX_WEAK_SHARE = 0.4  # side, related, meta, header, caption, form
MAX_LINKED = 0.8
MIN_ROOT_SHARE = 0.8
MIN_ARTICLE_CHARS = 200
MIN_ARTICLE_SHARE = 0.7  # of the text of all boxes so called: a list of teasers may call each one so
MIN_MANUAL_PROSE = 0.6  # of the page's, inside its <main>
MIN_MANUAL_KEPT = 0.9  # of the characters inside its <main>: hardly anything in there is boilerplate
PHRASE_CHARS = 60  # a longer line that begins like one of these says something
PHRASES = re.compile(
    r"\s*[【\[（(▼▲■●·>»]*\s*(?:"
    r"(?:相关|相關|延伸|推荐|推薦|热门|熱門|精彩)(?:阅读|閱讀|文章|新闻|新聞|推荐|推薦|链接|連結|内容|內容|话题|話題)\s*[】\]）):：]*\s*$"
    r"|(?:上|下)一(?:篇|页|頁|章)\s*(?:$|[:：>»])"
    r"|[（(【\[]?\s*(?:责任|責任|本文|值班)编?編?辑?輯?\s*[:：]|[（(【\[]?\s*(?:责编|責編|编辑|編輯)\s*[:：]"
    r"|(?:版权|版權)(?:声明|聲明|所有)|未经(?:授权|许可)|未經(?:授權|許可)|转载请(?:注明|联系)|轉載請"
    r"|(?:长按|扫码|扫描|掃描|掃碼|微信扫|识别).{0,12}(?:二维码|二維碼|关注|關注|扫)|扫码(?:关注|下载)|点击(?:关注|下载)"
    r"|(?:广告|廣告|広告|광고|PR|スポンサーリンク)\s*[】\]）)]*\s*$|分享(?:到|至)|打印本页|我要评论|发表评论|發表評論"
    r"|(?:関連|おすすめ|人気)(?:記事|ニュース|リンク|の記事)\s*[】\]]?\s*$|(?:前|次)の(?:記事|ページ)(?:へ)?\s*$|無断転載"
    r"|(?:관련|추천|인기)\s*(?:기사|뉴스|글)\s*\]?\s*$|무단\s*전재|저작권자|[ⓒ©]\s*\S+.*무단)"
)

MIN_BEFORE_END = 0.6  # share of the text above a heading that ends it
HEADING_CHARS = 60
END_HEADING = re.compile(
    r"\W*(?:about the (?:author|reviewer)s?|related (?:articles?|posts?|stories|products?|reading|links|news)"
    r"|(?:read )?more (?:from|on|stories)\b.{0,30}|you (?:may|might) also (?:like|be interested in)"
    r"|recommended (?:for you|reading|stories)|(?:required )?disclosures?|disclaimer"
    r"|share this(?: article| post| story)?|tags|recent (?:posts|articles)|most (?:read|popular)|popular posts)"
    r"\s*:?\s*$",
    re.IGNORECASE,
)
COMMENT_HEADING = re.compile(
    r"\W*(?:(?:leave|post|write|add) a (?:reply|comment)|(?:\d+ )?(?:comments?|responses|replies)"
    r"|(?:\d+\s*条?)?(?:网友|用户|最新|全部|精彩)?评论(?:\s*[（(]\d+[)）])?)\s*:?\s*$",
    re.IGNORECASE,
)
# What forum software says of the writer beside each post.
POSTER_FACT = re.compile(
    r"[\s\-•]*(?:posts|joined|join date|location(?: \(\w+\))?|gender|likes|reputation|registered|messages"
    r"|reaction score|member since|age)\s*:\s*.{0,60}$",
    re.IGNORECASE,
)
# WordPress builders: [vc_row type="..."]; an index in code looks like one without attributes.
SHORTCODE = re.compile(
    r"\[(?:(?:vc|et_pb|fusion|nectar)_\w+(?:\s[^\[\]]*)?|/[a-z]\w{0,40}_\w{1,40}"
    r"|[a-z]\w{0,40}_\w{1,40}\s+[\w-]{1,40}=[\"'“”″][^\[\]]*)\]"
)


def clean_lines(text: str, *, include_comments: bool, forum: bool) -> str:
    """The text without the lines and tails that say themselves that they are no part of it."""
    lines = [line for line in text.split("\n") if not is_phrase(line)]
    if forum:
        lines = [line for line in lines if not POSTER_FACT.match(line)]
    if "_" in text and SHORTCODE.search(text):
        lines = [rest for line in lines if (rest := SHORTCODE.sub("", line)).strip()]
    return "\n".join(lines[: _end(lines, include_comments or forum)]).strip("\n")


def _end(lines: list[str], include_comments: bool) -> int:
    """The index of the first line behind the text: a heading of other texts, in its last part."""
    total, before = sum(len(line) for line in lines), 0
    for index, line in enumerate(lines):
        late = before >= MIN_BEFORE_END * total and len(line) < HEADING_CHARS
        if late and (END_HEADING.match(line) or (not include_comments and COMMENT_HEADING.match(line))):
            return index
        before += len(line)
    return len(lines)


def is_phrase(line: str) -> bool:
    """Whether a line is one of the fixed phrases around the text of a CJK page."""
    return len(line) <= PHRASE_CHARS and PHRASES.match(line) is not None


def main_blocks(page: Page, *, include_comments: bool, root: Box | None = None) -> list[bool]:
    """For each block, whether it is main text; `root`: the box that holds it, where that is known."""
    blocks = page.blocks
    root = root or article_box(page)
    hits = _marked(page, include_comments, root)
    keep = [
        not hit and b.linked <= MAX_LINKED * b.chars and not is_phrase(b.text)
        for hit, b in zip(hits, blocks, strict=True)
    ]
    first, end = (root.first, root.end) if root is not None else _root(page, keep)
    tags = [page.boxes[block.box].tag for block in blocks]
    return [kept and (first <= i < end or tags[i] == "h1") for i, kept in enumerate(keep)]


def manual_blocks(page: Page, *, include_comments: bool) -> list[bool] | None:
    """Likewise for a page of a manual, as its own marks show without doubt; None for any other.

    It has one <main> with most of its prose, that holds code or definitions, and next to no boilerplate inside.
    """
    found = _outermost([box for box in page.boxes if box.main and box.end > box.first])
    if len(found) != 1:
        return None
    root = found[0]
    inside, prose = page.blocks[root.first : root.end], sum(block.prose for block in page.blocks)
    if not prose or sum(block.prose for block in inside) < MIN_MANUAL_PROSE * prose:
        return None
    within = (box for box in page.boxes if root.first <= box.first and root.first < box.end <= root.end)
    if not any(box.tag in ("pre", "dl") for box in within):
        return None
    keep = main_blocks(page, include_comments=include_comments, root=root)
    kept = sum(b.chars for b, taken in zip(inside, keep[root.first : root.end], strict=True) if taken)
    return keep if kept >= MIN_MANUAL_KEPT * sum(block.chars for block in inside) else None


def _outermost(boxes: list[Box]) -> list[Box]:
    """Those that lie in no other; of several around the same blocks the first, which is the widest."""
    outer: list[Box] = []
    for box in boxes:  # document order: a box follows those around it
        if not outer or box.first >= outer[-1].end:
            outer.append(box)
    return outer


def article_box(page: Page) -> Box | None:
    """The box that the page itself calls the text of its article, where that is one and no mere teaser."""
    outer = _outermost([box for box in page.boxes if box.article and box.end > box.first])
    sizes = [sum(block.prose for block in page.blocks[box.first : box.end]) for box in outer]
    if not sizes or max(sizes) < max(MIN_ARTICLE_CHARS, MIN_ARTICLE_SHARE * sum(sizes)):
        return None
    return outer[sizes.index(max(sizes))]


def _marked(page: Page, include_comments: bool, root: Box | None) -> list[int]:
    """How many removed boxes lie around each block."""
    prose = [0, *accumulate(block.prose for block in page.blocks)]
    plain = [0, *accumulate(max(0, block.chars - block.linked) for block in page.blocks)]
    edges = [0] * (len(page.blocks) + 1)  # +1 where a removed box begins, -1 where it ends
    for box in page.boxes:
        marks = box.marks - {"comment"} if include_comments else box.marks
        if not marks or box.end == box.first:
            continue
        if root is not None and box.first <= root.first and root.end <= box.end:
            continue
        share = max((sums[box.end] - sums[box.first]) / (sums[-1] or 1) for sums in (prose, plain))
        if share <= (MAX_STRONG_SHARE if marks & STRONG_MARKS else MAX_WEAK_SHARE):
            edges[box.first] += 1
            edges[box.end] -= 1
    return list(accumulate(edges))[:-1]


def _root(page: Page, keep: list[bool]) -> tuple[int, int]:
    """The range of the smallest box that holds most of the kept prose."""
    prose = [0, *accumulate(block.prose if kept else 0 for block, kept in zip(page.blocks, keep, strict=True))]
    enough = MIN_ROOT_SHARE * prose[-1]
    first, end = 0, len(keep)
    if not prose[-1]:
        return first, end
    at = 0
    for index, box in enumerate(page.boxes):  # document order: a child follows its parent
        if box.parent == at and index and prose[box.end] - prose[box.first] >= enough:
            at, first, end = index, box.first, box.end
    return first, end


def render(page: Page, keep: list[bool], *, include_tables: bool) -> str:
    """The kept blocks, a line each; the cells of a table row on one line with " | " between them."""
    lines: list[str] = []
    last_row = last_cell = -1
    for block, kept in zip(page.blocks, keep, strict=True):
        if not kept:
            continue
        row, cell = _place(page, block)
        if row >= 0 and not include_tables:
            continue
        if row >= 0 and row == last_row:
            lines[-1] += (" | " if cell != last_cell else " ") + block.text
        else:
            lines.append(block.text)
        last_row, last_cell = row, cell
    return "\n".join(lines)


MAX_CELL_CHARS = 300  # a longer cell lays out the page rather than holding a value


def _place(page: Page, block: Block) -> tuple[int, int]:
    """Boxes of the table row and cell that hold a block: (-1, -1) outside a table of values."""
    at, boxes = block.box, page.boxes
    for _ in range(4):  # a value lies close to its cell
        box = boxes[at]
        if box.tag in ("td", "th") and box.parent >= 0 and boxes[box.parent].tag == "tr":
            row = boxes[box.parent]
            many = (
                any(boxes[i].tag in ("td", "th") for i in (at - 1, at + 1) if 0 <= i < len(boxes))
                or row.end - row.first > 1
            )
            size = sum(b.chars for b in page.blocks[box.first : min(box.end, box.first + 8)])
            short = box.end - box.first <= 8 and size <= MAX_CELL_CHARS
            return (box.parent, at) if many and short else (-1, -1)
        if box.parent < 0:
            break
        at = box.parent
    return -1, -1

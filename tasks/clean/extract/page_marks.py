"""What the tag, role, class and id of an element say about it: navigation, advertisement, comments and the like.

Words are compared whole, after splitting at hyphens, underscores and changes of case: "ad" does not match "header".
Left out on purpose, since measured to hide main text: "bottom", and "hidden" in class names ("overflow-hidden").

in    an lxml element
out   frozenset of marks: nav, footer, side, share, ad, related, comment, meta, popup, header, form, caption, unseen
"""

from __future__ import annotations

import re
from functools import lru_cache

import lxml.html

TAG_MARKS = {
    "nav": "nav",
    "footer": "footer",
    "aside": "side",
    "header": "header",
    "form": "form",
    "figcaption": "caption",
    "dialog": "popup",
}
ROLE_MARKS = {
    "navigation": "nav",
    "menu": "nav",
    "menubar": "nav",
    "contentinfo": "footer",
    "complementary": "side",
    "banner": "header",
    "search": "popup",
    "dialog": "popup",
    "alertdialog": "popup",
}
WORDS = {
    "nav": "nav navbar navigation menu menus submenu dropdown breadcrumb breadcrumbs crumbs pagination pager paging"
    " topnav subnav sitemap masthead offcanvas mega megamenu navbox skip toolbar prevnext linklist catlinks jumplinks",
    "footer": "footer foot copyright colophon disclaimer legal footnav",
    "side": "sidebar aside rail textwidget complementary sidenav sidebox",
    "share": "share sharing social sharedaddy addthis addtoany sns shareit",
    "ad": "ad ads adv advert advertisement adsense advertising sponsor sponsored promo promos promotion outbrain"
    " taboola dfp cta banner guanggao",
    "related": "related recommend recommended recommendation recommendations popular trending similar recirc"
    " recirculation readmore morelike relatedposts xiangguan tuijian",
    "comment": "comment comments commentlist disqus respond pinglun",
    "meta": "byline bio dateline tags taglist postmetadata authorbox",
    "popup": "cookie cookies consent gdpr modal popup newsletter subscribe subscription signup paywall login signin"
    " overlay",
    "caption": "caption captions",
    "unseen": "sr visuallyhidden",
}
WORD_MARK = {word: mark for mark, words in WORDS.items() for word in words.split()}
WHOLE_NAME_MARK = {  # only as a whole class or id: "elementor-widget" is any part of such a page
    "widget": "side",
    "secondary": "side",
    "right": "side",
    "screen-reader-text": "unseen",
    "visually-hidden": "unseen",
}
CAMEL = re.compile(r"([a-z])([A-Z])")
TOKENS = re.compile(r"[a-z0-9]+")
UNSEEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden")
NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=16384)
def name_marks(names: str) -> frozenset[str]:
    """The marks of a class attribute and an id, separated by spaces."""
    low = CAMEL.sub(r"\1-\2", names).lower()
    found = {WORD_MARK[word] for word in TOKENS.findall(low) if word in WORD_MARK}
    return frozenset(found | {WHOLE_NAME_MARK[name] for name in low.split() if name in WHOLE_NAME_MARK})


def marks_of(element: lxml.html.HtmlElement) -> frozenset[str]:
    """The marks of one element, those of its ancestors left out.

    Hidden blocks are not marked: sites hide the parts of a page behind tabs and folds, and those are main text.
    """
    tag, attributes = element.tag, element.attrib
    marks = {TAG_MARKS[tag]} if tag in TAG_MARKS else set()
    if not attributes:
        return frozenset(marks) if marks else NONE
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
    if len(names) > 1 and tag != "main":
        marks |= name_marks(names)
    role = attributes.get("role")
    if role in ROLE_MARKS:
        marks.add(ROLE_MARKS[role])
    return frozenset(marks) if marks else NONE


def is_unseen(element: lxml.html.HtmlElement) -> bool:
    """Whether an inline element is kept from the reader's eye (text for screen readers, the source of a formula)."""
    attributes = element.attrib
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    names, style = attributes.get("class"), attributes.get("style")
    return bool((names and "unseen" in name_marks(names)) or (style and UNSEEN_STYLE.search(style)))

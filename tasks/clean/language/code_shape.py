"""Tell program text from prose by the shape of its lines.

Each line of the text outside fences is code, prose, or neither (a comment, a lone word, a tag, signs), and a text is
code when enough of the lines that say something are code. A run of plain words or of CJK characters makes a line prose,
so that verse, numbered articles of a law and sentences which name a function stay prose; comments and docstrings are
left out, so that a well-documented file stays code. Texts with next to no brackets, equals signs and underscores, which
is all prose but one in a thousand, are not cut into lines at all.

in    text
out   share of the telling lines that are code, 0..1
"""

from __future__ import annotations

import re

from tasks.clean.language.fences import without_fences

CODE = "code"  # the language of program text
SAMPLE_CHARS = 3_000  # outside fences; a file that begins as code goes on as code
HEAD_CHARS = 3 * SAMPLE_CHARS  # in which they are looked for
SYMBOLS = "(){}[];=<>_#"
MIN_SYMBOLS = 0.012  # per character; 99 in 100 snippets of source have more, 99 in 100 news sentences have fewer
COLUMNS = 80  # of a line as people wrap it; a CJK character fills two
MIN_LINES = 3  # telling lines; fewer prove nothing, unless all of two are code
ASIDE = re.compile(  # comments of C, also one whose start is cut off; mathematics; comments and tags of HTML
    r"/\*.*?(?:\*/|\Z)|\A[^\n]*(?:\n[ \t]*\*(?!/)[^\n]*)*\n[ \t]*\*/"
    r"|\$\$.*?\$\$|<!--.*?-->|(?<![\w)])</?[a-z][\w.-]*(?:\s[^<>]*)?/?>",
    re.DOTALL | re.IGNORECASE,
)
LITERAL = re.compile(r'"[^"\n]*"|(?<!\w)\'[^\'\n]*\'(?!\w)|(?<=[=(,;{}\]):])\s*(?://|#).*')
MUTE = re.compile(
    r"\s*(?://|/\*|#(?!include|define|if|endif)|--\s|;;|[^\w\n]*\w*:?\s*$|[^A-Za-z\u0080-\uffff]*$)|\s+\*\s"
)
CJK = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af，。、；：]"
WIDE = re.compile(CJK)
RUN = re.compile(rf"(?:[^\W\d_]{{1,20}}(?:[’'-][^\W\d_]+)*[,;:]?[ ]){{4}}[^\W\d_]+|{CJK}{{6}}")
ITEM = re.compile(r"\s*(?:[-*+•]|\(?[0-9a-zA-Z]{1,4}[.)])\s+(?![\w.]+\(|[-*+(])|\s*!?\[[^\]]*\]\(")
WORD = re.compile(r"(?:^|(?<=[\s(\"']))[^\W\d_]{2,}(?=[\s,.;:!?)\"']|$)")
STATEMENT = re.compile(  # no sentence has these shapes, however many plain words it holds
    r"""^\s*(?:>>>|\.\.\.\s|\$\s|\#!|\#include|\#define|@\w+)                       # prompt, directive, decorator
    |^\s*(?:from\s[\w.]+\simport\s|import\s[\w.{*]+(?:\sas\s\w+)?\s*;?$|def\s\w+\(|class\s\w+\s*[:({])
    |^\s*(?:export|import|public|private|protected|static|const|let|var|declare|type|function|pub|use)\s.*[;{]\s*$
    |^\s*(?:if|elif|for|while|with|else|try|except|finally)\b[^.?!。]*:\s*$
    |^\s*['"][^'"]*['"](?::\s*[^,]+)?,\s*$                                         # an element of a list or mapping""",
    re.VERBOSE,
)
CODE_LINE = re.compile(
    r"""^\s*[})\]]+[;,)]*\s*$                                                       # closing brackets alone
    |^\s*(?:return\b|(?:if|for|while|switch)\ ?\()
    |^\s*(?:pass|break|continue|raise|yield|del|assert|await|throw|global|nonlocal)(?:\s+[\w(\[{'"]|;|\s*$)
    |^\s*(?:const|let|var|func|fn|function|package|using|struct|enum|impl|async|mod|void|int|extern|interface)\s+[\w<{*(]
    |^\s*(?:SELECT|INSERT|CREATE|ALTER|DROP|UPDATE|DELETE|SET)\s\S
    |[;{(\[\\]\s*$                                                                # goes on, or ends like a statement
    |^\s*[\w.\[\]"'>*&(),\ -]{1,60}\s?(?:[-+*/|&:%^]?=|:=|->|=>)\s*[^\s=]          # an assignment
    |\s(?:==|!=|===|<=|>=|&&|\|\||<<|\+=|=>|->|\*\*|::)\s|::\w|\w\*\*\w             # operators
    |\b\w+(?:\.\w+|_\w+|[a-z][A-Z]\w*)\(|\w\[['"\w]+\]|\)\.\w+|^\s*[\w.]+\(.*\)[;:,]?\s*$  # calls, subscripts
    |^\s*["']?[\w-]+["']?\s?:\s.*[,{\[]\s*$                                        # a member of an object""",
    re.VERBOSE,
)


def code_share(text: str) -> float:
    """Share of code among the telling lines at the start of `text`, outside fences; 0 where they are too few.

    A text may be cut out of a file, within a docstring: both what stands inside and outside of quotes is tried.
    """
    text = outside_fences(text)
    if sum(map(text.count, SYMBOLS)) < MIN_SYMBOLS * len(text) or "\n" not in text:
        return 0.0
    parts = ASIDE.sub("", text).replace("'''", '"""').split('"""')
    return max(_share("\n".join(parts[::2])), _share("\n".join(parts[1::2])))


def outside_fences(text: str) -> str:
    """The first SAMPLE_CHARS of `text` outside fenced code; what the fences hold, where nothing else is there."""
    text = text[:HEAD_CHARS]
    outside = without_fences(text, to_end=True)
    return (outside if outside.strip() else text)[:SAMPLE_CHARS]


def _share(text: str) -> float:
    """A line counts as often as it fills COLUMNS, so that a paragraph in one line weighs as much as one in many."""
    weight = {"code": 0, "prose": 0, "": 0}
    for line in text.split("\n"):
        kind = kind_of(line)
        weight[kind] += 1 + (len(line) if line.isascii() else len(line) + len(WIDE.findall(line))) // COLUMNS
    code, prose = weight["code"], weight["prose"]
    return code / (code + prose) if code + prose >= MIN_LINES or (code > 1 and not prose) else 0.0


def kind_of(line: str) -> str:
    """ "code", "prose", or "" for a line that says nothing: a comment, one word, signs."""
    if STATEMENT.search(line):
        return "code"
    if MUTE.match(line):
        return "code" if line.strip(" \t;,)") in ("}", "]", "})", "pass", "break", "continue") else ""
    if RUN.search(LITERAL.sub("", line)) or ITEM.match(line):
        return "prose"
    if CODE_LINE.search(line):
        return "code"
    return "prose" if len(WORD.findall(line)) > 2 else ""

"""Program text and prose, told apart by the shape of lines."""

import gzip
import json
import time

import pytest

from tasks.clean.language.code_shape import code_share, kind_of

PYTHON = '''def area(shape):
    """Return the area of a shape.

    The area of a shape is measured in the square of the unit of its sides.
    """
    # a circle has no sides
    if isinstance(shape, Circle):
        return PI * shape.radius**2
    assert shape.sides == 4
    return shape.width * shape.height
'''
VERSE = """Of Man's first disobedience, and the fruit
Of that forbidden tree; whose mortal taste
Brought death into the World, and all our woe;
With loss of Eden (till one greater Man
Restore us, and regain the blissful seat);
"""
LAW = """第三条 本法所称文物，是指下列物品：
(一) 具有历史、艺术、科学价值的古文化遗址;
(二) 与重大历史事件有关的近代现代重要史迹;
(三) 历史上各时代珍贵的艺术品[包括工艺美术品];
"""
MARKDOWN = """# 安装

先用 `pip install x` 安装，然后调用 `x.run()` 函数（见 [文档](/docs/run.html)）。

```python
import x
x.run(a=1, b=2)
y = x.stop()
print(y)
```

以上示例输出 `0`，表示运行成功；若输出 `1`，请检查 `config["path"]`。
"""
JAVASCRIPT = """\t * The size of the buffer in bytes, which is used when the stream opens.
\t */
\tconstructor( size ) {
\t\tsuper( size );
\t\tthis.size = size;
\t}
"""


@pytest.mark.parametrize("text", [PYTHON, PYTHON[60:], JAVASCRIPT, "var a = b.c;\nmodule.exports = a;\n"])
def test_program_text_is_code_though_comments_and_cut_docstrings_hold_half_of_it(text):
    assert code_share(text) >= 0.6


@pytest.mark.parametrize("text", [VERSE, LAW, MARKDOWN, "Return the book; see p. 3 (below).\n" * 4])
def test_prose_with_brackets_and_semicolons_is_no_code(text):
    assert code_share(text) < 0.3


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    assert h.exp == 2", "code"),
        ("from sympy import sqrt, field_isomorphism, I", "code"),
        ("from the beginning of the war to its end", "prose"),
        ("export declare const ulid: RegExp;", "code"),
        ("调用 x.run() 函数之前请先检查配置", "prose"),
        ("- `foo()` and [`bar()`](#bar)", "prose"),
        ("# 注释", ""),
        ("  * Examples", ""),
    ],
)
def test_kind_of_a_line(line, kind):
    assert kind_of(line) == kind


@pytest.mark.parametrize("unit", ["a_", "<a ", "[;=(", "if a ", '"', "'a ", "/*", "- ", "a, ", "\n*", "```\n", " "])
def test_no_text_takes_long(unit):
    started = time.process_time()
    code_share("(){}" * 100 + "\n" + unit * 10_000)
    assert time.process_time() - started < 0.5


def test_shared_snippets_and_prose(shared_data):
    """242 snippets of source and every document of NTREX; measured: 230 found, no document taken for code."""
    with gzip.open(shared_data / "langid" / "code_and_mixed.jsonl.gz") as lines:
        code = [row["text"] for row in map(json.loads, lines) if row["label"] == "code"]
    with gzip.open(shared_data / "langid" / "ntrex_docs.jsonl.gz") as lines:
        prose = [json.loads(line)["text"] for line in lines]
    assert sum(code_share(text) >= 0.6 for text in code) >= 0.9 * len(code)
    assert not any(code_share(text) >= 0.6 for text in prose)

"""Documents that quote an evaluation set go, others stay."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from tasks.clean.decontaminate import DecontaminateConfig, contamination, eval_digests, load_eval_sets, process
from tasks.document import Document, Dropped, Kept, Origin
from tasks.settings import from_dict

ENGLISH = "Which of the following best explains why the river delta grew so quickly after the dam was removed"
CHINESE = "关于核酸的叙述，错误的是细胞核中发生的转录过程有多种酶的参与，双链分子中一条链上的磷酸和核糖相连"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "exam.jsonl.gz"
    items = [
        {"id": "short", "question": "Is it?", "choices": ["yes", "no"]},
        {"id": "river", "question": ENGLISH, "choices": ["rain", "sediment"]},
        {"id": "acid", "context": CHINESE, "answer": 1},
    ]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
    return DecontaminateConfig(eval_files=(str(path),))


def found(text, config):
    return contamination(text, load_eval_sets(config), config.min_hits)


def test_a_quoted_item_is_named_with_the_span(config):
    evidence = found(f"Chapter 9.\n\n{ENGLISH.upper()}? Discuss, yes or no.", config)
    assert (evidence["eval"], evidence["item"]) == ("exam.jsonl.gz", "river")
    assert evidence["span"] == " ".join(ENGLISH.lower().split()[:13])


def test_a_chinese_item_is_found_within_an_english_page_and_in_traditional_script(config):
    quoted = CHINESE.replace("关于", "關於").replace("叙述", "敘述").replace("细胞", "細\n胞").replace("转录", "轉錄")
    assert found("some words in English " * 80 + quoted + " and more of it" * 50, config)["item"] == "acid"


def test_twelve_words_in_common_are_not_enough(config):
    words = ENGLISH.split()
    assert found(" ".join(words[:12]), config) is None and found(" ".join(words[:13]), config) is not None
    assert found("Is it? yes no", config) is None  # shorter than an n-gram: not looked for
    assert load_eval_sets(config).too_short == 1


def test_each_document_gets_one_outcome(config):
    origin = Origin(file="f", record=0, offset=0)
    documents = [Document(id=str(i), text=t, source="s", origin=origin) for i, t in enumerate([ENGLISH, "else"])]
    dropped, kept = process(iter(documents), config)
    assert isinstance(dropped, Dropped) and dropped.reason == "contaminated" and isinstance(kept, Kept)
    assert all(isinstance(o, Kept) for o in process(iter(documents), DecontaminateConfig()))


def test_the_key_holds_contents_and_not_paths(config, tmp_path):
    copy = tmp_path / "other" / "exam.jsonl.gz"
    copy.parent.mkdir()
    copy.write_bytes((tmp_path / "exam.jsonl.gz").read_bytes())
    moved = from_dict(DecontaminateConfig, {"eval_files": [str(copy)]})
    assert eval_digests(moved) == eval_digests(config) and moved.key_settings() == config.key_settings()
    copy.write_bytes(b"{}")
    assert eval_digests(moved) != eval_digests(config)


def test_zstandard_files_are_read_and_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "exam.jsonl.zst"
    line = json.dumps({"id": 7, "text": ENGLISH + "\u2028" + CHINESE}, ensure_ascii=False)
    path.write_bytes(zstandard.compress(f"{line}\n".encode()))
    config = DecontaminateConfig(eval_files=(str(path),))
    assert load_eval_sets(config).items == [("exam.jsonl.zst", "7")]


def test_errors_name_file_line_and_what_to_do(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "a"}\n{"q": "a"}\n')
    with pytest.raises(ValueError, match=r"bad.jsonl: line 2: none of the fields .*it has q.*decontaminate.fields"):
        load_eval_sets(DecontaminateConfig(eval_files=(str(path),)))
    path.write_text("{\n")
    with pytest.raises(ValueError, match="line 1: expected a JSON object"):
        load_eval_sets(DecontaminateConfig(eval_files=(str(path),)))
    with pytest.raises(ValueError, match=r"gone\.jsonl: cannot be read"):
        eval_digests(DecontaminateConfig(eval_files=(str(tmp_path / "gone.jsonl"),)))

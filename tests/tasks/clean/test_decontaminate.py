"""Documents that quote an evaluation set go, others stay."""

from __future__ import annotations

import dataclasses
import gzip
import json

import opencc
import pyarrow.parquet as pq
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


def document(text):
    return Document(id="1", text=text, source="s", origin=Origin(file="f", record=0, offset=0))


def s2t(text):
    return opencc.OpenCC("s2t").convert(text)


def found(text, config):
    return contamination(text, load_eval_sets(config), config.min_hits)


def test_a_quoted_item_is_named_with_the_span(config):
    text = f"Chapter 9.\n\n{ENGLISH.upper()}? Discuss, yes or no."
    evidence = found(text, config)
    assert text[evidence["start"] : evidence["end"]] == evidence["span"]
    assert (evidence["eval"], evidence["item"]) == ("exam.jsonl.gz", "river")
    assert evidence["span"] == ENGLISH.upper() and evidence["hits"] == len(ENGLISH.split()) - 12


def test_a_chinese_item_is_found_within_an_english_page_and_in_traditional_script(config):
    quoted = CHINESE.replace("关于", "關於").replace("叙述", "敘述").replace("细胞", "細\n胞").replace("转录", "轉錄")
    assert found("some words in English " * 80 + quoted + " and more of it" * 50, config)["item"] == "acid"


def test_twelve_words_in_common_are_not_enough(config):
    words = ENGLISH.split()
    assert found(" ".join(words[:12]), config) is None and found(" ".join(words[:13]), config) is not None
    assert found("Is it? yes no", config) is None  # shorter than an n-gram: not looked for
    assert load_eval_sets(config).too_short == 1


@pytest.mark.parametrize("width", [1, 2, 3])
def test_the_place_of_a_chinese_passage_is_that_of_its_first_and_last_character(config, width):
    wide = "１２３" * width + "繁體，\n" * 7
    text = wide + CHINESE.replace("，", " ,\n") + "。" + wide
    evidence = found(text, config)
    assert evidence["span"] == CHINESE.replace("，", " ,\n")
    assert evidence["start"] == len(wide)


def test_punctuation_and_neighbours_do_not_hide_a_passage(config):
    assert found("甲" + ENGLISH.replace(" of", ", of").replace(" why", "—why ") + "乙", config)["item"] == "river"
    assert found(CHINESE.replace("，", "").replace("的", "“的”"), config)["item"] == "acid"


def test_a_short_field_is_looked_for_as_a_whole(tmp_path):
    path = tmp_path / "exam.jsonl"
    short, other = (
        "Some vases had shattered before the governments met.",
        "Some vases had shattered before the governments met us",
    )
    formula, chinese = "2 x y 3 x y 4 z", "他把桌上的气泡膜全部仔细地包装起来了"
    path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate([short, formula, chinese])))
    config = DecontaminateConfig(eval_files=(str(path),))
    sets = load_eval_sets(config)
    assert (sets.too_short, sets.num_wholes) == (1, 2)
    for quoted, item in ((short, "0"), (chinese, "2")):
        assert found(f"So: {quoted.upper()} And so on.", config)["item"] == item
        assert found(f"So: {quoted.upper()} And so on.", dataclasses.replace(config, min_hits=5))["item"] == item
    assert found(other[: len(short) - 5], config) is None and found(chinese[1:], config) is None
    assert found(f"The value of {formula} is", config) is None


def test_cutting_takes_the_passage_and_its_margin(config):
    cutting = dataclasses.replace(config, action="cut")
    before, after = "".join(chr(0x4E00 + n) for n in range(600)), "".join(chr(0x5E00 + n) for n in range(600))
    (kept,) = process(iter([document(f"{before}。{CHINESE}。{after}")]), cutting)
    assert isinstance(kept, Kept) and kept.document.text == f"{before[:401]}\n\n{after[199:]}"
    assert kept.document.metrics["contaminated_passages"] == 1.0
    assert list(process(iter([kept.document]), cutting)) == [kept]  # nothing is left to find


def test_what_cutting_leaves_too_little_or_in_too_many_pieces_of_is_dropped(config):
    cutting = dataclasses.replace(config, action="cut")
    filler = " ".join(f"word{n}" for n in range(100))
    (short,) = process(iter([document(f"Little before. {ENGLISH}. Little after.")]), cutting)
    (torn,) = process(iter([document(f"{filler} {ENGLISH}. " * 11 + filler)]), cutting)
    assert isinstance(short, Dropped) and isinstance(torn, Dropped) and torn.evidence["item"] == "river"


def test_real_items_are_found_in_real_documents_and_in_no_others(shared_data):
    """English and Chinese exam items, altered, planted into laws and books; the documents alone are clean."""
    config = DecontaminateConfig(eval_files=(str(shared_data / "eval" / "unified_small.jsonl.gz"),))
    sets = load_eval_sets(config)
    with gzip.open(shared_data / "eval" / "unified_small.jsonl.gz", "rt", encoding="utf-8") as file:
        items = [item for item in map(json.loads, file) if item["task"] in ("agieval", "cmrc2019_cloze")]
    laws = pq.read_table(shared_data / "corpus" / "zh_hant_laws.parquet", columns=["text"])["text"].to_pylist()[:60]
    assert [law for law in laws if contamination(law, sets, 1)] == []
    planted = [item["context"] for item in items[::7] if len(item["context"]) > 150]
    assert len(planted) > 40
    for number, text in enumerate(planted):
        law = laws[number % len(laws)][:3000]
        altered = text.upper().replace("，", " ").replace(",", "—") if number % 2 else s2t(text)
        assert contamination(f"{law[:1000]}{altered}{law[1000:]}", sets, 1) is not None, text


def test_each_document_gets_one_outcome(config):
    documents = [document(ENGLISH), document("else")]
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
    with pytest.raises(ValueError, match=r"min_words must lie between half of num_words \(13\) and all of it, found 6"):
        DecontaminateConfig(min_words=6)
    with pytest.raises(ValueError, match=r"gone\.jsonl: cannot be read"):
        eval_digests(DecontaminateConfig(eval_files=(str(tmp_path / "gone.jsonl"),)))

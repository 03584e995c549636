"""Decode: each step of the cascade by hand, each reason for quarantine, and arbitrary bytes."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.clean.decode.cascade import DecodeConfig, UndecodableError, decode_bytes
from tasks.clean.decode.charsets import codecs_of, meta_label
from tasks.clean.decode.mojibake import repair
from tasks.clean.decode.plausibility import plausibility
from tasks.clean.decode.stage import decode, normalise
from tasks.clean.extract.stage import ExtractConfig, extract
from tasks.document import Document, Dropped, Kept, Origin, Quarantined, RawRecord

HANS = "为了保障公民的合法权益，根据宪法，制定本条例。\n国务院有关部门应当按照各自的职责，做好监督管理工作。\n" * 3
HANT = "為了保障人民之合法權益，依據憲法，制定本條例。\n主管機關應依職權辦理，並得請求有關機關協助。\n" * 3
JA = "この文書は、文字の符号化方式を調べるためのものです。日本語の文章として自然に読めるでしょうか。\n" * 3
KO = "이 문서는 문자 집합을 확인하기 위한 것입니다. 한국어 문장으로 자연스럽게 읽을 수 있습니다.\n" * 3
RU = "Этот текст нужен для проверки кодировки, в которой записан документ на русском языке.\n" * 3


def record(content: bytes, media_type: str = "text/plain", charset: str | None = None) -> RawRecord:
    return RawRecord(
        id="0" * 32,
        content=content,
        media_type=media_type,
        declared_charset=charset,
        source="test",
        url=None,
        licence=None,
        origin=Origin(file="a.txt", record=0, offset=0),
    )


def decoded(content: bytes, media_type: str = "text/plain", charset: str | None = None) -> Document:
    outcome = decode(record(content, media_type, charset), DecodeConfig())
    assert isinstance(outcome, Kept), outcome
    assert isinstance(outcome.document, Document)
    return outcome.document


@pytest.mark.parametrize(
    ("text", "codec"),
    [(HANS, c) for c in ("gb18030", "gbk", "gb2312", "hz", "utf-16", "utf-16-le", "utf-8-sig")]
    + [(HANT, c) for c in ("big5", "cp950", "big5hkscs", "utf-16-be", "gb18030")]
    + [(JA, c) for c in ("shift_jis", "euc_jp", "iso2022_jp")]
    + [(KO, c) for c in ("euc_kr", "cp949", "johab")]
    + [(RU, c) for c in ("cp1251", "koi8-r", "cp866")],
)
def test_undeclared_charset_is_found(text, codec):
    assert decoded(text.encode(codec)).text == text


def test_method_and_charset_are_recorded():
    document = decoded(HANS.encode("gb18030"), charset="gb2312")
    assert (document.encoding, document.encoding_method) == ("gb18030", "http")
    page = b"<html><head><meta charset=big5></head>" + HANT.encode("big5")
    assert decoded(page, "text/html").encoding_method == "meta"
    assert decoded("plain".encode("utf-8-sig")).encoding_method == "bom"


def test_wrong_declaration_falls_on_to_the_next_step():
    assert decoded(HANT.encode("big5"), charset="gbk").text == HANT
    assert decoded(HANS.encode("gb18030"), charset="iso-8859-1").text == HANS
    assert decoded(HANS.encode(), charset="big5").text == HANS
    assert decoded(HANS.encode("gb18030"), charset="no-such-charset").text == HANS


def test_meta_beats_a_latin1_server_default():
    page = '<meta charset="iso-8859-2"><p>Příliš žluťoučký kůň úpěl ďábelské ódy.</p>'
    assert decoded(page.encode("iso-8859-2"), "text/html", "iso-8859-1").text == page


def test_meta_in_plain_text_is_not_believed():
    text = 'Write <meta charset="big5"> in the head. ' + HANS
    assert decoded(text.encode("gb18030")).text == text


def test_file_that_changes_charset_midway_is_read_by_line():
    content = HANS.encode() + HANS.encode("gb18030")
    document = decoded(content)
    assert document.text == HANS * 2
    assert document.encoding == "utf-8+gb18030"


def test_character_cut_in_half_at_the_end_costs_that_character_only():
    document = decoded(HANT.rstrip().encode("big5")[:-1])
    assert document.text == HANT.rstrip()[:-1]
    assert document.metrics["replacements"] == 1


def test_few_broken_bytes_in_utf8_are_replaced_and_counted():
    document = decoded(HANS.encode() + b"\xff" + HANS.encode())
    assert document.text == HANS + "\ufffd" + HANS
    assert document.metrics["replacements"] == 1


def test_surrogate_pairs_in_utf8_are_joined():
    assert decoded("emoji \ud83d\ude00".encode("utf-8", "surrogatepass")).text == "emoji 😀"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\r\n", "empty"),
        (b"\x01\x02\x03", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary"),
        (bytes(range(256)) * 4, "binary"),
        ("half \ud83d of a pair".encode("utf-8", "surrogatepass"), "lone_surrogate"),
        (HANS.encode().decode("gbk", "replace").encode(), "lossy_mojibake"),
    ],
)
def test_what_cannot_be_read_is_quarantined_with_its_bytes(content, reason):
    outcome = decode(record(content), DecodeConfig())
    assert isinstance(outcome, Quarantined)
    assert outcome.reason == reason
    assert outcome.content == content
    assert "a.txt" in outcome.detail


def test_mojibake_is_undone():
    assert repair(HANS.encode("gb18030").decode("latin-1")).text == HANS
    assert repair(HANS.encode().decode("latin-1")).text == HANS
    assert repair("Le café est trÃ¨s bon, dâ€™accord ?").text == "Le café est très bon, d’accord ?"


@pytest.mark.parametrize(
    "text", [HANS, HANT, JA, KO, RU, "Đường phố Việt Nam rất đẹp và sạch.", "naïve façade — ½ £5", "ÀÉÎÕÜ"]
)
def test_good_text_is_not_repaired(text):
    assert repair(text).text == text
    assert not repair(text).lost


def test_normalised_text_is_nfc_with_newlines_and_no_controls():
    text, removed = normalise("e\u0301\r\n\x00\x1b\rb\u0085c\ufeff\td")
    assert text == "é\n\nb\nc\td"
    assert removed == 3


def test_labels_name_the_codecs_that_pages_really_hold():
    assert codecs_of("GB2312") == ("gb18030",)
    assert codecs_of("x-sjis")[0] == "cp932"
    assert codecs_of("iso-8859-1") == ("cp1252",)
    assert codecs_of("rot13") == codecs_of("base64") == codecs_of("x\0y") == ()
    assert meta_label(b'<meta http-equiv="Content-Type" content="text/html; charset=gbk">') == "gbk"


def test_plausibility_tells_the_true_charset_from_a_wrong_one():
    assert plausibility(HANT) > 0.5 > 0.3 > plausibility(HANT.encode("big5").decode("gb18030", "replace"))


def test_config_names_the_bad_key():
    with pytest.raises(ValueError, match="min_confidence"):
        DecodeConfig(min_confidence=2.0)


@given(
    content=st.one_of(
        st.binary(max_size=300), st.text(max_size=120).map(lambda t: t.encode("utf-16-le", "surrogatepass"))
    ),
    media_type=st.sampled_from(["text/html", "text/plain", "text/markdown", "text/x-source"]),
    charset=st.sampled_from(
        [None, "utf-8", "gbk", "big5", "utf-16", "latin-1", "hz", "utf-7", "idna", "zip", "\ud800"]
    ),
)
@settings(max_examples=250, deadline=None)
def test_arbitrary_bytes_always_have_exactly_one_outcome(content, media_type, charset):
    outcome = decode(record(content, media_type, charset), DecodeConfig())
    if isinstance(outcome, Quarantined):
        assert outcome.content == content
        return
    assert isinstance(outcome, Kept)
    text = outcome.document.text
    assert unicodedata.is_normalized("NFC", text) and text.strip() and "\0" not in text and "\r" not in text
    text.encode()
    after = extract(outcome.document, ExtractConfig())
    assert isinstance(after, Kept | Dropped | Quarantined)
    if isinstance(after, Kept):
        after.document.text.encode()


def test_shared_encodings_are_read_as_the_truth(shared_data):
    """The eight Chinese law files of the quick test set, in the charsets the manifest states."""
    folder = shared_data / "corpus" / "mini"
    for path in sorted(folder.glob("laws-*/*.txt")):
        text = decode_bytes(path.read_bytes()).text
        assert plausibility(text) > 0.6 and "\ufffd" not in text, path


def test_undecodable_error_names_its_reason():
    with pytest.raises(UndecodableError) as caught:
        decode_bytes(b"%PDF-1.4")
    assert caught.value.reason == "binary"

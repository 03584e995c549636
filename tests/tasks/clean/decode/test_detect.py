"""Detection: UTF-16 without a mark, short texts, mixed lines, and the proof that the fast path changes no text."""

from __future__ import annotations

import dataclasses
import zlib

import pytest

from tasks.clean.decode.cascade import DecodeConfig, decode_bytes
from tasks.clean.decode.charsets import family_of
from tasks.clean.decode.decoded import strictly
from tasks.clean.decode.detect import certain_cjk
from tasks.clean.decode.plausibility import disorder, plausibility
from tasks.clean.decode.segments import by_segments
from tasks.clean.decode.stage import decode
from tasks.clean.decode.wide import wide_reading
from tasks.document import Kept, Quarantined, RawRecord

HANS = "为了保障公民的合法权益，根据宪法，制定本条例。\n国务院有关部门应当按照各自的职责，做好监督管理工作。\n" * 8
HANT = "為了保障人民之合法權益，依據憲法，制定本條例。\n主管機關應依職權辦理，並得請求有關機關協助。\n" * 8
FRENCH = "Le café du théâtre est fermé jusqu’à l’été.\n"
WIDE_TEXTS = [
    "Это проверка кодировки.",
    "การประชุมก็ล่าช้าออกไปเพื่อ",
    "会很危险。热带深层水汽将会造成局部",
    "이 문서는 문자 집합을",
]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [*WIDE_TEXTS, "Plain English words.", "دعم العديد من كبار أعضاء"])
def test_utf16_without_a_mark_is_found_in_both_orders(text, codec):
    assert decode_bytes(text.encode(codec)).text == text


@pytest.mark.parametrize(
    "content", [HANS.encode("gb18030"), HANT.encode("big5"), b"Bush hid the facts today\0\0", b"a\0\0\0" * 9]
)
def test_other_bytes_are_not_utf16(content):
    assert wide_reading(content) is None


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("ejsc pracy.\nFabryka w Burnaston, w któ", "cp1250"),
        ("grisuppfödare gör sig redo att injicera", "cp1252"),
        ("ts tuvākajās dienās pieaugs.\nZemestrīce ", "cp1257"),
        ("rande'nin yerine programa o çıkacak.\nWes", "cp1254"),
    ],
)
def test_accented_letters_of_a_short_text_are_not_taken_for_cjk(text, codec):
    assert decode_bytes(text.encode(codec)).text == text


def test_disorder_tells_a_wrong_alphabet_from_the_right_one():
    assert disorder(FRENCH) == 0.0
    assert disorder(FRENCH.encode("cp1252").decode("cp437")) > 0.5
    assert disorder("Перевод".encode("koi8-r").decode("cp1251")) > 0.2


def test_one_lucky_character_is_no_evidence_of_cjk():
    assert plausibility("t的o") < 0.35 < plausibility("的人在")


def test_certain_path_answers_for_long_text_only_and_with_the_narrowest_codec():
    assert certain_cjk(HANT[:40].encode("big5")) is None
    guess = certain_cjk(HANT.encode("big5"))
    assert guess is not None and (guess.codec, guess.text) == ("big5", HANT)
    assert family_of("Big5-HKSCS") == ("big5", "cp950", "big5hkscs")


def test_windows_1252_lines_in_a_utf8_text_are_read_as_such():
    content = (FRENCH * 3).encode() + (FRENCH * 3).encode("cp1252")
    found = decode_bytes(content)
    assert (found.text, found.encoding, found.method) == (FRENCH * 6, "utf-8+cp1252", "segments")


@pytest.mark.parametrize(("text", "codec"), [(HANS, "gb18030"), (HANT, "big5hkscs")])
def test_utf8_and_legacy_lines_in_turn_are_each_read(text, codec):
    lines = text.splitlines(keepends=True)
    content = b"".join(line.encode("utf-8" if number % 2 else codec) for number, line in enumerate(lines))
    found = by_segments(content, DecodeConfig())
    assert found is not None and (found.text, found.replacements) == (text, 0)


def test_text_in_one_charset_is_not_cut_into_segments():
    assert by_segments(HANS.encode("gb18030"), DecodeConfig()) is None


ENGLISH = "The settings of this page were last changed by the people who maintain it, as the list below shows. " * 10


@pytest.mark.parametrize(
    ("words", "codec"),
    [
        ("Podręcznik rozdziału treści", "iso8859-2"),
        ("Δίκτυο Επόμενο Κεφάλαιο", "cp1253"),
        ("Следующая глава", "cp1251"),
    ],
)
def test_a_few_words_in_an_english_page_decide_its_charset(words, codec):
    text = f"{ENGLISH}{words}. {ENGLISH}"
    assert decode_bytes(text.encode(codec)).text == text


def test_stated_language_of_a_page_decides_between_charsets_of_one_alphabet():
    page = f'<html lang="hr-HR"><meta charset="utf-8"><p>{ENGLISH}</p><p>Datotečni sustav</p>'
    found = decode_bytes(page.encode("cp1250"), html=True)
    assert (found.text, found.method) == (page, "language")


def test_stated_language_is_not_believed_against_the_bytes():
    page = f'<html lang="el"><p>{"Съешь же ещё этих мягких французских булок. " * 5}</p>'
    assert decode_bytes(page.encode("cp1251"), html=True).text == page


def outcome_of(record: RawRecord | Quarantined, fast: bool) -> str:
    outcome = decode(raw(record), DecodeConfig(fast_paths=fast))
    return outcome.document.text if isinstance(outcome, Kept) else f"quarantined: {outcome.reason}"


def raw(record: RawRecord | Quarantined) -> RawRecord:
    """What ingest quarantined is put to decode as plain text: arbitrary bytes are welcome here."""
    if isinstance(record, RawRecord):
        return record
    return RawRecord(
        id=record.id,
        content=record.content,
        media_type="text/plain",
        declared_charset=None,
        source="shared",
        url=None,
        licence=None,
        origin=record.origin,
    )


@pytest.mark.slow
def test_fast_paths_give_the_text_of_the_slow_ones_on_the_shared_files(shared_records):
    """Chardet and ftfy asked or not: each record that is certainly CJK and a quarter of the others, from all files;
    declared charsets left out too, so that more is guessed. ASCII reaches neither, whatever the path."""
    taken = others = 0
    for name, record in shared_records():
        if record.content.isascii():
            continue
        certain = strictly(record.content, "utf-8") is None and certain_cjk(record.content) is not None
        if not certain and zlib.crc32(record.content) % 4:
            continue
        assert outcome_of(record, True) == outcome_of(record, False), name
        if certain:
            taken += 1
            bare = dataclasses.replace(raw(record), declared_charset=None, media_type="text/plain")
            assert outcome_of(bare, True) == outcome_of(bare, False), name
        else:
            others += 1
    assert taken > 400 and others > 4_000

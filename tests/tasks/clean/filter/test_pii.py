"""What identifies a person is masked, in Chinese and in English; what only looks like it stays. Numbers are made up."""

import dataclasses

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.clean.filter.pii import KINDS, PiiConfig, mask, masked
from tasks.clean.filter.pii_numbers import CHECK_DIGITS, WEIGHTS, is_bank_card, is_cn_id, luhn
from tasks.clean.filter.stage import FilterConfig, judge
from tasks.clean.metrics import measure
from tasks.document import Document, Dropped, Kept, Origin

CONFIG = PiiConfig()


def cn_id(first: str) -> str:
    """17 digits and their check digit."""
    return first + CHECK_DIGITS[sum(int(d) * w for d, w in zip(first, WEIGHTS, strict=True)) % 11]


def card(first: str) -> str:
    """The digits and their Luhn digit."""
    return next(first + d for d in "0123456789" if luhn(first + d))


ID = cn_id("11010519491231002")
UNIONPAY, VISA = card("622202020011234567"), card("453201511283036")


def document(text: str, language: str = "zh-Hans") -> Document:
    return Document(id="1", text=text, source="s", language=language, origin=Origin(file="f", record=0, offset=0))


PROSE = (
    "这座炉子把原始文本炼成模型。它读取爬虫找到的每一个网页，按照任何人都能查验的规则决定去留，并且记录其余内容被舍弃的原因。"
    "有价值的东西一样也不会丢失，因为每条记录都有自己的编号，可以一路追查到训练的批次。"
)


def measured(text: str) -> Document:
    return dataclasses.replace(document(text), metrics=measure(text, "zh-Hans"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("请发邮件至zhang.san@mail.qq.com。谢谢", "请发邮件至<EMAIL>。谢谢"),
        ("Write to <jo-ann+x@cs.uni.edu>, please", "Write to <<EMAIL>>, please"),
        ("邮箱：ｚｈａｎｇ＠１６３．ｃｏｍ，", "邮箱：<EMAIL>，"),
        ("手机13912345678微信同号", "手机<PHONE>微信同号"),
        ("联系人张三（139-1234-5678）", "联系人张三（<PHONE>）"),
        ("电话 +86 139 1234 5678 转告", "电话 <PHONE> 转告"),
        ("拨打（+86）13912345678即可", "拨打<PHONE>即可"),
        ("号码１３９１２３４５６７８。", "号码<PHONE>。"),
        ("有事找13912345678, 13812345679或13712345678", "有事找<PHONE>, <PHONE>或<PHONE>"),
        ("tel=13912345678&x", "tel=<PHONE>&x"),
        ("座机010-65529988，传真（0755）26001234", "座机<PHONE>，传真<PHONE>"),
        ("总机021-65529988-8021", "总机<PHONE>"),
        ("總機(02)2345-6789或0912-345-678", "總機<PHONE>或<PHONE>"),
        ("客服400-810-8888", "客服<PHONE>"),
        ("電話：8765 4321 請洽", "電話：<PHONE> 請洽"),
        ("Call (212) 736-5000 or 1-650-253-0000.", "Call <PHONE> or <PHONE>."),
        ("Ring +44 20 7031 3000, or +49 (89) 636 48018", "Ring <PHONE>, or <PHONE>"),
        ("Fax: 5551234", "Fax: <PHONE>"),
        (f"身份证号{ID}的居民", "身份证号<CN_ID>的居民"),
        (f"ID no. {ID.lower()}.", "ID no. <CN_ID>."),
        (f"证件 {ID[:6]} {ID[6:14]} {ID[14:]}", "证件 <CN_ID>"),
        ("旧证110105491231002号", "旧证<CN_ID>号"),
        (f"卡号{UNIONPAY}开户", "卡号<BANK_CARD>开户"),
        (f"card {' '.join(VISA[i : i + 4] for i in range(0, 16, 4))}, exp.", "card <BANK_CARD>, exp."),
        (f"card {'-'.join(VISA[i : i + 4] for i in range(0, 16, 4))}", "card <BANK_CARD>"),
        ("来自114.247.50.2的访问", "来自<IP>的访问"),
        ("from 114.247.50.2:8080, 2a02:6b8:7c::c51e is", "from <IP>:8080, <IP> is"),
    ],
)
def test_planted_identifiers_are_masked(text, expected):
    assert mask(text, CONFIG)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "见第3.2.1.4节，版本114.247.50.2，v58.0.30.110",  # sections and versions
        "127.0.0.1 192.168.0.1 10.9.8.7 203.0.113.9 198.51.100.7 255.255.255.0 224.0.0.251",  # nobody's
        "fe80::1ff:fe23 ::1 2001:db8::1 std::vector 12:30:45 2001:12:30",
        "OID 1.3.6.1.4.1.311.100.2 and 300.1.2.3",
        "you@example.com, me@host.test, git@github.com:a/b.git, icon@2x.png, x@y.T, a @ b.to(c), w@x.to(c)",
        "ISBN 978-7-111-12345-6，ISSN 1234-5678，国标GB/T 12345-2008",
        "2019-12-31 23:59:59，20191231235959，1609459200000",  # times
        "订单113912345678901，编号A13912345678，0.13912345678，2020-13912345678",  # within longer numbers
        "2^34 = 17179869184，共13000000000元",
        "Rational(19281291595, 9920232) + 45.92828268 - 16630256576*x",
        "is_residue(13122380800, 1360488960) == 19508428800, $13384966760$",
        f"身份证{ID[:-1]}{'1' if ID[-1] != '1' else '2'}校验位不对",
        f"{cn_id('99010519491231002')} {cn_id('11010519491331002')}",  # no such province, no such month
        f"卡号{UNIONPAY[:-1]}{(int(UNIONPAY[-1]) + 1) % 10}，{card('123456789012345')}",  # Luhn, issuer
        f"1{VISA} {VISA}1 0.{VISA} a{VISA}",
        "1,234,567,890 and 12 345 678 and 3.14159265358979",
        "call 555-0123 or (212) 555-0123",  # reserved for fiction
        "中华人民共和国主席令第74号，2018年12月29日，第一百二十条",
        "报警110，急救120，电话2019-12-31",
    ],
)
def test_what_only_looks_like_it_stays(text):
    assert mask(text, CONFIG) == (text, dict.fromkeys(sorted(KINDS), 0))


@pytest.mark.parametrize(
    "known",
    [("11010519491231002X", True), ("440524188001010014", True), ("110105194912310021", False)],  # of GB 11643's annex
)
def test_identity_numbers_follow_the_standard(known):
    assert is_cn_id(known[0]) is known[1]


def test_luhn_agrees_with_published_test_numbers():
    for number in ("4111111111111111", "378282246310005", "5555555555554444", "3530111333300000", "6011111111111117"):
        assert luhn(number)
        assert not any(luhn(number[:-1] + d) for d in set("0123456789") - {number[-1]})
    assert is_bank_card("4532015112830366") and not is_bank_card("1532015112830366")


NEAR = st.text(alphabet="0123456789０１3 -+().@:：a中<>X电话/,", max_size=60)
WHOLE = st.sampled_from(["13912345678", ID, UNIONPAY, "114.247.50.2", "a@b.com", "010-65529988", "2a02:6b8::1", "86"])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(NEAR, WHOLE), max_size=6).map("".join))
@example("13912345678-13912345678")
@example("电话13912345678/65529988")
def test_masking_again_changes_nothing_and_adds_no_digit(text):
    once, counts = mask(text, CONFIG)
    assert mask(once, CONFIG) == (once, dict.fromkeys(counts, 0))
    assert sum(map(once.count, ("<EMAIL>", "<PHONE>", "<CN_ID>", "<BANK_CARD>", "<IP>"))) >= (sum(counts.values()) > 0)
    assert sum(map(str.isdigit, once)) <= sum(map(str.isdigit, text))


def test_each_kind_can_be_masked_dropped_or_left():
    text = "a@b.com 13912345678"
    assert mask(text, PiiConfig(email="off"))[0] == "a@b.com <PHONE>"
    assert mask(text, PiiConfig(placeholders={"phone": "[电话]"}))[0] == "<EMAIL> [电话]"
    kept = masked(document(text), CONFIG)
    assert isinstance(kept, Kept) and kept.document.text == "<EMAIL> <PHONE>"
    assert (kept.document.metrics["pii_email"], kept.document.metrics["pii_cn_id"]) == (1.0, 0.0)


def test_the_filter_masks_what_it_keeps_and_leaves_what_it_drops():
    kept = judge(measured("电话13912345678。" + PROSE), FilterConfig())
    assert isinstance(kept, Kept) and kept.document.text.startswith("电话<PHONE>。")
    short = judge(measured("电话13912345678"), FilterConfig())
    assert isinstance(short, Dropped) and short.reason == "too_short" and "pii_phone" not in short.document.metrics
    lost = judge(measured("电话13912345678。" + PROSE), FilterConfig(pii=PiiConfig(phone="drop")))
    assert isinstance(lost, Dropped) and lost.reason == "pii_phone"


def test_a_dropped_document_shows_the_text_of_no_span():
    dropped = masked(document("a@b.com 13912345678"), PiiConfig(phone="drop"))
    assert isinstance(dropped, Dropped) and dropped.reason == "pii_phone"
    assert dropped.evidence == {"kind": "phone", "count": 1} and dropped.document.text == "<EMAIL> <PHONE>"


def test_program_text_is_masked_unless_told_otherwise():
    header = "# Copyright Jo <jo@uni.edu>"
    assert masked(document(header, "code"), CONFIG).document.text == "# Copyright Jo <<EMAIL>>"
    assert masked(document(header, "code"), PiiConfig(in_code=False)).document.text == header
    assert masked(document(header, "en"), PiiConfig(in_code=False)).document.text != header


def test_a_placeholder_that_could_be_masked_again_is_refused():
    with pytest.raises(ValueError, match=r"placeholders.email: 'email@example.com' has a digit or one of"):
        PiiConfig(placeholders={"email": "email@example.com"})
    with pytest.raises(ValueError, match=r"expected one of cn_id, .*found 'mail'"):
        PiiConfig(placeholders={"mail": "<X>"})

"""When two texts that an encoder finds alike are one text reworded."""

from tasks.dedup.rewording import is_one_form, is_template, overlap, segments

FORM = "{name}成立于{year}年，是一家专业从事防水补漏的企业。{name}位于{place}，{name}愿与您携手共创未来。"


def test_segments_are_head_middle_and_end():
    text = "a" * 100 + "b" * 100 + "c" * 100
    assert segments(text, 100) == ["a" * 100, "b" * 100, "c" * 100]
    assert segments("short", 100) == ["short"] and len(segments("x" * 150, 100)) == 2


def test_overlap_counts_words_or_characters():
    assert overlap("a b c d", "b a d e") == 3 / 5
    assert overlap("甲乙丙", "甲乙丁") == 2 / 4


def test_other_numbers_make_a_template():
    left, right = (FORM.format(name="东方公司", year=year, place="人民路") for year in (1998, 2011))
    assert is_template(left, right)


def test_one_name_for_another_again_and_again_makes_a_template():
    left, right = (FORM.format(name=name, year=2008, place="人民路") for name in ("东方公司", "恒通公司"))
    assert is_template(left, right)


def test_another_spelling_is_no_other_name():
    left = "The U.S. spent ten per cent more on defence; Defence of the U.S. takes per cent after per cent of it."
    right = "The US spent ten percent more on defense; Defense of the US takes percent after percent of it."
    assert not is_template(left.lower(), right.lower())
    assert is_template(left.lower(), right.lower().replace("us ", "eu "))


def test_a_reworded_text_is_no_template():
    left = "The council met on 5 May and agreed to close the old bridge for repairs until the autumn of 2024."
    right = "On 5 May the council met and decided that the old bridge be closed for repair until autumn 2024."
    assert not is_template(left.lower(), right.lower())


def test_a_form_filled_twice_is_one_form():
    praise = "我们拥有经验丰富的专业团队和先进的设备，价格合理，随叫随到，赢得了广大客户的信赖与好评，期待来电。"
    left = praise + FORM.format(name="东方公司", year=1998, place="人民路") + praise
    right = praise + FORM.format(name="恒通公司", year=2011, place="解放北路") + praise
    assert is_template(left, right) and is_one_form(left, right)


def test_other_contents_in_one_frame_are_no_form():
    frame = "首页 > 新闻 > 正文 发布日期：{date} 来源：本站 {body} 上一篇 下一篇 返回列表 版权所有 联系我们 网站地图"
    left = frame.format(date="2021-03-05", body="图书馆从下周起延长开放时间，周末同样对读者开放。")
    right = frame.format(date="2022-11-19", body="气象台预计今晚到明天有中到大雨，请注意防范山洪。")
    assert is_template(left, right) and not is_one_form(left, right)


def test_a_form_is_one_to_its_end():
    head = "".join(chr(0x4E00 + n) for n in range(700))
    left, right = head + "甲" * 700 + "一二三", head + "乙" * 700 + "四五六"
    assert not is_one_form(left, right) and is_one_form(head + "甲乙", head + "丙")

from tasks.report.text import visible, visible_bytes


def test_what_escaping_lets_through_is_made_visible():
    assert visible("a\u202eb\x00c\ud800\tü中\n", 100) == "a\\u202eb\\x00c\\ud800\tü中\n"


def test_the_rest_of_a_long_text_is_counted():
    assert visible("abcdef", 4) == "abcd … (2 more characters)"
    assert visible("abcd", 4) == "abcd"


def test_bytes_are_shown_as_text_where_they_are_text():
    assert visible_bytes("中".encode() + b"\xff\x00", 10) == "中\\xff\\x00"
    assert visible_bytes(b"abcdef", 2) == "ab … (4 more bytes)"

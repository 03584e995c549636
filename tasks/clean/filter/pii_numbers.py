"""Which digits are a Chinese identity number, a bank card, a phone number.

Identity numbers and cards have check digits and allocated prefixes. Phone numbers have neither: Chinese mobile numbers
are told by their prefix, everything else must be valid by Google's numbering plans (`phonenumbers`, 50 µs a number,
asked only about what already has the shape). Seven to twelve digits after "Tel", "电话" and the like are taken as well.

in    str of ASCII digits and separators
out   bool; `phones` yields half-open ranges of characters
ref   GB 11643-1999 and ISO 7064 (MOD 11-2); ISO/IEC 7812-1 (Luhn); the ITU-T E.164 plans in `phonenumbers`
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

PROVINCE_CODES = (  # GB/T 2260; 81 to 83 are the residence permits of Hong Kong, Macao and Taiwan
    "11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 65 71 81 82 83"
)
PROVINCES = frozenset(PROVINCE_CODES.split())
WEIGHTS = tuple(2 ** (17 - place) % 11 for place in range(17))  # ISO 7064: powers of two, modulo 11
CHECK_DIGITS = "10X98765432"
FIRST_YEAR, LAST_YEAR = 1850, 2049  # of birth

ALONE = "(?<![0-9A-Za-z_.])(?<![0-9][-–—+])(?<![A-Za-z0-9]/)"
END = "(?![0-9A-Za-z_])(?![.-][0-9])"
DASH = "[-–—－]"
CN_MOBILE = re.compile(  # the prefixes that the ministry (MIIT) has allocated
    rf"""{ALONE}(?:[(（]?(?:\+|00)?86[)）]?[ -]?)?1(?:3[0-9]|4[0145-9]|5[0-35-9]|6[2567]|7[0-8]|8[0-9]|9[0-35-9])
    (?:[0-9]{{8}}|([ -])[0-9]{{4}}\1[0-9]{{4}}|([ -])[0-9]{{3}}\2[0-9]{{5}}
    |[0-9]([ -])[0-9]{{3}}\3[0-9]{{4}}|[0-9]([ -])[0-9]{{4}}\4[0-9]{{3}}|[0-9]{{2}}[ -][0-9]{{6}})
    {END}(?!\ [0-9]{{4}}\ )""",
    re.VERBOSE,
)
NATIONAL = re.compile(  # (010) 6552 9988, 0755-26001234-801, (02)2345-6789, 0912-345-678
    rf"{ALONE}(?<![0-9] )[(（]?0[0-9]{{1,3}}(?:[)）][ -]?|{DASH} ?| )[0-9]{{3,8}}(?:[ -][0-9]{{3,4}})?"
    rf"(?:(?:{DASH}|转|轉)[0-9]{{1,5}})?{END}(?! [0-9])"
)
HOTLINE = re.compile(rf"{ALONE}(?:[48]00-[0-9]{{3}}-[0-9]{{4}}|400-[0-9]{{4}}-[0-9]{{3}}){END}")
NORTH_AMERICAN = re.compile(
    rf"{ALONE}(?<![0-9] )(?:1[-. ])?(?:\([2-9][0-9]{{2}}\) ?|[2-9][0-9]{{2}}([-.]))[2-9][0-9]{{2}}[-.][0-9]{{4}}{END}"
)
INTERNATIONAL = re.compile(
    r"(?<![0-9A-Za-z_.+*/=)\]])(?:\+|00)[(（]?[1-9](?:[ .()（）-]{0,2}[0-9]){7,14}(?![0-9A-Za-z_])(?![.-][0-9])"
)
KEYWORD = re.compile(
    r"""(?:电话|電話|手机|手機|传真|傳真|座机|热线|熱線|聯絡方式|联系方式
    |(?<![A-Za-z])(?:tel|telephone|phone|mobile|fax|cell))
    (?:[\ _]?(?:号码?|號碼?|number|no\.?))?[\s:：.(（为為是/="'-]{0,4}$""",
    re.VERBOSE | re.IGNORECASE,
)
DATE = re.compile(r"(?:19|20)[0-9]{2}([-. ]?)(?:0?[1-9]|1[0-2])\1[0-3]?[0-9]")
OPERATOR_BEFORE = re.compile(
    r"(?:[-+*/^%$=<>|&]|[A-Za-z_]\([0-9, ]*|[0-9],)\ ?$"
)  # of a formula, a call, a list of numbers
OPERATOR_AFTER = re.compile(r"\ ?[*/^%$|&<>]|\ [-+=]|, ?-?[0-9]")
FICTION = re.compile("555[-.]01[0-9]{2}$")
ROUND = re.compile("0{7}$")
SHORTEST_UNANNOUNCED = 9  # digits: an area code of two and seven more; dates have eight
POWER_OF_TWO = "17179869184"  # 2^34, the only one of the shape of a mobile number


def is_arithmetic(text: str, start: int, end: int) -> bool:
    """Whether the bare number `text[start:end]` is rather an operand, an argument or one of a list of numbers.

    A list of numbers that are all as long (phone lists) is none, nor is what a word before it calls a phone number.
    """
    before, after = text[max(0, start - 24) : start], text[end : end + 24]
    if KEYWORD.search(before):
        return False
    length = end - start
    left = OPERATOR_BEFORE.search(before)
    if left and not (left[0].strip()[0].isdigit() and re.search(rf"(?<![0-9])[0-9]{{{length}}}, ?$", before)):
        return True
    right = OPERATOR_AFTER.match(after)
    return bool(right) and not re.match(rf", ?[0-9]{{{length}}}(?![0-9])", after)


def digits_of(text: str) -> str:
    """The digits of `text` alone."""
    return "".join(filter(str.isdigit, text))


def is_cn_id(text: str) -> bool:
    """Whether 18 characters with their check digit, or the 15 digits used until 1999, are an identity number."""
    number = re.sub("[ -]", "", text).upper()
    if number[:2] not in PROVINCES or number[2:4] == "00":
        return False
    birth = number[6:14] if len(number) == 18 else f"19{number[6:12]}"
    try:
        year = datetime.datetime.strptime(birth, "%Y%m%d").year
    except ValueError:
        return False
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return False
    if len(number) == 15:
        return number[12:] != "000"
    total = sum(int(digit) * weight for digit, weight in zip(number[:17], WEIGHTS, strict=True))
    return CHECK_DIGITS[total % 11] == number[17]


def luhn(number: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return (sum(map(int, number[::-2])) + sum(doubled)) % 10 == 0


def is_bank_card(text: str) -> bool:
    """Whether an issuer gives out cards with this prefix and length, and the check digit holds."""
    number = digits_of(text)
    return _issued(number) and len(set(number)) > 2 and luhn(number)


def _issued(number: str) -> bool:
    four, length = int(number[:4]), len(number)
    if number[:2] in ("62", "81"):  # UnionPay
        return 16 <= length <= 19
    if number[0] == "4":  # Visa
        return length in (13, 16, 19)
    if 5100 <= four <= 5599 or 2221 <= four <= 2720:  # Mastercard
        return length == 16
    if number[:2] in ("34", "37"):  # American Express
        return length == 15
    if 3528 <= four <= 3589 or four == 6011 or 6440 <= four <= 6599:  # JCB, Discover
        return 16 <= length <= 19
    return length == 14 and (3000 <= four <= 3059 or number[:2] in ("36", "38", "39"))  # Diners Club


def is_valid(number: str, *regions: str) -> bool:
    """Whether `number` can be dialled from one of `regions` by its numbering plan."""
    import phonenumbers  # 0.2 s

    for region in regions:
        try:
            if phonenumbers.is_valid_number(phonenumbers.parse(number, region)):
                return True
        except phonenumbers.NumberParseException:
            continue
    return False


def phones(text: str, start: int, end: int, num_digits: int) -> Iterator[tuple[int, int]]:
    """Phone numbers in the run of digits `text[start:end]`, with the sign or bracket before it; they may overlap."""
    if num_digits >= SHORTEST_UNANNOUNCED or text.find("+", max(0, start - 2), start) >= 0:
        yield from _by_shape(text, max(0, start - 3), end)  # "(+"
    yield from _announced(text, start, end)


def _by_shape(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    stop = end + 7  # an extension after 转
    for match in CN_MOBILE.finditer(text, start, stop):
        number = digits_of(match[0])
        bare = match[0].isdigit() and len(number) == 11
        if ROUND.search(number) or number == POWER_OF_TWO or (bare and is_arithmetic(text, *match.span())):
            continue
        yield match.span()
    for match in INTERNATIONAL.finditer(text, start, end + 2):
        if length := _valid_prefix(match[0]):
            yield match.start(), match.start() + length
    for pattern, regions in ((NATIONAL, ("CN", "TW")), (HOTLINE, ("CN",)), (NORTH_AMERICAN, ("US",))):
        for match in pattern.finditer(text, start, stop):
            if FICTION.search(match[0]):
                continue
            if is_valid(re.split("转|轉", match[0])[0], *regions) or is_valid(_without_extension(match[0]), *regions):
                yield match.span()


def _without_extension(number: str) -> str:
    return re.split(r"(?<=[0-9]{7})[-–—－转轉](?=[0-9]{1,5}$)", number)[0]


def _valid_prefix(number: str) -> int:
    """Length of the longest beginning of `number`, cut where a separator is, that is a valid international number."""
    length = len(number)
    while length > 8:
        if is_valid(re.sub(r"^00", "+", number[:length]), "ZZ"):
            return length
        shorter = re.search(r"[ .()（）-]+[0-9]+$", number[:length])
        length = shorter.start() if shorter else 0
    return 0


def _announced(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The whole run, where a word before it says that it is a phone number."""
    if text[start : start + 1] in "(（":
        start += 1
    number = text[start:end]
    if 7 <= len(digits_of(number)) <= 12 and "." not in number and not DATE.fullmatch(number):
        before = KEYWORD.search(text, max(0, start - 24), start)
        if before and not re.match("[0-9A-Za-z]", text[end : end + 1]):
            yield start, end

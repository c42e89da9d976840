"""What `OutputFilter` finds by kind: personal data and secrets, each with a pattern and, where there is one, a check.

All patterns take time in proportion to the text: repetitions are possessive or bounded, and a repetition without a
bound is the last part of its pattern, so that it never has to be tried again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Final, TypeAlias

from agentrail.values.value import Value

Span: TypeAlias = tuple[int, int]
"""The first and the last index of a match, the latter not included."""

Measure: TypeAlias = Callable[[str, re.Match[str]], Span | None]
"""Function that returns what is taken out where a pattern was found in a text; `None` if it is nothing of the kind."""


class PiiPattern(Value, gc=True):
    """The pattern that finds one kind of personal data or secrets, with a check of its matches."""

    pattern: re.Pattern[str]
    """The regular expression."""
    measure: Measure
    """Function that checks what was found, and says where it ends."""
    hints: tuple[str, ...]
    """Texts of which one must be in a text that has something of the kind; no search is made in others."""

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the span of each match in *text* that passes the check, in order."""
        end = 0
        for match in self.pattern.finditer(text):
            span = self.measure(text, match) if match.start() >= end else None
            if span is not None:
                yield span
                end = span[1]


def _whole(_: str, match: re.Match[str]) -> Span:
    return match.span()


def _second(_: str, match: re.Match[str]) -> Span:
    """Return the span of the first group: the secret after its name, such as `password=`."""
    return match.span(1)


# E-mail

_PICTURES: Final = frozenset({"gif", "jpeg", "jpg", "png", "svg", "webp"})
_TOP: Final = r"(?P<top>(?i:xn--)[\w-]{1,59}+|[^\W\d_]{2,63}+(?!\w))"
"""The last part of the name of a host: letters alone, or what stands for letters; not the `0` of `left-pad@1.3.0`."""


def _email(text: str, match: re.Match[str]) -> Span | None:
    """Return the span of the address in *match*; `None` for `icon@2x.png` and `git@host:path`."""
    if match["top"].lower() in _PICTURES:
        return None
    is_git = match["local"] == "git" and text[match.end() : match.end() + 1] == ":"
    return None if is_git else match.span()


# Numbers: lengths count digits alone; between two digits there is at most one mark, such as a blank


def _walk(text: str, start: int, most: int, marks: str) -> Iterator[tuple[int, str]]:
    """Read up to *most* letters and digits from *start* on; yield each index where they may end, and those before it.

    Between two of them there may be one of *marks*. They may end where no letter or digit follows.
    """
    chars: list[str] = []
    index = start
    while index < len(text) and len(chars) < most:
        if text[index].isascii() and text[index].isalnum():
            chars.append(text[index])
            index += 1
            if not text[index : index + 1].isalnum():
                yield index, "".join(chars)
        elif chars and text[index] in marks and text[index - 1] not in marks:
            index += 1
        else:
            return


_IBAN_COUNTRIES: Final = (
    (15, "NO"),
    (16, "BE"),
    (18, "DK FI FK FO GL NL SD"),
    (19, "MK SI"),
    (20, "AT BA EE KZ LT LU MN XK"),
    (21, "CH HR LI LV"),
    (22, "BG BH CR DE GB GE IE ME RS VA"),
    (23, "AE GI IL IQ OM SO TL"),
    (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
    (25, "LY PT ST"),
    (26, "IS TR"),
    (27, "BI DJ FR GR IT MC MR SM"),
    (28, "AL AZ BY CY DO GT HU LB NI PL SV"),
    (29, "BR EG PS QA UA"),
    (30, "JO KW MU YE"),
    (31, "MT SC"),
    (32, "LC"),
    (33, "RU"),
)
_IBAN_LENGTHS: Final[Mapping[str, int]] = MappingProxyType(
    {country: length for length, countries in _IBAN_COUNTRIES for country in countries.split()}
)
"""The number of characters of an IBAN, by country."""
_IBAN_REMAINDER: Final = 1
_IBAN_DIVISOR: Final = 97


def has_check_digits(account: str) -> bool:
    """Whether the check digits of an IBAN are right; *account* has no marks."""
    moved = account[4:] + account[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % _IBAN_DIVISOR == _IBAN_REMAINDER


def _iban(text: str, match: re.Match[str]) -> Span | None:
    length = _IBAN_LENGTHS.get(match[0][:2].upper(), 0)
    for end, chars in _walk(text, match.start(), length, " -"):
        if len(chars) == length:
            return (match.start(), end) if has_check_digits(chars) else None
    return None


_CARDS: Final = (
    (("34", "37"), (15,)),
    (("36", "38", "39", *(f"30{digit}" for digit in range(6))), (14,)),
    (("4",), (13, 16, 19)),
    (tuple(str(number) for number in range(51, 56)), (16,)),
    (tuple(str(number) for number in range(2221, 2721)), (16,)),
    (("6011", "65", *(str(number) for number in range(644, 650))), (16, 17, 18, 19)),
    (tuple(str(number) for number in range(3528, 3590)), (16, 17, 18, 19)),
    (("62",), (16, 17, 18, 19)),
    (("5018", "5020", "5038", "5893", "6304", "6759", "6761", "6762", "6763"), (16, 17, 18, 19)),
)
"""The first digits of cards, and how many digits these have."""
_CARD_LENGTHS: Final[Mapping[str, frozenset[int]]] = MappingProxyType(
    {first: frozenset(lengths) for firsts, lengths in _CARDS for first in firsts}
)
_FIRSTS: Final = range(1, 5)
"""How many digits tell whose card it is."""
_GROUPS: Final = re.compile(r"[0-9]{3,19}+(?![^\W_])(?:[ -][0-9]{3,19}+(?![^\W_])){0,5}+")
"""Groups of digits with single marks between them; no letter or digit follows one."""
_LUHN_DIVISOR: Final = 10
_DOUBLED: Final = str.maketrans("0123456789", "0246813579")
"""Makes each digit what it counts doubled: the sum of the digits of its double."""


def has_luhn(digits: str) -> bool:
    """Whether the last one of *digits* is the check digit of the others, by the rule of Luhn."""
    total = sum(map(int, digits[::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))
    return total % _LUHN_DIVISOR == 0


def _card(text: str, match: re.Match[str]) -> Span | None:
    """Return the span of the longest card number in *match*; groups of fewer than three digits are not read."""
    groups = _GROUPS.match(text, match.start())
    if groups is None:
        return None
    digits = groups[0].replace(" ", "").replace("-", "")
    lengths = next((_CARD_LENGTHS[digits[:end]] for end in _FIRSTS if digits[:end] in _CARD_LENGTHS), ())
    span: Span | None = None
    length, end = 0, groups.start()
    for group in re.split("[ -]", groups[0]) if lengths else ():
        length += len(group)
        end += len(group)
        if length in lengths and has_luhn(digits[:length]):
            span = (groups.start(), end)
        end += 1
    return span


_PHONE_DIGITS: Final = range(9, 16)


def _phone(_: str, match: re.Match[str]) -> Span | None:
    digits = sum(char.isdecimal() for char in match[0].removeprefix("00"))
    return match.span() if digits in _PHONE_DIGITS else None


def _ssn(_: str, match: re.Match[str]) -> Span | None:
    area, group, serial = match.groups()
    is_one = area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"
    return match.span() if is_one else None


_MIN_COLONS: Final = 3


def _ip(_: str, match: re.Match[str]) -> Span | None:
    """Return the span of the address; `None` for one that is the same everywhere (127.0.0.1), and for code (`a::b`)."""
    text = match[0]
    try:
        address = IPv4Address(text) if ":" not in text else IPv6Address(text)
    except AddressValueError:
        return None
    if ":" in text and text.count(":") < _MIN_COLONS:
        return None
    is_fixed = address.is_loopback or address.is_unspecified or address.is_multicast or text == "255.255.255.255"
    return None if is_fixed else match.span()


# Secrets


def _mixed(_: str, match: re.Match[str]) -> Span | None:
    """Return the span if the match has a digit and a letter: random keys have both, names in programs seldom do."""
    span = match.span(1) if match.re.groups else match.span()
    text = match[1] if match.re.groups else match[0]
    has_both = any(char.isdigit() for char in text) and any(char.isalpha() for char in text)
    return span if has_both else None


def _key(text: str, match: re.Match[str]) -> Span | None:
    return _mixed(text, match) if match[0][:3] in {"sk-", "hf_", "key"} else match.span()


_KEYS: Final = (
    r"sk-[A-Za-z0-9_-]{16,}+",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}+",
    r"whsec_[A-Za-z0-9+/=]{20,}+",
    r"gh[oprsu]_[A-Za-z0-9]{30,}+",
    r"github_pat_[A-Za-z0-9_]{22,}+",
    r"glpat-[A-Za-z0-9_-]{20,}+",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"AIza[A-Za-z0-9_-]{35,}+",
    r"ya29\.[A-Za-z0-9_-]{20,}+",
    r"GOCSPX-[A-Za-z0-9_-]{20,}+",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}+",
    r"xapp-[A-Za-z0-9-]{20,}+",
    r"SG\.[A-Za-z0-9_-]{16,32}+\.[A-Za-z0-9_-]{16,}+",
    r"SK[0-9a-f]{32}(?![A-Za-z0-9])",
    r"npm_[A-Za-z0-9]{30,}+",
    r"pypi-[A-Za-z0-9_-]{50,}+",
    r"hf_[A-Za-z0-9]{30,}+",
    r"do[opr]_v1_[a-f0-9]{40,}+",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}+",
    r"dapi[a-f0-9]{32,}+",
    r"gsk_[A-Za-z0-9]{30,}+",
    r"xai-[A-Za-z0-9]{40,}+",
    r"key-[a-f0-9]{32}(?![A-Za-z0-9])",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}+",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+",
)
_BEFORE_KEYS: Final = r"(?<![A-Za-z0-9_-])"


def _jwt(_: str, match: re.Match[str]) -> Span | None:
    parts = match[0].split(".")
    return match.span() if len(parts) > 1 and parts[1].startswith("eyJ") else None


PII_PATTERNS: Final[Mapping[str, PiiPattern]] = MappingProxyType(
    {
        "private_key": PiiPattern(
            re.compile(
                r"(?>-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)"
                r"[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}+-----|\Z)"
            ),
            _whole,
            ("-----BEGIN ",),
        ),
        "jwt": PiiPattern(
            re.compile(_BEFORE_KEYS + r"eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]{1,}+){0,4}+"), _jwt, ("eyJ",)
        ),
        "url_password": PiiPattern(re.compile(r"(?<=://)[^\s:/@?#]{0,100}+:([^\s/@?#]{1,200}+)@"), _second, ("://",)),
        "api_key": PiiPattern(
            re.compile(_BEFORE_KEYS + "(?:" + "|".join(_KEYS) + ")"),
            _key,
            (
                "sk-",
                "_live_",
                "_test_",
                "whsec_",
                "gh",
                "glpat-",
                "AKIA",
                "ASIA",
                "AIza",
                "ya29.",
                "GOCSPX-",
                "xox",
                "xapp-",
                "SG.",
                "SK",
                "npm_",
                "pypi-",
                "hf_",
                "_v1_",
                "shp",
                "dapi",
                "gsk_",
                "xai-",
                "key-",
                ":AA",
                "AGE-SECRET",
            ),
        ),
        "credential": PiiPattern(
            re.compile(
                r"(?i:(?>(?:api|access|account|auth|client|private|secret|session)[_-]?(?:access[_-]?)?(?:key|secret|token)"
                r"|password|passwd|token)[\"']?+\s{0,3}+[:=]\s{0,3}+|bearer\s{1,3}+)"
                r"[\"']?+([A-Za-z0-9+_-][A-Za-z0-9+/._~-]{15,}+={0,2}+)"
            ),
            _mixed,
            ("key", "Key", "KEY", "oken", "OKEN", "ecret", "ECRET", "assw", "ASSW", "earer", "EARER"),
        ),
        "email": PiiPattern(
            re.compile(r"(?P<local>[\w.%+-]{1,64}+)@(?:[\w-]{1,63}+\.(?=[\w-])){1,20}+" + _TOP),
            _email,
            ("@",),
        ),
        "iban": PiiPattern(
            re.compile(r"[A-Za-z]{2}[0-9]{2}(?<![A-Za-z0-9].{4})(?=[ -]?[A-Za-z0-9])"), _iban, tuple("0123456789")
        ),
        "credit_card": PiiPattern(
            re.compile(r"[2-6](?<![A-Za-z0-9].)(?<![0-9][.].)(?=[0-9]{2}[0-9 -]{10})"), _card, tuple("0123456789")
        ),
        "us_ssn": PiiPattern(
            re.compile(r"([0-9]{3})-([0-9]{2})-([0-9]{4})(?<![\w-].{11})(?![\w-])"), _ssn, tuple("0123456789")
        ),
        "phone": PiiPattern(
            re.compile(
                r"(?<![\w+.-])(?:"
                r"(?:\+[1-9]|00[1-9][0-9]{0,2}+(?=[ /-]))(?:[ ./()-]{0,2}+[0-9]){6,14}+(?![0-9])"
                r"|(?:1[ -])?(?:\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[ .-]|[2-9][0-9]{2}[.-][2-9][0-9]{2}[.-])[0-9]{4}"
                r"(?![\w-]|\.[0-9]))"
            ),
            _phone,
            tuple("0123456789"),
        ),
        "ip_address": PiiPattern(
            re.compile(
                r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])"
                r"|(?<![\w:.])(?:[0-9A-Fa-f]{0,4}+:){2,7}+[0-9A-Fa-f]{0,4}+(?![\w:]|\.[0-9])"
            ),
            _ip,
            (".", ":"),
        ),
    }
)
"""How each kind is found, by its name; in the order in which texts are searched for them."""

SECRET_KINDS: Final = frozenset({"api_key", "credential", "jwt", "private_key", "url_password"})
"""The kinds that are secrets of programs."""

PII_KINDS: Final = frozenset(PII_PATTERNS) - SECRET_KINDS
"""The kinds that are personal data."""


def patterns_of(kinds: Collection[str]) -> tuple[PiiPattern, ...]:
    """Return the patterns of *kinds*, in the order in which they are searched."""
    return tuple(pattern for kind, pattern in PII_PATTERNS.items() if kind in kinds)


def taken_out(text: str, patterns: Iterable[PiiPattern], replacement: str) -> str:
    """Return *text* with a replacement for each match of *patterns*."""
    for pattern in patterns:
        for hint in pattern.hints:  # a plain loop: most texts have no match and are done here
            if hint in text:
                text = replaced(text, pattern.spans(text), replacement)
                break
    return text


def replaced(text: str, spans: Iterable[Span], replacement: str) -> str:
    """Return *text* with *replacement* in place of each of *spans*, which are in order and do not overlap."""
    pieces: list[str] = []
    end = 0
    for begin, after in spans:
        pieces += (text[end:begin], replacement)
        end = after
    return "".join((*pieces, text[end:])) if pieces else text

"""Compiles the templates of phrases to regular expressions.

A template is a list of elements with spaces between: `word`, `one|other` (either), `[perhaps]` (optional) and `{slot}`.
`SLOTS` says which text a slot matches. Quotations in a text are replaced by marks before it is matched (see `quotes`),
so that a quotation is one word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

QUOTED = "\ue000\\d+\ue001"
"""Matches the mark that stands in place of a quotation."""

_GAP = r"(?:\s*:\s*|,?\s+)"
_NOT_A_NAME = (
    "a an the it this that them me us you my your file files folder directory dir out something everything all"
)
_WORD = rf"(?!-|\w+://|(?:{'|'.join(_NOT_A_NAME.split())})(?![\w./-]))\S*[^\s:,;]"
_KNOWN = "readme|license|licence|changelog|makefile|dockerfile"
_LIKE_A_FILE = rf"(?!\w+://)(?:{QUOTED}|\S*/(?:\S*[^\s:,;])?|[^\s/]*\.\w+|{_KNOWN})"
_OURS = r"(?:(?:the|my|our)\s+)?"
_CALLED = r"(?:(?:called|named)\s+)?"
_FOLDER = "(?:folder|directory|dir)"
_HERE = (
    rf"(?:in\s+)?here|(?:the|this|my|our)\s+(?:(?:current|working|project|root|whole)\s+)*"
    rf"(?:{_FOLDER}|project|workspace|workdir|repo|repository|root|code|codebase)"
)
_NOT_A_COMMAND = "a an the me my it this that your some away out into through over"
_A_TEXT = r"(?:(?:the\s+)?(?:text|words?|line|content|contents|sentence|string)\s*:?\s+)?"
_A_PATTERN = r"(?:(?:the\s+)?(?:word|text|string|phrase|pattern|term|regex|expression|name)\s*:?\s+)?"

SLOTS: Mapping[str, str] = {
    "path": rf"{_OURS}(?:(?:file|{_FOLDER})\s+)?{_CALLED}(?P<path>{_WORD})(?:\s+(?:file|{_FOLDER}))?",
    "file": (
        rf"{_OURS}(?:file\s+{_CALLED}(?P<path>{_WORD})|(?P<path_>{_LIKE_A_FILE})(?:\s+file)?|(?P<path__>{_WORD})\s+file)"
    ),
    "dir": rf"(?:{_HERE}|{_OURS}(?:(?:file|{_FOLDER})\s+)?{_CALLED}(?P<path>{_WORD})(?:\s+(?:file|{_FOLDER}))?)",
    "glob": rf"(?P<glob>\S*[*?]\S*|{QUOTED})",
    "text": rf"{_A_TEXT}(?P<text>.+)",
    "pattern": rf"{_A_PATTERN}(?P<pattern>.+)",
    "word": rf"{_A_PATTERN}(?P<pattern>{_WORD})",
    "command": rf"(?P<command>(?!(?:{'|'.join(_NOT_A_COMMAND.split())})(?![\w./-])).+)",
    "known": (
        r"(?P<command>(?:echo\s.+|pwd|whoami|uname(?:\s+-\w+)?|ls\s+-.+|pytest(?:\s+[-\w./]*[-./].*)?"
        r"|git\s+(?:status|diff|log|branch|show)(?:\s+-.*)?|python3?\s+(?:-.+|\S+\.py.*)))"
    ),
    "fact": r"(?P<fact>.+)",
    "number": r"(?P<number>\d{1,4})",
    "old": rf"{_A_TEXT}(?P<old>.+?)",
    "new": rf"{_A_TEXT}(?P<new>.+)",
}
"""The regular expression of each slot of a template.

The name of its group, without `_` at the end, is the slot that is filled: `{dir}` and `{file}` both fill `path`.
"""


def pattern_of(template: str) -> re.Pattern[str]:
    """Compile *template* to a regular expression; it matches a whole sentence with one space put in front."""
    return re.compile("".join(map(_element, template.split())), re.IGNORECASE | re.DOTALL)


def match(pattern: re.Pattern[str], sentence: str) -> Mapping[str, str] | None:
    """Return the slots that *sentence* fills in a template's *pattern*, or `None` if it does not match.

    Quotations in *sentence* are already replaced by marks.
    """
    found = pattern.fullmatch(f" {sentence}")
    if found is None:
        return None
    return {name.rstrip("_"): slot for name, slot in found.groupdict().items() if slot is not None}


def _element(element: str) -> str:
    if element.startswith("{"):
        return f"{_GAP}{SLOTS[element[1:-1]]}"
    if element.startswith("["):
        return f"(?:{_GAP}{_words(element[1:-1])})?"
    return f"{_GAP}{_words(element)}"


def _words(alternatives: str) -> str:
    words = "|".join(re.escape(word).replace("'", "['’]") for word in alternatives.split("|"))
    return rf"(?:{words})"

"""Reads the front matter of a `SKILL.md`: YAML of which each key has a text, a list of texts, or texts by key.

All scalars are texts, also `1.0` and `true`. One thing is read that YAML refuses, because many public skills have it: a
plain text after a key may hold `: `.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn, TypeAlias

import yaml

Field: TypeAlias = "str | tuple[str, ...] | Mapping[str, str]"
"""The value of one key: a text, a list of texts, or texts by key."""

MAX_FIELD: Final = 8192
"""The most characters of a key with its value: PyYAML without libyaml reads them in 0.1 s."""

MAX_BRACKETS: Final = 100
"""The most opening brackets and braces of a value: without libyaml, some hundreds in each other take minutes."""

LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""PyYAML's parser: of libyaml if it was built with it, which is thirty times as fast."""

_FENCE: Final = "---"
_NAME: Final = "[A-Za-z0-9][A-Za-z0-9_.-]*"
_KEY: Final = re.compile(rf"({_NAME}):(?: +.*)?")
_TEXT: Final = re.compile(
    rf"^(?P<key>(?P<indent> *){_NAME}: +)(?P<text>[^ #].*(?:(?:\n *)*\n(?P=indent) +[^ ].*)*)", re.MULTILINE
)
"""A key whose value begins in its line, with the lines that are indented below it."""

_INDICATORS: Final = "&*!|>'\"%@`{}[],?"
_COLON: Final = re.compile(r":(?: |$)", re.MULTILINE)
_HIDDEN: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ud800-\udfff\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""Control characters, half characters, those that change the direction of text, and those that are never shown.

U+200C and U+200D, which join letters and emoji, and U+FE00 to U+FE0F, which choose their form, are let through.
"""


class FrontMatterError(ValueError):
    """A text has no front matter, or one that is not read."""


def front_matter(text: str, keys: Collection[str]) -> Mapping[str, Field]:
    """Return what the front matter of *text* has under *keys*; raise `FrontMatterError`, with the line, if invalid.

    Values of other keys are not read.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[0].rstrip(" ") != _FENCE:
        message = f"it does not begin with a line `{_FENCE}`, as front matter must"
        raise FrontMatterError(message)
    ends = [number for number, line in enumerate(lines) if number and line.rstrip(" ") == _FENCE]
    if not ends:
        message = f"its front matter has no end: a second line `{_FENCE}`"
        raise FrontMatterError(message)
    sources = _split(lines[1 : ends[0]])
    return {key: _value("\n".join([*source, ""]), number) for key, (number, source) in sources.items() if key in keys}


def _refuse(line: int, problem: str, instead: str) -> NoReturn:
    """Raise `FrontMatterError` for the *problem* in *line*; the fence is line 1."""
    message = f"line {line} of its front matter has {problem}; {instead}"
    raise FrontMatterError(message)


def _refuse_hidden(text: str, line: int) -> None:
    if hidden := _HIDDEN.search(text):
        _refuse(line, "a tab" if hidden[0] == "\t" else f"the character {hidden[0]!a}", "write spaces or text")


def _split(lines: Sequence[str]) -> Mapping[str, tuple[int, list[str]]]:
    """Return by key, which begins in the first column, the number of its line and the lines up to the next key."""
    sources: dict[str, tuple[int, list[str]]] = {}
    source: list[str] = []
    for number, line in enumerate(lines, 2):
        _refuse_hidden(line, number)
        if line.lstrip(" ")[:1] in {"", "#"} or (sources and (line[0] == " " or line[:2] in {"-", "- "})):
            source.append("#" if line[:1] == "#" else line)  # so that no comment counts in `MAX_FIELD`
        elif line[0] == " ":
            _refuse(number, "an indented line that belongs to no key", "begin it in the first column")
        elif (match := _KEY.fullmatch(line)) is None:
            _refuse(number, "no `key: value`", "only plain keys, lists of texts and one level of keys are read")
        elif match[1] in sources:
            _refuse(number, f"`{match[1]}` for the second time", "give each key once")
        else:
            source = [line]
            sources[match[1]] = number, source
    return sources


def _quoted(match: re.Match[str]) -> str:
    """Return the key with its value, which is quoted if it is a plain text with a colon that YAML would refuse."""
    text, comment, end = match["text"].partition(" #")
    lines = text.split("\n")
    is_plain = text[0] not in _INDICATORS and not (text[0] == "-" and text[1:2] in {"", " "})
    if not is_plain or _COLON.search(text) is None or "\n" in end:
        return match[0]
    if any(_KEY.fullmatch(line.strip(" ")) for line in lines[1:]):
        return match[0]
    quoted = text.rstrip(" ").replace("'", "''")
    return f"{match['key']}'{quoted}'{comment}{end}"


def _value(source: str, first: int) -> Field:
    """Return the value in *source*, a key with its value, which begins in line *first* of the front matter."""
    if len(source) > MAX_FIELD:
        _refuse(first, f"{len(source)} characters for one key", f"it may have {MAX_FIELD}")
    if (brackets := source.count("[") + source.count("{")) > MAX_BRACKETS:
        _refuse(first, f"{brackets} opening brackets and braces for one key", f"it may have {MAX_BRACKETS}")
    try:
        events = list(yaml.parse(_TEXT.sub(_quoted, source), Loader=LOADER))
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line if error.problem_mark else 0, len(source.splitlines()) - 1)
        _refuse(first + line, f"YAML that cannot be read: {error.problem}", "put the text in quotes")
    # Before the value come the starts of stream, document and keys, and the key; after it their ends
    start, *inner = events[4:-3]
    if not isinstance(start, yaml.CollectionStartEvent):
        return _text(start, first)
    _refuse_marks(start, first)
    items = inner[:-1]
    texts = [_text(event, first) for event in items]
    if isinstance(start, yaml.SequenceStartEvent):
        return tuple(texts)
    mapping: dict[str, str] = {}
    for key, event, text in zip(texts[::2], items[::2], texts[1::2], strict=True):
        if key in mapping:
            _refuse(_line(event, first), f"`{key}` for the second time", "give each key once")
        mapping[key] = text
    return mapping


def _line(event: yaml.Event, first: int) -> int:
    return first + (event.start_mark.line if event.start_mark else 0)


def _refuse_marks(event: yaml.Event, first: int) -> None:
    """Refuse an alias, an anchor and a tag."""
    mark = ""
    if isinstance(event, yaml.AliasEvent):
        mark = "*"
    elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
        mark = "&"
    elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
        mark = "!"
    if mark:
        _refuse(_line(event, first), f"a value that begins with `{mark}`", "put the text in quotes")


def _text(event: yaml.Event, first: int) -> str:
    """Return the text of *event*; refuse what is no text."""
    _refuse_marks(event, first)
    if not isinstance(event, yaml.ScalarEvent):
        _refuse(_line(event, first), "a list or keys where a text belongs", "only one level is read")
    _refuse_hidden(event.value, _line(event, first))
    return event.value

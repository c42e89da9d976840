"""`Skill`: what the front matter of a `SKILL.md` says, in the public Agent Skills format.

Reads the front matter of a `SKILL.md`: the subset of YAML that the format needs. All else is refused.

A value is a text on one line (plain or in quotes), a plain text that goes on in indented lines, a text after `|` or
`>`, a list of texts, or one level of `key: text`. All scalars are texts, also `1.0` and `true`. Whatever this reads
means the same in YAML: `yaml.BaseLoader` returns equal values. One thing more is read, because many public skills have
it: a plain text after a key may hold `: `, which YAML refuses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn, TypeAlias

from agentrail.values.untrusted_values import brief
from agentrail.values.value import Authored

Field: TypeAlias = "str | tuple[str, ...] | Mapping[str, str]"
"""The value of one key: a text, a list of texts, or texts by key."""

_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*):(?: +(.*))?")
_HIDDEN: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""Control characters, those that change the direction of text, and those that are never shown.

U+200C and U+200D, which join letters and emoji, and U+FE00 to U+FE0F, which choose their form, are let through.
"""

_INDICATORS: Final = "&*!|>'\"%@`{}[],#?"
_BLOCK: Final = re.compile(r"([|>])([+-]?)(?: +#.*)?")
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'(?: +#.*)?")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?: +#.*)?')
_FLOW: Final = re.compile(r"\[([^\[\]{}#'\"]*)\](?: +#.*)?")
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_ESCAPES: Final[Mapping[str, str]] = {'"': '"', "\\": "\\", "/": "/", "n": "\n", " ": " "}


class FrontMatterError(ValueError):
    """A text has no front matter, or uses YAML outside of the subset that is read."""


def front_matter(text: str, known_keys: Collection[str] | None = None) -> Mapping[str, Field]:
    """Return the fields of the front matter of *text*; raise `FrontMatterError`, with the line, if it is invalid.

    The lines below a key that is not *known_keys* are not read, if its own line has no value: such a field is left out.
    `None` if all keys are known.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[0].rstrip(" ") != _FENCE:
        message = f"it does not begin with a line `{_FENCE}`, as front matter must"
        raise FrontMatterError(message)
    ends = [number for number, line in enumerate(lines) if number and line.rstrip(" ") == _FENCE]
    if not ends:
        message = f"its front matter has no end: a second line `{_FENCE}`"
        raise FrontMatterError(message)
    return _Fields(lines[1 : ends[0]]).fields(known_keys)


class _Fields:
    """Parses the lines of a front matter in order."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def fields(self, known_keys: Collection[str] | None) -> Mapping[str, Field]:
        """Return the value of each key; nested values are read only for *known_keys* (`None`: for all)."""
        for number, line in enumerate(self._lines):
            if hidden := _HIDDEN.search(line):
                self._at = number
                self._refuse("a tab" if hidden[0] == "\t" else f"the character {hidden[0]!a}", "write spaces or text")
        fields: dict[str, Field] = {}
        while self._skip_blank():
            if self._indent():
                self._refuse("an indented line that belongs to no key", "begin it in the first column")
            key, rest = self._key(self._lines[self._at], fields)
            if known_keys is not None and key not in known_keys and rest[:1] in {"", "#"}:
                self._pass_over()
                fields[key] = ""
            else:
                fields[key] = self._value(rest)
        return fields

    def _pass_over(self) -> None:
        """Skip to the next line that may begin a key: neither indented nor an item of a list."""
        self._at += 1
        while self._skip_blank() and (self._indent() or self._lines[self._at][:2] in {"-", "- "}):
            self._at += 1

    # Lines

    def _refuse(self, problem: str, instead: str) -> NoReturn:
        """Raise `FrontMatterError` for the *problem* in the current line; the fence is line 1."""
        message = f"line {self._at + 2} of its front matter has {problem}; {instead}"
        raise FrontMatterError(message)

    def _skip_blank(self) -> bool:
        """Skip empty lines and comments; return whether there is another line."""
        while self._at < len(self._lines) and self._lines[self._at].lstrip(" ")[:1] in {"", "#"}:
            self._at += 1
        return self._at < len(self._lines)

    def _indent(self) -> int:
        line = self._lines[self._at]
        return len(line) - len(line.lstrip(" "))

    def _key(self, line: str, before: Mapping[str, object]) -> tuple[str, str]:
        """Return the key of *line* and the text after it; refuse a key that is in *before*."""
        match = _KEY.fullmatch(line)
        if match is None:
            self._refuse("no `key: value`", "only plain keys, lists of texts and one level of keys are read")
        if match[1] in before:
            self._refuse(f"`{match[1]}` for the second time", "give each key once")
        return match[1], (match[2] or "").strip(" ")

    # Values

    def _value(self, rest: str) -> Field:
        """Return the value that begins with *rest*, and move to the line after it."""
        if block := _BLOCK.fullmatch(rest):
            self._at += 1
            return self._block(folds=block[1] == ">", chomp=block[2])
        if rest[:1] == "[":
            return self._flow(rest)
        if rest[:1] in {"'", '"'}:
            scalar = self._scalar(rest)
            self._at += 1
            return scalar
        if rest and rest[:1] != "#":
            return self._plain(rest)
        self._at += 1
        return self._read_nested() if self._skip_blank() else ""

    def _read_nested(self) -> Field:
        """Return the value in the lines after a key whose own line has none."""
        indent, line = self._indent(), self._lines[self._at].lstrip(" ")
        if line == "-" or line.startswith("- "):
            return self._list(indent)
        if not indent:
            return ""
        if _KEY.fullmatch(line):
            return self._mapping(indent)
        text = line.rstrip(" ")
        if text[0] not in "[|>'\"":
            self._without_colon(self._check_plain(text), text)
        return self._value(text)

    def _list(self, indent: int) -> tuple[str, ...]:
        items: list[str] = []
        while self._skip_blank():
            line = self._lines[self._at][self._indent() :]
            if self._indent() < indent or not (line == "-" or line.startswith("- ")):
                if self._indent() > 0:
                    self._refuse("a line in a list that is no text of one line", "write `- ` and a text, or quote it")
                break
            if self._indent() != indent:
                self._refuse("a list in a list", "only lists of texts are read")
            item = line[1:].strip(" ")
            if _KEY.fullmatch(item):
                self._refuse("a key in a list", "only lists of texts are read; put the text in quotes")
            items.append(self._without_colon(self._scalar(item), item))
            self._at += 1
        return tuple(items)

    def _mapping(self, indent: int) -> Mapping[str, str]:
        mapping: dict[str, str] = {}
        while self._skip_blank() and self._indent():
            if self._indent() != indent:
                self._refuse("a line that is indented in another way than those before it", "only one level is read")
            key, rest = self._key(self._lines[self._at][indent:], mapping)
            mapping[key] = self._scalar(rest)
            self._at += 1
        return mapping

    def _flow(self, rest: str) -> tuple[str, ...]:
        match = _FLOW.fullmatch(rest)
        if match is None:
            self._refuse(
                "a list in brackets that is not read", "write plain texts with commas between them on one line"
            )
        items = [item.strip(" ") for item in match[1].split(",")] if match[1].strip(" ") else []
        if not all(items):
            self._refuse("a list with an empty item", "write a text between commas")
        texts = tuple([self._without_colon(self._scalar(item), item) for item in items])
        self._at += 1
        return texts

    # Texts

    def _scalar(self, text: str) -> str:
        """Return the value of *text*, a plain or quoted text on one line."""
        if text[:1] == "'":
            match = _SINGLE.fullmatch(text)
            return self._unquotable() if match is None else match[1].replace("''", "'")
        if text[:1] == '"':
            match = _DOUBLE.fullmatch(text)
            return self._unquotable() if match is None else _ESCAPE.sub(self._unescape, match[1])
        return self._check_plain(text)

    def _unquotable(self) -> NoReturn:
        self._refuse("a quote without its end, or text after it", "end the quote on the same line")

    def _unescape(self, escape: re.Match[str]) -> str:
        code = escape[1]
        character = chr(int.from_bytes(bytes.fromhex(code[1:]))) if len(code) > 1 else _ESCAPES.get(code)
        if character is None or "\ud800" <= character <= "\udfff" or (character != "\n" and _HIDDEN.search(character)):
            self._refuse(
                f"the escape `\\{code}`", r"only `\"`, `\\`, `\/`, `\n` and `\uXXXX` of shown characters are read"
            )
        return character

    def _check_plain(self, text: str) -> str:
        """Return the plain *text* without its comment; refuse a text that YAML would not read as a string."""
        text = re.split(" #", text, maxsplit=1)[0].rstrip(" ") if text[:1] != "#" else ""
        if text and (text[0] in _INDICATORS or (text[0] in "-:" and text[1:2] in {"", " "})):
            self._refuse(f"a value that begins with `{text[0]}`", "put the text in quotes")
        return text

    def _without_colon(self, text: str, source: str) -> str:
        """Return *text*, read from *source*; refuse a text that YAML would read as a key with a value."""
        if text and source[0] not in "'\"" and (": " in text or text.endswith(":")):
            self._refuse("a `:` where it ends a key, in a text without quotes", "put the text in quotes")
        return text

    def _plain(self, rest: str) -> str:
        """Return a plain text of one or more lines: the indented lines after *rest* are joined to it by spaces."""
        first = self._check_plain(rest)
        is_open = first == rest
        parts, breaks = [first], 0
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at].strip(" ")
            if line and not self._indent():
                break
            if line.startswith("#"):
                is_open = False
            elif line:
                if not is_open:
                    self._refuse("text after a comment", "end the text before it, or put it in quotes")
                # Only `#` must not begin it: any other indicator is allowed in a continued line
                content = line.split(" #", 1)[0].rstrip(" ")
                if _KEY.fullmatch(content):
                    self._refuse("a key that is indented below a text", "begin it in the first column, or quote it")
                is_open = content == line
                parts += ["\n" * breaks or " ", content]
            breaks = 0 if line else breaks + 1
            self._at += 1
        return "".join(parts)

    def _block(self, *, folds: bool, chomp: str) -> str:
        """Return the block after `|` or `>`: the lines that are indented at least as far as the first one."""
        end = start = self._at
        while end < len(self._lines) and self._lines[end][:1] in {"", " "}:
            end += 1
        lines = self._lines[start:end]
        indent = next((len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" ")), None)
        for line in lines:
            if line.strip(" ") and indent is not None and line[:indent].strip(" "):
                self._refuse(
                    "a line in a text after `|` or `>` that is indented less than its first", "indent it alike"
                )
            self._at += 1
        if indent is None:
            return "\n" * len(lines) if chomp == "+" else ""
        if any(len(line) > indent for line in lines[: next(n for n, line in enumerate(lines) if line.strip(" "))]):
            self._refuse("spaces before the first line of a text after `|` or `>`", "leave the line empty")
        return _chomp([line[indent:] for line in lines], chomp, folds=folds)


def _chomp(lines: Sequence[str], chomp: str, *, folds: bool) -> str:
    """Return the *lines* of a block as a text: folded if it *folds*, and with the line ends that *chomp* keeps."""
    last = max(number for number, line in enumerate(lines) if line)
    pieces: list[str] = []
    before: str | None = None
    breaks = 0
    for line in lines[: last + 1]:
        if not line:
            breaks += 1
            continue
        if before is not None:
            joined = folds and before[0] != " " and line[0] != " "
            pieces.append(("" if breaks else " ") if joined else "\n")
        pieces += ["\n" * breaks, line]
        before, breaks = line, 0
    end = "" if chomp == "-" else "\n"
    return "".join(pieces) + end + ("\n" * (len(lines) - last - 1) if chomp == "+" else "")


MAX_SKILL: Final = 1024 * 1024
"""The most bytes of a `SKILL.md`. The format has no limit, and there are public skills of more than 64 KiB."""

MAX_HEAD: Final = 64 * 1024
"""How many bytes of a `SKILL.md` are read for its front matter, which must end in them."""

FIELDS: Final = frozenset({"name", "description", "license", "compatibility", "allowed-tools", "metadata"})
"""The fields of the format. Others are left alone."""

MAX_DESCRIPTION: Final = 1024
"""The most characters of a skill's description."""

MAX_COMPATIBILITY: Final = 500
"""The most characters of what a skill says it needs."""

NAME: Final = re.compile(r"(?!.{65})[a-z0-9]+(?:-[a-z0-9]+)*")
"""Pattern of the names that a skill may have."""

_TOOL: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


class Skill(Authored):
    """A skill: instructions for one kind of task, in a folder with a `SKILL.md`."""

    name: str
    """Name of the skill, and of its folder."""
    description: str
    """What the skill is for, on one line: by this the model chooses it."""
    folder: str
    """The folder of the skill, as the specification names the folder around it."""
    license: str = ""
    """The licence, as the skill names it."""
    compatibility: str = ""
    """What the skill says that it needs."""
    allowed_tools: tuple[str, ...] = ()
    """The tools that the skill says it uses. They are no permission: a skill cannot approve its own calls."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Further facts, as pairs of key and text."""


class SkillError(ValueError):
    """A `SKILL.md` is not valid."""


def skill_of(folder: str, data: bytes, size: int) -> Skill:
    """Return the skill in *folder*, whose `SKILL.md` has *size* bytes and begins with *data*; raise `SkillError`."""
    if size > MAX_SKILL:
        message = f"its SKILL.md has {size} bytes, and may have {MAX_SKILL}; move parts of it to files beside it"
        raise SkillError(message)
    try:
        fields = front_matter(_whole_lines(data, size).decode("utf-8-sig"), FIELDS)
    except UnicodeDecodeError as error:
        message = f"its SKILL.md is no text in UTF-8: byte {error.start + 1} does not fit"
        raise SkillError(message) from error
    except FrontMatterError as error:
        raise SkillError(str(error)) from error
    name = _text(fields, "name")
    if NAME.fullmatch(name) is None:
        message = f"its name is {brief(name)}; a name has 1 to 64 letters a-z, digits and single hyphens between them"
        raise SkillError(message)
    if name != (here := folder.rstrip("/").rpartition("/")[2]):
        message = f"its name is `{name}`, and its folder {brief(here)}; give both the same name"
        raise SkillError(message)
    description = " ".join(_text(fields, "description").split())
    if not description:
        message = "it has no description, by which the model chooses it; write `description: …`"
        raise SkillError(message)
    return Skill(
        name,
        _of_length("description", description, MAX_DESCRIPTION),
        folder,
        _text(fields, "license").strip(),
        _of_length("compatibility", _text(fields, "compatibility").strip(), MAX_COMPATIBILITY),
        _tools(fields.get("allowed-tools", "")),
        _metadata(fields.get("metadata", "")),
    )


def _whole_lines(data: bytes, size: int) -> bytes:
    """Return *data*, the beginning of a file of *size* bytes, without the incomplete last line."""
    return data if len(data) >= size else data[: data.rfind(b"\n") + 1]


def _text(fields: Mapping[str, Field], key: str) -> str:
    """Return the text under *key*; empty if the key is missing."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        message = f"its {key} is no text"
        raise SkillError(message)
    return value


def _of_length(key: str, text: str, most: int) -> str:
    if len(text) > most:
        message = f"its {key} has {len(text)} characters, and may have {most}"
        raise SkillError(message)
    return text


def _tools(field: Field) -> tuple[str, ...]:
    """Return the names of tools in a list, or in a text that separates them by spaces or commas."""
    if isinstance(field, str):
        return tuple(_TOOL.findall(field))
    if isinstance(field, Mapping):
        message = "its allowed-tools are no list of names"
        raise SkillError(message)
    return field


def _metadata(field: Field) -> tuple[tuple[str, str], ...]:
    if isinstance(field, Mapping):
        return tuple(field.items())
    if field:
        message = "its metadata are no texts by key"
        raise SkillError(message)
    return ()

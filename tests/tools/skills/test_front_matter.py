"""The front matter of a `SKILL.md`: what is read, and what is refused by line and reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentrail.tools.skills.front_matter import MAX_BRACKETS, MAX_FIELD, Field, FrontMatterError, front_matter
from tests.each_case import each_case

KEYS = (*"abcdehm", "name", "version", "on", "none", "metadata")


def read(*lines: str) -> Mapping[str, Field]:
    return front_matter("\n".join(("---", *lines, "---", "# Text", "---", "a: b")), KEYS)


READ: dict[str, tuple[tuple[str, ...], Mapping[str, Field]]] = {
    "nothing": ((), {}),
    "plain texts": (
        ("name: pdf", "version: 1.0", "on: true", "none:"),
        {"name": "pdf", "version": "1.0", "on": "true", "none": ""},
    ),
    "joined characters": (
        ("a: \U0001f469\u200d\U0001f680 \u2764\ufe0f",),
        {"a": "\U0001f469\u200d\U0001f680 \u2764\ufe0f"},
    ),
    "comments": (("# one", "a: b # two", "  # three", "", "c: d#e"), {"a": "b", "c": "d#e"}),
    "marks inside of a text": (("a: it's {x}, [y] & http://z:1/*",), {"a": "it's {x}, [y] & http://z:1/*"}),
    "quotes": (("a: 'it''s: #1'", r'b: "x: \"y\" \u00e9\n\\" # c'), {"a": "it's: #1", "b": 'x: "y" é\n\\'}),
    "a text that goes on": (("a: one", "  two", "", "   three", "b: c"), {"a": "one two\nthree", "b": "c"}),
    "a text below its key": (("a:", "  one", "  two", "b: c"), {"a": "one two", "b": "c"}),
    "a literal text": (
        ("a: |", "  one", "    two: #", "", "  three", "", "b: c"),
        {"a": "one\n  two: #\n\nthree\n", "b": "c"},
    ),
    "a folded text": (
        ("a: >", "  one", "  two", "", "  three", "   * four", "  five"),
        {"a": "one two\nthree\n * four\nfive\n"},
    ),
    "ends of texts": (("a: |-", "  x", "", "b: >+", "  y", ""), {"a": "x", "b": "y\n\n"}),
    "lists": (
        ("a:", "- x", "-  'y: z'", "b:", "  - q", "c: [r, s t]", "d: []"),
        {"a": ("x", "y: z"), "b": ("q",), "c": ("r", "s t"), "d": ()},
    ),
    "keys below a key": (
        ("metadata:", "  author: me", '  version: "1.0"', "", "a: b"),
        {"metadata": {"author": "me", "version": "1.0"}, "a": "b"},
    ),
    "colons, which YAML refuses": (
        ("a: use when: asked # b", "c: use", "  this when: asked", "d:", "  e: f: g", "h: for:"),
        {"a": "use when: asked", "c": "use this when: asked", "d": {"e": "f: g"}, "h": "for:"},
    ),
    "colons in longer texts": (
        ("a: it's", "", "  for you: all # b: c", "m:", "  b: >", "    d: e: f", "  c: 'g", "    h: i'"),
        {"a": "it's\nfor you: all", "m": {"b": "d: e: f\n", "c": "g h: i"}},
    ),
    "keys in braces": (("a: {b: c, 'd: e': f}",), {"a": {"b": "c", "d: e": "f"}}),
    "a key of words": (("m:", "  use when: asked"), {"m": {"use when": "asked"}}),
    "texts and lists on several lines": (
        ('a: "b', '  c"', "d: [e,", "  f]"),
        {"a": "b c", "d": ("e", "f")},
    ),
    "values of others": (("x: [a] [b]", "hooks: &x", "  - {y", "a: b"), {"a": "b"}),
    "ends of lines of another system": (("a: b\r", "c: d\r"), {"a": "b", "c": "d"}),
}


@each_case(READ)
def test_what_is_in_the_subset_is_read(case: str) -> None:
    lines, fields = READ[case]
    assert read(*lines) == fields


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "an indented key": (("# c", "  a: b"), "line 3 of its front matter has an indented line that belongs to no key"),
    "no key": (("a: b", "just text"), "line 3 of its front matter has no `key: value`"),
    "no space": (("a:b",), "line 2 of its front matter has no `key: value`"),
    "a key in quotes": (('"a": b',), "line 2 of its front matter has no `key: value`"),
    "a merged key": (("<<: b",), "line 2 of its front matter has no `key: value`"),
    "a second document": (("...", "a: b"), "line 2 of its front matter has no `key: value`"),
    "a key twice": (("a: b", "c: d", "a: e"), "line 4 of its front matter has `a` for the second time"),
    "a key twice, below": (("m:", "  a: b", "  a: c"), "line 4 of its front matter has `a` for the second time"),
    "two levels": (("m:", "  a:", "    b: c"), "line 4 of its front matter has a list or keys where a text belongs"),
    "an anchor": (("a: &x b",), "line 2 of its front matter has a value that begins with `&`"),
    "an alias": (("a: *x",), "line 2 of its front matter has a value that begins with `*`"),
    "a tag": (("a: !!python/object:os.system x",), "line 2 of its front matter has a value that begins with `!`"),
    "keys in keys in braces": (("a: {b: {c: d}}",), "line 2 of its front matter has a list or keys where a text"),
    "a list in brackets": (("a: [[b]]",), "line 2 of its front matter has a list or keys where a text belongs"),
    "an open list": (("a: [b,",), "line 2 of its front matter has YAML that cannot be read"),
    "an empty item": (("a: [b,,c]",), "line 2 of its front matter has YAML that cannot be read"),
    "a key below a text": (("a: use", "  when: asked"), "line 3 of its front matter has YAML that cannot be read"),
    "a colon in a list": (("a:", "- use when: asked"), "line 3 of its front matter has a list or keys where a text"),
    "a colon in brackets": (("a: [use when: asked]",), "line 2 of its front matter has a list or keys where a text"),
    "an open quote": (('a: "b',), "line 2 of its front matter has YAML that cannot be read"),
    "text after a quote": (("a: 'b' c",), "line 2 of its front matter has YAML that cannot be read"),
    "an escape": ((r'a: "\x00"',), r"line 2 of its front matter has the character '\\x00'"),
    "half a character": ((r'a: "\ud800"',), "line 2 of its front matter has "),
    "a tab": (("a: b", "\tc: d"), "line 3 of its front matter has a tab; write spaces"),
    "a hidden character": (("a: b\u202ec",), r"line 2 of its front matter has the character '\\u202e'"),
    "a character that takes no room": (("a: b\u200bc",), r"line 2 of its front matter has the character '\\u200b'"),
    "a mark of direction": (("a: b\u200fc",), r"line 2 of its front matter has the character '\\u200f'"),
    "a hidden byte": (("a: b\U000e0150",), r"line 2 of its front matter has the character '\\U000e0150'"),
    "a hidden text": (("a: b\U000e0041",), r"line 2 of its front matter has the character '\\U000e0041'"),
    "a key in a list": (("a:", "  - b: c"), "line 3 of its front matter has a list or keys where a text belongs"),
    "a list in a list": (("a:", "  - - b"), "line 3 of its front matter has a list or keys where a text belongs"),
    "text in a list": (("a:", "  - b", "  c"), "line 4 of its front matter has YAML that cannot be read"),
    "a block less indented": (("a: |", "    b", "  c"), "line 4 of its front matter has YAML that cannot be read"),
    "a comment in a text": (("a: b # c", "  d"), "line 3 of its front matter has YAML that cannot be read"),
}


@each_case(REFUSED)
def test_what_is_not_in_the_subset_is_refused_by_line_and_reason(case: str) -> None:
    lines, why = REFUSED[case]
    with pytest.raises(FrontMatterError, match=why.replace("*", r"\*")):
        read(*lines)


@each_case(READ)
def test_pyyaml_without_libyaml_reads_the_same(case: str) -> None:
    lines, fields = READ[case]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentrail.tools.skills.front_matter.LOADER", yaml.SafeLoader)
        assert read(*lines) == fields


@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
def test_a_value_is_limited_in_size_and_in_brackets(loader: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.tools.skills.front_matter.LOADER", loader)
    longest = "x" * (MAX_FIELD - len("a: \n"))
    assert read(f"a: {longest}") == {"a": longest}
    assert read("a: b", f"# {longest}") == {"a": "b"}
    with pytest.raises(FrontMatterError, match="line 2 of its front matter has 8193 characters for one key; it may"):
        read(f"a: {longest}x")
    assert read(f"a: x{'[{' * (MAX_BRACKETS // 2)}") == {"a": "x" + "[{" * (MAX_BRACKETS // 2)}
    with pytest.raises(FrontMatterError, match="line 2 of its front matter has 101 opening brackets and braces for"):
        read(f"a: x{'[' * MAX_BRACKETS}{{")
    with pytest.raises(FrontMatterError, match="line 2 of its front matter has "):
        read(f"a: {'[' * MAX_BRACKETS}")
    with pytest.raises(FrontMatterError, match="line 3 of its front matter has "):
        read("a:", "- " * 4000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it does not begin with a line `---`, as front matter must"),
        ("# A skill\n---\na: b\n---\n", "it does not begin with a line `---`, as front matter must"),
        ("---\na: b\n", "its front matter has no end: a second line `---`"),
    ],
)
def test_a_text_without_front_matter_is_refused(text: str, why: str) -> None:
    with pytest.raises(FrontMatterError) as caught:
        front_matter(text, KEYS)
    assert str(caught.value) == why


PIECES = (
    "a: ",
    "b:\n",
    "  ",
    "\n",
    "- ",
    "'",
    '"',
    "\\",
    "|",
    ">-",
    "[x, y]",
    "{",
    "&",
    "#",
    " #",
    ":",
    "text",
    "é",
    "\t",
    "---",
)


@pytest.mark.long
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join))
def test_whatever_it_holds_it_is_read_or_refused(body: str) -> None:
    try:
        fields = front_matter(f"---\n{body}\n---\n", KEYS)
    except FrontMatterError:
        return
    assert all(isinstance(value, str | tuple | dict) for value in fields.values())

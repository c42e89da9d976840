"""Collects words from the code and options of plugins: names of tools and arguments, numbers and texts.

Random draws seldom hit on "delete_account" or 501, so tests that look for mistakes of a plugin draw from its own words.
They are taken from the constants of its methods, from the module constants that these methods name, and from its
options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Final, cast

from agentrail.hooks.attachments import implemented, unkeyed
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.plugin import AnyPlugin, Attachable, Plugin
from agentrail.testing.plugin_code import Read, reads
from agentrail.values.untrusted_values import names_of
from agentrail.values.value import Value

MOST: Final = 60
"""How many words of one plugin are taken at most; of a long list of commands, the beginning is enough."""

OWN: Final = 3
"""How many times as often a word of the plugin is drawn as one of `PLAIN_WORDS`."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
_LONG: Final = 60
_BIG: Final = 10**9


class Vocabulary(Value):
    """Words from which calls and texts are drawn."""

    names: tuple[str, ...]
    """Names of tools and arguments."""
    texts: tuple[str, ...]
    """Texts, for prompts and for values of arguments."""
    numbers: tuple[int | float, ...]
    """Figures, each also with one more and one less."""
    read: Read | None = None
    """The tools and arguments that the plugin's code reads; `None` if it reads no argument by name."""
    hooks: frozenset[str] = frozenset()
    """The hooks that the plugin is asked at."""
    own_texts: tuple[str, ...] = ()
    """The texts of the plugin alone, each once."""

    def shares_with(self, other: Vocabulary) -> bool:
        """Return whether both plugins read the same tool or the same argument of calls."""
        if self.read is None or other.read is None:
            return False
        own_words, other_words = (
            {*names.tools, *(key.name for key in names.keys)} for names in (self.read, other.read)
        )
        return not own_words.isdisjoint(other_words)


def vocabulary(plugin: Attachable, *, watch: bool = True) -> Vocabulary:
    """Return the words in the code of *plugin*, each three times (`OWN`), and `PLAIN_WORDS`.

    With *watch*, `before_tool` is also called, to see what it reads; not for a plugin that may remember such calls.
    """
    inner = unkeyed(plugin)[1]
    words = _first(_words(inner))
    reads_ = reads(inner, watch=watch)
    texts = tuple(word for word in words if isinstance(word, str))
    read_of = (*reads_.tools, *(key.name for key in reads_.keys)) if reads_ is not None else ()
    names = tuple(dict.fromkeys((*read_of, *(text for text in texts if _NAME.fullmatch(text)))))
    figures = [word for word in words if not isinstance(word, str)]
    numbers = tuple(dict.fromkeys(near for figure in figures for near in (figure, figure + 1, figure - 1)))
    return Vocabulary(
        (*names * OWN, *PLAIN_WORDS.names),
        (*texts * OWN, *PLAIN_WORDS.texts),
        (*numbers * OWN, *PLAIN_WORDS.numbers),
        reads_,
        implemented(inner) & HOOK_NAMES,
        texts,
    )


PLAIN_WORDS: Final = Vocabulary(("read", "write", "run", "path", "command"), ("a", "ls", "rm -rf /"), (0, 1, -1))
"""Common words, drawn beside those of any plugin."""


def _first(words: Iterator[str | int | float]) -> list[str | int | float]:
    """Return the first `MOST` different *words*; words of different types, such as 1 and 1.0, are different."""
    words_: dict[tuple[type, object], str | int | float] = {}
    for word in words:
        words_.setdefault((type(word), word), word)
        if len(words_) >= MOST:
            break
    return list(words_.values())


def _words(plugin: AnyPlugin) -> Iterator[str | int | float]:
    for cls in type(plugin).__mro__:
        if cls in (Plugin, AnyPlugin, object):
            continue
        for name, member in vars(cls).items():
            if isinstance(member, FunctionType) and not name.startswith("__"):
                yield from _of_code(member.__code__, member.__globals__, member.__doc__)
    for name in names_of(type(plugin)) or ():
        yield from _plain(getattr(plugin, name))


def _of_code(code: CodeType, names: Mapping[str, object], doc: str | None) -> Iterator[str | int | float]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, names, None)
        elif constant is not doc and constant != doc:
            yield from _plain(constant)
    for name in code.co_names:
        value = names.get(name)
        if isinstance(value, str | int | float | tuple | frozenset | set | list | dict):
            yield from _plain(cast("object", value))


def _plain(value: object) -> Iterator[str | int | float]:
    """Yield the words in *value* and in the containers in it: short printable texts, and numbers."""
    match value:
        case Mapping():
            for key, item in cast("Mapping[object, object]", value).items():
                yield from _plain(key)
                yield from _plain(item)
        case tuple() | list():
            for item in cast("tuple[object, ...]", value):
                yield from _plain(item)
        case set() | frozenset():
            words = (word for item in cast("frozenset[object]", value) for word in _plain(item))
            yield from sorted(words, key=repr)
        case str() if type(value) is str and value == value.strip(" `=") and 0 < len(value) <= _LONG:
            if value.isprintable():
                yield value
        case int() | float() if type(value) in (int, float) and abs(value) < _BIG:
            yield value
        case _:
            return

"""Scripts in which two plugins meet at one hook, made in turn from what the code of both reads.

Calls that are drawn by chance seldom matter to both plugins at once: one has to take `/mnt` off a path that then begins
with `/vault/`, where the other looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod
from typing import Final

from agentrail.testing.code_words import PLAIN_WORDS, Vocabulary
from agentrail.testing.plugin_code import COMMON, SEE_CALLS
from agentrail.testing.scripted import ScriptStep, call, say
from agentrail.testing.turns.generating import GO, RESULTS
from agentrail.testing.turns.script_steps import prompt, returns
from agentrail.testing.world.choose import Choose
from agentrail.values.content import ToolCall
from agentrail.values.json import FrozenObject, Json

CALLS: Final = 3
"""How many calls a script makes at most, beside repeats of them with another tool."""

JOINED: Final = 8
"""How many texts of each plugin are joined with those of the other, at the most."""

MORE: Final = 3
"""How many arguments a call has at most, beside those in which the plugins meet."""


class Meeting:
    """Two plugins that are asked at the same hook: their scripts."""

    def __init__(self, first: Vocabulary, second: Vocabulary) -> None:
        self._sees_calls = not (first.hooks & second.hooks).isdisjoint(SEE_CALLS)
        """Whether both are asked about calls or their results."""
        self._texts: tuple[str, ...] = _joined(first.own_texts, second.own_texts) or PLAIN_WORDS.texts
        """Texts for prompts, results and answers."""
        self._tools = _tools(first, second)
        """Names of tools."""
        mine, other = _arguments(first), _arguments(second)
        self._values: dict[str, tuple[Json, ...]] = {
            name: _met(mine.get(name, ()), other.get(name, ())) for name in (*mine, *other)
        }
        """The values of each argument."""
        self._shared = [(name,) for name in mine if name in other]
        """The arguments that both read."""
        alone = ([name for name in mine if name not in other], [name for name in other if name not in mine])
        self._beside: list[tuple[str, ...]] = list(product(*alone)) or [(name,) for names in alone for name in names]
        """Pairs of arguments, one of each plugin; if one has none of its own, those of the other."""

    def script(self, choose: Choose) -> tuple[ScriptStep, ...]:
        """Return the next script: a prompt, calls at which the plugins may meet, and perhaps results and an answer."""
        text = self._text(choose) if choose.percent(30) or not self._sees_calls else None
        script_steps: list[ScriptStep] = [GO if text is None else prompt(text)]
        if self._sees_calls:
            for _ in range(choose.number(1, CALLS)):
                script_steps += self._about_a_call(choose)
        if choose.percent(20):
            script_steps.append(say(self._text(choose)))
        return tuple(script_steps)

    def _about_a_call(self, choose: Choose) -> Iterator[ScriptStep]:
        """Yield a response with a call, perhaps its result, and perhaps one that calls another tool with the same."""
        drawn = self.call(choose)
        yield say(calls=[drawn])
        if choose.percent(25):
            yield returns(self._text(choose)) if choose.percent(50) else choose.pick(RESULTS)
        if choose.percent(30):
            yield say(calls=[call(choose.pick(self._tools), drawn.args)])

    def call(self, choose: Choose) -> ToolCall:
        """Return the next call: all combinations of tool and values come in turn, for each set of arguments."""
        names: tuple[str, ...] = ()
        bases = self._shared if not self._beside or (self._shared and choose.percent(60)) else self._beside
        if bases:
            base = bases[choose.turn((self, len(bases)), len(bases))]
            others = [name for name in self._values if name not in base]
            first = choose.below(len(others)) if len(others) > MORE else 0
            names = (*base, *choose.some(others[first : first + MORE], 50))
        values = [self._values[name] for name in names]
        number = choose.turn((self, names), len(self._tools) * prod(map(len, values)))
        number, tool = divmod(number, len(self._tools))
        args: dict[str, Json] = {}
        for name, several in zip(names, values, strict=True):
            number, index = divmod(number, len(several))
            args[name] = several[index]
        return call(self._tools[tool], args)

    def _text(self, choose: Choose) -> str:
        return self._texts[choose.turn((self, "text"), len(self._texts))]


def meetings(words: Sequence[Vocabulary]) -> list[tuple[int, int]]:
    """Return the pairs of places in *words* whose plugins have a hook in common: first those that read the same."""
    pairs = [pair for pair in combinations(range(len(words)), 2) if not _apart(words, pair)]
    return sorted(pairs, key=lambda pair: not words[pair[0]].shares_with(words[pair[1]]))


def _apart(words: Sequence[Vocabulary], pair: tuple[int, int]) -> bool:
    """Whether the plugins at the places *pair* have no hook in common, so that their order cannot matter."""
    first, second = pair
    return words[first].hooks.isdisjoint(words[second].hooks)


def _arguments(words: Vocabulary) -> dict[str, tuple[Json, ...]]:
    """Return the values of each argument that the code reads."""
    if words.read is None:
        return {}
    return {key.name: key.values or words.read.values or COMMON for key in words.read.keys}


def _met(mine: Sequence[Json], other: Sequence[Json]) -> tuple[Json, ...]:
    """Return the values of both plugins for an argument, and texts and objects of one joined with the other's."""
    texts = [[value for value in values if isinstance(value, str)] for values in (mine, other)]
    objects = [[value for value in values if isinstance(value, FrozenObject)] for values in (mine, other)]
    values = (*mine, *other, *_joined(*texts), *_completed(*objects), *_completed(*reversed(objects)))
    return tuple({(type(value), repr(value)): value for value in values}.values())


def _joined(mine: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of both, and the first ones of each with one of the other in front of it or after it."""
    these, those = mine[:JOINED], other[:JOINED]
    pairs = [*product(these, those), *product(those, these)]
    return tuple(dict.fromkeys((*mine, *other, *(front + end for front, end in pairs))))


def _completed(objects: Sequence[FrozenObject], other: Sequence[FrozenObject]) -> Iterator[FrozenObject]:
    """Yield each of *objects* with the further keys that the first of *other*, which has all keys, has."""
    yield from (_merged(full_object, value) for full_object in other[:1] for value in objects)


def _merged(full_object: FrozenObject, changes: FrozenObject) -> FrozenObject:
    """Return *full_object* with the values of *changes*; objects within both are merged too."""
    merged = dict[str, Json](full_object)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = (
            _merged(old, value) if isinstance(old, FrozenObject) and isinstance(value, FrozenObject) else value
        )
    return FrozenObject(merged)


def _tools(first: Vocabulary, second: Vocabulary) -> tuple[str, ...]:
    """Return the names of tools that the code of both reads; a name of either, if it tells no tool from others."""
    names = [words.read.tools if words.read is not None else words.own_texts for words in (first, second)]
    return tuple(dict.fromkeys((*names[0], *names[1]))) or PLAIN_WORDS.names[:1]

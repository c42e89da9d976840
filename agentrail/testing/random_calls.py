"""Draws random tool calls that are likely to matter to the plugins under test: from the words that their code reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from math import prod
from typing import Final, TypeAlias, TypeVar

from agentrail.testing.code_words import Vocabulary
from agentrail.testing.plugin_code import Key, Read
from agentrail.testing.scripted import call
from agentrail.testing.world.choose import Choose
from agentrail.values.content import ToolCall
from agentrail.values.json import Json, JsonObject, freeze_object

T = TypeVar("T")

CallGroups: TypeAlias = Sequence[Sequence[ToolCall]]
"""Groups of calls to make again; each group is drawn equally often."""

KEYS: Final = 4
"""How many arguments one call has at most, if they are drawn from those next to each other in a plugin's code."""


class CallDrawer:
    """Draws the calls of one script from the vocabularies of the plugins that the script is for.

    Two plugins may conflict only at a call that matters to both. So a call is made from the arguments that one plugin
    reads, from those of two plugins together, or from two known calls at which plugins did something.
    """

    def __init__(self, choose: Choose, words: Sequence[Vocabulary], calls: CallGroups = ()) -> None:
        self.choose = choose
        self.words = words
        self.reads: list[Read] = [vocabulary.read for vocabulary in words if vocabulary.read is not None]
        self.calls = calls
        self.said: list[ToolCall] = []

    def draw(self) -> ToolCall:
        """Draw a tool call, and remember it so that later steps of the script may repeat it."""
        ways: list[tuple[int, Callable[[], ToolCall]]] = [(2, self._of_any_words)]
        if self.reads:
            ways += [(2, self._of_one), (4, self._of_two)]
        if self.calls:
            ways += [
                (2, self._known),
                (2, lambda: self._changed(self._known())),
                (6, self._of_two_known),
            ]
        if self.said:
            ways += [(3, lambda: self._changed(self.choose.pick(self.said)))]
        drawn = self.choose.weighted(ways)()
        self.said.append(drawn)
        return drawn

    def in_turn(self) -> ToolCall:
        """Draw a call whose tool and arguments stand next to each other in a plugin's code, in the order of the code.

        Repeated draws go through all sets of such arguments in turn, and for each set through all combinations of tool
        and values. If no plugin reads arguments, this is `draw`.
        """
        if not self.reads:
            return self.draw()
        reads = self.choose.pick(self.reads)
        sets = _sets(reads)
        keys = sets[self.choose.turn(reads, len(sets))]
        values = [key.values or reads.values for key in keys]
        tools = (*reads.tools, None)
        number = self.choose.turn((reads, keys), len(tools) * prod(map(len, values)))
        args: dict[str, Json] = {}
        for key, several in zip(keys, values, strict=True):
            number, index = divmod(number, len(several))
            args[key.name] = several[index]
        drawn = call(tools[number] or self._tool(reads), args)
        self.said.append(drawn)
        return drawn

    def text(self) -> str:
        """Draw a text."""
        return self.choose.pick(self.choose.pick(self.words).texts)

    def name(self) -> str:
        """Draw a name for a tool or an argument."""
        return self.choose.pick(self.choose.pick(self.words).names)

    def args(self) -> JsonObject:
        """Draw arguments alone, such as those with which a person approves a call."""
        return self._of_one().args if self.reads and self.choose.percent(50) else self._any_args()

    def _known(self) -> ToolCall:
        return self.choose.pick(self.choose.pick(self.calls))

    def _of_two_known(self) -> ToolCall:
        return self._merged(*(self.choose.pick(group) for group in self._two(self.calls)))

    def _of_two(self) -> ToolCall:
        return self._merged(*(self._of_one(reads) for reads in self._two(self.reads)))

    def _two(self, options: Sequence[T]) -> tuple[T, T]:
        """Draw two of *options*, different ones if there are at least two."""
        first = self.choose.below(len(options))
        step = self.choose.number(1, len(options) - 1) if len(options) > 1 else 0
        return options[first], options[(first + step) % len(options)]

    def _of_any_words(self) -> ToolCall:
        return call(self.name(), self._any_args())

    def _any_args(self) -> JsonObject:
        drawn: dict[str, Json] = {}
        words = self.choose.pick(self.words)
        for _ in range(self.choose.weighted(((1, 0), (4, 1), (4, 2), (2, 3)))):
            name = self.choose.pick(words.names)
            drawn[name] = self.choose.pick(words.texts if self.choose.percent(50) else words.numbers)
        return freeze_object(drawn)

    def _of_one(self, reads: Read | None = None) -> ToolCall:
        """Draw a call from the code of one plugin: each of some neighbouring arguments is taken by chance."""
        reads = reads or self.choose.pick(self.reads)
        first = self.choose.below(len(reads.keys)) if len(reads.keys) > KEYS else 0
        keys = self.choose.some(reads.keys[first : first + KEYS], 80)
        return call(self._tool(reads), {key.name: self._value(key, reads) for key in keys})

    def _tool(self, reads: Read) -> str:
        """Draw the name of a tool: mostly one that the code of *reads* names, else a word of any plugin."""
        if reads.tools and self.choose.percent(90):
            return self.choose.pick(reads.tools)
        return self.name()

    def _value(self, key: Key, reads: Read) -> Json:
        """Draw a value of the argument *key*: of an earlier call, or one that the code compares an argument with.

        Some texts are put together of two, also of two plugins: one looks at the beginning, which the other takes off.
        """
        earlier = [other.args[key.name] for other in self.said if key.name in other.args]
        if earlier and self.choose.percent(40):
            return self.choose.pick(earlier)
        values = key.values if key.values and self.choose.percent(80) else reads.values
        drawn = self.choose.pick(values)
        readers = [
            other.values for reads in self.reads for other in reads.keys if other.name == key.name and other.values
        ]
        if isinstance(drawn, str) and self.choose.percent(30 if len(readers) > 1 else 10):
            more = self.choose.pick(self.choose.pick([values, *readers]))
            return drawn + more if isinstance(more, str) else drawn
        return drawn

    def _merged(self, first: ToolCall, second: ToolCall) -> ToolCall:
        """Return a call with the name of *first* and the arguments of both; for an argument of both, either value."""
        return call(
            first.name, {**second.args, **first.args} if self.choose.percent(50) else {**first.args, **second.args}
        )

    def _changed(self, earlier: ToolCall) -> ToolCall:
        """Return *earlier* with another name, or with one argument more, less or changed."""
        if self.choose.percent(40):
            return call(self._of_one().name if self.reads else self._of_any_words().name, earlier.args)
        args = dict(earlier.args)
        if args and self.choose.percent(25):
            del args[self.choose.pick(list(args))]
            return call(earlier.name, args)
        more = self.args()
        name = self.choose.pick(list(more)) if more else None
        return call(earlier.name, args if name is None else {**args, name: more[name]})


@cache
def _sets(reads: Read) -> tuple[tuple[Key, ...], ...]:
    """Return all sets of one to `KEYS` arguments that are near each other in the code, the small sets first."""
    sets: dict[tuple[Key, ...], None] = {}
    for size in range(1, KEYS + 1):
        for first in range(max(1, len(reads.keys) - KEYS + 1)):
            sets.update(dict.fromkeys(combinations(reads.keys[first : first + KEYS], size)))
    return tuple(sets)

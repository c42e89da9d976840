"""`find_conflict`: which few plugins, and which short script, break an invariant."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from agentrail.core.vocabulary.options import Options
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.testing.as_code import CodeSource
from agentrail.testing.known_words import PLAIN_WORDS, Vocabulary, vocabulary
from agentrail.testing.scripted import Cue
from agentrail.testing.turns.cues import Script
from agentrail.testing.turns.generating import draw_cues, simpler_scripts
from agentrail.testing.turns.lore import Lore
from agentrail.testing.turns.script_code import cue_code
from agentrail.testing.turns.trace import Trace, simulate
from agentrail.testing.world.choose import Choose
from agentrail.values.content import ToolCall
from agentrail.values.spelling import checked
from agentrail.values.tools import ToolSpec

Invariant: TypeAlias = Callable[[Trace], None]
"""A function that raises `AssertionError` if a trace shows something that must never happen."""

Progress: TypeAlias = Callable[[int, int], None]
"""Callback with the number of examples that were tried, and of all."""

DEFAULTS: Final = Options()

EXAMPLES: Final = 10_000
"""Sets with a script that are tried, unless somebody says how many."""

FRESH: Final = 150
"""Scripts that are tried against each smaller set, once a conflict is found."""


class Conflict:
    """Plugins and a script that together break an invariant; printed, it says how, and how to see it again."""

    def __init__(self, plugins: tuple[Attachable, ...], script: tuple[Cue, ...], setup: ConflictSetup) -> None:
        self.plugins = plugins
        self.script = script
        self.invariant = setup.invariant
        self.why = setup.breaks(plugins, script) or ""
        self.trace = setup.plays(plugins, script)
        self._setup = setup

    def __str__(self) -> str:
        source = CodeSource()
        names = [source.code(plugin) for plugin in self.plugins]
        who = " and ".join(names) or "No plugin at all"
        said = "breaks" if len(names) == 1 or not names else "together break"
        lines = [f"{who} {said} `{_name(self.invariant)}`: {self.why}", "", "What happens:", "", str(self.trace), ""]
        return "\n".join([*lines, "The same as a test:", "", self.snippet()])

    def snippet(self) -> str:
        """Return a plain test that fails as long as the conflict is there."""
        source = CodeSource()
        simulate_ = source.wants("agentrail.testing", "simulate")
        plugins = ", ".join(source.code(plugin) for plugin in self.plugins)
        more = "".join(f"{name}={source.code(given)}, " for name, given in self._setup.given().items())
        script = "".join(f"            {cue_code(cue, source)},\n" for cue in self.script)
        check = source.name(self.invariant)
        body = (
            f"def test_{_name(self.invariant)}() -> None:\n"
            f"    trace = {simulate_}(\n        [{plugins}],\n        [\n{script}        ],\n"
            + (f"        {more}\n" if more else "")
            + f"    )\n    {check}(trace)\n"
        )
        return "\n".join(source.lines()) + "\n\n\n" + body


class ConflictSetup:
    """The fixed part of a search: tools, options and the invariant."""

    def __init__(self, invariant: Invariant, options: Options, tools: Sequence[ToolSpec] | None) -> None:
        self.invariant = invariant
        self.options = options
        self.tools = tools
        self._words: dict[int, Vocabulary] = {}

    def given(self) -> Mapping[str, object]:
        """Return what a snippet has to say beside plugins and script."""
        more: dict[str, object] = {}
        if self.options != DEFAULTS:
            more["options"] = self.options
        if self.tools is not None:
            more["tools"] = list(self.tools)
        return more

    def words(self, plugins: Sequence[Attachable]) -> list[Vocabulary]:
        """Return what each of *plugins* knows, read once."""
        for plugin in plugins:
            if id(plugin) not in self._words:
                self._words[id(plugin)] = vocabulary(plugin)
        return [self._words[id(plugin)] for plugin in plugins] or [PLAIN_WORDS]

    def plays(self, plugins: Sequence[Attachable], script: Script) -> Trace:
        """Play *script* against *plugins*."""
        return simulate(plugins, script, options=self.options, tools=self.tools)

    def breaks(self, plugins: Sequence[Attachable], script: Script) -> str | None:
        """Play *script* against *plugins*, and say why the invariant is broken, if it is."""
        return self.broken_by(self.plays(plugins, script))

    def broken_by(self, trace: Trace) -> str | None:
        """Say why the invariant is broken, if it is."""
        try:
            self.invariant(trace)
        except AssertionError as broken:
            return str(broken).strip() or _line(broken)
        return None


@checked
def find_conflict(  # noqa: PLR0913 - all but two have a default
    plugins: Sequence[Attachable],
    invariant: Invariant,
    *,
    calls: Sequence[ToolCall] = (),
    options: Options = DEFAULTS,
    tools: Sequence[ToolSpec] | None = None,
    examples: int = EXAMPLES,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Conflict | None:
    """Look for a set of *plugins* and a script that break *invariant*; return the smallest found, or `None`.

    Sets, orders and scripts are drawn; tools, arguments and figures that stand in the code or the options of the
    plugins are in the scripts. What is found is made smaller until nothing can be left out.

    Args:
        plugins: The candidates. Give those that must always be there to the invariant's own `simulate`.
        invariant: Raises `AssertionError` for a trace that may not be.
        calls: Calls that the model may make, beside those that are drawn.
        options: The figures of the sessions.
        tools: Which tools there are; without it, all that a script calls.
        examples: How many sets with a script are tried.
        seconds: After how long the search gives up; without it, after *examples*.
        seed: Another one is another search.
        progress: Told how far it is.
    """
    setups = {"": ConflictSetup(invariant, options, tools)}
    return search(plugins, setups, calls, examples, seconds, seed, progress).get("")


def find_conflicts(
    plugins: Sequence[Attachable],
    invariants: Mapping[str, Invariant],
    *,
    examples: int = EXAMPLES,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Conflict]:
    """Do as `find_conflict` for several *invariants* at once: each example is played once, and each looks at it."""
    setups = {name: ConflictSetup(invariant, DEFAULTS, None) for name, invariant in invariants.items()}
    return search(plugins, setups, (), examples, seconds, seed, progress)


def search(
    plugins: Sequence[Attachable],
    setups: Mapping[str, ConflictSetup],
    calls: Sequence[ToolCall],
    examples: int,
    seconds: float | None,
    seed: int,
    progress: Progress | None,
) -> dict[str, Conflict]:
    """Return the smallest conflict found for each of *setups* for which one was."""
    found: dict[str, Conflict] = {}
    if not setups:
        return found
    world = next(iter(setups.values()))
    choose = Choose(random.Random(seed).randrange)  # noqa: S311 - no secret
    lore = Lore(calls)
    draws = _Draws(choose, world, plugins)
    ends = None if seconds is None else time.monotonic() + seconds
    for number in range(examples):
        if ends is not None and time.monotonic() > ends:
            break
        if progress is not None:
            progress(number, examples)
        some, focus = draws.some()
        script = draw_cues(choose, world.words(focus), lore.calls(focus))
        trace = world.plays(some, script)
        for name, setup in setups.items():
            if name not in found and setup.broken_by(trace) is not None:
                found[name] = Conflict(*_smallest(setup, some, script, choose, lore), setup)
        if len(found) == len(setups):
            break
        lore.learn(trace)
    return found


class _Draws:
    """Draws sets of plugins, and of each set those in whose words a script is written."""

    def __init__(self, choose: Choose, setup: ConflictSetup, plugins: Sequence[Attachable]) -> None:
        self.choose = choose
        self.plugins = plugins
        words = setup.words(plugins) if plugins else []
        self.related = [
            pair for pair in combinations(range(len(plugins)), 2) if words[pair[0]].shares_with(words[pair[1]])
        ]

    def some(self) -> tuple[tuple[Attachable, ...], tuple[Attachable, ...]]:
        """Draw a set in any order, and which of it the script is for: all, any two, or two that are related.

        Small sets come as often as large ones. Two plugins are related if they read the same tool or argument of a
        call; they meet often, because there are few of them.
        """
        choose, plugins = self.choose, self.plugins
        most = len(plugins) if choose.percent(50) else min(4, len(plugins))
        size = choose.number(min(1 if choose.percent(10) else 2, most), most)
        about = choose.pick(("related", "two", "all"))
        two = choose.pick(self.related) if about == "related" and self.related else ()
        rest = [place for place in range(len(plugins)) if place not in two]
        others = (rest.pop(choose.below(len(rest))) for _ in range(size - len(two)))
        drawn = [*two, *others]
        focus = list(drawn) if about == "all" else drawn[:2]
        order = [drawn.pop(choose.below(len(drawn))) for _ in range(len(drawn))]
        return tuple(plugins[place] for place in order), tuple(plugins[place] for place in focus)


def _smallest(
    setup: ConflictSetup, plugins: tuple[Attachable, ...], script: tuple[Cue, ...], choose: Choose, lore: Lore
) -> tuple[tuple[Attachable, ...], tuple[Cue, ...]]:
    """Return what is left of *plugins* and *script* when nothing more can be left out."""
    small, short = shrink(setup, plugins, script)
    for size in range(len(small)):
        for fewer in combinations(small, size):
            for _ in range(FRESH):
                other = draw_cues(choose, setup.words(fewer), lore.calls(fewer))
                if setup.breaks(fewer, other) is not None:
                    return shrink(setup, fewer, other)
    return small, short


def shrink(
    setup: ConflictSetup, plugins: tuple[Attachable, ...], script: tuple[Cue, ...]
) -> tuple[tuple[Attachable, ...], tuple[Cue, ...]]:
    """Leave out and simplify, one thing after the other, until the invariant holds whatever goes next."""
    going = True
    while going:
        going = False
        for fewer in _without_one(plugins):
            if setup.breaks(fewer, script) is not None:
                plugins, going = fewer, True
                break
        for shorter in simpler_scripts(script):
            if setup.breaks(plugins, shorter) is not None:
                script, going = shorter, True
                break
    return _as_registered(setup, plugins, script), script


def _without_one(plugins: tuple[Attachable, ...]) -> Iterator[tuple[Attachable, ...]]:
    if len(plugins) > 3:  # noqa: PLR2004 - halves first, where that saves time
        half = len(plugins) // 2
        yield plugins[:half]
        yield plugins[half:]
    yield from (plugins[:place] + plugins[place + 1 :] for place in range(len(plugins)))


def _as_registered(
    setup: ConflictSetup, plugins: tuple[Attachable, ...], script: tuple[Cue, ...]
) -> tuple[Attachable, ...]:
    """Return *plugins* in the order in which they are asked, if they break the invariant in that order too."""
    asked = tuple(sorted(plugins, key=lambda given: unkeyed(given)[1].priority))
    return asked if setup.breaks(asked, script) is not None else plugins


def _name(invariant: Invariant) -> str:
    return str(getattr(invariant, "__name__", "the_invariant")).replace("<lambda>", "the_invariant")


def _line(broken: AssertionError) -> str:
    """Return the line that failed, for an assertion that says nothing."""
    frames = traceback.extract_tb(broken.__traceback__)
    return frames[-1].line or "an assertion failed" if frames else "an assertion failed"

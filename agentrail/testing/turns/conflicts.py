"""`find_conflict`: searches for a small set of plugins and a short script that together break an invariant."""

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
from agentrail.testing.code_words import PLAIN_WORDS, Vocabulary, vocabulary
from agentrail.testing.scripted import ScriptStep
from agentrail.testing.turns.generating import draw_script_steps, simpler_scripts
from agentrail.testing.turns.meetings import Meeting, meetings
from agentrail.testing.turns.remembered_calls import Lore
from agentrail.testing.turns.script_steps import Script, script_step_code
from agentrail.testing.turns.trace import Trace, simulate
from agentrail.testing.world.choose import Choose, Walking
from agentrail.values.argument_checks import checked
from agentrail.values.content import ToolCall
from agentrail.values.tools import ToolSpec

Invariant: TypeAlias = Callable[[Trace], None]
"""A function that takes a trace, and raises `AssertionError` if it shows something that must never happen."""

Progress: TypeAlias = Callable[[int, int], None]
"""Callback with two arguments: the number of examples tried so far, and the number to be tried in all."""

DEFAULTS: Final = Options()

EXAMPLES: Final = 10_000
"""How many examples a search tries by default; an example is a set of plugins with a script."""

FRESH: Final = 150
"""After a conflict is found: how many new scripts are tried against each smaller set of its plugins."""


class Conflict:
    """Plugins and a script that together break an invariant; `str()` of it tells the story and has a test of it."""

    def __init__(self, plugins: tuple[Attachable, ...], script: tuple[ScriptStep, ...], setup: ConflictSetup) -> None:
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
        verb = "breaks" if len(names) == 1 or not names else "together break"
        lines = [f"{who} {verb} `{_name(self.invariant)}`: {self.why}", "", "What happens:", "", str(self.trace), ""]
        return "\n".join([*lines, "The same as a test:", "", self.snippet()])

    def snippet(self) -> str:
        """Return the source of a test that plays the script and fails as long as the invariant is broken."""
        source = CodeSource()
        simulate_ = source.wants("agentrail.testing", "simulate")
        plugins = ", ".join(source.code(plugin) for plugin in self.plugins)
        more = "".join(f"{name}={source.code(argument)}, " for name, argument in self._setup.given().items())
        script = "".join(f"            {script_step_code(script_step, source)},\n" for script_step in self.script)
        check = source.name(self.invariant)
        body = (
            f"def test_{_name(self.invariant)}() -> None:\n"
            f"    trace = {simulate_}(\n        [{plugins}],\n        [\n{script}        ],\n"
            + (f"        {more}\n" if more else "")
            + f"    )\n    {check}(trace)\n"
        )
        return "\n".join(source.lines()) + "\n\n\n" + body


class ConflictSetup:
    """The fixed part of a search: the invariant, the options of the sessions and the tools."""

    def __init__(
        self,
        invariant: Invariant,
        options: Options,
        tools: Sequence[ToolSpec] | None,
        always: Sequence[Attachable] = (),
    ) -> None:
        self.invariant = invariant
        self.options = options
        self.tools = tools
        self.always = tuple(always)
        """The plugins that are in every set, and are never left out."""
        self._words: dict[int, Vocabulary] = {}

    def given(self) -> Mapping[str, object]:
        """Return the keyword arguments of `simulate` for a snippet: options and tools that differ from the default."""
        more: dict[str, object] = {}
        if self.options != DEFAULTS:
            more["options"] = self.options
        if self.tools is not None:
            more["tools"] = list(self.tools)
        return more

    def keeps(self, plugin: Attachable) -> bool:
        """Whether *plugin* must stay in each smaller set."""
        return any(plugin is other for other in self.always)

    def words(self, plugins: Sequence[Attachable]) -> list[Vocabulary]:
        """Return the vocabulary of each of *plugins*, cached; only common words if there are no plugins."""
        for plugin in plugins:
            if id(plugin) not in self._words:
                self._words[id(plugin)] = vocabulary(plugin)
        return [self._words[id(plugin)] for plugin in plugins] or [PLAIN_WORDS]

    def plays(self, plugins: Sequence[Attachable], script: Script) -> Trace:
        """Play *script* against *plugins*, and return the trace."""
        return simulate(plugins, script, options=self.options, tools=self.tools)

    def breaks(self, plugins: Sequence[Attachable], script: Script) -> str | None:
        """Play *script* against *plugins*; return why the invariant is broken, or `None` if it holds."""
        return self.broken_by(self.plays(plugins, script))

    def broken_by(self, trace: Trace) -> str | None:
        """Return why *trace* breaks the invariant, or `None` if it does not."""
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
    always: Sequence[Attachable] = (),
    calls: Sequence[ToolCall] = (),
    options: Options = DEFAULTS,
    tools: Sequence[ToolSpec] | None = None,
    examples: int = EXAMPLES,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Conflict | None:
    """Look for a set of *plugins* and a script that break *invariant*; return the smallest found, or `None`.

    Sets of plugins, their orders and scripts are drawn at random. Scripts use the names of tools and arguments and the
    numbers that stand in the code or the options of the plugins. In half of the examples, two plugins that have a
    hook in common come in turn, with what the code of both reads. From a set and a script that break the invariant,
    plugins and steps are then left out, as long as the invariant is still broken.

    Args:
        plugins: The candidates; each example has some of them.
        invariant: Raises `AssertionError` for a trace that shows something that must never happen.
        always: Plugins that are in every example, registered before the others; they are never left out.
        calls: Calls that the model may make, beside those that are drawn.
        options: The options of the sessions.
        tools: The tools of the sessions; without it, each tool that a script calls exists.
        examples: How many examples are tried at most; each is a set of plugins with a script.
        seconds: After how long the search gives up; without it, only *examples* limits it.
        seed: Start of the random draws; the same seed draws the same.
        progress: Called with the number of examples tried so far, and the number of all.
    """
    setups = {"": ConflictSetup(invariant, options, tools, always)}
    candidates = [plugin for plugin in plugins if not setups[""].keeps(plugin)]
    return search(candidates, setups, calls, examples, seconds, seed, progress).get("")


def find_conflicts(
    plugins: Sequence[Attachable],
    invariants: Mapping[str, Invariant],
    *,
    examples: int = EXAMPLES,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Conflict]:
    """Search as `find_conflict` does, for several *invariants* at once: each example is played once and given to all.

    Returns the smallest conflict found for each invariant that was broken, by the name of the invariant.
    """
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
    """Draw and play examples; return the smallest conflict found for each of *setups*, by name, where there is one."""
    conflicts: dict[str, Conflict] = {}
    if not setups:
        return conflicts
    world = next(iter(setups.values()))
    choose = Walking(random.Random(seed).randrange)  # noqa: S311 - no secret
    lore = Lore(calls)
    draws = _Draws(choose, world, plugins)
    ends = None if seconds is None else time.monotonic() + seconds
    for number in range(examples):
        if ends is not None and time.monotonic() > ends:
            break
        if progress is not None:
            progress(number, examples)
        some, focus, meeting = draws.some()
        some, focus = (*world.always, *some), (*world.always, *focus)
        script = meeting.script(choose) if meeting else draw_script_steps(choose, world.words(focus), lore.calls(focus))
        trace = world.plays(some, script)
        for name, setup in setups.items():
            if name not in conflicts and setup.broken_by(trace) is not None:
                conflicts[name] = Conflict(*_smallest(setup, some, script, choose, lore), setup)
        if len(conflicts) == len(setups):
            break
        lore.learn(trace)
    return conflicts


class _Draws:
    """Draws sets of plugins, and chooses plugins from each set whose vocabulary is used for the script."""

    def __init__(self, choose: Choose, setup: ConflictSetup, plugins: Sequence[Attachable]) -> None:
        self.choose = choose
        self.plugins = plugins
        self.words = setup.words(plugins) if plugins else []
        pairs = meetings(self.words)
        near = [pair for pair in pairs if self.words[pair[0]].shares_with(self.words[pair[1]])]
        self.related = [pairs_ for pairs_ in (near, pairs) if pairs_]
        """Pairs with a hook in common: those that read the same tool or argument of a call, and all of them."""
        self.meetings: dict[tuple[int, int], Meeting] = {}
        """The scripts of each pair that was drawn so far."""

    def some(self) -> tuple[tuple[Attachable, ...], tuple[Attachable, ...], Meeting | None]:
        """Draw a set of plugins in random order, and those of them that the script is for, or the `Meeting` of two.

        Half of the draws are for two plugins that have a hook in common, and half of these for two that read the same.
        Each such pair comes in turn, half of the times alone. The other scripts are for all of the set, or for any two
        of it. Sets of at most four plugins come at least as often as larger ones.
        """
        choose, plugins = self.choose, self.plugins
        most = len(plugins) if choose.percent(50) else min(4, len(plugins))
        size = choose.number(min(1 if choose.percent(10) else 2, most), most)
        about = choose.pick(("related", "related", "two", "all"))
        two: tuple[int, ...] = ()
        meeting: Meeting | None = None
        if about == "related" and self.related:
            pair = two = self._next_pair()
            if pair not in self.meetings:
                self.meetings[pair] = Meeting(*(self.words[index] for index in pair))
            meeting = self.meetings[pair]
            size = 2 if choose.percent(50) else size
        rest = [index for index in range(len(plugins)) if index not in two]
        others = (rest.pop(choose.below(len(rest))) for _ in range(size - len(two)))
        drawn = [*two, *others]
        focus = list(drawn) if about == "all" else drawn[:2]
        order = [drawn.pop(choose.below(len(drawn))) for _ in range(len(drawn))]
        return tuple(plugins[index] for index in order), tuple(plugins[index] for index in focus), meeting

    def _next_pair(self) -> tuple[int, int]:
        """Return the next pair of plugins with a hook in common."""
        pairs = self.related[0 if self.choose.percent(50) else -1]
        return pairs[self.choose.turn(len(pairs), len(pairs))]


def _smallest(
    setup: ConflictSetup, plugins: tuple[Attachable, ...], script: tuple[ScriptStep, ...], choose: Choose, lore: Lore
) -> tuple[tuple[Attachable, ...], tuple[ScriptStep, ...]]:
    """Shrink *plugins* and *script*; then search for a smaller set of plugins that fails with another script."""
    small, short = shrink(setup, plugins, script)
    others = tuple(plugin for plugin in small if not setup.keeps(plugin))
    for size in range(len(others)):
        for some in combinations(others, size):
            fewer = (*setup.always, *some)
            for _ in range(FRESH):
                other = draw_script_steps(choose, setup.words(fewer), lore.calls(fewer))
                if setup.breaks(fewer, other) is not None:
                    return shrink(setup, fewer, other)
    return small, short


def shrink(
    setup: ConflictSetup, plugins: tuple[Attachable, ...], script: tuple[ScriptStep, ...]
) -> tuple[tuple[Attachable, ...], tuple[ScriptStep, ...]]:
    """Leave out plugins and simplify the script, one change at a time, until no further change breaks the invariant.

    Returns the plugins and the script that are left; they still break it.
    """
    going = True
    while going:
        going = False
        for fewer in _without_one(plugins, setup):
            if setup.breaks(fewer, script) is not None:
                plugins, going = fewer, True
                break
        for shorter in simpler_scripts(script):
            if setup.breaks(plugins, shorter) is not None:
                script, going = shorter, True
                break
    return _as_registered(setup, plugins, script), script


def _without_one(plugins: tuple[Attachable, ...], setup: ConflictSetup) -> Iterator[tuple[Attachable, ...]]:
    if len(plugins) > 3 and not setup.always:  # noqa: PLR2004 - of larger sets try halves first, to save time
        half = len(plugins) // 2
        yield plugins[:half]
        yield plugins[half:]
    yield from (
        plugins[:index] + plugins[index + 1 :] for index, plugin in enumerate(plugins) if not setup.keeps(plugin)
    )


def _as_registered(
    setup: ConflictSetup, plugins: tuple[Attachable, ...], script: tuple[ScriptStep, ...]
) -> tuple[Attachable, ...]:
    """Return *plugins* sorted by priority if they also break the invariant in that order; otherwise unchanged."""
    by_priority = tuple(sorted(plugins, key=lambda plugin: unkeyed(plugin)[1].priority))
    return by_priority if setup.breaks(by_priority, script) is not None else plugins


def _name(invariant: Invariant) -> str:
    return str(getattr(invariant, "__name__", "the_invariant")).replace("<lambda>", "the_invariant")


def _line(broken: AssertionError) -> str:
    """Return the source line that raised *broken*: shown if the assertion has no message."""
    frames = traceback.extract_tb(broken.__traceback__)
    return frames[-1].line or "an assertion failed" if frames else "an assertion failed"

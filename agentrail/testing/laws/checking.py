"""`check_plugin`: the laws, tried with many hooks, in states that the plugin itself has come to."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Final, TypeVar, cast

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from agentrail.errors import PluginRefused
from agentrail.hooks.actions import AskAnswer
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.context import Context
from agentrail.hooks.moments import Hook
from agentrail.hooks.plugin import MATRIX, ON_EVENT, AnyPlugin, Attachable, implemented
from agentrail.testing.as_code import CodeSource
from agentrail.testing.calling import Caller
from agentrail.testing.known_words import vocabulary
from agentrail.testing.laws.laws import LawBrokenError, check_event, check_hook, check_init, check_options, snapshot
from agentrail.testing.laws.showing import draw_hook, retold, tells_of_calls
from agentrail.testing.laws.simplest import Simplest
from agentrail.testing.strategies import answers, chooses, contexts, hooks
from agentrail.testing.turns.generating import ANSWERS
from agentrail.testing.world.choose import Choose, InTurn
from agentrail.testing.world.plausible import World
from agentrail.testing.world.scenes import draw_scene
from agentrail.values.events.envelope import Envelope
from agentrail.values.spelling import checked

T = TypeVar("T")

WORLDS: Final = 12
"""Generated sessions whose events are passed to plugins with `on_event`."""

MOST_EVENTS: Final = 400
"""Events beside the first of each kind."""

LONGEST: Final = 6
"""Hooks in a row that one example may have."""

ASKED_AGAIN: Final = 50
"""Hooks and events that are shown once more after all runs."""

RUNS: Final = 20
"""Cheap runs in the words of the plugin, for each run with any content."""


@checked
def check_plugin(plugin: Attachable, *, examples: int = 60, seed: int | None = None) -> None:
    """Try whether *plugin* obeys the laws, and raise `LawBrokenError` with the smallest example of one that it breaks.

    The same examples are tried each time, unless another *seed* is given. First come runs of hooks in the words of the
    plugin: what its code and options name, and arguments that its code reads together, with each combination of their
    values in turn. Runs of hooks with any content follow. At last the plugin is shown again what it was shown first.

    Args:
        plugin: The plugin, with its options.
        examples: How many runs of up to six hooks with any content are tried; of those in its words, twenty times that.
        seed: Makes the examples others.
    """
    trial = _PluginTrial(unkeyed(plugin)[1])
    broken = trial.in_words(examples * RUNS, seed or 0) or trial.of_any_content(examples, seed) or trial.again()
    if broken is not None:
        broken.__notes__ = []  # what Hypothesis would say of an example that is printed already
        raise broken.with_traceback(None) from broken.__cause__


class _PluginTrial:
    """One plugin, and the hooks and events that are tried on it."""

    def __init__(self, plugin: AnyPlugin) -> None:
        self.plugin = plugin
        self.words = vocabulary(plugin)
        self.moments = sorted(implemented(plugin))
        self.first: list[tuple[str, Callable[[], object], str]] = []
        self.asks = any(action.kind == "ask" for moment in self.moments for action in MATRIX.get(moment, ()))

    def in_words(self, runs: int, seed: int) -> LawBrokenError | None:
        """Play *runs* in the words of the plugin; return the first broken law, with a smaller example if there is."""
        choose = InTurn(seed)
        for _ in range(runs):
            choose.drawn.clear()
            if (broken := self._run(choose)) is not None:
                return Simplest(choose.drawn, broken, partial(self._breaks, broken)).find()
        return None

    def of_any_content(self, examples: int, seed: int | None) -> LawBrokenError | None:
        """Play *examples* with any content; return the broken law with the smallest example, if one was found."""
        told = st.none() | answers()
        pictures = st.just(Context()) | contexts()
        shown = [_any_content(moment) | st.just(moment) for moment in self.moments]
        rows = st.lists(st.one_of(shown), max_size=LONGEST) if shown else st.just([])

        def obeys(data: st.DataObject) -> None:
            ctx = data.draw(pictures)
            state = self._asks("init", partial(check_init, self.plugin, ctx))
            if isinstance(state, PluginRefused):
                return
            caller = Caller(data.draw(chooses()), (self.words,))
            for drawn in data.draw(rows):
                one = self._in_words(drawn, caller) if isinstance(drawn, str) else drawn
                state = self._shows(one, state, ctx, data.draw(told) if self.asks else None)
            check_options(self.plugin, state)

        run = settings(
            max_examples=examples,
            database=None,
            deadline=None,
            derandomize=seed is None,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
            phases=(Phase.generate, Phase.shrink),
        )(given(st.data())(obeys))
        try:
            (run if seed is None else seeded(seed)(run))()
        except LawBrokenError as broken:
            return broken
        except Flaky as error:
            found = [each for each in getattr(error, "exceptions", ()) if isinstance(each, LawBrokenError)]
            where, problem = (found[0].where, found[0].problem) if found else ("a hook", "it did something else")
            return self._remembers(where, f"{problem}, and did not when it was shown the same again")
        return None

    def again(self) -> LawBrokenError | None:
        """Show the plugin what it was shown first, and return the broken law if it answers differently now."""
        for where, ask, said in self.first:
            now = snapshot(ask())
            if now != said:
                return self._remembers(where, f"it answered {said:.200}, and after other hooks {now:.200}")
        return None

    def _remembers(self, where: str, problem: str) -> LawBrokenError:
        """Return the error for a plugin whose answer depends on what it was shown before: no single hook tells."""
        source = CodeSource()
        call = f"{source.wants('agentrail.testing', 'check_plugin')}({source.code(self.plugin)})"
        lines = (*source.lines(), "", "", "def test_it_remembers_nothing() -> None:", f"    {call}", "")
        why = "it remembers something outside of its state, such as in a variable of its module"
        return LawBrokenError("the same answer", self.plugin, where, f"{problem}: {why}", "\n".join(lines))

    def _asks(self, where: str, ask: Callable[[], T]) -> T:
        """Return the answer of the plugin, and keep the first ones to compare."""
        answer = ask()
        if len(self.first) < ASKED_AGAIN:
            self.first.append((where, ask, snapshot(answer)))
        return answer

    def _run(self, choose: Choose) -> LawBrokenError | None:
        """Play one run of hooks in the words of the plugin, and return the law that it breaks, if it breaks one."""
        caller = Caller(choose, (self.words,))
        ctx = Context()
        try:
            state = self._asks("init", partial(check_init, self.plugin, ctx))
            if isinstance(state, PluginRefused):
                return None
            for _ in range(LONGEST if self.moments else 0):
                if not choose.percent(75):
                    break
                one = self._in_words(choose.pick(self.moments), caller)
                state = self._shows(one, state, ctx, choose.pick((None, *ANSWERS)) if self.asks else None)
            check_options(self.plugin, state)
        except LawBrokenError as broken:
            return broken
        return None

    def _breaks(self, broken: LawBrokenError, choose: Choose) -> LawBrokenError | None:
        """Play one run, and return what it breaks if that is the law that was *broken*, at the same place."""
        found = self._run(choose)
        return found if found is not None and (found.law, found.where) == (broken.law, broken.where) else None

    def _in_words(self, moment: str, caller: Caller) -> Hook | Envelope:
        """Draw what the plugin is shown at one *moment*, in its words."""
        if moment != ON_EVENT:
            return draw_hook(moment, caller)
        every, of_calls = events()
        envelope = caller.choose.pick(of_calls if caller.choose.percent(50) else every)
        return envelope.but(event=retold(envelope.event, caller))

    def _shows(self, one: Hook | Envelope, state: object, ctx: Context, answer: AskAnswer | None) -> object:
        """Show the plugin a hook or an event, and return its state after that."""
        if isinstance(one, Envelope):
            return self._asks(ON_EVENT, partial(check_event, self.plugin, one, state, ctx))
        action = self._asks(one.moment, partial(check_hook, self.plugin, one, state, ctx, answer))
        return cast("object", getattr(action, "state", state))


def _any_content(moment: str) -> st.SearchStrategy[Hook | Envelope]:
    """Hooks of one *moment* with any content, or events."""
    return hooks(moment) if moment != ON_EVENT else st.sampled_from(events()[0])


@cache
def events() -> tuple[tuple[Envelope, ...], tuple[Envelope, ...]]:
    """Return events of a few plausible sessions, one of each kind first; and one of each kind that tells of calls."""
    by_kind: dict[type, Envelope] = {}
    others: list[Envelope] = []
    for number in range(WORLDS):
        choose = Choose(random.Random(number).randrange)  # noqa: S311 - no secret
        world = World(draw_scene(choose))
        world.open()
        for _ in range(60):
            if world.go(choose) is None:
                break
        for envelope in (envelope for record in world.records for envelope in record.events):
            first = by_kind.setdefault(type(envelope.event), envelope)
            if first is not envelope and len(others) < MOST_EVENTS:
                others.append(envelope)
    every = (*by_kind.values(), *others)
    return every, tuple(envelope for envelope in by_kind.values() if tells_of_calls(envelope.event))

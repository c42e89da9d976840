"""`check_plugin`: tries the laws with many hooks in a row, and shrinks a run that fails.

Each hook is given with the state that the plugin returned before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, Generic, TypeAlias, TypeVar, cast

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from agentrail.errors import PluginRefused
from agentrail.hooks.actions import AskAnswer
from agentrail.hooks.attachments import implemented, unkeyed
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.plugin import MATRIX, ON_EVENT, SCREEN, AnyPlugin, Attachable
from agentrail.testing.as_code import CodeSource
from agentrail.testing.code_words import vocabulary
from agentrail.testing.laws.laws import (
    LawBrokenError,
    check_event,
    check_hook,
    check_init,
    check_options,
    check_screen,
    snapshot,
)
from agentrail.testing.laws.showing import draw_hook, retold, tells_of_calls
from agentrail.testing.random_calls import CallDrawer
from agentrail.testing.strategies import WORDS, answers, chooses, contexts, hooks
from agentrail.testing.turns.generating import ANSWERS
from agentrail.testing.world.choose import Choose, InTurn
from agentrail.testing.world.random_setups import draw_scene
from agentrail.testing.world.world import World
from agentrail.values.argument_checks import checked
from agentrail.values.content import Text
from agentrail.values.events.envelope import Envelope

T = TypeVar("T")

TRIES: Final = 2_000
"""How many simpler runs are played at most."""

SIZES: Final = (16, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)
"""How many choices next to each other are left out at once."""

SMALLER: Final[tuple[Callable[[int], int], ...]] = (lambda _: 0, lambda chosen: chosen // 2, lambda chosen: chosen - 1)
"""Ways to make a choice smaller, tried in order; each is repeated as long as the run still fails."""


class Replayed(Choose):
    """Source of choices that repeats given choices, then always chooses 0; all choices made are in `drawn`."""

    __slots__ = ("_choices", "drawn")

    def __init__(self, choices: Sequence[int]) -> None:
        super().__init__(self._below)
        self._choices = choices
        self.drawn: list[int] = []

    def _below(self, below: int) -> int:
        index = len(self.drawn)
        drawn = min(self._choices[index], below - 1) if index < len(self._choices) else 0
        self.drawn.append(drawn)
        return drawn


class Simplest(Generic[T]):
    """Searches for the simplest list of choices with which a run still fails.

    A shorter list is simpler; of two lists of the same length, the one that sorts first.
    """

    def __init__(self, choices: Sequence[int], failure: T, run: Callable[[Choose], T | None]) -> None:
        self.choices = [*choices]
        self.failure = failure
        self._run = run
        self._left = TRIES

    def find(self) -> T:
        """Simplify the choices until nothing helps, or `TRIES` runs were played; return the simplest run's failure."""
        old: list[int] = []
        while old != self.choices and self._left > 0:
            old = self.choices
            self._fewer()
            self._smaller()
        return self.failure

    def _fewer(self) -> None:
        """Try to remove groups of neighbouring choices: large groups first, from the end to the start."""
        for size in SIZES:
            for start in range(len(self.choices) - size, -1, -1):
                self._fails(start, size)

    def _smaller(self) -> None:
        """Try to replace each choice by a smaller number."""
        for index in range(len(self.choices)):
            for smaller in SMALLER:
                while self._at(index) and self._fails(index, 1, smaller(self._at(index))):
                    pass

    def _at(self, index: int) -> int:
        return self.choices[index] if index < len(self.choices) else 0

    def _fails(self, start: int, size: int, *instead: int) -> bool:
        """Play the run with other choices from *start* on; if it fails and is simpler, keep it and return `True`."""
        if self._left <= 0:
            return False
        self._left -= 1
        choose = Replayed([*self.choices[:start], *instead, *self.choices[start + size :]])
        failure = self._run(choose)
        if failure is None or (len(choose.drawn), choose.drawn) >= (len(self.choices), self.choices):
            return False
        self.choices, self.failure = choose.drawn, failure
        return True


_Shown: TypeAlias = Hook | Envelope | Text

WORLDS: Final = 12
"""How many sessions are generated for their events, which are shown to plugins with `on_event`."""

MAX_EVENTS: Final = 400
"""How many events of the generated sessions are kept at most, beside the first of each kind."""

LONGEST: Final = 6
"""How many hooks or events one run shows to the plugin at most."""

ASKED_AGAIN: Final = 50
"""How many of the first hooks and events are shown once more after all runs, to compare the answers."""

RUNS: Final = 20
"""How many runs with words of the plugin are tried for each run with any content, which takes longer."""


@checked
def check_plugin(plugin: Attachable, *, examples: int = 60, seed: int | None = None) -> None:
    """Try whether *plugin* obeys the laws; raise `LawBrokenError` with the smallest example found if it does not.

    The same examples are tried each time, unless another *seed* is given. First come runs of hooks whose content uses
    words of the plugin: names and values from its code and options, and arguments that its code reads together, with
    each combination of their values in turn. Then come runs of hooks with any content. Last, the first hooks and events
    are shown to the plugin once more, and it must give the same answers.

    Args:
        plugin: The plugin, with its options.
        examples: How many runs of up to six hooks with any content are tried; twenty times as many use its own words.
        seed: Start of the random draws; another one gives other examples.
    """
    trial = _PluginTrial(unkeyed(plugin)[1])
    broken = trial.in_words(examples * RUNS, seed or 0) or trial.of_any_content(examples, seed) or trial.again()
    if broken is not None:
        broken.__notes__ = []  # removes the notes of Hypothesis, because the error prints its example itself
        raise broken.with_traceback(None) from broken.__cause__


class _PluginTrial:
    """The trial of one plugin: draws hooks and events, shows them to it, and keeps its first answers."""

    def __init__(self, plugin: AnyPlugin) -> None:
        self.plugin = plugin
        # Not watched: a plugin that counts its calls outside of its state has to break the law here
        self.words = vocabulary(plugin, watch=False)
        self.hook_names = sorted(implemented(plugin))
        self.first: list[tuple[str, Callable[[], object], str]] = []
        self.asks = any(action.kind == "ask" for hook_name in self.hook_names for action in MATRIX.get(hook_name, ()))

    def in_words(self, runs: int, seed: int) -> LawBrokenError | None:
        """Try *runs* runs with words of the plugin; return the first broken law with its shrunk run, or `None`."""
        choose = InTurn(seed)
        for _ in range(runs):
            choose.drawn.clear()
            if (broken := self._run(choose)) is not None:
                return Simplest(choose.drawn, broken, partial(self._breaks, broken)).find()
        return None

    def of_any_content(self, examples: int, seed: int | None) -> LawBrokenError | None:
        """Try *examples* runs with any content; return a broken law with its smallest run, or `None`."""
        answers_ = st.none() | answers()
        pictures = st.just(Context()) | contexts()
        contents = [_any_content(hook_name) | st.just(hook_name) for hook_name in self.hook_names]
        rows = st.lists(st.one_of(contents), max_size=LONGEST) if contents else st.just([])

        def obeys(data: st.DataObject) -> None:
            ctx = data.draw(pictures)
            state = self._asks("init", partial(check_init, self.plugin, ctx))
            if isinstance(state, PluginRefused):
                return
            caller = CallDrawer(data.draw(chooses()), (self.words,))
            for drawn in data.draw(rows):
                content = self._in_words(drawn, caller) if isinstance(drawn, str) else drawn
                state = self._shows(content, state, ctx, data.draw(answers_) if self.asks else None)
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
            inner_errors = [inner for inner in getattr(error, "exceptions", ()) if isinstance(inner, LawBrokenError)]
            where, problem = (
                (inner_errors[0].where, inner_errors[0].problem)
                if inner_errors
                else ("a hook", "it did something else")
            )
            return self._remembers(where, f"{problem}, and did not when it was shown the same again")
        return None

    def again(self) -> LawBrokenError | None:
        """Show the plugin its first hooks and events once more; return a broken law if an answer differs, or `None`."""
        for where, ask, answer in self.first:
            now = snapshot(ask())
            if now != answer:
                return self._remembers(where, f"it answered {answer:.200}, and after other hooks {now:.200}")
        return None

    def _remembers(self, where: str, problem: str) -> LawBrokenError:
        """Return the error for a plugin that keeps something outside of its state.

        Its example calls `check_plugin`, because no single hook shows it.
        """
        source = CodeSource()
        call = f"{source.wants('agentrail.testing', 'check_plugin')}({source.code(self.plugin)})"
        lines = (*source.lines(), "", "", "def test_it_remembers_nothing() -> None:", f"    {call}", "")
        why = "it remembers something outside of its state, such as in a variable of its module"
        return LawBrokenError("the same answer", self.plugin, where, f"{problem}: {why}", "\n".join(lines))

    def _asks(self, where: str, ask: Callable[[], T]) -> T:
        """Call *ask*, return the plugin's answer, and keep the first `ASKED_AGAIN` answers for `again`."""
        answer = ask()
        if len(self.first) < ASKED_AGAIN:
            self.first.append((where, ask, snapshot(answer)))
        return answer

    def _run(self, choose: Choose) -> LawBrokenError | None:
        """Try one run of hooks with words of the plugin; return the law that it breaks, or `None`."""
        caller = CallDrawer(choose, (self.words,))
        ctx = Context()
        try:
            state = self._asks("init", partial(check_init, self.plugin, ctx))
            if isinstance(state, PluginRefused):
                return None
            for _ in range(LONGEST if self.hook_names else 0):
                if not choose.percent(75):
                    break
                content = self._in_words(choose.pick(self.hook_names), caller)
                state = self._shows(content, state, ctx, choose.pick((None, *ANSWERS)) if self.asks else None)
            check_options(self.plugin, state)
        except LawBrokenError as broken:
            return broken
        return None

    def _breaks(self, broken: LawBrokenError, choose: Choose) -> LawBrokenError | None:
        """Try the run that *choose* draws; return its error if it breaks the same law as *broken* at the same hook."""
        again = self._run(choose)
        return again if again is not None and (again.law, again.where) == (broken.law, broken.where) else None

    def _in_words(self, hook_name: str, caller: CallDrawer) -> _Shown:
        """Draw a hook of one *hook_name*, or an event, or a text to screen, with words of the plugin."""
        if hook_name == SCREEN:
            return Text(caller.text())
        if hook_name != ON_EVENT:
            return draw_hook(hook_name, caller)
        every, of_calls = events()
        envelope = caller.choose.pick(of_calls if caller.choose.percent(50) else every)
        return envelope.but(event=retold(envelope.event, caller))

    def _shows(self, content: _Shown, state: object, ctx: Context, answer: AskAnswer | None) -> object:
        """Show the plugin a hook, an event or a text; return its new state. *answer* settles the plugin's `Ask`."""
        if isinstance(content, Text):
            self._asks(SCREEN, partial(check_screen, self.plugin, content.text))
            return state
        if isinstance(content, Envelope):
            return self._asks(ON_EVENT, partial(check_event, self.plugin, content, state, ctx))
        action = self._asks(content.hook_name, partial(check_hook, self.plugin, content, state, ctx, answer))
        return cast("object", getattr(action, "state", state))


def _any_content(hook_name: str) -> st.SearchStrategy[_Shown]:
    """Return a strategy for hooks of one *hook_name* with any content, for events if it is `on_event`, or for texts."""
    if hook_name == SCREEN:
        return WORDS.map(Text)
    return hooks(hook_name) if hook_name != ON_EVENT else st.sampled_from(events()[0])


@cache
def events() -> tuple[tuple[Envelope, ...], tuple[Envelope, ...]]:
    """Generate a few sessions and return two tuples: their events, and one event of each kind with content of a call.

    The first tuple begins with one event of each kind.
    """
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
            if first is not envelope and len(others) < MAX_EVENTS:
                others.append(envelope)
    every = (*by_kind.values(), *others)
    return every, tuple(envelope for envelope in by_kind.values() if tells_of_calls(envelope.event))

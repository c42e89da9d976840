"""`check_plugin`: the laws, tried with many hooks, in states that the plugin itself has come to."""

from __future__ import annotations

import random
from functools import cache
from typing import Final, cast

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from agentrail.errors import PluginRefused
from agentrail.hooks.context import Context
from agentrail.hooks.matrix import MATRIX
from agentrail.hooks.plugin import ON_EVENT, Attachable, implemented
from agentrail.hooks.records import AfterTool, BeforePrompt, BeforeSteering, BeforeTool, Hook, OnToolError
from agentrail.hooks.seats import unkeyed
from agentrail.testing.choose import Choose
from agentrail.testing.laws import LawBrokenError, check_event, check_hook, check_init, check_options
from agentrail.testing.scenes import draw_scene
from agentrail.testing.strategies import answers, contexts, hooks
from agentrail.testing.vocabulary import Vocabulary, vocabulary
from agentrail.testing.world import World
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.spelling import checked

WORLDS: Final = 12
"""Sessions whose events are shown to plugins that listen."""

MOST_EVENTS: Final = 400
"""Events beside the first of each kind."""

LONGEST: Final = 6
"""Hooks in a row that one example may have."""


@checked
def check_plugin(plugin: Attachable, *, examples: int = 60, seed: int | None = None) -> None:
    """Try whether *plugin* obeys the laws, and raise `LawBrokenError` with the smallest example of one that it breaks.

    The same examples are tried each time, unless another *seed* is given. What stands in the code and the options of
    the plugin, such as the names of tools, is among what it is shown.

    Args:
        plugin: The plugin, with its options.
        examples: How many runs of up to six hooks are tried.
        seed: Makes the examples others.
    """
    _, checked = unkeyed(plugin)
    words = vocabulary(plugin)
    moments = sorted(implemented(checked))
    asks = any(action.kind == "ask" for moment in moments for action in MATRIX.get(moment, ()))
    told = st.none() | answers()
    pictures = st.just(Context()) | contexts()
    shown = [shows(moment, words) for moment in moments]
    rows = st.lists(st.one_of(shown), max_size=LONGEST) if shown else st.just([])

    def obeys(data: st.DataObject) -> None:
        ctx = data.draw(pictures)
        state = check_init(checked, ctx)
        if isinstance(state, PluginRefused):
            return
        for one in data.draw(rows):
            if isinstance(one, Envelope):
                state = check_event(checked, one, state, ctx)
                continue
            action = check_hook(checked, one, state, ctx, data.draw(told) if asks else None)
            state = cast("object", getattr(action, "state", state))
        check_options(checked, state)

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
        broken.__notes__ = []  # what Hypothesis would say of an example that is printed already
        raise broken.with_traceback(None) from broken.__cause__


def shows(moment: str, words: Vocabulary) -> st.SearchStrategy[Hook | Envelope]:
    """What a plugin is shown at one *moment*: hooks, or events."""
    if moment != ON_EVENT:
        return apt_hooks(moment, words)
    return st.sampled_from(events()[0]) | st.sampled_from(events()[1])


@st.composite
def apt_hooks(draw: st.DrawFn, moment: str, words: Vocabulary) -> Hook:
    """Hooks of one *moment* with any content; in half of them it is made of *words*."""
    hook = draw(hooks(moment))
    if not draw(st.booleans()):
        return hook
    match hook:
        case BeforeTool():
            return hook.but(name=draw(st.sampled_from(words.names)), args=draw(apt_args(words)))
        case AfterTool() | OnToolError():
            return hook.but(name=draw(st.sampled_from(words.names)))
        case BeforePrompt() | BeforeSteering():
            return hook.but(text=draw(st.sampled_from(words.texts)))
        case _:
            return hook


@cache
def apt_args(words: Vocabulary) -> st.SearchStrategy[JsonObject]:
    """Arguments of calls, made of *words*."""
    items: st.SearchStrategy[Json] = (
        st.sampled_from(words.texts)
        | st.sampled_from(words.numbers)
        | st.sampled_from((None, True, (), freeze_object({})))
    )
    return st.dictionaries(st.sampled_from(words.names), items, max_size=3).map(freeze_object)


@cache
def events() -> tuple[tuple[Envelope, ...], tuple[Envelope, ...]]:
    """Return events of a few plausible sessions: one of each kind, and others."""
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
    return tuple(by_kind.values()), tuple(others)

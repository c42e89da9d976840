"""Draws random scripts from the words of plugins, and simplifies scripts that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from agentrail.hooks.actions import Answered, AskAnswer, Failed, TimedOut
from agentrail.testing.code_words import Vocabulary
from agentrail.testing.random_calls import CallDrawer, CallGroups
from agentrail.testing.scripted import Saying, ScriptStep, call, overflow, permanent, say, stall, transient
from agentrail.testing.turns.script_steps import (
    Prompted,
    abort,
    approve,
    prompt,
    raises,
    reject,
    respond,
    returns,
    steer,
    stop,
    tell,
    wait,
)
from agentrail.testing.world.choose import Choose
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.tools import AskPerson, Effect, err
from agentrail.values.usage import NOTHING_USED, Usage

GO: Final = prompt("go")
USAGES: Final = (NOTHING_USED, Usage(10, 1), Usage(100, 20))
ANSWERS: Final[tuple[AskAnswer, ...]] = (
    Answered("yes"),
    Answered(None),
    Answered("no"),
    Failed("nobody is there"),
    TimedOut(10.0),
)
RESULTS: Final = (returns("fine"), returns(err("no")), returns("x" * 200), returns(Effect(AskPerson("which?"))))


def draw_script_steps(
    choose: Choose, words: Sequence[Vocabulary], calls: CallGroups = (), most: int = 6
) -> tuple[ScriptStep, ...]:
    """Draw a script of at most *most* steps, the first of which is a prompt.

    Texts, names and numbers in it come from *words*, the vocabularies of plugins. Some calls are copies or mixtures of
    *calls*, if any are given.
    """
    caller = CallDrawer(choose, words, calls)
    first = prompt(choose.pick(choose.pick(words).texts)) if choose.percent(30) else GO
    return (first, *(draw_script_step(choose, choose.pick(words), caller) for _ in range(choose.below(most))))


def draw_script_step(choose: Choose, words: Vocabulary, caller: CallDrawer) -> ScriptStep:
    """Draw one step, most often a response of the model; texts come from *words*, calls from *caller*."""
    draw: Callable[[], ScriptStep] = choose.weighted(
        (
            (14, lambda: draw_saying(choose, words, caller)),
            (3, lambda: choose.pick(RESULTS)),
            (2, lambda: prompt(choose.pick(words.texts), at_once=choose.percent(30))),
            (2, lambda: approve(choose.pick((None, None, caller.args())), always=choose.percent(20))),
            (1, lambda: reject(auto_resume=choose.percent(50))),
            (1, lambda: abort(kill_tools=choose.pick(("killable", "all", "none")))),
            (1, lambda: steer(choose.pick(words.texts), choose.pick(("gap", "now")))),
            (1, lambda: raises("it broke")),
            (1, lambda: tell(choose.pick(ANSWERS))),
            (1, lambda: choose.pick((transient(), transient(after=2), permanent(), overflow(), stall(after=1)))),
            (1, lambda: choose.pick((wait(1.0), wait(200.0), respond("that one"), stop()))),
        )
    )
    return draw()


def draw_saying(choose: Choose, words: Vocabulary, caller: CallDrawer) -> Saying:
    """Draw a response of the model: in four of five draws one to three calls, else a text."""
    usage = choose.pick(USAGES)
    if choose.percent(20):
        return say(choose.pick(words.texts), usage=usage)
    count = choose.weighted(((4, 1), (2, 2), (2, 3)))
    return say(calls=[caller.draw() for _ in range(count)], usage=usage)


def simpler_scripts(script: tuple[ScriptStep, ...]) -> Iterator[tuple[ScriptStep, ...]]:
    """Yield variants of *script*: one step left out, then two responses merged, then one step made simpler."""
    yield from (script[:index] + script[index + 1 :] for index in reversed(range(len(script))))
    for index, (script_step, after) in enumerate(pairwise(script)):
        if (
            isinstance(script_step, Saying)
            and isinstance(after, Saying)
            and script_step.response.calls
            and after.response.calls
        ):
            yield (
                *script[:index],
                say(calls=(*script_step.response.calls, *after.response.calls)),
                *script[index + 2 :],
            )
    for index, script_step in enumerate(script):
        for simple in simpler(script_step):
            yield (*script[:index], simple, *script[index + 1 :])


def simpler(script_step: ScriptStep) -> Iterator[ScriptStep]:
    """Yield simpler forms of *script_step*: of a prompt, `GO`; of a response, fewer calls, no text, simpler args."""
    match script_step:
        case Prompted():
            if script_step != GO:
                yield GO
        case Saying(response=response):
            calls = response.calls
            for index in range(len(calls) if len(calls) > 1 else 0):
                yield say(calls=(*calls[:index], *calls[index + 1 :]))
            plain = say("fine") if not calls else say(calls=calls)
            if plain.response != response:
                yield plain
            for index, call_ in enumerate(calls):
                for args in _simpler_args(call_.args):
                    yield say(calls=(*calls[:index], call(call_.name, args), *calls[index + 1 :]), usage=response.usage)
        case _:
            return


def _simpler_args(args: JsonObject) -> Iterator[JsonObject]:
    for name in args:
        yield freeze_object({other: argument for other, argument in args.items() if other != name})
    for name, argument in args.items():
        for value in _simpler_value(argument):
            yield freeze_object({**args, name: value})


def _simpler_value(value: Json) -> Iterator[Json]:
    if type(value) is float and value == int(value):
        yield int(value)
    elif type(value) is int and value:
        yield from (
            small for small in (0, 1, value // 2, value - 1 if value > 0 else value + 1) if abs(small) < abs(value)
        )
    elif isinstance(value, str) and value not in ("a", ""):
        yield "a"

"""Draws what a random session is made of: tools, plugins and options, as a `Scene`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from attrs import field, frozen

from agentrail.core.vocabulary.options import Options, Spare
from agentrail.errors import WrongType
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.plugin import MATRIX, Attachable, Keyed
from agentrail.ports.tool import Tool
from agentrail.testing.probe_plugins import (
    CHANGES,
    LIES,
    REQUESTS,
    ArgsReplacer,
    Asker,
    Bringer,
    CriticalLiar,
    CriticalListener,
    CriticalRaiser,
    CriticalScripted,
    Guard,
    Holder,
    Liar,
    Listener,
    Raiser,
    Recorder,
    Refuser,
    Scripted,
)
from agentrail.testing.world.choose import Choose
from agentrail.values.argument_checks import spelt
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.tools import EffectClass, ToolSpec

HOOKS_IN_ORDER: Final = tuple(sorted(HOOK_NAMES))
CAN_ASK: Final = tuple(name for name in HOOKS_IN_ORDER if any(action.kind == "ask" for action in MATRIX[name]))

TOOLS: Final = (
    ToolSpec("read", "reads", effect=EffectClass.PURE, subject="path", timeout=5.0),
    ToolSpec("write", "writes", subject="path", requires=frozenset({"files"}), max_result_chars=20),
    ToolSpec("fix", "fixes", effect=EffectClass.IDEMPOTENT, timeout=0.2),
    ToolSpec("keep", "goes on", immune=True, requires=frozenset({"shell"}), timeout=3.0),
    ToolSpec("solo", "runs alone", parallel=False, effect=EffectClass.CHECKABLE),
    ToolSpec("talk", "asks the person", immune=True, effect=EffectClass.PURE),
    ToolSpec("away", "is made elsewhere", subject="path", elsewhere=True, timeout=5.0),
)
"""Tools with different properties, such as effect class and immunity; all of them require the argument `path`."""

DEFERRED: Final = (
    ToolSpec("seek", "looks for stars", deferred=True, effect=EffectClass.PURE, timeout=5.0),
    ToolSpec("dig", "turns soil over", deferred=True, subject="path"),
)
"""Tools that are found on demand; they require the argument `path` too."""

ANSWER: Final = freeze_object({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
"""The schema of answers in a form, which some prompts and sessions want (`returns`)."""

CHAINS: Final = ((), (), (Spare("spare1"),), (Spare("spare1"), Spare("spare2")))
"""Model chains: each is the models that a session may fall back to, in order."""

ALL_NAMES: Final = tuple(spec.name for spec in TOOLS)


def fits(args: JsonObject, _: object = None) -> str | None:
    """Return why *args* do not fit a tool of `TOOLS`, `None` if they do; replaces the schema check."""
    return None if type(args.get("path")) is str else "$.path: is not text"


def fits_answer(_: JsonObject, answer: JsonObject) -> str | None:
    """Return why *answer* does not fit `ANSWER`, `None` if it does; replaces the schema check."""
    return None if type(answer.get("sum")) is int else "$.sum: is no integer"


DEFAULTS: Final = Options()
PLUGINS_WANTED: Final = "a tuple of plugins, with a comma also after a single one"


def _specs(tools: Iterable[Tool | ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the specs of *tools*; raise `WrongType` if one of them is no tool."""
    expected = "tools, such as functions decorated by `@tool`, or their specs"
    try:
        items = iter(tools)
    except TypeError:
        raise WrongType.of("tools", tools, expected) from None
    specs: list[ToolSpec] = []
    for tool in items:
        spec: object = getattr(tool, "spec", tool)
        if not isinstance(spec, ToolSpec):
            raise WrongType.of("tools", tool, expected)
        specs.append(spec)
    return tuple(specs)


@spelt
@frozen
class Scene:
    """What one simulated session is made of: options, tools, plugins, models and user data."""

    options: Options = DEFAULTS
    tools: tuple[ToolSpec, ...] = field(default=TOOLS, converter=_specs)
    """The tools that the model calls, none of which runs: each call has the argument `path`."""
    plugins: tuple[Attachable, ...] = ()
    model: str = "model0"
    user_data: JsonObject = EMPTY
    spares: tuple[Spare, ...] = ()
    returns: JsonObject = EMPTY

    def __attrs_post_init__(self) -> None:
        """Raise `WrongType` if the plugins are no tuple or list of them."""
        if not isinstance(cast("object", self.plugins), tuple | list):
            raise WrongType.of("plugins", self.plugins, PLUGINS_WANTED)


def draw_options(choose: Choose) -> Options:
    """Draw options with small values, so that every limit is reached."""
    return Options(
        max_rounds=choose.pick((8, 8, 3, 2, 1)),
        max_turn_seconds=choose.pick((None, None, 20.0, 0.5)),
        max_prompt_queue=choose.pick((3, 1)),
        max_steering_queue=choose.pick((2, 1)),
        max_interventions=choose.pick((1, 2)),
        on_prompt_while_held=choose.pick(("supersede", "queue")),
        on_repeat_unknown=choose.pick(("hold", "allow")),
        stall_limit=choose.pick((2, 1)),
        max_retries=choose.pick((2, 1, 0)),
        retry_base=choose.pick((2.0, 90.0)),
        tool_max_retries=choose.pick((1, 2, 0)),
        max_parallel_tools=choose.pick((3, 2, 1)),
        repeat_pattern=2,
        file_loop_warn=choose.pick((3, 2)),
        file_loop_abort=choose.pick((9, 9, 4)),
        context_window=choose.pick((None, None, 100)),
        compact_to=choose.pick((0.5, 0.1)),
        fallback_after=choose.pick((2, 1)),
        inline_tags=choose.pick((False, False, True)),
        answer_max_retries=choose.pick((2, 0)),
    )


def draw_script(choose: Choose) -> dict[str, tuple[str, ...]]:
    """Draw a script for `Scripted`: for some hooks a few kinds of actions, of which `continue` is the most frequent."""
    lines: dict[str, tuple[str, ...]] = {}
    for hook in choose.some(HOOKS_IN_ORDER, 30):
        kinds = sorted(action.kind for action in MATRIX[hook])
        lines[hook] = tuple(
            "continue" if choose.percent(40) else choose.pick(kinds) for _ in range(choose.number(1, 3))
        )
    return lines


def draw_plugin(choose: Choose, key: str) -> Keyed:
    """Draw one plugin of any kind, right or broken, under *key*."""
    hook = choose.pick(HOOKS_IN_ORDER)
    kind = choose.weighted(
        (
            (6, "scripted"),
            (2, "critical"),
            (3, "asker"),
            (5, "holder"),
            (1, "args"),
            (1, "guard"),
            (2, "breaks"),
            (2, "hears"),
        )
    )
    match kind:
        case "scripted":
            return Keyed(key, Scripted(draw_script(choose)))
        case "critical":
            return Keyed(key, CriticalScripted(draw_script(choose)))
        case "asker":
            deadline, again = choose.pick((10.0, 0.1)), choose.percent(50)
            if choose.percent(50):
                return Keyed(key, Bringer(choose.pick(CAN_ASK), choose.pick(CHANGES), deadline, again))
            return Keyed(key, Asker(choose.pick(CAN_ASK), choose.pick(REQUESTS), deadline, again))
        case "holder":
            tools = choose.pick((None, frozenset({"read", "talk"}), frozenset({"write", "keep"})))
            return Keyed(key, Holder(tools, choose.pick((None, 120.0, 1.0)), choose.pick((None, "family"))))
        case "args":
            return Keyed(key, ArgsReplacer(choose.pick(({"path": "secret"}, {"path": "open"}, {"path": 7}))))
        case "guard":
            return Keyed(key, Guard())
        case "breaks":
            lie = choose.below(len(LIES))
            return Keyed(
                key, choose.pick((Raiser(hook), CriticalRaiser(hook), Liar(hook, lie), CriticalLiar(hook, lie)))
            )
        case _:
            raises, logs = choose.pick((0, 7, 3)), choose.pick((0, 5))
            return Keyed(key, choose.pick((Listener(raises, logs), CriticalListener(9 * raises, logs))))


PEOPLE_LINES: Final = (
    ("emit", "continue"),
    ("continue", "abort"),
    ("abort", "continue"),
    ("continue", "ask"),
    ("ask", "abort"),
    ("ask", "ask", "abort"),
)


def draw_people(choose: Choose) -> tuple[Attachable, ...]:
    """Draw plugins that hold some calls and let others run, and plugins that act after a decision about a call."""
    tools = choose.pick(({"read", "write"}, {"talk", "solo"}, {"keep", "fix"}, ()))
    hooks = choose.some(("before_tool", "after_tool", "on_tool_error", "after_response"), 50)
    lines = {hook: choose.pick(PEOPLE_LINES) for hook in hooks}
    if choose.percent(10):
        lines["before_tool"] = ("block_tool", "replace_tool_args")
    return Keyed("A", Holder(frozenset(tools), choose.pick((None, 120.0, 1.0)), "family")), Keyed("B", Scripted(lines))


def draw_plugins(choose: Choose, most: int = 3) -> tuple[Attachable, ...]:
    """Draw the plugins of a session: a `Recorder`, which says what each turn came to, and up to *most* others."""
    if choose.percent(30):
        return (Recorder(), *draw_people(choose))
    keys = ("A", "B", "C", "D")[: choose.number(0, most)]
    return (Recorder(), *(draw_plugin(choose, key) for key in keys))


def draw_tools(choose: Choose) -> tuple[ToolSpec, ...]:
    """Draw a set of tools: all, any of them, or a pair that has an immune tool, an asking one or a retryable one.

    Some sets have tools that are found on demand too.
    """
    names = choose.weighted(
        (
            (6, ALL_NAMES),
            (2, ("keep", "write")),
            (3, ("talk", "keep")),
            (3, ("talk", "write")),
            (1, ("fix", "read")),
            (1, choose.some(ALL_NAMES, 50)),
        )
    )
    plain = tuple(spec for spec in TOOLS if spec.name in names)
    return (*plain, *DEFERRED) if choose.percent(20) else plain


def draw_scene(choose: Choose, also: Sequence[Attachable] = ()) -> Scene:
    """Draw the setup of a random session; *also* are plugins under test, in addition to the drawn ones."""
    refuser: tuple[Attachable, ...] = (Refuser(),) if choose.below(60) == 1 else ()
    options, tools, plugins = draw_options(choose), draw_tools(choose), (*draw_plugins(choose), *also, *refuser)
    returns = ANSWER if choose.percent(6) else EMPTY
    return Scene(options, tools, plugins, spares=choose.pick(CHAINS), returns=returns)

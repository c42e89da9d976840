"""Hypothesis strategies for tests of plugins: hooks, actions, contexts, messages, scripts and whole sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, cast

from hypothesis import strategies as st

from agentrail.hooks.actions import Action, Answered, AskAnswer, Failed, TimedOut
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import (
    HOOK_NAMES,
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    AfterTurn,
    BeforeCompaction,
    BeforeFinish,
    BeforePluginOptsUpdate,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    Hook,
    OnToolError,
    SessionEnd,
    SessionStart,
)
from agentrail.hooks.plugin import MATRIX, Attachable
from agentrail.testing.code_words import PLAIN_WORDS, vocabulary
from agentrail.testing.probe_plugins import ANSWERS, REQUESTS
from agentrail.testing.scripted import ScriptStep
from agentrail.testing.turns.generating import draw_script_steps
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.random_setups import draw_scene
from agentrail.testing.world.world import World
from agentrail.values.content import Data, File, Image, Part, Text, Thinking, ToolCall
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import Json, JsonObject, freeze, freeze_object
from agentrail.values.messages import AssistantMessage, Message, Origin, StopReason, ToolMessage, UserMessage
from agentrail.values.tools import Todo, err, ok
from agentrail.values.usage import Usage

NAMES: Final = st.sampled_from(("read", "write", "shell", "a_tool"))
WORDS: Final = st.text(max_size=40)
TIMES_MS: Final = st.integers(0, 2**41)


@cache
def json_values() -> st.SearchStrategy[Json]:
    """Frozen JSON of any shape."""
    plain = (
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | WORDS
    )
    nested = st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
    )
    return nested.map(freeze)


@cache
def json_objects() -> st.SearchStrategy[JsonObject]:
    """Frozen JSON objects."""
    return st.dictionaries(WORDS, json_values(), max_size=4).map(freeze_object)


@cache
def usages() -> st.SearchStrategy[Usage]:
    """Usages of any size, with or without a cost."""
    count = st.integers(0, 10**6)
    return st.builds(Usage, count, count, cost_usd=st.none() | st.floats(0, 100))


@cache
def parts() -> st.SearchStrategy[tuple[Part, ...]]:
    """Contents of a message: up to three texts, images, files or data."""
    part: st.SearchStrategy[Part] = (
        st.builds(Text, WORDS)
        | st.builds(Image, st.just("image/png"), st.just("AAAA"))
        | st.builds(File, st.sampled_from(("application/pdf", "text/plain")), st.just("AAAA"), name=WORDS)
        | st.builds(File, st.just("application/pdf"), reference=st.just("https://example.com/plan.pdf"))
        | st.builds(Data, json_values())
    )
    return st.lists(part, max_size=3).map(tuple)


@cache
def tool_calls() -> st.SearchStrategy[ToolCall]:
    """Tool calls of a model; two that are drawn may have the same id."""
    return st.builds(ToolCall, st.sampled_from(("c1", "c2", "c3")), NAMES, json_objects(), WORDS)


@cache
def tool_results() -> st.SearchStrategy[ToolMessage]:
    """Messages with the result of a tool call."""
    return st.builds(ToolMessage, st.just("c1"), NAMES, parts(), st.booleans(), st.none() | json_objects())


@st.composite
def messages(draw: st.DrawFn, most: int = 5) -> tuple[Message, ...]:
    """Histories that a provider accepts: each tool call is followed by its result."""
    messages_: list[Message] = []
    for number in range(draw(st.integers(0, most))):
        if draw(st.booleans()):
            messages_.append(UserMessage(draw(parts()), draw(st.sampled_from(Origin))))
            continue
        calls = tuple(
            call.but(call_id=f"c{number}.{index}")
            for index, call in enumerate(draw(st.lists(tool_calls(), max_size=2)))
        )
        least = 0 if calls else 1  # providers accept no empty message
        thought = draw(st.lists(st.builds(Text, WORDS) | st.builds(Thinking, WORDS), min_size=least, max_size=2))
        stop = draw(st.sampled_from(StopReason))
        messages_.append(AssistantMessage(tuple(thought), calls, "model0", stop, draw(usages())))
        messages_.extend(draw(tool_results()).but(call_id=call.call_id, name=call.name) for call in calls)
    return tuple(messages_)


@cache
def contexts() -> st.SearchStrategy[Context]:
    """Contexts, the views of a session that hooks are given, with any content."""
    counts = st.integers(0, 50)
    todos = st.lists(st.builds(Todo, WORDS, st.sampled_from(("pending", "in_progress", "done"))), max_size=3)
    return st.builds(
        Context,
        session_id=st.sampled_from(("s", "session")),
        turn=counts,
        round=counts,
        usage=usages(),
        turn_usage=usages(),
        worked_ms=counts,
        turn_worked_ms=counts,
        todos=todos.map(tuple),
        sections=st.lists(st.tuples(WORDS, WORDS), max_size=2).map(tuple),
        tools=st.lists(NAMES, unique=True).map(tuple),
        user_data=json_objects(),
        last_assistant_reply=st.none() | WORDS,
        approved_always=st.frozensets(st.tuples(NAMES, WORDS), max_size=2),
        now_ms=TIMES_MS,
        parent=st.none() | st.just("parent"),
        path=st.just(()) | st.just(("parent",)),
        returns=json_objects(),
    )


@cache
def answers() -> st.SearchStrategy[AskAnswer]:
    """Answers to something that a plugin asked for: a value, a failure or a timeout."""
    return st.builds(Answered, json_values()) | st.builds(Failed, WORDS) | st.builds(TimedOut, st.floats(0, 100))


@cache
def _results() -> st.SearchStrategy[object]:
    return WORDS.map(ok) | WORDS.map(err)


@cache
def _assistant_messages() -> st.SearchStrategy[AssistantMessage]:
    texts = st.lists(st.builds(Text, WORDS), max_size=2).map(tuple)
    return st.builds(AssistantMessage, texts, st.lists(tool_calls(), max_size=3).map(tuple), st.just("model0"))


HOOK_FIELDS: Final[Mapping[type[Hook], Callable[[], Mapping[str, st.SearchStrategy[object]]]]] = MappingProxyType(
    {
        SessionStart: dict,
        SessionEnd: lambda: {"reason": WORDS},
        AfterTurn: lambda: {
            "outcome": st.sampled_from(("finished", "aborted")),
            "abort_kind": st.none() | st.sampled_from(("user", "plugin")),
            "abort_reason": st.none() | WORDS,
            "messages_diff": messages(),
            "token_usage_diff": usages(),
            "started_at_ms": TIMES_MS,
            "ended_at_ms": TIMES_MS,
        },
        BeforePrompt: lambda: {"text": WORDS, "ref": st.just("p1")},
        BeforeRequest: lambda: {
            "messages": messages(),
            "attempt": st.integers(1, 6),
            "last_error": st.none() | WORDS,
        },
        AfterResponse: lambda: {"message": _assistant_messages()},
        BeforeTool: lambda: {
            "name": NAMES,
            "args": json_objects(),
            "call_id": st.just("c1"),
            "approved": st.booleans(),
            "final": st.booleans(),
        },
        OnToolError: lambda: {"name": NAMES, "call_id": st.just("c1"), "error": WORDS, "attempt": st.integers(1, 3)},
        AfterTool: lambda: {
            "name": NAMES,
            "call_id": st.just("c1"),
            "result": _results(),
            "args": json_objects(),
            "duration_ms": st.integers(0, 9_999),
            "max_result_chars": st.none() | st.integers(1, 60_000),
        },
        AfterToolBatch: lambda: {"results": st.lists(tool_results(), max_size=3).map(tuple)},
        BeforeFinish: lambda: {"texts": st.lists(WORDS, max_size=1).map(tuple)},
        BeforeCompaction: lambda: {"messages": messages(), "reason": WORDS},
        BeforeSteering: lambda: {"text": WORDS, "ref": st.just("s1")},
        BeforePluginOptsUpdate: lambda: {"plugin": WORDS, "options": json_objects()},
    }
)
"""For each class of hook, a function that returns a strategy for each of its fields."""


@cache
def _fields(hook_name: str) -> Mapping[str, st.SearchStrategy[object]]:
    (kind,) = _kinds(hook_name)
    return HOOK_FIELDS[kind]()


@cache
def _kinds(hook_name: str | None) -> tuple[type[Hook], ...]:
    return tuple(kind for kind in HOOK_FIELDS if hook_name in (None, kind.hook_name))


@st.composite
def hooks(draw: st.DrawFn, hook_name: str | None = None) -> Hook:
    """Hooks with any content, of one *hook_name* or of all; some have the answer to an `Ask`, if the hook takes one."""
    kinds = _kinds(hook_name)
    kind = draw(st.sampled_from(kinds))
    fields = {name: draw(values) for name, values in _fields(kind.hook_name).items()}
    hook = cast("Callable[..., Hook]", kind)(**fields)
    if any(action.kind == "ask" for action in MATRIX[kind.hook_name]) and draw(st.integers(0, 3)) == 1:
        return hook.but(asked=draw(st.sampled_from(REQUESTS)), answer=draw(answers()))
    return hook


@st.composite
def actions(draw: st.DrawFn, hook_name: str | None = None) -> Action[int]:
    """Actions of every kind, or of the kinds that the hook *hook_name* accepts; the state in them is a number."""
    kinds = sorted(action.kind for action in MATRIX[hook_name]) if hook_name is not None else sorted(ANSWERS)
    hook = draw(hooks(hook_name or draw(st.sampled_from(sorted(HOOK_NAMES)))))
    action = ANSWERS[draw(st.sampled_from(kinds))](hook, draw(st.integers(0, 12)))
    return action.emitting(draw(WORDS), draw(json_values())) if draw(st.integers(0, 3)) == 1 else action


@st.composite
def plugin_sets(
    draw: st.DrawFn,
    candidates: Sequence[Attachable | st.SearchStrategy[Attachable]],
    least: int = 0,
    most: int | None = None,
) -> tuple[Attachable, ...]:
    """Subsets of *candidates*, in any order; from a candidate that is a strategy, a plugin is drawn."""
    order = draw(st.permutations(range(len(candidates))))
    size = draw(st.integers(least, len(candidates) if most is None else min(most, len(candidates))))
    chosen = [candidates[index] for index in order[:size]]
    return tuple(draw(part) if isinstance(part, st.SearchStrategy) else part for part in chosen)


@st.composite
def scripts(
    draw: st.DrawFn, plugins: Sequence[Attachable] = (), calls: Sequence[ToolCall] = (), most: int = 6
) -> tuple[ScriptStep, ...]:
    """Scripts for `simulate` of at most *most* steps, with words from *plugins*' code; some calls are from *calls*."""
    words = [vocabulary(plugin) for plugin in plugins] or [PLAIN_WORDS]
    return draw_script_steps(draw(chooses()), words, [calls] if calls else (), most)


@st.composite
def chooses(draw: st.DrawFn) -> Choose:
    """Sources of random choices (`Choose`) that Hypothesis draws, and so can shrink."""
    return Choose(lambda below: draw(st.integers(0, below - 1)))


@st.composite
def sessions(draw: st.DrawFn, plugins: Sequence[Attachable] = (), steps: int = 20) -> World:
    """Random sessions, as worlds, after at most *steps* inputs; *plugins* are among the plugins of each."""
    choose = draw(chooses())
    world = World(draw_scene(choose, plugins))
    world.open()
    for _ in range(draw(st.integers(0, steps))):
        if world.go(choose) is None:
            break
    return world


def event_scripts(steps: int = 20) -> st.SearchStrategy[tuple[Envelope, ...]]:
    """The durable events of a random session, in the order in which a plugin's `on_event` gets them."""
    return sessions(steps=steps).map(
        lambda world: tuple(envelope for record in world.records for envelope in record.events)
    )

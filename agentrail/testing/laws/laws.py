"""The laws that every plugin has to obey, each checked for one hook; `check_plugin` tries them with many.

The functions here need neither Hypothesis nor pytest. `check_plugin` prints a broken law as a test that calls one.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeVar, cast

from agentrail.codec.plugin_states import data_of, storable
from agentrail.codec.plugin_types import decode_state, readable
from agentrail.errors import AgentrailError, NotJson, PluginRefused
from agentrail.hooks.action_checks import why_malformed
from agentrail.hooks.actions import UNCHANGED, Action, Ask, AskAnswer
from agentrail.hooks.attachments import options_of
from agentrail.hooks.context import Context, Log
from agentrail.hooks.hook_run import MAX_ASKS
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.plugin import MATRIX, ON_EVENT, SCREEN, UNKNOWN, AnyPlugin, Plugin, state_type
from agentrail.runtime.work.screening import why_no_text
from agentrail.testing.as_code import CodeSource
from agentrail.testing.impure_calls import refusing
from agentrail.values.argument_checks import checked
from agentrail.values.events.envelope import Envelope
from agentrail.values.untrusted_values import names_of

T = TypeVar("T")

LAWS: Final[Mapping[str, str]] = types.MappingProxyType(
    {
        "no exception": "no hook raises, whatever it is shown; `init` and `on_options` may raise `PluginRefused`",
        "a pure hook": "no hook uses a socket, starts a process, writes or changes a file, or prints",
        "the same answer": "the same hook, state and context give the same answer each time",
        "nothing is changed": "the hook, the state, the context and the plugin itself stay as they are",
        "an accepted action": "a hook answers with an action that it accepts, with fields that are what they should be",
        "a state that can be kept": "a state is frozen, of at most 64 KiB, and comes back from JSON as it was",
        "an end of questions": "a plugin asks at most eight times in one run of a hook",
        "options that stay keep the state": "`on_options` with the options of now returns a state that it then keeps",
        "a text for a text": "`screen` returns a text that can be stored, for each text",
        "a description": "`describe` returns text or a JSON object",
    }
)
"""The laws by name, each with what it demands."""


class LawBrokenError(AssertionError):
    """A plugin broke a law: `law` is its name, `where` the hook, `problem` says how, and `example` is a test of it."""

    def __init__(self, law: str, plugin: AnyPlugin, where: str, problem: str, example: str) -> None:
        super().__init__(law, plugin, where, problem, example)
        self.law = law
        self.plugin = plugin
        self.where = where
        self.problem = problem
        self.example = example

    def __str__(self) -> str:
        return (
            f"{type(self.plugin).__name__} breaks a law at `{self.where}`: {self.problem}\n\n"
            f"  The law: {self.law} ({LAWS[self.law]}).\n\nThe smallest example, as a test:\n\n{self.example}"
        )


@checked
def check_hook(
    plugin: AnyPlugin, hook: Hook, state: object = None, ctx: Context | None = None, answer: AskAnswer | None = None
) -> Action[object]:
    """Show *plugin* one *hook*, and raise `LawBrokenError` if it breaks a law; return its action.

    The action always has a state: the new one, or *state* if that is unchanged. If the plugin asks for something and
    *answer* is given, it is shown the hook with the answer, as often as it asks; its last action is returned.
    """
    context = ctx if ctx is not None else Context()
    trial = _Trial(plugin, hook.hook_name, (hook, state, context, answer))
    action = trial.acts(hook, state, context)
    for _ in range(MAX_ASKS):
        if answer is None or not isinstance(action, Ask):
            return action
        with_answer = hook.but(asked=action.request, answer=answer)
        action = trial.acts(with_answer, action.state, context)
    trial.demands(not isinstance(action, Ask), "an end of questions", f"it asked more than {MAX_ASKS} times")
    return action


@checked
def check_init(plugin: AnyPlugin, ctx: Context | None = None) -> object:
    """Call `init` of *plugin*, and raise `LawBrokenError` if it breaks a law.

    Returns the first state, or the `PluginRefused` that it raised.
    """
    context = ctx if ctx is not None else Context()
    trial = _Trial(plugin, "init", (context,))
    trial.description()
    return trial.begins(lambda: cast("Plugin[object]", plugin).init(context), (context,))


@checked
def check_options(plugin: AnyPlugin, state: object) -> object:
    """Call `on_options` of *plugin* with the options that it has; raise `LawBrokenError` if it breaks a law.

    Returns the new state, or the `PluginRefused` that it raised.
    """
    stateful = cast("Plugin[object]", plugin)
    new = options_of(plugin)
    trial = _Trial(plugin, "on_options", (state,))
    once = trial.begins(lambda: stateful.on_options(new, state), (state,))
    if isinstance(once, PluginRefused):
        return once
    again = trial.begins(lambda: stateful.on_options(new, once), (once,))
    is_same = repr(again) == repr(once)
    trial.demands(
        is_same, "options that stay keep the state", f"it went on to {once!r:.200}, and then to {again!r:.200}"
    )
    return once


@checked
def check_event(plugin: AnyPlugin, event: Envelope, state: object = None, ctx: Context | None = None) -> object:
    """Show *plugin* one *event*, and raise `LawBrokenError` if it breaks a law; return its new state."""
    context = ctx if ctx is not None else Context()
    listener = cast("Plugin[object]", plugin)
    trial = _Trial(plugin, ON_EVENT, (event, state, context))
    state_ = trial.twice(lambda: listener.on_event(event, state, context), (event, state, context))
    if isinstance(state_, Log):
        state_ = cast("Log[object]", state_).state
    wrong = isinstance(state_, Action)
    trial.demands(not wrong, "an accepted action", "it returned an action where its state is wanted")
    if state_ is not state:
        trial.keeps(state_)
    return state_


@checked
def check_screen(plugin: AnyPlugin, text: str) -> str:
    """Have *plugin* screen a *text*; return the screened text. Raise `LawBrokenError` if this breaks a law."""
    trial = _Trial(plugin, SCREEN, (text,))
    screened = trial.twice(lambda: cast("Plugin[object]", plugin).screen(text), (text,))
    problem = why_no_text(screened)
    trial.demands(problem is None, "a text for a text", str(problem))
    return cast("str", screened)


class _Trial:
    """Checks the laws in one call of a hook of *plugin*."""

    def __init__(self, plugin: AnyPlugin, where: str, args: tuple[object, ...]) -> None:
        self.plugin = plugin
        self.where = where
        self.shown = args

    def demands(self, holds: bool, law: str, problem: str) -> None:
        """Raise `LawBrokenError` about *law* with *problem*, unless *holds* is true."""
        if not holds:
            raise LawBrokenError(law, self.plugin, self.where, problem, example(self.plugin, self.where, self.shown))

    def acts(self, hook: Hook, state: object, ctx: Context) -> Action[object]:
        """Show the plugin *hook*, check its action against the laws, and return the action with its state filled in."""
        method = cast("Callable[[Hook, object, Context], object]", getattr(self.plugin, hook.hook_name))
        answer = self.twice(lambda: method(hook, state, ctx), (hook, state, ctx))
        accepted = MATRIX[hook.hook_name]
        if type(answer) not in accepted:
            kinds = ", ".join(sorted(f"`{action.kind}`" for action in accepted))
            kind = f"`{cast('Action[object]', answer).kind}`" if isinstance(answer, Action) else f"{answer!r:.80}"
            self.demands(False, "an accepted action", f"it answered {kind}; this hook accepts {kinds}")
        action = cast("Action[object]", answer)
        try:
            malformed = why_malformed(action)
        except (NotJson, TypeError, ValueError) as error:
            malformed = str(error)
        self.demands(malformed is None, "an accepted action", str(malformed))
        new: object = getattr(action, "state", UNCHANGED)
        if new is UNCHANGED:
            return action.but(state=state)
        if new is not state:
            self.keeps(new)
        return action

    def twice(self, ask: Callable[[], object], arguments: tuple[object, ...]) -> object:
        """Call the plugin twice and return its first answer; check that both are equal, and *arguments* unchanged."""
        old = snapshot((self.plugin, *arguments))
        first = self.called(ask)
        if old != snapshot((self.plugin, *arguments)):
            self.demands(False, "nothing is changed", f"it changed {self._what_changed(old, arguments)}")
        first_text = snapshot(first)
        second = snapshot(self.called(ask))
        if first_text != second:
            self.demands(False, "the same answer", f"it answered {first_text}, and then {second}")
        return first

    def begins(self, ask: Callable[[], object], arguments: tuple[object, ...]) -> object:
        """Call `init` or `on_options`; return the state, checked, or the `PluginRefused` that it raised."""
        try:
            state = self.twice(ask, arguments)
        except PluginRefused as refusal:
            return refusal
        self.keeps(state)
        return state

    def called(self, ask: Callable[[], object]) -> object:
        """Call the plugin; a law is broken if a call of it is impure, or if it raises.

        `init` and `on_options` may raise `PluginRefused`.
        """
        refused: list[str] = []
        try:
            return self._answer(lambda: refusing(ask, refused))
        finally:
            self.demands(not refused, "a pure hook", ", ".join(refused))

    def _answer(self, ask: Callable[[], object]) -> object:
        """Call the plugin; if it raises, a law is broken, except for a `PluginRefused` of `init` and `on_options`."""
        try:
            return ask()
        except PluginRefused as refusal:
            self.demands(self.where in ("init", "on_options"), "no exception", f"it refused: {refusal}")
            raise
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
            try:
                self.demands(False, "no exception", problem)
            except LawBrokenError as broken:
                raise broken from error
            raise

    def keeps(self, state: object) -> None:
        """Raise `LawBrokenError` unless *state* can be stored, and comes back from JSON equal to what it was."""
        law = "a state that can be kept"
        problem = storable(state)
        if problem is not None:
            self.demands(False, law, f"its state {state!r:.200} cannot be kept: {problem}")
        type_ = state_type(type(self.plugin))
        if type_ is UNKNOWN:
            return
        problem = readable(type_)
        self.demands(problem is None, law, f"a state of type {type_} cannot be read back: {problem}")
        try:
            back = decode_state(type_, data_of(state))
        except AgentrailError as error:
            self.demands(False, law, f"its state {state!r:.200} does not come back: {error}")
        else:
            if back != state:
                self.demands(False, law, f"its state {state!r:.200} comes back as {back!r:.200}")

    def description(self) -> None:
        """Raise `LawBrokenError` unless the plugin's `describe` returns a text or a mapping."""
        description = self.called(self.plugin.describe)
        fits = isinstance(description, str | Mapping)
        self.demands(fits, "a description", f"it described itself as {description!r:.80}")

    def _what_changed(self, old: str, arguments: tuple[object, ...]) -> str:
        names = (
            "itself, the plugin",
            "the hook" if self.where != ON_EVENT else "the event",
            "the state",
            "the context",
        )
        for name, thing in zip(names, (self.plugin, *arguments), strict=False):
            if snapshot(thing) not in old:
                return f"{name}, which now is {snapshot(thing):.200}"
        return "what it was shown"


def snapshot(value: object, depth: int = 0) -> str:
    """Return *value* and everything in it as text, so that two snapshots differ if anything visible has changed."""
    if depth > 20:  # noqa: PLR2004 - deeper than anything that is shown to a plugin
        return "…"
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    inner = depth + 1
    names = _fields(kind)  # type: ignore[arg-type]  # mypy does not see that a class can be hashed
    if names is not None:
        values: list[object] = [getattr(value, name) for name in names]
        fields = [repr(it) if type(it) in _PLAIN else snapshot(it, inner) for it in values]  # most are plain
        return f"{kind.__name__}({', '.join(map('{}={}'.format, names, fields))})"
    if kind in (tuple, frozenset) and all(type(item) is str for item in cast("tuple[object, ...]", value)):
        words = cast("tuple[str, ...]", value)
        return repr(words) if kind is tuple else repr(sorted(words))
    match value:
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            return "{" + ", ".join([f"{snapshot(key, inner)}: {snapshot(item, inner)}" for key, item in pairs]) + "}"
        case set() | frozenset():
            return "{" + ", ".join(sorted([snapshot(item, inner) for item in cast("frozenset[object]", value)])) + "}"
        case list() | tuple():
            items = ", ".join([snapshot(item, inner) for item in cast("list[object]", value)])
            return f"[{items}]" if isinstance(value, list) else f"({items})"
        case str() | int() | float():
            return repr(value)
        case _ if type(value).__repr__ is object.__repr__:
            return f"{kind.__name__}({snapshot(getattr(value, '__dict__', {}), inner)})"
        case _:
            return repr(value)


@lru_cache(maxsize=1024)
def _fields(kind: type[object]) -> tuple[str, ...] | None:
    """Return the names of the fields of *kind*; `None` if it has none or is a built-in type."""
    return None if issubclass(kind, _OF_PYTHON) else names_of(kind)


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_OF_PYTHON: Final = (Mapping, set, frozenset, list, tuple, str, int, float)

_CHECKS: Final[Mapping[str, str]] = types.MappingProxyType(
    {"init": "check_init", "on_options": "check_options", ON_EVENT: "check_event", SCREEN: "check_screen"}
)


def example(plugin: AnyPlugin, where: str, args: tuple[object, ...]) -> str:
    """Return the source of a test that calls the hook *where* of *plugin* with *args*."""
    source = CodeSource()
    check = source.wants("agentrail.testing", _CHECKS.get(where, "check_hook"))
    arguments = list(args)
    while len(arguments) > 1 and arguments[-1] in (None, Context()):
        arguments.pop()
    lines = [f"        {source.code(thing)}," for thing in (plugin, *arguments)]
    body = "\n".join(
        [f"def test_{_snake(type(plugin).__name__)}_at_{where}() -> None:", f"    {check}(", *lines, "    )"]
    )
    return "\n".join(source.lines()) + "\n\n\n" + body + "\n"


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).strip("_")

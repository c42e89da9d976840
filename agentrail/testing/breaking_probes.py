"""Plugins that break: they raise, answer what no hook may answer, or have a state that cannot be stored."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from agentrail.hooks.actions import (
    Abort,
    AddContext,
    Ask,
    BlockTool,
    CallService,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    SwitchModel,
)
from agentrail.hooks.context import Context, Log
from agentrail.hooks.moments import Hook
from agentrail.hooks.plugin import Plugin
from agentrail.testing.probes import Answer, Answering
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import AgentEnd


@frozen
class Raiser(Answering):
    """Raises at one hook."""

    hook: str = "before_tool"

    def answer(self, hook: Hook, state: int) -> object:
        """Raise a `ValueError` at the chosen hook."""
        if hook.moment == self.hook:
            raise ValueError(self.hook)
        return Continue(state)


@frozen
class CriticalRaiser(Raiser):
    """As its base class, but critical: if it breaks, the session fails closed."""

    critical = True
    priority = 60


class Unstorable:
    """A state that cannot be stored."""


def can_store(state: object) -> str | None:
    """Return why *state* cannot be stored, or `None` if it can: a cheap stand-in for the check of the codec."""
    return "an `Unstorable` is no value" if isinstance(state, Unstorable) else None


LIES: Final[tuple[Answer, ...]] = (
    lambda _hook, _turn: None,
    lambda _hook, _turn: "continue",
    lambda _hook, _turn: Continue,
    lambda _hook, _turn: Continue(Unstorable()),
    lambda hook, turn: BlockTool("x", turn) if hook.moment != "before_tool" else Intervene("x", turn),
    lambda _hook, _turn: HoldTool("x", timeout="soon"),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: HoldTool("x", timeout=float("nan")),
    lambda _hook, _turn: HoldTool("x", family=["a"]),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceToolArgs(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceToolArgs({"path": object()}),  # type: ignore[dict-item]  # a lie
    lambda _hook, _turn: ReplacePrompt(" "),
    lambda _hook, _turn: ReplacePrompt(5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceResponse(""),
    lambda _hook, _turn: AddContext(" "),
    lambda _hook, _turn: ReplaceMessages(()),
    lambda _hook, _turn: ReplaceMessages(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceMessages(("hello",)),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: ReplaceToolResult("fine"),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Intervene(5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Abort(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: BlockTool(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: SwitchModel(None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: SwitchModel("m", provider_options=None),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: SetSection("mood", 5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Ask("the oracle"),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Ask(CallService("x"), deadline=-1.0),
    lambda _hook, _turn: Emit(5),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Emit((("one",),)),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Emit("x", object()),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Emit(AgentEnd("p1", "end", (), 0)),  # type: ignore[arg-type]  # a lie
    lambda _hook, _turn: Continue(emits=("x",)),  # type: ignore[arg-type]  # a lie
    lambda _hook, turn: Continue(turn, emits=5),  # type: ignore[arg-type]  # a lie
)
"""Functions that make answers which no plugin may give: no action, or one with fields of wrong types or values."""


@frozen
class Liar(Answering):
    """Answers one hook with an invalid answer: the one with the number `lie` in `LIES`."""

    hook: str = "before_tool"
    lie: int = 0

    def answer(self, hook: Hook, state: int) -> object:
        """Return the invalid answer at the chosen hook."""
        return LIES[self.lie](hook, state) if hook.moment == self.hook else Continue(state)


@frozen
class CriticalLiar(Liar):
    """As its base class, but critical: if it breaks, the session fails closed."""

    critical = True
    priority = 70


@frozen
class Listener(Plugin[int]):
    """Counts the events that it is shown; logs every `logs_at`-th one, and raises at every `raises_at`-th one."""

    raises_at: int = 0
    logs_at: int = 0

    def init(self, ctx: Context) -> int:  # noqa: ARG002 - the signature of the hook
        """Return the first state: no event counted."""
        return 0

    def on_event(self, event: Envelope, state: int, ctx: Context) -> int | Log[int]:  # noqa: ARG002
        """Count the event; log it or raise, if its number says so."""
        if self.raises_at and event.seq % self.raises_at == 0:
            raise ValueError(event.seq)
        if self.logs_at and event.seq % self.logs_at == 0:
            return Log("info", "heard", {"seq": event.seq}, state + 1)
        return state + 1


@frozen
class CriticalListener(Listener):
    """As its base class, but critical: if it raises, the turn is aborted."""

    critical = True
    priority = 80


class Refuser(Plugin[None]):
    """Refuses to start: its `init` raises."""

    def init(self, ctx: Context) -> None:
        """Raise a `ValueError`."""
        raise ValueError(ctx.session_id)

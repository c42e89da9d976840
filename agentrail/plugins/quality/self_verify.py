"""`SelfVerify`: runs a check before an answer is final, and sends the model back while the check fails."""

from __future__ import annotations

from typing import Final

import attrs
from attrs import frozen

from agentrail.hooks.actions import Answered, Ask, AskAnswer, Continue, Emit, Failed, Intervene, RunTool, TimedOut
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterTool, AfterTurn, BeforeFinish
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import (
    as_object,
    as_tuple,
    check_count,
    check_object,
    check_seconds,
    check_text,
    check_texts,
)
from agentrail.plugins.shell.paths import meets
from agentrail.values.json import EMPTY, JsonObject, freeze

MAX_HEAD: Final = 1_000
"""The most characters from the beginning of a check's output that the model gets."""
MAX_TAIL: Final = 3_000
"""The most characters from the end of a check's output that the model gets."""

SENT_BACK: Final = """\
The check `{tool}` was run, because your answer was about to be final. It failed:

{problem}

Repair what is wrong, then give your whole final answer again."""
"""The text for the model after a check that failed."""


@frozen
class Verification:
    """The state of `SelfVerify`."""

    unchecked: bool = False
    """Whether a call that counts has run since the last check that passed."""
    turn: int = 0
    """Number of the last turn in which a check has failed; 0 if none has."""
    failures: int = 0
    """How many checks have failed in that turn."""


@frozen
class SelfVerify(Plugin[Verification]):
    """Run a check, one of the session's tools, before an answer is final; send the model back while the check fails.

    The check fails if its tool returns an error, does not return in time, or is not allowed to run. It is not run if no
    call has run since the check passed last. After `max_repairs` failures in a turn, the next one makes the answer
    final all the same. Events tell of each check: `verify_passed`, `verify_failed` and `verify_given_up`.
    """

    tool: str = attrs.field(validator=check_text)
    """Name of the tool that checks the work. Its result must be an error if the work is not good."""
    args: JsonObject = attrs.field(default=EMPTY, converter=as_object, validator=check_object)
    """Arguments for the tool."""
    after: tuple[str, ...] = attrs.field(default=("*",), converter=as_tuple, validator=check_texts)
    """Names of the tools after whose calls the check is needed, where `*` is any text and `?` any character.

    Calls of `tool` itself never count. The session must have each tool that is named without these.
    """
    max_repairs: int = attrs.field(default=3, validator=check_count)
    """How often in one turn the model is sent back."""
    deadline: float = attrs.field(default=60.0, validator=check_seconds)
    """Seconds that the check may take; if it takes longer, it has failed."""

    priority = Priority.QUALITY + 90

    @property
    def tools_named(self) -> tuple[str, ...]:
        """`tool`, and the names in `after` without patterns; the session refuses to start without these tools."""
        return (self.tool, *(name for name in self.after if not {"*", "?", "["} & set(name)))

    def init(self, ctx: Context) -> Verification:
        """Return the first state: no check is needed."""
        return Verification()

    def after_tool(self, hook: AfterTool, state: Verification, ctx: Context) -> Continue[Verification]:
        """Note that a call has run that makes the check necessary."""
        if state.unchecked or hook.name == self.tool:
            return Continue(state)
        counts = "*" in self.after or any(meets(pattern, hook.name, hidden=True) for pattern in self.after)
        return Continue(Verification(True, state.turn, state.failures) if counts else state)

    def before_finish(
        self, hook: BeforeFinish, state: Verification, ctx: Context
    ) -> Continue[Verification] | Intervene[Verification] | Ask[Verification]:
        """Run the check if it is needed; let the turn end if it passes, and send the model back if it fails."""
        if not state.unchecked or hook.texts:
            return Continue(state)
        if hook.answer is None:
            return Ask(RunTool(self.tool, self.args), deadline=self.deadline)
        failed_before = state.failures if state.turn == ctx.turn else 0
        problem = _problem(hook.answer)
        data = {"tool": self.tool, "attempt": failed_before + 1}
        checked = Verification(False, state.turn, state.failures)
        if problem is None:
            return Continue(checked).emitting("verify_passed", freeze(data))
        if failed_before >= self.max_repairs:
            return Continue(checked).emitting(
                "verify_given_up", freeze({**data, "problem": problem, "reason": "max_repairs"})
            )
        text = SENT_BACK.format(tool=self.tool, problem=problem)
        new = Verification(unchecked=True, turn=ctx.turn, failures=failed_before + 1)
        return Intervene(text, new).emitting("verify_failed", freeze({**data, "problem": problem}))

    def after_turn(
        self, hook: AfterTurn, state: Verification, ctx: Context
    ) -> Continue[Verification] | Emit[Verification]:
        """Emit an event if the turn has ended after a failed check; after an abort, the next answer is checked."""
        if not state.unchecked or not state.failures or state.turn != ctx.turn:
            return Continue(state)
        if hook.outcome != "finished":
            return Continue(Verification(unchecked=True))
        data = {"tool": self.tool, "attempt": state.failures, "problem": "", "reason": "turn_ended"}
        return Emit("verify_given_up", freeze(data), state=Verification())


def _problem(answer: AskAnswer) -> str | None:
    """Return why the check failed, cut to the length that the model gets; `None` if it passed."""
    match answer:
        case Answered():
            return None
        case Failed(error=error):
            return _cut(error.strip()) or "it gave no reason"
        case TimedOut(seconds=seconds):
            return f"it did not end within {seconds:g} seconds"


def _cut(text: str) -> str:
    left_out = len(text) - MAX_HEAD - MAX_TAIL
    return text if left_out <= 0 else f"{text[:MAX_HEAD]}\n… ({left_out} characters left out) …\n{text[-MAX_TAIL:]}"

"""Each hook answered with each action: an accepted one takes effect, any other is reported and ignored."""

from collections.abc import Mapping
from typing import Final

import pytest

from agentrail import (
    Abort,
    Action,
    AddContext,
    Ask,
    BlockTool,
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
    Skip,
    SwitchModel,
)
from agentrail.events import (
    Event,
    PluginError,
    PluginEvent,
    RequestStart,
    ResponseComplete,
    ToolBlocked,
    ToolCalls,
)
from agentrail.hooks.actions import ACTIONS
from agentrail.hooks.hook_types import (
    HOOKS,
)
from agentrail.hooks.ruling import WHEN_CRITICAL_BREAKS, Decisions
from agentrail.models import FrozenObject, Origin, ToolCall
from agentrail.plugins import MATRIX, CallService
from agentrail.tools import err
from tests.cells.bench import Got, Now, ruled
from tests.cells.hook_cells import HOOK_CELLS, REFUSED, Expected, Refusal, probe, refused
from tests.cells.scenes import (
    failed,
    out,
    path,
    replied,
    request,
    turn,
    user_message,
)
from tests.cells.tables import ACCEPTED
from tests.cells.tables import ACTIONS as KINDS
from tests.cells.tables import HOOKS as MOMENTS_IN_ORDER
from tests.each_case import each_case
from tests.kit import EMPTY, Phase, Ruling, Verdict

CALLED: Final = ToolCall("c3", "look", path())
LOOKUP: Final = CallService("lookup")
NOTE: Final = user_message("note", Origin.INTERVENTION)

ANSWERS: Final[Mapping[str, Action[object]]] = {
    "continue": Continue(1),
    "intervene": Intervene("note", 1),
    "abort": Abort("no", 1),
    "skip": Skip(1),
    "block_tool": BlockTool("no", 1),
    "replace_tool_args": ReplaceToolArgs({"path": "b"}, 1),
    "emit": Emit("noted", {"a": 1}, state=1),
    "switch_model": SwitchModel("n", 1),
    "replace_prompt": ReplacePrompt("other", 1),
    "replace_response": ReplaceResponse("other", 1),
    "replace_messages": ReplaceMessages((user_message("other"),), 1),
    "replace_tool_result": ReplaceToolResult(err("hidden"), 1),
    "hold_tool": HoldTool("may it?", 1),
    "set_section": SetSection("mood", "calm", 1),
    "ask": Ask(LOOKUP, 1),
    "add_context": AddContext("it rains", 1),
}


def fired(hook: str, action: str) -> Got:
    """Return the step of a hook at which the plugin `P` gives an answer of this kind."""
    return HOOK_CELLS[hook].fire(probe(hook, ANSWERS[action]))[1]


def ruling(hook: str, verdict: Verdict = Verdict.PASS, reason: str = "", **decisions: object) -> Ruling:
    """Return the ruling that `P` led to; its state is 1 now."""
    by = None if verdict is Verdict.PASS else "P"
    return Ruling(hook, verdict, by, reason, decisions=Decisions(**decisions), states=((0, 1),))  # type: ignore[arg-type]  # the fields


# The matrix itself


def test_the_matrix_is_that_of_the_design() -> None:
    assert tuple(hook.hook_name for hook in HOOKS) == MOMENTS_IN_ORDER
    assert tuple(action.kind for action in ACTIONS) == KINDS
    assert {(hook, action.kind) for hook, kinds in MATRIX.items() for action in kinds} == ACCEPTED
    assert len(MOMENTS_IN_ORDER) == 14
    assert len(KINDS) == 16


# What is not accepted


@pytest.mark.parametrize("hook", MOMENTS_IN_ORDER)
def test_an_action_that_the_hook_does_not_accept_is_reported(hook: str) -> None:
    for action in KINDS:
        errors = [event for event in fired(hook, action).events if isinstance(event, PluginError)]
        assert errors == ([] if (hook, action) in ACCEPTED else [PluginError("P", hook, _complaint(hook, action))])


@pytest.mark.parametrize("hook", MOMENTS_IN_ORDER)
def test_it_counts_as_continue_and_as_a_crash_of_a_critical_plugin(hook: str) -> None:
    action = next(action for action in KINDS if (hook, action) not in ACCEPTED)
    error = PluginError("P", hook, _complaint(hook, action))
    HOOK_CELLS[hook].differs(fired(hook, action), Ruling(hook, errors=(error,)), [error])
    _, got = HOOK_CELLS[hook].fire(probe(hook, ANSWERS[action], critical=True))
    broke(hook, got, error.error)


def _complaint(hook: str, action: str) -> str:
    return f"it answered `{action}`, which `{hook}` does not accept"


def broke(hook: str, got: Got, complaint: str) -> None:
    """Check that the critical plugin `P` failed, and that this counted as `WHEN_BROKEN` says."""
    error = PluginError("P", hook, complaint)
    reason = f"critical plugin `P` broke: {complaint}"
    verdict = WHEN_BROKEN.get(hook, Verdict.ABORT)
    if verdict is Verdict.PASS:
        HOOK_CELLS[hook].differs(got, Ruling(hook, errors=(error,)), [error], critical=True)
        return
    decided = Ruling(hook, verdict, "P", reason, critical=True, errors=(error,))
    if verdict is Verdict.BLOCK:
        blocked(got, decided, [error])
    else:
        refused(HOOK_CELLS[hook], got, Refusal(decided, (error,)))


WHEN_BROKEN: Final = {
    "session_end": Verdict.PASS,
    "after_turn": Verdict.PASS,
    "before_tool": Verdict.BLOCK,
    "before_compact": Verdict.SKIP,
}
"""What a failure of a critical plugin counts as; at every other hook it counts as an abort."""


def test_a_broken_critical_plugin_counts_as_the_design_says() -> None:
    assert dict(WHEN_CRITICAL_BREAKS) == {hook: WHEN_BROKEN.get(hook, Verdict.ABORT) for hook in MOMENTS_IN_ORDER}
    assert set(REFUSED) == {hook for hook in MOMENTS_IN_ORDER if WHEN_BROKEN.get(hook) is not Verdict.PASS}


# What every hook accepts: continue and emit


@each_case(MOMENTS_IN_ORDER)
def test_continue_changes_nothing_but_the_plugins_state(hook: str) -> None:
    HOOK_CELLS[hook].differs(fired(hook, "continue"), ruling(hook), plugin_states=_states(hook))


def _states(hook: str) -> tuple[object, ...]:
    return (1, None) if hook == "before_plugin_opts_update" else (1,)


@each_case(MOMENTS_IN_ORDER)
def test_what_is_emitted_is_broadcast_when_the_hook_is_done(hook: str) -> None:
    said_so = PluginEvent("P", "noted", FrozenObject(user_data=EMPTY, a=1))
    HOOK_CELLS[hook].differs(
        fired(hook, "emit"), ruling(hook, emits=(said_so,)), [said_so], plugin_states=_states(hook)
    )


# Abort


@each_case(sorted(hook for hook, action in ACCEPTED if action == "abort"))
def test_abort_aborts_the_turn_or_refuses_what_was_asked(hook: str) -> None:
    no = Refusal(ruling(hook, Verdict.ABORT, "no"))
    changes: Expected = {"plugin_states": _states(hook)}
    refused(HOOK_CELLS[hook], fired(hook, "abort"), no, **changes)


# Block


def blocked(got: Got, decided: Ruling, errors: list[Event], states: tuple[object, ...] = (0,)) -> None:
    """Check that the only call was blocked, and that the turn goes on."""
    old = got.before
    message = replied("", CALLED)
    failure = failed("c3", "look", f"blocked by P: {decided.reason}")
    got.expect_only(
        ids=2,
        events=[
            ResponseComplete(message),
            ToolCalls(1),
            *errors,
            ToolBlocked("c3", "look", decided.reason, "P"),
            Now(1, 2),
            RequestStart("r4", "m", 3, 1),
        ],
        effects=[request(old, "r4", message, failure)],
        rulings=(*ruled("after_response", "check"), decided, *ruled("after_tool_batch", "before_request")),
        phase=Phase.RUNNING,
        round=2,
        turn=turn(last_call=("look", path()), repeats=1, subjects=(("a", 1),)),
        last_text="",
        history=old.history.and_(message, failure),
        request=out("r4"),
        plugin_states=states,
    )


def test_a_blocked_call_gets_an_error_result() -> None:
    decided = ruling("before_tool", Verdict.BLOCK, "no")
    blocked(fired("before_tool", "block_tool"), decided, [], (1,))

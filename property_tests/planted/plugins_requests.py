"""Bugs in the plugins that act on requests, and the checks that find them: each compares with a simple model."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from agentrail import Context, Continue, ReplaceMessages, SwitchModel
from agentrail.models import AssistantMessage, FrozenObject, Message, Text, ToolCall, ToolMessage, UserMessage
from agentrail.plugins import BeforeRequest, ModelRouter, ModelRule, PatchToolCalls, PromptCache, Recovery
from agentrail.plugins.requests.model_router import Chosen
from agentrail.plugins.requests.recovery import Fallen
from agentrail.testing import Choose
from agentrail.values.messages import why_unfit
from property_tests.planted.change import Change
from tests.kit import EMPTY

# ruff: noqa: SLF001 - private parts are what is broken here

HOUR: Final = 3_600_000


def broken_patch(number: int) -> str | None:
    """Repair messages that do not pair; return what is wrong with what is left, or with what is told."""
    choose = Choose(Random(number).randrange)
    messages: list[Message] = [UserMessage((Text("go on"),))]
    for _ in range(choose.number(1, 6)):
        call_id = choose.pick(("a", "b"))
        asks = AssistantMessage((), (ToolCall(call_id, "read", EMPTY),))
        found = ToolMessage(call_id, "read", (Text("found"),))
        messages.append(asks if choose.percent(50) else found)
    plugin = PatchToolCalls(is_error=choose.percent(50))
    hook = BeforeRequest(tuple(messages))
    action = plugin.before_request(hook, "", Context())
    if why_unfit(messages) is None:
        return None if action == Continue() else "pairs"
    if not isinstance(action, ReplaceMessages) or why_unfit(action.messages) is not None:
        return "unfit"
    for place, message in enumerate(action.messages):
        if isinstance(message, ToolMessage):
            call = messages.index(action.messages[place - 1])
            if message.text != "found" and message.is_error is not plugin.is_error:
                return "error"
            if message.text == "found" and message not in messages[call:]:
                return "earlier"
    again = plugin.before_request(hook, action.state, Context())  # type: ignore[arg-type]  # its own state
    return None if (len(action.emits), len(again.emits)) == (1, 0) else "told"


def broken_router(number: int) -> str | None:
    """Route requests of some turns; return what is wrong with the choices."""
    choose = Choose(Random(number).randrange)
    first, end = choose.pick(((22, 6), (9, 17)))
    rules: list[ModelRule] = [{"model": "night", "time_of_day_in": (first, end)}, {"model": "late", "turn_gt": 2}]
    router = ModelRouter(rules, "plain")
    state, model, before = Chosen(), "own", ""
    for turn in range(1, 8):
        hour = choose.pick((0, 5, 6, 9, 17, 21, 22, 23))
        is_first = hour in {*range(first, 24), *range(end)} if first > end else hour in range(first, end)
        wanted = "night" if is_first else "late" if turn > 2 else "plain"
        ctx = Context(model=model, turn=turn, now_ms=hour * HOUR)
        if router.before_request(BeforeRequest((), 2, "busy"), state, ctx) != Continue():
            return "retry"
        action = router.before_request(BeforeRequest(()), state, ctx)
        switches = wanted not in (before, model)
        if isinstance(action, SwitchModel) is not switches or (switches and action.model != wanted):  # type: ignore[union-attr]
            return "choice"
        state = action.state if isinstance(action.state, Chosen) else state
        before, model = wanted, wanted if switches else model
        if choose.percent(30):
            model = "fallback"
    return None


def broken_recovery(number: int) -> str | None:
    """Let requests fail or not; return what is wrong with the switches along a chain, or with the return."""
    choose = Choose(Random(number).randrange)
    after = choose.number(1, 3)
    plugin = Recovery(["spare"], after_attempts=after, return_after=60)
    own = FrozenObject(max_tokens=choose.number(1, 9))
    state, model, now, switched_at = Fallen(), "own", 0, 0
    for place in range(12):
        round_ = choose.number(1, 2)
        failures = choose.below(after + 1) if place else 0
        for attempt in range(1, failures + 2):
            ctx = Context(model=model, model_options=own if model == "own" else EMPTY, round=round_, now_ms=now)
            action = plugin.before_request(BeforeRequest((), attempt, "busy"), state, ctx)
            state = action.state if isinstance(action.state, Fallen) else state
            returns = attempt == 1 and model == "spare" and round_ == 1 and now >= switched_at + 60_000
            falls = model == "own" and attempt == after + 1
            if isinstance(action, SwitchModel) is not (returns or falls):
                return "switch"
            if isinstance(action, SwitchModel):
                model, switched_at = action.model, now
                if returns and action.provider_options != own:
                    return "options"
                break
        now += choose.pick((1_000, 50_000, 100_000))
    return None


def broken_cache(number: int) -> str | None:
    """Mark requests of any model; return what is wrong with its options."""
    choose = Choose(Random(number).randrange)
    model = choose.pick(("anthropic:claude", "openai:gpt", "claude"))
    options = choose.pick((EMPTY, FrozenObject(temperature=1), FrozenObject(cache=False)))
    plugin = PromptCache(choose.number(1, 4), choose.number(0, 9))
    action = plugin.before_request(BeforeRequest(()), None, Context(model=model, model_options=options))
    if not model.startswith("anthropic:") or "cache" in options:
        return None if action == Continue() else "unasked"
    marks = FrozenObject(points=plugin.max_points, min_tokens=plugin.min_tokens)
    wanted = FrozenObject({**options, "cache": marks})
    if not isinstance(action, SwitchModel) or (action.model, action.provider_options) != (model, wanted):
        return "options"
    again = plugin.before_request(BeforeRequest(()), None, Context(model=model, model_options=wanted))
    return None if again == Continue() else "again"


REQUESTS: Final[dict[str, Callable[[int], str | None]]] = {
    "patch": broken_patch,
    "router": broken_router,
    "recovery": broken_recovery,
    "cache": broken_cache,
}
"""The checks by name: each takes a seed, and returns what is wrong, or `None`."""

CHANGES: Final = (
    Change(
        "patched_calls_told_again",
        "the same faults are told of at each request",
        PatchToolCalls._patched,
        "if mark == state:",
        "if mark != mark:",
        "patch",
    ),
    Change(
        "missing_result_always_an_error",
        "a result in place of a missing one is an error, whatever the option says",
        PatchToolCalls._missing,
        "self.is_error)",
        "is_error=True)",
        "patch",
    ),
    Change(
        "last_rule_first",
        "of two rules that hold, the last one counts",
        ModelRouter._find_route,
        "for rule in self.rules:",
        "for rule in reversed(self.rules):",
        "router",
    ),
    Change(
        "router_undoes_a_fallback",
        "the model is switched whenever it is not the one of the rules",
        ModelRouter.before_request,
        "if chosen == state:",
        "if chosen == state and model == ctx.model:",
        "router",
    ),
    Change(
        "failures_of_requests_add_up",
        "a request that was answered leaves the failures of its attempts",
        Recovery._begins,
        "Continue(evolve(state, failures=0)) if state.failures else Continue()",
        "Continue()",
        "recovery",
    ),
    Change(
        "return_within_a_turn",
        "the first model comes back in the middle of a turn",
        Recovery._may_return,
        "is_new_turn = ctx.round <= 1",
        "is_new_turn = True",
        "recovery",
    ),
    Change(
        "return_without_options",
        "the first model comes back without its options",
        Recovery._begins,
        "Fallen(state.home), state.home_options)",
        "Fallen(state.home))",
        "recovery",
    ),
    Change(
        "marks_for_each_provider",
        "models of all providers get the option for marks",
        PromptCache.before_request,
        "if not ctx.model.startswith(HAS_MARKS):",
        "if not ctx.model:",
        "cache",
    ),
    Change(
        "marks_drop_other_options",
        "a model that gets marks loses its other options",
        PromptCache.before_request,
        "{**ctx.model_options, ",
        "{",
        "cache",
    ),
)

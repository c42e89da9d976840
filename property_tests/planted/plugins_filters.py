"""What a reader has broken of `BudgetGuard`, `OutputFilter` and `ContentPolicy`, and the searches that find it."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from typing import Final, cast

import trio

from agentrail import Abort, Ask, Context, Continue, ReplaceMessages, ReplaceResponse, State, open_supervisor
from agentrail.core.machine import prompts
from agentrail.core.vocabulary.inputs import ElsewhereUsed
from agentrail.errors import TurnAborted
from agentrail.models import AssistantMessage, Message, Origin, Text, UserMessage
from agentrail.plugins import (
    AfterResponse,
    Answered,
    BeforePrompt,
    BeforeRequest,
    BudgetGuard,
    ContentPolicy,
    OutputFilter,
)
from agentrail.plugins.budget import Spent
from agentrail.plugins.guards import output_filter, pii_patterns
from agentrail.plugins.guards.content_policy import Judged, _digest
from agentrail.runtime.work.limit_queue import LimitQueue, Purse
from agentrail.runtime.work.screening import HeldText, longest_screened
from agentrail.testing import Choose
from property_tests.planted.change import Change
from tests.core.driving import session as opened_session
from tests.kit import NOTHING_USED, freeze_object
from tests.plugins.pii_lines import LINES
from tests.plugins.test_family_seconds import (
    Member,
    Round,
    Watch,
    lived,
    member_of,
    spec_of,
    too_late,
    without_failures,
)
from tests.plugins.test_shared_budgets import Work, used
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.test_limit_queue import Restless, requests_of, sent_of, wrong_order

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "waiting_for_a_person_counts",
        "the time in which all calls wait for a person counts",
        cast("property", vars(State)["runs_without_person"]).fget,
        "(runs and not self.waits)",
        "(runs or self.waits)",
        "budget_seconds",
    ),
    Change(
        "seconds_of_turns_add_up",
        "the seconds of one turn count for the next",
        prompts.finish_before_prompt,
        "worked_ms=state.worked(draft.at),",
        "worked_ms=0,",
        "budget_seconds",
    ),
    Change(
        "seconds_inherited_whole",
        "a sub-agent may take as many seconds as its parent had at first",
        BudgetGuard.inherited,
        "_rest(self.max_seconds, worked)",
        "self.max_seconds",
        "budget_seconds",
    ),
    Change(
        "requests_under_way_cost_nothing",
        "what the requests under way of sub-agents can cost does not count for those beside them",
        Purse.sums,
        "reservation.cost if at_most or reservation.ended",
        "reservation.cost if reservation.ended",
        "budget_shared",
    ),
    Change(
        "turn_is_not_passed_on",
        "a request near a limit that is given up, or sent, takes its turn to look for room with it",
        LimitQueue.leave,
        "if self._looks is waiter:",
        "if waiter.waits_for == waiter.number:",
        "limit_queue",
    ),
    Change(
        "last_come_first_served",
        "of the requests that wait near a limit, the one that came last is sent first",
        LimitQueue.join,
        "self._last += 1",
        "self._last -= 1",
        "limit_queue",
    ),
    Change(
        "looks_begin_at_the_same_one",
        "after a change, those near a limit that have looked last look first",
        LimitQueue.look_again,
        "self._due |= self._full",
        "self._due = {**self._full, **self._due}",
        "limit_queue",
    ),
    Change(
        "any_digits_are_a_card",
        "digits that fit no card are taken out as one",
        pii_patterns.has_luhn,
        "return total % _LUHN_DIVISOR == 0",
        "return total > 0",
        "filter",
    ),
    Change(
        "account_without_its_check",
        "an account number whose check digits are wrong is taken out",
        pii_patterns.has_check_digits,
        "% _IBAN_DIVISOR == _IBAN_REMAINDER",
        "% _IBAN_DIVISOR >= 0",
        "filter",
    ),
    Change(
        "keyword_at_the_beginning_of_a_word",
        "a keyword is taken out of longer words that begin with it",
        output_filter._word,
        """ + (r"(?!\\w)" if _has_edges(keyword[-1]) else "")""",
        "",
        "filter",
    ),
    Change(
        "abort_lets_it_stand",
        "a response that has what is taken out ends no turn",
        OutputFilter.after_response,
        'if self.action == "abort" and (screened != text or self.replacement in text):',
        'if self.action == "abort" and screened != text and self.replacement in text:',
        "filter",
    ),
    Change(
        "judge_that_fails_lets_pass",
        "a text passes without a verdict, although it is to be refused then",
        ContentPolicy._rule,
        "guessed = self._guessed(text) if self.fail_open else",
        "guessed = self._guessed(text) if text else",
        "policy",
    ),
    Change(
        "refused_steering_is_shown",
        "the model gets steering that was refused",
        ContentPolicy._hide_refused,
        " if at not in hidden",
        "",
        "policy",
    ),
)


SAME: Final = 0.01
"""How many seconds two counts of the same time may differ."""

# Seconds


def broken_seconds(number: int) -> str | None:
    """Let a family live under a limit of seconds, and a session two turns; look for what begins, and what counts."""
    chance, watch = Random(number), Watch()
    member, limit = without_failures(member_of(chance, 2, fewest=1)), chance.choice((2.0, 5.0, 9.0))
    counted = run_in_virtual_time(partial(lived, member, watch, BudgetGuard(max_seconds=limit)))
    if too_late(watch, limit):
        return "too late"
    if abs(counted / 1000 - watch.worked(math.inf)) > SAME:
        return "miscounted"
    return _told_wrong(BudgetGuard(max_seconds=limit)) or run_in_virtual_time(_two_turns)


def _told_wrong(guard: BudgetGuard) -> str | None:
    """Check what a sub-agent is told: the rest of the seconds, and for how long others have worked while it waited."""
    child = guard.inherited(Spent(), Context(worked_ms=500))
    if not isinstance(child, BudgetGuard) or child.max_seconds != (guard.max_seconds or 0) - 0.5:
        return "inherited"
    world = opened_session()
    world.apply(ElsewhereUsed(NOTHING_USED, 700))
    return None if world.state.shared_worked_ms == 700 else "untold"


async def _two_turns() -> str | None:
    spec = spec_of(Member((Round(1.0),)), Watch(), "m", BudgetGuard(max_turn_seconds=1.5))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("go")
        try:
            await session.ask("go")
        except TurnAborted:
            return "too early"
    return None


# Shared budgets


def broken_shared_budget(number: int) -> str | None:
    """Let sub-agents work at once under one limit; check that all of them go over it by one response at most."""
    choose = Choose(Random(number).randrange)
    work: list[Work] = [
        [(choose.number(50, 100), choose.pick((0.0, 1.0))) for _ in range(choose.number(3, 6))]
        for _ in range(choose.number(2, 3))
    ]
    limit = choose.number(100, 400)
    tokens, _ = run_in_virtual_time(partial(used, work, BudgetGuard(max_tokens=limit), at_once=True))
    most = max(response for rounds in work for response, _ in rounds)
    return "shared" if tokens > limit + most else None


def broken_queue(number: int) -> str | None:
    """Let requests wait near limits, some of which are given up; check that each other is sent, in their order."""
    requests = requests_of(Random(number))
    try:
        sent = run_in_virtual_time(partial(sent_of, requests, shared=1 + number % 3, own=1 + number % 2))
        restless = Restless(Random(number), 6)
        is_passed = run_in_virtual_time(restless.live) > 2 * restless.requests
    except trio.TooSlowError:
        return "forgotten"
    return "passed over" if is_passed else wrong_order(requests, sent)


# Filters


KEYWORDS: Final = ("zeta", "Project X")
BESIDE: Final = ("a zeta", "zetas", "PROJECT X", "project xy", "no")


def broken_filter(number: int) -> str | None:
    """Put lines of the corpus between others; check what is taken out, of a whole text, a stream and a response."""
    output_filter._search.cache_clear()  # what was compiled before may have a bug that is gone
    choose = Choose(Random(number).randrange)
    line = choose.pick(LINES)
    expected, end = "", 0
    for begin, after in line.spans:
        expected, end = f"{expected}{line.text[end:begin]}[x]", after
    expected += line.text[end:]
    guard = OutputFilter(kinds={line.kind}, replacement="[x]", action=choose.pick(("replace", "abort")))
    if guard.screen(line.text) != expected:
        return "kind"
    words = OutputFilter(kinds=(), keywords=KEYWORDS, replacement="[x]")
    if [words.screen(text) for text in BESIDE] != ["a [x]", "zetas", "[x]", "project xy", "no"]:
        return "keyword"
    text, step = f"{'So it is. ' * 30}{line.text}\n{'And so on. ' * 30}", choose.number(1, 99)
    held = HeldText(guard.screen, longest_screened(guard))
    told = "".join(held.feed(text[at : at + step])[1] for at in range(0, len(text), step)) + held.end()[1]
    if told != guard.screen(text):
        return "stream"
    action = guard.after_response(
        AfterResponse(AssistantMessage((Text(choose.pick((line.text, expected))),))), None, Context()
    )
    wanted = Continue if not line.spans else Abort if guard.action == "abort" else (Continue, ReplaceResponse)
    return None if isinstance(action, wanted) else "response"


# The policy


SAID: Final[tuple[object, ...]] = (True, False, "yes", None)
NAMED: Final[tuple[object, ...]] = ((), ("off_topic",), ("cheese",), "off_topic", None)


def broken_policy(number: int) -> str | None:
    """Let a judge answer anything about prompts and steering; compare what passes with what the page says."""
    choose = Choose(Random(number).randrange)
    policy, state = ContentPolicy(judge_model="judge", fail_open=choose.percent(50)), Judged()
    history: list[Message] = []
    refused: set[str] = set()
    for text in ("hello", choose.pick(("hello", "more")), "more"):
        steers = choose.percent(50)
        history += [UserMessage((Text(text),), Origin.STEERING)] if steers else []
        shown = tuple(history)
        hook: BeforePrompt | BeforeRequest = BeforeRequest(shown) if steers else BeforePrompt(text)
        said, named = choose.pick(SAID), choose.pick(NAMED)
        answer = Answered(freeze_object({"compliant": said, "policies": named}))
        known = text in refused if steers else False
        action = _judged(policy, hook, state)
        if isinstance(action, Ask) is (_digest(text) == state.passed or known):
            return "asked"
        if isinstance(action, Ask):
            action = _judged(policy, hook.but(asked=action.request, answer=answer), state)
            is_yes = said is True and named != ("off_topic",)
            passes = is_yes if isinstance(said, bool) else policy.fail_open
            if isinstance(action, Abort) is passes:
                return "verdict"
            refused |= {text} if steers and not passes else set()
        if isinstance(action, ReplaceMessages) and any(message.text in refused for message in action.messages):
            return "shown"
        if refused and steers and isinstance(action, Continue):
            return "shown"
        state = action.state if isinstance(action, Abort | Continue) and isinstance(action.state, Judged) else state
        history += [AssistantMessage((Text("well"),))]
    return None


def _judged(policy: ContentPolicy, hook: BeforePrompt | BeforeRequest, state: Judged) -> object:
    if isinstance(hook, BeforePrompt):
        return policy.before_prompt(hook, state, Context())
    return policy.before_request(hook, state, Context())


FILTERS: Final = {
    "budget_seconds": broken_seconds,
    "budget_shared": broken_shared_budget,
    "limit_queue": broken_queue,
    "filter": broken_filter,
    "policy": broken_policy,
}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""

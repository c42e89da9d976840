"""Runs compactions: plans what goes, has a summary of it written, and drops it without one if that fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from itertools import count
from typing import Final, TypeVar

import trio

from agentrail.core.compaction import NOTHING, SYSTEM, Plan, Slices, planning, prompt_for
from agentrail.core.context_window import ASSUMED
from agentrail.core.machine.requests import READ_HISTORY
from agentrail.core.machine.responses import UNREACHED_PACE, back_off, is_too_late
from agentrail.core.vocabulary.effects import StartCompaction
from agentrail.core.vocabulary.inputs import AnyInput, CompactionEnded, CompactionFailed
from agentrail.errors import ModelError
from agentrail.ports.failpoints import reach
from agentrail.ports.model import PriceBook
from agentrail.runtime.shared.untrusted_calls import Contained, crash_text, tell
from agentrail.runtime.work.model_stream import UsageMeter
from agentrail.values.content import Text, text_of
from agentrail.values.json import freeze_object
from agentrail.values.messages import AskModel, Compactor, Leaving, UserMessage
from agentrail.values.stream import Failure, FailureKind, ModelRequest, Response
from agentrail.values.untrusted_content import fit_failure, fit_text
from agentrail.values.untrusted_values import described, type_name
from agentrail.values.usage import NOTHING_USED, Usage

T = TypeVar("T")

log = logging.getLogger("agentrail.session")

SUMMARY_SECONDS: Final = 60.0
"""Seconds that the summary of a compaction may take; then the messages are dropped without one.

The turn waits meanwhile, and a summary is at most a few thousand tokens long.
"""

NO_ROOM = "no message was dropped: there is no room for a summary of those that would go"
NOTHING_DROPPED = "no message was dropped, because a caller asked for this; ask again later, or with another model"


async def summarise(leaving: Leaving, ask: AskModel) -> str:
    """Return a summary written by the session's model; used if the session has no compactor of its own."""
    return await ask(await in_slices(prompt_for(leaving.messages, leaving.room, leaving.most)), SYSTEM)


async def in_slices(work: Slices[T]) -> T:
    """Run *work*, a generator, and return its result; after each slice, other tasks run and it may be cancelled."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await trio.lowlevel.checkpoint()


@lru_cache(maxsize=1000)
def warn_of(model: str) -> None:
    """Log that the window of *model* is assumed, and which option says it: once in a process, because of the cache."""
    log.warning(
        "the context is compacted as if `%s` could read %s tokens, because nobody knows how many it can; "
        "set `context_window`",
        model,
        f"{ASSUMED:,}",
    )


class RunningCompaction:
    """A compaction in a task of its own; posts exactly one input at its end."""

    __slots__ = ("_ask", "_find", "_post", "_prices", "_start", "_tried", "_unreached", "_used", "_words", "scope")

    def __init__(
        self,
        start: StartCompaction,
        post: Callable[[AnyInput], None],
        ask: Callable[[ModelRequest, UsageMeter], Awaitable[Response]],
        prices: PriceBook,
        find: Callable[[], Compactor | None],
        *,
        words: bool = True,
    ) -> None:
        """With *words*, what an error says is logged; it may be what the model has said."""
        self._words = words
        self._find = find
        self._start = start
        self._post = post
        self._ask = ask
        self._prices = prices
        self._tried = 0  # number of attempts of the last request
        self._unreached: Failure | None = None  # why the last attempt that failed could reach no model
        self._used = NOTHING_USED
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        """Body of the task: compact the messages; an error of ours leaves the context unchanged."""
        name = self._start.compaction_id
        closing: AnyInput = CompactionFailed(name, "cancelled")

        def failed(error: BaseException) -> None:
            """Log the error, and post it as the failure of the compaction."""
            nonlocal closing
            tell(log, error, "compaction failed", words=self._words)
            closing = CompactionFailed(name, described(error))

        try:
            with Contained(failed), self.scope:
                reach("COMPACTION")
                await trio.lowlevel.checkpoint()
                if self._start.is_assumed:
                    warn_of(self._start.model)
                closing = await self._compacted()
                reach("COMPACTED")
        finally:
            self._post(closing.but(usage=self._used))

    async def _compacted(self) -> CompactionEnded | CompactionFailed:
        """Return the outcome: with a summary if there is room for one and it can be written.

        If no model can be reached, the messages stay: the next request could not be sent without them either. So they
        do if the compaction needs a summary, and that fails or has no room.
        """
        start = self._start
        needs_summary = start.needs_summary
        plan = await in_slices(
            planning(start.messages, start.target_chars, start.keep_whole_chars, needs_summary=needs_summary)
        )
        count = len(plan.removed)
        if not count:
            note = f"{plan.shortened} older messages were shortened" if plan.shortened else NOTHING
            return CompactionEnded(start.compaction_id, tuple(plan.messages), 0, note)
        summary, problem = "", ""
        if plan.room:
            summary, problem = await self._summary(plan)
        elif start.needs_summary:
            return CompactionFailed(start.compaction_id, NO_ROOM)
        if problem and self._unreached is not None:
            return CompactionFailed(start.compaction_id, problem, failure=self._unreached)
        if problem and start.needs_summary:
            return CompactionFailed(start.compaction_id, f"{problem}; {NOTHING_DROPPED}")
        where = f"; the tool `{READ_HISTORY}` shows them" if start.reads_back else ""
        if summary:
            note = f"{count} older messages were replaced by a summary"
            text = f"[A summary of {count} older messages{where}]\n{summary}"
        else:
            note = f"{count} older messages were dropped to make room"
            text = f"[{note}{where}]"
            note = f"{problem}; {note}" if problem else note
        return CompactionEnded(start.compaction_id, plan.with_notice(text), count, note)

    async def _summary(self, plan: Plan) -> tuple[str, str]:
        """Return the summary of the messages that go; if there is none, an empty text and why."""
        start, problem = self._start, ""
        summary_: object = None

        def failed(error: BaseException) -> None:
            """Log the error, and keep it as the reason for the missing summary."""
            nonlocal problem
            tell(log, error, "the summary of a compaction failed", words=self._words)
            problem = crash_text(error, compactor, "compactor", "aio.service")

        compactor: Compactor = summarise
        leaving = Leaving(plan.leaving(start.messages), plan.room, start.model_chars)
        with Contained(failed), trio.move_on_after(SUMMARY_SECONDS) as scope:
            compactor = self._find() or summarise
            summary_ = await compactor(leaving, self._ask_model)
        if scope.cancelled_caught:
            problem = f"it took longer than {SUMMARY_SECONDS:g} s"
        if not problem and not isinstance(summary_, str):
            problem = f"it is a `{type_name(summary_)}`, and no text"
        text = fit_text(summary_).strip() if isinstance(summary_, str) else ""
        if not problem and not text:
            problem = "it is empty"
        if problem:
            tried = f" after {self._tried} attempts" if self._tried > 1 else ""
            return "", f"the summary failed{tried}: {problem}"
        if len(text) > plan.room:
            return "", f"the summary was refused: it has {len(text):,} characters, and there is room for {plan.room:,}"
        return text, ""

    async def _ask_model(self, prompt: str, system: str = "") -> str:
        """Return the text with which the session's model answers *prompt*; retry as the session retries requests.

        The usage of each attempt counts, even if it fails.
        """
        start = self._start
        options = freeze_object({name: value for name, value in start.options.items() if name != "response_format"})
        messages = (UserMessage((Text(prompt),)),)
        request = ModelRequest(start.model, messages, system, may_call=False, options=options, once=True)
        was_empty = reached = False
        first = trio.current_time()
        for tried in count(1):
            self._tried = tried
            began = trio.current_time()
            try:
                text = text_of((await self._attempt(request)).parts)
            except ModelError as error:
                now = trio.current_time()
                failure = fit_failure(error, now - began)
                wait = back_off(start.session_options, tried, failure.retry_after or 0.0, start.random)
                reached = reached or failure.unreached_ms is None
                gives_up, spent = False, round(1000 * (now - first))
                if not reached:
                    wait = int(wait * UNREACHED_PACE)
                    gives_up = is_too_late(spent + wait, failure)
                    failure = failure.but(unreached_ms=spent)
                self._unreached = None if failure.unreached_ms is None else failure
                gives_up = (
                    gives_up
                    or tried > start.session_options.max_retries
                    or wait / 1000 >= trio.current_effective_deadline() - now
                )
                if failure.kind is not FailureKind.TRANSIENT or gives_up:
                    raise
                await trio.sleep(wait / 1000)
            else:
                reached, self._unreached = True, None
                if text.strip() or was_empty:
                    return text
                was_empty = True
        raise AssertionError

    async def _attempt(self, request: ModelRequest) -> Response:
        """Make the *request* once, and add its usage."""
        priced = partial(self._prices.priced, request.model, request.options)
        old_usage, meter = self._used, UsageMeter(request)
        usage: Usage | None = None
        try:
            response = await self._ask(request, meter)
            usage = response.usage
            return response
        finally:
            self._used = old_usage.plus(priced(meter.used(cut=True) if usage is None else usage))

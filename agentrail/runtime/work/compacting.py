"""Runs compactions: plans what goes, has a summary of it written, and drops it without one if that fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from agentrail.core.compaction import NOTHING, Plan, planned
from agentrail.core.machine.requests import READ_HISTORY
from agentrail.core.summary_request import SYSTEM, prompt_for
from agentrail.core.vocabulary.effects import StartCompaction
from agentrail.core.vocabulary.inputs import AnyInput, CompactionEnded, CompactionFailed
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.model import AskModel, Compactor, Leaving, Prices
from agentrail.runtime.shared.sanitize import Contained, tell
from agentrail.runtime.work.model_stream import UsageMeter
from agentrail.values.content import Text, text_of
from agentrail.values.fitting import fit_text
from agentrail.values.foreign import described, named
from agentrail.values.json import freeze_object
from agentrail.values.messages import UserMessage
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.usage import NOTHING_USED, Usage

log = logging.getLogger("agentrail.session")


async def summarise(leaving: Leaving, ask: AskModel) -> str:
    """Return a summary that the session's model writes: the compactor of sessions that give none."""
    return await ask(prompt_for(leaving.messages, leaving.room, leaving.most), SYSTEM)


class RunningCompaction:
    """A compaction in a task of its own; posts exactly one input at its end."""

    __slots__ = ("_ask", "_compactor", "_post", "_prices", "_start", "_used", "scope")

    def __init__(
        self,
        start: StartCompaction,
        post: Callable[[AnyInput], None],
        ask: Callable[[ModelRequest, UsageMeter], Awaitable[Response]],
        prices: Prices,
        compactor: Compactor | None,
    ) -> None:
        self._compactor = summarise if compactor is None else compactor
        self._start = start
        self._post = post
        self._ask = ask
        self._prices = prices
        self._used = NOTHING_USED
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        """Body of the task: compact the messages; an error of ours leaves the context unchanged."""
        name = self._start.compaction_id
        closing: AnyInput = CompactionFailed(name, "cancelled")

        def failed(error: BaseException) -> None:
            nonlocal closing
            tell(log, error, "compaction failed")
            closing = CompactionFailed(name, described(error))

        try:
            with Contained(failed), self.scope:
                reach(Failpoint.COMPACTION)
                await trio.lowlevel.checkpoint()
                self._warn()
                closing = await self._compacted()
                reach(Failpoint.COMPACTED)
        finally:
            self._post(closing.but(usage=self._used))

    def _warn(self) -> None:
        """Log that the window is assumed, and which option says it."""
        if self._start.is_assumed:
            log.warning(
                "the context is compacted as if `%s` could read 32,000 tokens, because nobody knows how many it can; "
                "set `context_window`",
                self._start.model,
            )

    async def _compacted(self) -> CompactionEnded:
        """Return the outcome: with a summary if there is room for one and it can be written."""
        start = self._start
        plan = planned(start.messages, start.keep)
        count = len(plan.gone)
        if not count:
            note = f"{plan.shortened} older messages were shortened" if plan.shortened else NOTHING
            return CompactionEnded(start.compaction_id, plan.messages, 0, note)
        summary, problem = "", ""
        if plan.room:
            summary, problem = await self._summary(plan)
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
        found: object = None

        def failed(error: BaseException) -> None:
            nonlocal problem
            tell(log, error, "the summary of a compaction failed")
            problem = f"the summary failed: {described(error)}"

        leaving = Leaving(plan.leaving(start.messages), plan.room, start.most)
        with Contained(failed), trio.move_on_after(start.timeout) as scope:
            found = await self._compactor(leaving, self._asked)
        if scope.cancelled_caught:
            problem = f"the summary failed: it took longer than compact_timeout={start.timeout:g}"
        if problem:
            return "", problem
        if not isinstance(found, str):
            return "", f"the summary failed: it is a `{named(found)}`, and no text"
        text = fit_text(found).strip()
        if not text:
            return "", "the summary failed: it is empty"
        if len(text) > plan.room:
            return "", f"the summary was refused: it has {len(text):,} characters, and there is room for {plan.room:,}"
        return text, ""

    async def _asked(self, prompt: str, system: str = "") -> str:
        """Return what the session's model answers to *prompt*; its usage counts, even if it fails."""
        start = self._start
        options = freeze_object({name: found for name, found in start.options.items() if name != "response_format"})
        messages = (UserMessage((Text(prompt),)),)
        request = ModelRequest(start.model, messages, system, may_call=False, options=options)
        priced = partial(self._prices.priced, request.model, request.options)
        before, meter = self._used, UsageMeter(request)
        usage: Usage | None = None
        try:
            response = await self._ask(request, meter)
            usage = response.usage
            return text_of(response.parts)
        finally:
            self._used = before.plus(priced(meter.used(cut=True) if usage is None else usage))

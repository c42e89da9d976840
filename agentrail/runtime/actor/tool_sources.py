"""Sources of tools under supervision: each a task of its own, started again when it ends, gone with its session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import trio

from agentrail.core.vocabulary.commands import Answer, ChangeToolsSent, Refused
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, SourceFailed, ToolExists, UnknownTool
from agentrail.errors.agentrail_error import fresh
from agentrail.ports.tool import Tool, ToolSource
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.inbox.command_results import digest_of
from agentrail.runtime.inbox.letter import Letter, NewCode
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.resources import SessionCode, SharedServices
from agentrail.runtime.shared.caller import NOBODY, Caller
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.tools.declaring import check_declared
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.source")

FIRST_PAUSE: Final = 0.5
"""Seconds until a source that has ended is started again; doubled each time that follows; chance may halve it."""

MAX_PAUSE: Final = 60.0
"""Longest pause before a failed source is started again, in seconds."""

STEADY: Final = 60.0
"""A source that ran for longer than this many seconds before it failed begins again with the shortest pause."""


class RunningSource:
    """Runs one source of tools for a session: attaches the tools that it offers, and starts it again when it fails.

    A source that *joins* a living session is given up at its first failure, because its caller waits and can try again.
    """

    __slots__ = (
        "_caller",
        "_code",
        "_command",
        "_failures",
        "_joins",
        "_look",
        "_mailbox",
        "_mine",
        "_offered",
        "_said",
        "_shared",
        "_source",
        "closing",
        "ended",
        "failure",
        "scope",
        "tried",
    )

    def __init__(
        self,
        source: ToolSource,
        shared: SharedServices,
        code: SessionCode,
        mailbox: Mailbox,
        look: Callable[[], State],
        *,
        joins: bool = False,
        command: str | None = None,
        caller: Caller = NOBODY,
    ) -> None:
        self._joins = joins
        self._command, self._caller = command, caller
        self._offered: tuple[Sequence[Tool], Sequence[str]] | None = None
        self.closing = False
        self.failure: AgentrailError | None = None
        self._source = source
        self._shared = shared
        self._code = code
        self._mailbox = mailbox
        self._look = look
        tools = look().tools
        self._mine = {name: tools[name].revision for name in tools if tools[name].source == source.name}
        self._said: tuple[str, ...] = ()
        self._failures = 0
        self.scope = trio.CancelScope()
        self.tried = trio.Event()
        self.ended = trio.Event()

    @property
    def name(self) -> str:
        """Name of the source."""
        return self._source.name

    @in_brackets
    def __repr__(self) -> str:
        return listed(f"{self.name!r} {'ended' if self.ended.is_set() else 'alive'}", some(len(self._mine), "tool"))

    @property
    def waits(self) -> bool:
        """Whether the session is suspended, so that it handles no change of tools now."""
        return self._mailbox.suspended

    @property
    def task(self) -> str:
        """Name of the task that runs the source."""
        return f"source {self._source.name} ({self._look().session_id})"

    async def run(self) -> None:
        """Keep the source running until its session is gone."""
        try:
            with self.scope:
                while not await self._once():
                    pause = min(FIRST_PAUSE * 2 ** min(self._failures - 1, 16), MAX_PAUSE)
                    await trio.sleep(pause * (0.5 + self._shared.random.random() / 2))
        finally:
            self.tried.set()
            self.ended.set()

    async def _once(self) -> bool:
        """Run the source until it ends or fails; return `True` if it was still to join, and so is given up.

        Otherwise its tools are detached, with the problem, and it is started again.
        """
        began = self._shared.clock.now()
        problem = "it ended"

        def failed(error: BaseException) -> None:
            """Log the failure of the source, and keep it as the problem to report."""
            nonlocal problem
            tell(log, error, "the source `%s` failed", self._source.name, level=logging.DEBUG)
            problem = described(error)

        with Contained(failed):
            await self._source.supply(self._look().setup.working_dir, self.offer)
        if self._joins:
            self.failure = SourceFailed(self.name, problem)
            return True
        log.warning("the source of tools `%s` is started again soon: %s", self._source.name, problem)
        self._failures = 1 if self._shared.clock.now() - began > STEADY else self._failures + 1
        await self.offer((), (problem,))
        return False

    async def offer(self, tools: Sequence[Tool], problems: Sequence[str] = ()) -> None:
        """Replace all tools of the source in the session by *tools*, in one step."""
        for tool in tools:
            check_declared(tool.spec)
        self._offered = tools, problems
        offered = {tool.spec.name: tool for tool in tools}
        refused = True
        while refused and not self.closing:  # refused if other tools changed at the same time: compute the change again
            clashes = self._clashes(offered)
            all_problems = (
                *problems,
                *(f"`{name}` is left out: there is another tool of that name" for name in clashes),
            )
            refused = await self._change({name: offered[name] for name in offered if name not in clashes}, all_problems)
        self._joins = False
        self.tried.set()

    async def _change(self, offered: Mapping[str, Tool], problems: tuple[str, ...]) -> bool:
        """Send the command that makes *offered* the source's tools; return whether to retry as names have changed."""
        tools = self._look().tools
        mine = {name: revision for name, revision in self._mine.items() if self._is_mine(name)}
        same = {name for name in mine if name in offered and tools[name].spec == offered[name].spec}
        # A joining source brings new code for all tools, even if their specs are equal.
        unchanged = set[str]() if self._joins else same
        for name in unchanged:
            self._code.know(offered[name], mine[name])
        attach = tuple(tool for name, tool in offered.items() if name not in unchanged)
        detach = tuple(name for name in mine if name not in unchanged)
        if not (attach or detach or self._joins) and problems == self._said:
            return False
        change, code = self._code.change(attach, detach, source=self._source.name, problems=problems)
        answer = await self._ask(change, code)
        if isinstance(answer, Refused):
            self.failure = answer.error if self._joins else None
            return isinstance(answer.error, ToolExists | UnknownTool)
        self.failure = None
        self._said = problems
        self._mine = {name: mine[name] if name in unchanged else change.revision for name in offered}
        return False

    async def _ask(self, change: ChangeToolsSent, code: NewCode) -> Answer:
        """Post the command *change*, and return its answer."""
        command, caller, self._command, self._caller = self._command, self._caller, None, NOBODY
        digest = b"" if command is None else digest_of(change)
        letter = Letter(change, command=command, digest=digest, answer=Slot(), code=code, caller=caller)
        self._mailbox.post_result(letter)
        # Shielded: a cancelled caller has to wait until it is known whether the tools were changed. If the session
        # ends, the slot is settled too:
        # tests/runtime/test_replaced_sources.py::test_a_caller_may_give_up_while_the_session_is_suspended
        with trio.CancelScope(shield=True):
            await letter.answer.wait()
        return await letter.answer.wait()

    def give_up(self, why: AgentrailError) -> None:
        """Cancel the source, because its session ends; the caller that waits for it to join gets *why*."""
        if self._joins:
            self.failure = why
        self.scope.cancel()

    async def reopen(self) -> None:
        """Offer the tools again, after another source of the same name has failed to take the place of this one."""
        self.closing = False
        if self._offered is not None:
            await self.offer(*self._offered)

    async def end(self) -> None:
        """Cancel the source, and return when it has ended; its tools stay attached."""
        self.closing = True
        self.scope.cancel()
        await self.ended.wait()

    async def withdraw(self) -> None:
        """Cancel the source, wait until it has ended, and detach its tools; a source that has not joined has none."""
        await self.end()
        mine = () if self._joins else tuple(name for name in self._mine if self._is_mine(name))
        if mine:
            await self._ask(*self._code.change((), mine, source=self.name))

    def _is_mine(self, name: str) -> bool:
        """Whether the session's tool *name* is the one that this source has attached."""
        attached = self._look().tools.get(name)
        return attached is not None and attached.revision == self._mine.get(name)

    def _clashes(self, offered: Mapping[str, Tool]) -> list[str]:
        """Return the names of offered tools that the session already has from elsewhere."""
        tools = self._look().tools
        return [name for name in offered if name in tools and not self._is_mine(name)]


_NONE_RUN: Final[Mapping[str, RunningSource]] = MappingProxyType({})


class Sources:
    """The sources of tools of one session, by name."""

    __slots__ = ("_closed", "_ending", "_opened", "_running")

    def __init__(self) -> None:
        self._running = _NONE_RUN
        self._ending: tuple[RunningSource, ...] = ()  # sources that were dropped and may still be ending
        self._opened = False
        self._closed: AgentrailError | None = None

    def __bool__(self) -> bool:
        return bool(self._running) or not self._opened  # before `open`, it is not known whether there are any

    async def open(self, running: Sequence[RunningSource], nursery: trio.Nursery) -> None:
        """Start the sources *running* concurrently, and return when each has offered tools or failed."""
        if self._closed is not None:
            return
        self._opened = True
        self._running = {source.name: source for source in running} or _NONE_RUN
        for source in running:
            nursery.start_soon(source.run, name=source.task)
        for source in running:
            await source.tried.wait()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(self._running)

    async def join(self, source: RunningSource, nursery: trio.Nursery) -> None:
        """Start one more source, in place of one of the same name; return when it has offered tools, or raise why not.

        If it fails, or the caller is cancelled, the source that had the name before goes on.
        """
        if self._closed is not None:
            raise fresh(self._closed)
        old = self._running.get(source.name)
        if old is not None:
            old.closing = True
        self._put(source)
        nursery.start_soon(source.run, name=source.task)
        joined = False
        try:
            await source.tried.wait()
            joined = source.failure is None
        finally:
            if not joined and source.waits:  # the session is suspended: the caller does not wait until it is resumed
                nursery.start_soon(self._undo, source, old, name=f"undoing {source.task}")
            elif not joined:
                # A cancelled caller must not leave a source that has half joined, nor the one before it closed:
                # tests/runtime/test_joining_sources.py::test_one_that_never_starts_is_waited_for_as_long_as_the_caller_likes  # noqa: E501
                with trio.CancelScope(shield=True):
                    await self._undo(source, old)
        if source.failure is not None:
            raise fresh(source.failure)
        if old is not None:
            await old.end()

    def _put(self, source: RunningSource) -> None:
        """Make *source* the one with its name."""
        self._running = {**self._running, source.name: source}

    async def _undo(self, source: RunningSource, old: RunningSource | None) -> None:
        """Remove *source*, which failed to join, and let the source *old* it, of the same name, go on."""
        await source.withdraw()
        name = source.name
        if self._closed is not None or self._running.get(name) is not source:
            return
        if old is None:
            self._running = {key: other for key, other in self._running.items() if key != name}
        else:
            self._put(old)
            await old.reopen()

    def drop(self, names: Sequence[str]) -> None:
        """Cancel the sources with these names; the step that follows detaches their tools."""
        if not names:
            return
        dropped = tuple(self._running[name] for name in dict.fromkeys(names) if name in self._running)
        self._running = {name: source for name, source in self._running.items() if source not in dropped}
        self._ending = (*(source for source in self._ending if not source.ended.is_set()), *dropped)
        for source in dropped:
            source.closing = True
            source.scope.cancel()

    async def wait_dropped(self, names: Sequence[str]) -> None:
        """Wait until the dropped sources with these names have ended."""
        for source in self._ending:
            if source.name in names:
                await source.ended.wait()

    def close(self, why: AgentrailError) -> None:
        """Cancel all sources, because the session ends; a later `join` raises *why*."""
        self._closed = why
        for source in self._running.values():
            source.give_up(why)

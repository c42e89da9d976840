"""Sources of tools under supervision: each a task of its own, started again when it ends, gone with its session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from agentrail.core.answers import Answer, Refused
from agentrail.core.sent import ChangeToolsSent
from agentrail.core.state import State
from agentrail.errors import ToolExists, UnknownTool
from agentrail.ports.source import ToolSource
from agentrail.ports.tool import Tool
from agentrail.runtime.border import Contained
from agentrail.runtime.mailbox import Letter, Mailbox
from agentrail.runtime.parts import House, Outfit
from agentrail.runtime.slot import Slot
from agentrail.tools.declaring import check_declared
from agentrail.values.outside import described

log = logging.getLogger("agentrail.source")

FIRST_PAUSE: Final = 0.5
"""Seconds until a source that has ended is started again; twice as long each time that follows."""

LONGEST_PAUSE: Final = 60.0
"""The most seconds between two starts."""

STEADY: Final = 60.0
"""Seconds after which a source that ran counts as one that had never failed."""


class RunningSource:
    """One source, and which tools of the session are its own."""

    __slots__ = ("_failures", "_house", "_look", "_mailbox", "_mine", "_outfit", "_said", "_source", "scope", "tried")

    def __init__(
        self, source: ToolSource, house: House, outfit: Outfit, mailbox: Mailbox, look: Callable[[], State]
    ) -> None:
        self._source = source
        self._house = house
        self._outfit = outfit
        self._mailbox = mailbox
        self._look = look
        tools = look().tools
        self._mine = {name: tools[name].revision for name in tools if tools[name].source == source.name}
        self._said: tuple[str, ...] = ()
        self._failures = 0
        self.scope = trio.CancelScope()
        self.tried = trio.Event()

    @property
    def name(self) -> str:
        """Source and session."""
        return f"source {self._source.name} ({self._look().session_id})"

    async def run(self) -> None:
        """Keep the source running until its session is gone."""
        try:
            with self.scope:
                while True:
                    await self._once()
                    pause = min(FIRST_PAUSE * 2 ** min(self._failures - 1, 16), LONGEST_PAUSE)
                    await trio.sleep(pause * (0.5 + self._house.random.random() / 2))
        finally:
            self.tried.set()

    async def _once(self) -> None:
        began = self._house.clock.now()
        problem = "it ended"

        def failed(error: BaseException) -> None:
            nonlocal problem
            log.debug("the source `%s` failed", self._source.name, exc_info=error)
            problem = described(error)

        with Contained(failed):
            await self._source.supply(self._look().setup.working_dir, self.offer)
        log.warning("the source of tools `%s` is started again soon: %s", self._source.name, problem)
        self._failures = 1 if self._house.clock.now() - began > STEADY else self._failures + 1
        await self.offer((), (problem,))

    async def offer(self, tools: Sequence[Tool], problems: Sequence[str] = ()) -> None:
        """Let the session have these tools of the source and no others, in one step."""
        for tool in tools:
            check_declared(tool.spec)
        wanted = {tool.spec.name: tool for tool in tools}
        refused = True
        while refused:  # somebody else has changed the tools meanwhile
            clashes = self._clashes(wanted)
            said = (*problems, *(f"`{name}` is left out: there is another tool of that name" for name in clashes))
            refused = await self._change({name: wanted[name] for name in wanted if name not in clashes}, said)
        self.tried.set()

    async def _change(self, wanted: Mapping[str, Tool], said: tuple[str, ...]) -> bool:
        """Ask the machine for the change; return whether it is to be tried again."""
        there = self._look().tools
        mine = {name: revision for name, revision in self._mine.items() if self._is_mine(name)}
        kept = {name for name in mine if name in wanted and there[name].spec == wanted[name].spec}
        for name in kept:
            self._outfit.know(wanted[name], mine[name])
        attach = tuple(tool for name, tool in wanted.items() if name not in kept)
        detach = tuple(name for name in mine if name not in kept)
        if not attach and not detach and said == self._said:
            return False
        given, prepare = self._outfit.change(attach, detach, source=self._source.name, problems=said)
        answer = await self._ask(given, prepare)
        if isinstance(answer, Refused):
            return isinstance(answer.error, ToolExists | UnknownTool)
        self._said = said
        self._mine = {name: mine[name] if name in kept else given.revision for name in wanted}
        return False

    async def _ask(self, given: ChangeToolsSent, prepare: Callable[[], None]) -> Answer:
        slot: Slot[Answer] = Slot()
        self._mailbox.post_result(Letter(given, slot=slot, prepare=prepare))
        with trio.CancelScope(shield=True):  # until it is known whose the tools are; the end of the session settles it
            await slot.wait()
        return await slot.wait()

    def _is_mine(self, name: str) -> bool:
        there = self._look().tools.get(name)
        return there is not None and there.revision == self._mine.get(name)

    def _clashes(self, wanted: Mapping[str, Tool]) -> list[str]:
        there = self._look().tools
        return [name for name in wanted if name in there and not self._is_mine(name)]


class Sources:
    """The sources of one session."""

    __slots__ = ("_closed", "_opened", "_running")

    def __init__(self) -> None:
        self._running: tuple[RunningSource, ...] = ()
        self._opened = False
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._running) or not self._opened  # until then, there may be some

    async def open(self, running: Sequence[RunningSource], nursery: trio.Nursery) -> None:
        """Start them side by side, and return when each has offered tools, or could not."""
        if self._closed:
            return
        self._opened = True
        self._running = tuple(running)
        for source in self._running:
            nursery.start_soon(source.run, name=source.name)
        for source in self._running:
            await source.tried.wait()

    def close(self) -> None:
        """End them all."""
        self._closed = True
        for source in self._running:
            source.scope.cancel()

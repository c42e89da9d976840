"""What a person was once shown decides that very call, in whichever life its session is by then, and no other call."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Final

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from agentrail import HeldCall, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.journals.archive import store_session
from agentrail.errors import UnknownApproval, UnknownSession
from agentrail.journals import MemoryJournal, Record
from agentrail.models import Json, JsonObject, ModelRequest, ToolMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, ok
from agentrail.tools.builtin import ask_user
from property_tests.volume import profile
from tests.kit import Element
from tests.runtime.tools import fake

NAME: Final = "s"
FORK: Final = "fork"

ENDS: Final = ("restart", "forget")
"""How a process ends: the next one has its journal, or none, which is the default."""

MOVES: Final = (*ENDS, "hold", "ask", "decide", "delete", "fork", "export", "import", "old")
"""What happens next; `old`: the person decides by everything that was ever shown."""

EXAMPLES: Final = {"ci": 60, "campaign": 5_000}


class Lives:
    """The session `s` and a fork of it, through several processes; each call has arguments of its own."""

    def __init__(self, moves: list[str]) -> None:
        self.moves = iter(moves)
        self.shown: dict[str, Json] = {}  # by id: the number of the call that a person was shown with it
        self.items: dict[str, HeldCall] = {}  # by id, as a face has it
        self.ran: list[Json] = []
        self.exported: tuple[Record, ...] = ()
        self.asks = False
        numbers = itertools.count()

        async def act(args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
            self.ran.append(args["n"])
            return ok("done")

        def answer(request: ModelRequest) -> Element:
            last = request.messages[-1]
            if isinstance(last, ToolMessage):
                if last.name == "ask_user":
                    self.ran.append(last.text)
                return "done"
            number = next(numbers)
            if self.asks:
                return say(calls=[call("ask_user", {"question": str(number)})])
            return say(calls=[call("act", {"n": number})])

        self.spec = SessionSpec(
            model=ScriptedModel([answer], repeat_last=True),
            tools=[fake("act", act), ask_user],
            plugins=[HumanApproval(tools=["act"], timeout=None)],
        )

    async def play(self) -> None:
        journal: MemoryJournal | None = MemoryJournal(encode=True)
        while True:
            async with open_supervisor(journal=journal) as supervisor:
                end = await self._process(supervisor, journal)
            if end is None:
                return
            journal = None if end == "forget" else (journal or MemoryJournal(encode=True))

    async def _process(self, supervisor: Supervisor, journal: MemoryJournal | None) -> str | None:
        """Make moves until the process ends; return how, or `None` after the last move."""
        for move in self.moves:
            session = await supervisor.open(NAME, self.spec)
            self._look(session)
            if move in ENDS:
                return move
            if move in {"hold", "ask"}:
                self.asks = move == "ask"
                await session.prompt("go")
                await trio.sleep(1)
                self._look(session)
            elif move == "decide":
                await self._decide(session, list(self._look(session)), by_item=True)
            elif move == "old":
                await self._decide(session, list(self.shown), by_item=True)
                with suppress(UnknownSession):
                    await self._decide(supervisor.session(FORK), list(self.shown), by_item=False)
            else:
                await self._store(move, supervisor, session, journal)
        return None

    async def _store(
        self, move: str, supervisor: Supervisor, session: SessionHandle, journal: MemoryJournal | None
    ) -> None:
        if move == "delete":
            await self._delete(supervisor, NAME, journal)
        elif move == "fork":
            with suppress(UnknownSession):
                await self._delete(supervisor, FORK, journal)
            self._look(await session.fork(id=FORK))
        elif move == "export" and journal is not None:
            self.exported = await journal.read(NAME)
        elif move == "import" and journal is not None and self.exported:
            await self._delete(supervisor, NAME, journal)
            await store_session(journal, NAME, self.exported)

    async def _delete(self, supervisor: Supervisor, name: str, journal: MemoryJournal | None) -> None:
        await supervisor.session(name).stop()
        if journal is not None:
            await supervisor.delete(name)

    def _look(self, session: SessionHandle) -> dict[str, Json]:
        """Note what a session shows, and return it; an id is never shown with another call."""
        self.items |= {held.id: held for held in session.status().held}
        now = {held.id: held.args["n"] if held.kind == "approval" else held.hint for held in session.status().held}
        for approval_id, number in now.items():
            assert self.shown.setdefault(approval_id, number) == number, approval_id
        return now

    async def _decide(self, session: SessionHandle, ids: list[str], *, by_item: bool) -> None:
        """Decide by each of *ids*: what then runs is what was shown with it."""
        for approval_id in ids:
            before = len(self.ran)
            number = self.shown[approval_id]
            is_call = isinstance(number, int)
            try:
                await (
                    session.approve(self.items[approval_id] if by_item else approval_id)
                    if is_call
                    else session.respond(approval_id, str(number))
                )
            except UnknownApproval:
                continue
            assert approval_id.startswith(f"{session.id}:")
            await trio.sleep(1)
            assert self.ran[before:] == [number], approval_id
            self._look(session)


@settings(max_examples=EXAMPLES[profile()])
@given(st.lists(st.sampled_from(MOVES), min_size=3, max_size=25))
def test_an_id_decides_what_was_shown_with_it_or_nothing(moves: list[str]) -> None:
    trio.run(Lives(moves).play, clock=MockClock(autojump_threshold=0))

"""`RunStream`: sends the frames of one AG-UI run, each with its id, from its beginning or from any frame on.

`FrameId`: the id of a frame, from which a client goes on after its connection was cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from attrs import frozen

from agentrail.api.bodies import FRAME_ID
from agentrail.api.problems import Problem
from agentrail.api.sse_frames import HEARTBEAT
from agentrail.api.views import to_json
from agentrail.core.vocabulary.state import Prompt, State
from agentrail.errors import HostClosing, SessionAsleep
from agentrail.host.ag_ui.run_frames import RunFrames
from agentrail.host.ag_ui.shown_messages import Frame, shown_content, shown_messages
from agentrail.host.operations.event_frames import EventFrames
from agentrail.host.requests.http_messages import Send
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.handle import SessionHandle, wake
from agentrail.values.events.envelope import Cursor, Envelope
from agentrail.values.events.life import AgentAbort, AgentEnd, AgentResumed, PromptReceived
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import RequestStart, ResponseComplete, Retry
from agentrail.values.json import Json

_FRAME_ID: Final = re.compile(FRAME_ID.removeprefix("^").removesuffix("$"), re.ASCII)


class FrameId(NamedTuple):
    """The id of a frame: the place of its event in the journal, and what the client has after it."""

    cursor: Cursor
    """Position after the event that the frame tells of, or after which the run begins."""
    number: int
    """Number of the frame, from 1: among those of the event, or with which the run begins, or ends."""
    part: str = ""
    """`o` for a frame with which the run begins, `e` for one with which it ends, and empty for one of an event."""
    ref: str = ""
    """Id of the prompt whose turn ends the run; empty if the run goes on for as long as the session works."""
    open_message: str = ""
    """The message that is open after the frame: `t` (text) or `r` (reasoning), and its id; empty if none is.

    A host that was killed no longer knows what it has streamed of a response: so the client tells.
    """
    owes_snapshot: bool = False
    """Whether a snapshot is to come, as what was streamed is not, or not all of, what was said."""

    def __str__(self) -> str:
        ref = f"+{self.ref}" if self.ref else ""
        open_message = f"~{self.open_message}" if self.open_message else ""
        return f"{self.cursor}.{self.part}{self.number}{ref}{open_message}{'!' if self.owes_snapshot else ''}"


def read_frame_id(text: str) -> FrameId | None:
    """Return the id that `str` has written as *text*; `None` if it is none."""
    match = _FRAME_ID.fullmatch(text)
    if match is None:
        return None
    seq, n, part, number, ref, open_message, owes = match.groups()
    cursor = Cursor(int(seq), int(n))
    return FrameId(cursor, int(number), part, (ref or "")[1:], (open_message or "")[1:], bool(owes))


LOOK_BACK: Final = 256
"""How many events are read first, in search of the beginning of the open turn."""

FURTHER: Final = 8
"""How many times as many are read if it is not among them."""

CLOSING: Final = HostClosing.__name__

CLOSES: Final = (AgentAbort, AgentEnd, AgentResumed, RequestStart, ResponseComplete, Retry)
"""Events that close the message which is being streamed."""

PIECES: Final = frozenset(
    f"{kind}_MESSAGE_{part}" for kind in ("TEXT", "REASONING") for part in ("START", "CONTENT", "END")
)
"""Types of frames with pieces of a message."""


@frozen
class RunStart:
    """Where a run begins, for a client that has sent something."""

    cursor: Cursor
    """Position of the last event that the conversation has."""
    messages: Sequence[Frame]
    """The conversation, as messages of AG-UI; the client's is replaced by it."""


def start_at(state: State, waiting_content: Json = None) -> RunStart | None:
    """Return the start of a run after *state*; `None` if the session works: then the run begins where it is joined.

    *waiting_content* is the content of the message of the client for which the run is.
    """
    works = state.turn is not None and state.turn.ended is None and not state.waits
    if works or state.next_prompt is not None or state.queue:
        return None
    return RunStart(Cursor(state.last_seq), shown_messages(state, waiting_content))


class RunStream:
    """The stream of one run, to one client."""

    def __init__(
        self,
        frames: EventFrames,
        session: SessionHandle,
        run: RunFrames,
        start: RunStart | None = None,
        since: FrameId | None = None,
    ) -> None:
        """Make the stream: it begins at *start*, or goes on after the frame *since*, or joins the session."""
        self._frames = frames
        self._session = session
        self._run = run
        self._start = start
        self._since = since
        # who has nothing but the first frame of a run joins the session as it is now
        has_more = since is not None and (since.part != "o" or since.number > 1)
        self._client_position = start.cursor if start else since.cursor if since and has_more else None
        """Position of the last event that the client has; `None` if the session is joined as it is."""
        self._position = Cursor(0)
        """Position of the last event that was translated."""
        self._number = 0
        """Number of the last frame of that event."""
        self._open = ""
        """The message that is open after the last frame, as in `FrameId`."""
        self._last: bytes | None = None
        """The last frames; `None` before the end of the run."""

    async def write(self, send: Send) -> bytes:
        """Send frames until the run is over, and return the last ones.

        If the session is parked before that, there are none: the client goes on from the last frame that it has.
        """
        await send(HEARTBEAT)  # the head of the answer is sent with it
        last = (await self._state()).last_seq if self._client_position is None else self._client_position.seq
        width = LOOK_BACK
        while True:
            start = max(0, last - width)
            async with self._session.subscribe(since=Cursor(start)) as events:
                past, coming = await self._read_past(events, start)
                if start == 0 or any(isinstance(envelope.event, PromptReceived) for envelope in past):
                    await self._write_on(events, past, coming, send)
                    return self._last or b""
            width *= FURTHER

    async def _read_past(self, events: Subscription, start: int) -> tuple[list[Envelope], list[Envelope]]:
        """Return the events from before the run, or before the frame from which it goes on; and the one after them."""
        past: list[Envelope] = []
        while (envelope := await events.next_past()) is not None:
            if self._client_position is not None and envelope.cursor > self._client_position:
                return past, [envelope]
            past.append(envelope)
        # the state may be ahead of the events that are published
        while (past[-1].seq if past else start) < (self._client_position or Cursor((await self._state()).last_seq)).seq:
            envelope = await anext(events, None)
            if envelope is None:
                break
            past.append(envelope)
        return past, []

    async def _write_on(
        self, events: Subscription, past: Sequence[Envelope], coming: Sequence[Envelope], send: Send
    ) -> None:
        data = await self._begin(past)
        for envelope in coming:
            data += self._frame(envelope)

        async def give(frames: bytes) -> bool:
            frames += await self._catch_up()
            if frames and self._last is None:
                await send(frames)
            elif self._last is not None:
                self._last = frames + self._last
            return self._last is None

        if await give(data):
            await self._frames.give_each(events, give, self._frame)
            if self._run.is_over and self._last is None:  # its session has ended, and has no more events
                self._last = self._closed()

    # The beginning

    async def _begin(self, past: Sequence[Envelope]) -> bytes:
        """Take over what has happened before, and return the first frames."""
        frames: list[Frame] = []
        for envelope in past:
            frames = self._run.of(envelope)
            frames = frames[_lead(envelope, frames) :]
            self._advance(envelope, len(frames))
        if self._since is None or self._since.part == "o":
            return await self._open_run()
        since, last = self._since, self._number
        is_known = self._position == since.cursor
        is_begun = since.number == last + 1 and since.open_message and self._run.open is None
        self._run.wants_snapshot = since.owes_snapshot
        if since.owes_snapshot and self._run.is_under_way:
            is_known = False
        if is_known and (since.part == "e" or since.number <= last or is_begun):
            rest = [] if since.part == "e" else frames[since.number :]
            if not rest:
                self._run.adopt(since.open_message)
        else:
            rest = []
            self._run.take_over(since.open_message)
        self._position, self._open = since.cursor, since.open_message
        self._number = last if since.part == "e" else since.number
        return self._numbered(rest)

    async def _open_run(self) -> bytes:
        state = await self._state()
        self._run.begin()
        if self._start is not None:
            messages = self._start.messages
            self._position = max(self._position, self._start.cursor)
        else:
            messages = self._messages(state)
        opening = self._run.opening(
            messages, () if self._client_position is not None and self._since else state.subagents
        )
        number, self._number = self._number, 0
        if self._since is not None:
            self._number = self._since.number
            if self._client_position is not None:
                self._position = self._client_position
                if self._since.open_message not in {"", str(self._run.open)}:
                    self._run.take_over(self._since.open_message)
        data = self._numbered(opening[self._number :], part="o")
        self._number, self._open = number, str(self._run.open or "")
        return data

    # The middle

    def _frame(self, envelope: Envelope) -> bytes:
        """Return the frames of an event, as they are sent; none of an event after the run."""
        if self._run.is_over:
            return b""
        frames = self._run.of(envelope)
        if isinstance(envelope.event, Gap):
            return self._numbered(frames)
        lead = _lead(envelope, frames)
        data = self._numbered(frames[:lead])
        self._advance(envelope, 0)
        return data + self._numbered(frames[lead:])

    def _advance(self, envelope: Envelope, number: int) -> None:
        if not isinstance(envelope.event, Gap):
            self._position, self._number = envelope.cursor, number

    async def _catch_up(self) -> bytes:
        """Return a snapshot if the client needs one and has all events; find out whether the run is over."""
        state = await self._state()
        has_all = state.last_seq <= self._position.seq
        data = b""
        if self._run.wants_snapshot and (has_all or self._run.is_over):
            data = self._numbered(self._run.snapshot(self._messages(state)))
        if self._run.is_over or (has_all and self._rests(state)):
            self._last = self._closed(state)
        return data

    def _messages(self, state: State) -> list[Frame]:
        """Return the conversation, with the prompt of the run at its end if that still waits for its turn."""
        prompt = _waiting_prompts(state).get(self._run.ref)
        return shown_messages(state, None if prompt is None else shown_content(prompt.parts))

    def _rests(self, state: State) -> bool:
        """Whether nothing more happens in the run: its turn is over, or waits for people."""
        if state.waits:
            # if nothing is held, a sub-agent was answered and has not told its parent yet
            rests = state.resting or any(agent.rests for agent in state.subagents)
            return rests or bool(self._session.status().held)
        waiting = {*_waiting_prompts(state)}
        if state.turn is not None and state.turn.ended is None:
            waiting.add(state.turn.ref)
        return self._run.ref not in waiting if self._run.ref else not waiting

    async def _state(self) -> State:
        try:
            return self._session.inspect()
        except SessionAsleep:
            await wake(self._session)
            return self._session.inspect()

    # The end

    def _closed(self, state: State | None = None) -> bytes:
        """Return the last frames."""
        waits = state is not None and state.waits
        held_calls = self._session.status().held if waits else ()
        frames = self._run.closing(held_calls, waits=waits)
        since, self._number = self._since, 0
        if since is not None and since.part == "e" and since.cursor == self._position:
            self._number = min(since.number, len(frames) - 1)
        return self._numbered(frames[self._number :], part="e")

    def problem(self, problem: Problem) -> bytes:
        """Return the last frames for an error; none if the host closes, as the run goes on with another connection."""
        return b"" if problem.error == CLOSING else self._numbered(self._run.failed(problem))

    def _numbered(self, frames: Sequence[Frame], *, part: str = "") -> bytes:
        """Return *frames* with their ids, as they are sent."""
        lines: list[bytes] = []
        for frame in frames:
            self._number += 1
            self._open = _open_after(frame, self._open)
            frame_id = FrameId(self._position, self._number, part, self._run.ref, self._open, self._run.owes_snapshot)
            lines.append(b"id: %s\ndata: %s\n\n" % (str(frame_id).encode(), to_json(frame)))
        return b"".join(lines)


def _waiting_prompts(state: State) -> dict[str, Prompt]:
    """Return the prompts that wait for their turn, by their ids."""
    prompts = state.queue if state.next_prompt is None else (*state.queue, state.next_prompt)
    return {prompt.ref: prompt for prompt in prompts}


def _lead(envelope: Envelope, frames: Sequence[Frame]) -> int:
    """Return how many *frames* of an event are numbered as frames of the event before it.

    They depend on what was streamed of a response, which is forgotten: they would not be the same again.
    """
    if envelope.n:
        return max(len(frames) - 1, 0)
    if not isinstance(envelope.event, CLOSES):
        return 0
    return next((index for index, frame in enumerate(frames) if frame["type"] not in PIECES), len(frames))


def _open_after(frame: Frame, open_message: str) -> str:
    """Return the message of the session that is open after *frame*, as in `FrameId`."""
    if "subagentRunId" in frame:
        return open_message
    match frame["type"]:
        case "TEXT_MESSAGE_START":
            return f"t{frame['messageId']}"
        case "REASONING_MESSAGE_START":
            return f"r{frame['messageId']}"
        case "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END":
            return ""
        case _:
            return open_message

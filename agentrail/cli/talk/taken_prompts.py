"""`taken_prompts`: the prompts before which a person may go back, and what a copy from there would lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from agentrail.api.protocols import AnySession, awaited
from agentrail.cli.output.screen import clipped, one_line
from agentrail.cli.talk.file_names import without_files
from agentrail.cli.talk.rendering import SHORT, shown_args
from agentrail.values.events import (
    AgentAbort,
    AgentEnd,
    Event,
    PromptReceived,
    SessionForked,
    SessionStarted,
    ToolExecutionStart,
)

if TYPE_CHECKING:
    from agentrail.remote.remote_supervisor import RemoteSupervisor

LAST_PROMPT: Final = 1.0
"""The most seconds to wait for the prompts of a session: it may have taken none of its own, as a copy."""

LAST_CALL: Final = 0.2
"""The most seconds to wait for further calls of a turn that is open."""

MAX_COPIES: Final = 20
"""From how many copies of copies the prompts are listed."""

MOST_CALLS: Final = 3
"""The most calls that a preview names, the last ones."""

READERS: Final = frozenset(
    {
        "find_tools",
        "glob",
        "grep",
        "list_dir",
        "read_file",
        "read_history",
        "shell_output",
        "web_fetch",
        "web_search",
        "write_todos",
    }
)
"""Built-in tools that leave nothing behind."""


class TakenPrompt(NamedTuple):
    """A prompt with which a turn began."""

    session: AnySession
    """The session whose turn it is."""
    turn: int
    """Number of the turn."""
    ref: str
    """Id of the prompt."""
    text: str
    """Text of the prompt, with the files that it named."""
    calls: Sequence[str] = ()
    """The calls of the turn that may have changed something, as text."""

    def row(self, number: int) -> str:
        """Return the row of the prompt in a list, in which it has this *number*."""
        return f"{number}. {clipped(one_line(without_files(self.text)), SHORT)}"


def preview(prompts: Sequence[TakenPrompt]) -> tuple[str, ...]:
    """Return rows that tell what a copy lacks that ends before the first of *prompts*, and what stays all the same."""
    calls = [call for prompt in prompts for call in prompt.calls]
    more = len(prompts) - 1
    after = f" and {more} after it" if more else ""
    named_calls = [f"  stays done: {call}" for call in calls[-MOST_CALLS:]]
    others = len(calls) - len(named_calls)
    return (
        f"  goes: this prompt{after}, with the answer{'s' if more else ''}",
        *([f"  stays done: {others} earlier call{'s' if others > 1 else ''}"] if others else []),
        *(named_calls or ["  nothing else was done since"]),
    )


async def taken_prompts(session: AnySession, supervisor: RemoteSupervisor | None) -> list[TakenPrompt]:
    """Return the prompts that *session* has taken, the first one first; of a copy, also those before it."""
    last = (await awaited(session.status())).turn
    prompts: list[TakenPrompt] = []
    for _ in range(MAX_COPIES):
        start = await start_of(session)
        own_prompts = await _taken_by(session, last)
        prompts = [*own_prompts, *prompts]
        if start is None or supervisor is None:
            break
        session, last = supervisor.session(start.origin), own_prompts[0].turn - 1 if own_prompts else last
    return prompts


async def start_of(session: AnySession) -> SessionForked | None:
    """Return the event with which *session* began as a copy; `None` if it is none."""
    async with session.subscribe(since=0, types=[SessionForked, SessionStarted]) as events:
        async for envelope in events:
            return envelope.event if isinstance(envelope.event, SessionForked) else None
    return None


async def _taken_by(session: AnySession, last: int) -> list[TakenPrompt]:
    """Return the prompts of the turns that *session* itself began, up to turn number *last*, with their calls."""
    prompts: list[TakenPrompt] = []
    types: tuple[type[Event], ...] = (PromptReceived, ToolExecutionStart, AgentEnd, AgentAbort)
    with trio.move_on_after(LAST_PROMPT if last else 0) as scope:
        async with session.subscribe(since=0, types=types) as events:
            async for envelope in events:
                event = envelope.event
                if envelope.turn > last:
                    break
                if isinstance(event, PromptReceived):
                    prompts.append(TakenPrompt(session, envelope.turn, event.ref, event.text))
                elif isinstance(event, ToolExecutionStart) and event.name not in READERS and prompts:
                    call = f"{event.name} {shown_args(event.args)}".rstrip()
                    prompts[-1] = prompts[-1]._replace(calls=(*prompts[-1].calls, call))
                elif isinstance(event, AgentEnd | AgentAbort) and envelope.turn == last:
                    break
                if envelope.turn == last:  # its end comes later, if it is open
                    scope.deadline = trio.current_time() + LAST_CALL
    return prompts


async def left_behind(fork: AnySession, *, has_files: bool = True) -> str:
    """Return text that lists what the session of which *fork* is a copy has done since, and cannot be undone.

    *has_files*: its files have not come back.
    """
    start = await start_of(fork)
    calls = () if start is None else start.left_behind
    rows = [f"    {clipped(one_line(call), SHORT)}" for call in calls]
    stays = "this has been done since, and stays:" if has_files else "what this has done besides those files stays:"
    return "\n".join([f"  {stays}", *rows]) if rows else "  nothing else was done since"

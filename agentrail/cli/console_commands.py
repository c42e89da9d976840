"""`ConsoleCommands`: what a person may type that begins with a slash, from one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from agentrail.api.protocols import AnySession, awaited
from agentrail.cli.default_agent import ASK_FIRST, Mode, mode_named
from agentrail.cli.rendering import SHORT, described
from agentrail.cli.screen import Tone, clipped, date_and_time, line, one_line
from agentrail.cli.session_names import OWN
from agentrail.cli.terminal import Terminal
from agentrail.core.vocabulary.commands import When
from agentrail.errors import SteeringQueueFull
from agentrail.errors.agentrail_error import advice
from agentrail.ports.journal import StoredSession
from agentrail.remote.remote_supervisor import RemoteSupervisor

STEER: Final = "/steer"
"""The only command that does not wait for the session to rest when it comes from a pipe or a file."""

MOST_LISTED: Final = 20
"""The most sessions that are listed, the last used ones."""

INTRODUCTION: Final = """\
  While nothing runs, what you type is a prompt. While the agent works, it is steering: the agent
  reads it before it goes on, and tools that can be stopped are stopped for it. Lines from a pipe or
  a file wait until nothing runs, but for /steer: each is a prompt, or the answer to a question.

  Ctrl-C           stop what runs; twice within two seconds, or while nothing runs: leave
  Ctrl-D           leave
  Alt-Enter        what you typed is a prompt for later, also while the agent works
  \\ and Enter      another line; what you paste is one text, whatever lines it has"""

CHANGEABLE_MODES: Final[tuple[Mode, ...]] = ("ask", "edits", "yes")
"""The modes that differ by what is asked alone."""


class ConsoleCommand(NamedTuple):
    """A row of the table."""

    name: str
    """What is typed."""
    argument: str
    """What follows it, in words; empty if nothing does."""
    purpose: str
    """What it does, as the help says it."""
    carry_out: Callable[[ConsoleCommands, str], Awaitable[None]]
    """The function that does it, which gets what follows the name."""


class ConsoleCommands:
    """The commands of a conversation with one session; of other sessions, if their supervisor is given."""

    def __init__(
        self,
        session: AnySession,
        terminal: Terminal,
        supervisor: RemoteSupervisor | None = None,
        label: str | None = None,
    ) -> None:
        """*label* is that of the sessions which are listed; `None`: all are."""
        self.has_refused = False
        """Whether something that the person wanted was not done."""
        self.is_leaving = False
        """Whether the person wants to leave this conversation."""
        self.next_id: str | None = None
        """The session to which they want to go from here; empty for a new one, `None` for none."""
        self._session = session
        self._terminal = terminal
        self._supervisor = supervisor
        self._label = label

    async def carry_out(self, text: str) -> None:
        """Carry out the command *text*."""
        name, _, rest = text.partition(" ")
        rows = {row.name: row for row in self._rows}
        row = rows.get(ALIASES.get(name, name))
        if row is None:
            self.refuse(f"there is no {name}; {advice(name, rows, 'there are')}")
        else:
            await row.carry_out(self, rest.strip())

    @property
    def _rows(self) -> tuple[ConsoleCommand, ...]:
        """The commands that there are in this conversation."""
        return HERE if self._supervisor is None else COMMANDS

    def refuse(self, why: str) -> None:
        """Say that something was not done."""
        self.has_refused = True
        self._terminal.show((line(f"✗ {why}", Tone.BAD),))

    async def steer(self, text: str, *, when: When = "gap") -> None:
        """Send *text* as steering."""
        with suppress(SteeringQueueFull):  # the event `SteeringReceived` shows it already
            await self._session.steer(text, when=when)

    def _say(self, text: str) -> None:
        self._terminal.show((line(text),))

    # About this session

    async def help(self, _: str) -> None:
        """Show the table."""
        table = "\n".join(f"  {f'{row.name} {row.argument}':<16} {row.purpose}" for row in self._rows)
        self._say(f"{INTRODUCTION}\n{table}")

    async def status(self, _: str) -> None:
        """Show what the session does."""
        self._terminal.show(described(await awaited(self._session.status())))

    async def model(self, name: str) -> None:
        """Use another model, or show which one is used."""
        if name:
            await self._session.switch_model(name)
        else:
            self._say(f"  model: {(await awaited(self._session.status())).model}; /model NAME uses another")

    async def mode(self, name: str) -> None:
        """Change what runs without asking."""
        mode = mode_named(name)
        if mode not in CHANGEABLE_MODES:
            self._say(f"  /mode {' or '.join(CHANGEABLE_MODES)}: what runs without asking")
            return
        await set_mode(self._session, mode)
        self._say(f"  asks before {', '.join(ASK_FIRST[mode]) or 'what its guard is not sure about'}")

    async def steer_text(self, text: str) -> None:
        """Steer, at once if the text begins with `now`."""
        if not text:
            self._say("  /steer TEXT, or /steer now TEXT")
            return
        now, _, more = text.partition(" ")
        is_urgent = now == "now" and bool(more)
        await self.steer(more if is_urgent else text, when="now" if is_urgent else "gap")

    async def later(self, text: str) -> None:
        """Send a prompt, which is queued while a turn is open."""
        if text:
            await self._session.prompt(text)
        else:
            self._say("  /later TEXT")

    async def queue(self, number: str) -> None:
        """List the prompts that wait, or take one back."""
        prompts = await awaited(self._session.queued())
        if number.isdecimal() and 0 < int(number) <= len(prompts):
            await self._session.withdraw(prompts[int(number) - 1].ref)
        elif number:
            self.refuse(f"no prompt waits at place {number}")
        else:
            rows = [f"  {place}. {clipped(one_line(prompt.text), SHORT)}" for place, prompt in enumerate(prompts, 1)]
            self._say("\n".join(rows) or "  no prompt waits")

    async def tasks(self, _: str) -> None:
        """List the sub-agents."""
        tasks = await awaited(self._session.tasks())
        rows = [f"  {task.status:<8} {task.agent}: {clipped(one_line(task.description), SHORT)}" for task in tasks]
        self._say("\n".join(rows) or "  no sub-agent runs")

    async def compact(self, reason: str) -> None:
        """Shorten the conversation that the model gets."""
        await self._session.compact(reason or None)

    async def quit(self, _: str) -> None:
        """Leave."""
        self.is_leaving = True

    # About other sessions

    async def sessions(self, _: str) -> None:
        """List the sessions."""
        rows = [f"  {number}. {self._row(session)}" for number, session in enumerate(await self._listed(), 1)]
        self._say("\n".join(rows) or "  there are none")

    async def resume(self, session_id: str) -> None:
        """Go to a session of the list."""
        if not session_id:
            await self.sessions("")
            self._say("  /resume NUMBER goes on with one of them")
            return
        sessions = await self._listed()
        if session_id.isdecimal() and 0 < int(session_id) <= len(sessions):
            self._go(sessions[int(session_id) - 1].session_id)
            return
        if session_id.removeprefix(OWN) not in {session.session_id.removeprefix(OWN) for session in sessions}:
            self.refuse(f"there is no session {session_id!r} in this list; /sessions shows it")
            return
        self._go(session_id)

    async def new(self, _: str) -> None:
        """Go to a new session."""
        self._go("")

    async def fork(self, _: str) -> None:
        """Go to a copy of this session."""
        self._go((await self._session.fork()).id)

    def _go(self, session_id: str) -> None:
        self.next_id, self.is_leaving = session_id, True

    async def _listed(self) -> list[StoredSession]:
        """Return the sessions of this folder, the last used one first."""
        return [] if self._supervisor is None else await last_used(self._supervisor, self._label)

    def _row(self, session: StoredSession) -> str:
        name = session.session_id.removeprefix(OWN)
        mark = "*" if name == self._session.id.removeprefix(OWN) else " "
        title = clipped(one_line(session.about.title), 60) or "(nothing was said)"
        return f"{mark} {name:<14} {date_and_time(session.active)}  {title}"


async def set_mode(session: AnySession, mode: Mode) -> None:
    """Have the agent of the command line ask as *mode* says; one with a plan only has no tools for more."""
    await session.update_plugin("HumanApproval", tools=list(ASK_FIRST[mode]), pin=True)


async def last_used(supervisor: RemoteSupervisor, label: str | None) -> list[StoredSession]:
    """Return the sessions with *label*, if one is given, that have not ended, the last used one first."""
    sessions = await supervisor.stored(label=label, ended=False)
    return sorted(sessions, key=lambda session: session.active, reverse=True)[:MOST_LISTED]


ALIASES: Final = {"/exit": "/quit"}
"""Other names of commands."""

HERE: Final = (
    ConsoleCommand(
        STEER, "TEXT", "steer; /steer now TEXT does not wait for the end of the answer", ConsoleCommands.steer_text
    ),
    ConsoleCommand(
        "/later", "TEXT", "a prompt for when nothing runs; Alt-Enter behind a text does the same", ConsoleCommands.later
    ),
    ConsoleCommand("/status", "", "what the session is doing, and what it has used", ConsoleCommands.status),
    ConsoleCommand("/model", "NAME", "use another model from the next turn on", ConsoleCommands.model),
    ConsoleCommand(
        "/mode", "MODE", "`ask`, `edits` or `yes`: what runs without asking, from now on", ConsoleCommands.mode
    ),
    ConsoleCommand(
        "/queue", "NUMBER", "list the prompts that wait; with a number, take one back", ConsoleCommands.queue
    ),
    ConsoleCommand("/tasks", "", "list the sub-agents", ConsoleCommands.tasks),
    ConsoleCommand("/compact", "REASON", "shorten the conversation that the model gets", ConsoleCommands.compact),
    ConsoleCommand("/help", "", "this", ConsoleCommands.help),
    ConsoleCommand("/quit", "", "leave", ConsoleCommands.quit),
)
"""The commands about this session, in the order of the help."""

OTHERS: Final = (
    ConsoleCommand("/sessions", "", "list the sessions of this folder", ConsoleCommands.sessions),
    ConsoleCommand("/resume", "NUMBER", "go on with one of them", ConsoleCommands.resume),
    ConsoleCommand("/new", "", "begin a new session; this one is kept", ConsoleCommands.new),
    ConsoleCommand("/fork", "", "go on in a copy of this session", ConsoleCommands.fork),
)
"""Those about other sessions."""

COMMANDS: Final = (*OTHERS, *HERE)

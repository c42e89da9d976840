"""`agentrail sessions top`: the sessions of a host as a tree, drawn anew each second; it only asks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.api.session_values import ChildView, HeldCall, Status
from agentrail.app import process
from agentrail.cli.exit_codes import INTERRUPTED
from agentrail.cli.host.shared_host import endpoint_of, is_served, open_served
from agentrail.cli.host.unix_endpoint import KEY
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, status_of_error, tell
from agentrail.cli.output.screen import clean, clipped, one_line
from agentrail.cli.output.text_table import aligned
from agentrail.cli.session_names import OWN
from agentrail.errors import AgentrailError, SessionNotAlive, SessionParked, UnknownSession
from agentrail.remote.remote_supervisor import RemoteSupervisor, connect
from agentrail.remote.transport.host_address import BEFORE_KEY
from agentrail.values.usage import NOTHING_USED, cost_text
from agentrail.values.value import Value

EVERY: Final = 1.0
"""Seconds between two drawings."""

STOP_WITHIN: Final = 3.0
"""The most seconds that the program may take to end."""

ANEW: Final = "\x1b[H\x1b[J"
"""Characters that erase the screen from its beginning on."""

WIDTH: Final = 120
"""Columns of a line, where there is no terminal."""

HEADS: Final = ("SESSION", "PHASE", "MODEL", "TOKENS", "COST", "HOST", "WAITS FOR A PERSON")
HOST: Final = HEADS.index("HOST")
NOT_KNOWN: Final = "-"
UNKNOWN: Final = "unknown"
"""Stands in the column of costs if a price is unknown."""
WAITS: Final = "waits"
DOWN: Final = "down"
UNIX: Final = "unix:"


class TopRow(Value, gc=True):
    """One session that runs: a row of the tree."""

    depth: int
    """How many sessions are above it."""
    child: ChildView
    """What its supervisor knows of it."""
    status: Status | None
    """What it does; `None` if it sleeps or has just ended: to ask it would wake it."""
    waiting: tuple[HeldCall, ...]
    """Its calls that wait for a person."""
    host: str = ""
    """Address of the host that runs it, of several; empty if there is only one."""

    @property
    def phase(self) -> str:
        """One word for what the session does."""
        if self.child.state != "running":
            return self.child.state
        if self.waiting:
            return WAITS
        return "suspended" if self.child.suspended else self.child.phase

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row, in the order of `HEADS`."""
        name = self.child.name.removeprefix(OWN) if self.depth == 0 else self.child.name.rpartition(".")[2]
        label = f"{'· ' * self.depth}{name}"
        waits = "; ".join(one_line(f"{call.kind}: {call.hint}") for call in self.waiting)
        if self.status is None:
            return label, self.phase, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, self.host, waits
        usage = self.status.usage
        cost = cost_text(usage, UNKNOWN)
        return label, self.phase, self.status.model, f"{usage.total_tokens:,}", cost, self.host, waits


def main(url: str | None, key: str, journal: Path | None) -> int:
    """Show the sessions of the host at *url*, or of who serves *journal*, and return the exit status."""
    if url is None:
        watch = partial(_watch_served, journal)
    elif journal is not None:
        raise BadInputError("--journal: a host with a URL knows its journal itself")
    else:
        watch = partial(_watch, *address_of(url, key))
    status = process.run(watch, stop_within=STOP_WITHIN)
    return INTERRUPTED if status is None else status


def address_of(url: str, variable: str) -> tuple[str, str]:
    """Return the URL of a host and its key, which stands in *url* or is that of the environment *variable*."""
    url, _, token = url.partition(BEFORE_KEY)
    key = token or os.environ.get(variable, "").strip()
    if not key and url.startswith(UNIX):
        key = KEY  # of a host that takes whoever reaches its socket for the user
    if not key:
        raise BadInputError(f"no key of the host is in the variable {variable}; `--key NAME` names another variable")
    return url.removesuffix("/"), key


async def _watch_served(file: Path | None) -> int:
    journal = SqliteJournal(file).path
    if not await is_served(journal):
        tell(f"agentrail: nobody serves {journal} now; `agentrail chat` does while it runs, or give a host's URL")
        return FAILED
    return await _drawn(open_served(journal), endpoint_of(journal).url)


async def _watch(url: str, key: str) -> int:
    return await _drawn(connect(url, key), url)


async def _drawn(opened: AbstractAsyncContextManager[RemoteSupervisor], url: str) -> int:
    try:
        async with opened as supervisor:
            return await _draw(supervisor, url)
    except AgentrailError as error:  # no nursery here: it would wrap the error in a group
        return status_of_error(error)


async def _draw(supervisor: RemoteSupervisor, url: str) -> int:
    """Redraw the sessions each second at a terminal; otherwise print them once."""
    while True:
        text = await screen_text(supervisor, url)
        if not sys.stdout.isatty():
            print(text)
            return DONE
        print(f"{ANEW}{text}", flush=True)
        await trio.sleep(EVERY)


async def screen_text(supervisor: RemoteSupervisor, url: str) -> str:
    """Return the text with the sessions of a host, cut to the height of the terminal if there is one."""
    width, height = shutil.get_terminal_size((WIDTH, 0)) if sys.stdout.isatty() else (WIDTH, 0)
    tree = await supervisor.tree()
    rows = await _rows(supervisor, tree, await supervisor.approvals(), 0)
    lines = [*(clipped(one_line(clean(line)), width) for line in (_head(url, rows), *_missing(tree))), ""]
    table = _table(rows, width) if rows else ["No session runs there."]
    room = height - len(lines) - 1  # one row less, for the cursor
    if height and len(table) > room:
        table = [*table[: room - 1], f"… and {len(table) - room + 1} more"]
    return "\n".join([*lines, *table])


def _missing(tree: ChildView) -> list[str]:
    """Return a line for each host of several that has not answered: what runs there is not shown."""
    return [
        f"{child.host} does not answer" for child in tree.children if child.state == DOWN and child.host == child.name
    ]


def _table(rows: Sequence[TopRow], width: int) -> list[str]:
    """Return *rows* as lines below their heads; without a column for hosts, if there is only one."""
    cells = [HEADS, *(row.cells for row in rows)]
    if not any(row.host for row in rows):
        cells = [(*row[:HOST], *row[HOST + 1 :]) for row in cells]
    return aligned(cells, width, right=(3, 4))


async def _rows(
    supervisor: RemoteSupervisor,
    parent: ChildView,
    waiting: Mapping[str, tuple[HeldCall, ...]],
    depth: int,
    host: str = "",
) -> list[TopRow]:
    """Return the rows of the sessions below *parent*, which runs at *host*, each followed by its sub-agents."""
    rows: list[TopRow] = []
    for child in parent.children:
        is_session = child.kind == "session"
        child_host = child.host or host
        if is_session:
            status = await _status(supervisor, child)
            rows.append(TopRow(depth, child, status, waiting.get(child.name, ()), child_host))
        rows += await _rows(supervisor, child, waiting, depth + is_session, child_host)
    return rows


async def _status(supervisor: RemoteSupervisor, child: ChildView) -> Status | None:
    """Return a session's status; `None` if it does not run, because asking the host about it would start it."""
    if child.state != "running":
        return None
    try:
        return await supervisor.session(child.name).status()
    except (SessionNotAlive, SessionParked, UnknownSession):  # the session has ended since the tree was read
        return None


def _head(url: str, rows: Sequence[TopRow]) -> str:
    """Return the first line: the number of sessions, and their usage together."""
    usage = NOTHING_USED
    for row in rows:
        if row.depth == 0 and row.status is not None:  # the usage of a session includes that of its sub-agents
            usage = usage.plus(row.status.usage)
    count = sum(row.depth == 0 for row in rows)
    waiting = sum(bool(row.waiting) for row in rows)
    sessions = "1 session" if count == 1 else f"{count} sessions"
    return f"{sessions}, {waiting} waiting, {usage.total_tokens:,} tokens, {cost_text(usage)} at {url}"

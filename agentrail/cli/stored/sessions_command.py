"""`agentrail sessions`: lists, shows, exports, imports, copies and deletes the sessions of a journal; none is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio

from agentrail.adapters.journals.archive import write_archive
from agentrail.adapters.journals.journal_addresses import JournalAddress, PlacedJournal, shown_address
from agentrail.adapters.journals.session_copy import CopyReport, SessionCopier
from agentrail.cli.journal_file import check_differ, open_journal, open_target, without_password
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, json_line, tell
from agentrail.cli.output.screen import clean, date_and_time, escaped, one_line
from agentrail.cli.output.text_table import aligned
from agentrail.cli.session_names import name_in_chat, resume_command
from agentrail.cli.stored.session_rows import condition
from agentrail.cli.stored.stored_sessions import (
    existing_journal,
    no_such_session,
    state_after,
    stored_id,
    stored_records,
    stored_sessions,
    waiting_ids,
)
from agentrail.errors import SessionExists, SessionNotStored
from agentrail.ports.journal import Record, SessionFilter, StoredSession
from agentrail.runtime.shared.clock import Clock
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message, ToolMessage
from agentrail.values.usage import cost_text

WIDTH: Final = 100
"""Columns of a line."""

UNTITLED: Final = "(no title)"


def _status(journal: JournalAddress | None, name: str, act: Callable[[PlacedJournal, str], Awaitable[int]]) -> int:
    """Open the *journal*, which is there, call *act* with it and the id of a session, and return the exit status."""

    async def acted() -> int:
        async with existing_journal(journal) as opened:
            try:
                return await act(opened, await stored_id(opened, name))
            except SessionNotStored as missing:
                tell(f"agentrail: {await no_such_session(opened, missing)}")
            except SessionExists as taken:
                _tell_taken(taken)
            return FAILED

    return trio.run(acted)


def _tell_taken(error: SessionExists) -> None:
    problem = f"the journal has a session `{error.args[0]}` already"
    tell(f"agentrail: {problem}; delete it first, or use another journal")


# Looking


def list_sessions(journal: JournalAddress | None, label: str | None, limit: int | None, *, as_json: bool) -> int:
    """Print the sessions, at most *limit* of those with *label*, and return the exit status."""
    listed, waiting = trio.run(_listed, journal, label, limit)
    if as_json:
        for stored in listed:
            print(json_line(_as_json(stored, waits=stored.session_id in waiting)))
        return DONE
    rows = [
        (
            name_in_chat(stored.session_id),
            condition(stored, waits=stored.session_id in waiting),
            date_and_time(stored.active),
            stored.about.title or UNTITLED,
        )
        for stored in listed
    ]
    for row in aligned(rows, WIDTH):
        print(row)
    tell("1 session" if len(rows) == 1 else f"{len(rows)} sessions")
    return DONE


async def _listed(
    address: JournalAddress | None, label: str | None, limit: int | None
) -> tuple[Sequence[StoredSession], frozenset[str]]:
    """Return the sessions, the last used first, and the ids of those that wait for a person."""
    async with existing_journal(address) as journal:
        if limit is None:
            sessions = await stored_sessions(journal, SessionFilter(label=label))
            sessions.sort(key=lambda stored: (-stored.active, stored.session_id))
        else:
            sessions = [*await journal.last_used(limit, label=label)]
        return sessions, await waiting_ids(journal, sessions)


def _as_json(stored: StoredSession, *, waits: bool) -> JsonObject:
    about = stored.about
    return {
        "session": stored.session_id,
        "condition": condition(stored, waits=waits),
        "title": about.title,
        "labels": sorted(about.labels),
        "tenant": about.tenant,
        "owner": about.owner,
        "records": stored.head,
        "created": about.created,
        "active": stored.active,
        "problem": stored.problem,
    }


def show_session(session: str, journal: JournalAddress | None, messages: int, *, as_json: bool) -> int:
    """Print what *session* is, with its last *messages*, and return the exit status."""

    async def show(opened: PlacedJournal, session_id: str) -> int:
        _print_session(await stored_records(opened, session_id), messages, as_json=as_json)
        return DONE

    return _status(journal, session, show)


def _print_session(records: Sequence[Record], most: int, *, as_json: bool) -> None:
    state, count = state_after(records), len(records)
    usage, messages = state.usage, [*state.history][-most:] if most else []
    if as_json:
        last = [{"role": _role(message), "text": message.text} for message in messages]
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": usage.cost_usd}
        labels = sorted(state.labels)
        print(
            json_line(
                {
                    "session": state.session_id,
                    "title": state.title,
                    "labels": labels,
                    "model": state.model,
                    "phase": state.phase.value,
                    "records": count,
                    "usage": tokens,
                    "messages": last,
                }
            )
        )
        return
    model, cost = escaped(state.model), cost_text(usage)
    print(f"{escaped(state.session_id)}: {one_line(clean(state.title or UNTITLED))}")
    print(f"{state.phase.value}, model {model}, {usage.total_tokens} tokens, {cost}, {count} records")
    for message in messages:
        print(f"\n{escaped(_role(message))}:\n{clean(message.text)}".rstrip())


def _role(message: Message) -> str:
    match message:
        case AssistantMessage():
            return "assistant"
        case ToolMessage(name=name):
            return f"tool {name}"
        case _:
            return "user" if message.origin.value == "prompt" else message.origin.value


# Moving


def export_session(session: str, file: str, journal: JournalAddress | None, *, is_sure: bool) -> int:
    """Write *session* to *file*, and return the exit status."""
    from agentrail.cli.stored.unsealed_records import UnsealedRecords  # noqa: PLC0415 - imports what agents are made of

    async def export(opened: PlacedJournal, session_id: str) -> int:
        if (
            not is_sure
            and await trio.Path(file).exists()
            and not await _confirmed(f"{file} is there; overwrite it?", "overwritten")
        ):
            tell("nothing is exported")
            return FAILED
        count = await write_archive(UnsealedRecords(opened), session_id, file)
        tell(f"{session_id}: {count} records are in {file}")
        return DONE

    return _status(journal, session, export)


def import_session(file: str, journal: JournalAddress | None) -> int:
    """Read the session of an export *file* into the journal, and return the exit status."""
    from agentrail.cli.stored.session_import import import_file  # noqa: PLC0415 - imports what agents are made of

    async def lines() -> Sequence[str]:
        async with open_journal(journal) as opened:
            return await import_file(opened, file, journal)

    try:
        for line in trio.run(lines):
            tell(line)
    except SessionExists as taken:
        _tell_taken(taken)
        return FAILED
    return DONE


def copy_session(session: str, target: str, journal: JournalAddress | None) -> int:
    """Copy *session* into the journal *target*, and return the exit status."""
    from agentrail.cli.stored.unsealed_records import (  # noqa: PLC0415 - imports what agents are made of
        UnsealedRecords,
        UnsealedTarget,
    )

    async def copy(opened: PlacedJournal, session_id: str) -> int:
        if not await opened.read(session_id, 0, 1):
            raise SessionNotStored(session_id)
        check_differ(shown_address(opened), target)
        async with open_target(target) as other:
            copier = SessionCopier(UnsealedRecords(opened), UnsealedTarget(other), Clock().now_ms, CopyReport())
            copied = await copier.copy(session_id)
        if copied.problem:
            tell(f"agentrail: {session_id}: {copied.problem}")
            return FAILED
        if not copied.new:
            raise SessionExists(session_id)
        tell(f"{session_id}: {copied.records} records are in {without_password(target)}")
        return DONE

    return _status(journal, session, copy)


def fork_stored(session: str, journal: JournalAddress | None, head: int | None) -> int:
    """Begin a session with the past of *session* up to its record *head*, and return the exit status."""
    from agentrail.cli.stored.session_fork import fork_session  # noqa: PLC0415 - imports everything that runs sessions

    async def fork(opened: PlacedJournal, session_id: str) -> int:
        name = await fork_session(opened, await stored_records(opened, session_id), head)
        print(name)
        tell(f"{resume_command(name, journal)} goes on with it")
        return DONE

    return _status(journal, session, fork)


def delete_session(session: str, journal: JournalAddress | None, *, is_sure: bool) -> int:
    """Delete *session* and its sub-agents, with the snapshots of their files, and return the exit status."""
    from agentrail.adapters.sandboxes.kept_files.session_snapshots import (  # noqa: PLC0415 - imports the snapshots
        drop_snapshots,
        owners_of,
    )

    async def delete(opened: PlacedJournal, session_id: str) -> int:
        if await opened.summary(session_id) is None:
            # another program may have read the file while it was deleted, so that its bytes are still there
            await opened.delete(session_id, _holder(), Clock().now_ms())
            raise SessionNotStored(session_id)
        if not is_sure and not await _confirmed(f"Delete {session_id} and its sub-agents for good?", "deleted"):
            tell("nothing is deleted")
            return FAILED
        owners = await owners_of(opened, session_id)
        count = await opened.delete(session_id, _holder(), Clock().now_ms())
        if not count:
            raise SessionNotStored(session_id)
        await drop_snapshots(owners)
        tell(f"{session_id} is deleted" if count == 1 else f"{session_id} and {count - 1} sub-agents are deleted")
        return DONE

    return _status(journal, session, delete)


async def _confirmed(question: str, action: str) -> bool:
    """Ask the person to confirm; return the answer. Raise `BadInputError` if there is no terminal."""
    if not sys.stdin.isatty():
        message = f"nobody can be asked whether it is to be {action}; `--yes` says so"
        raise BadInputError(message)
    answer = await trio.to_thread.run_sync(partial(input, f"{escaped(question)} [y/N] "), abandon_on_cancel=True)
    return answer.strip().lower() in {"y", "yes"}


def _holder() -> str:
    return f"agentrail sessions, process {os.getpid()}"

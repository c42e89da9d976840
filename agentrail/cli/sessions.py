"""`agentrail sessions`: lists, shows, exports, imports, copies and deletes the sessions of a journal; none is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import trio

from agentrail.adapters.journals.archive import write_archive
from agentrail.adapters.journals.journal_places import PlacedJournal, shown_place
from agentrail.adapters.journals.session_copy import CopyReport, SessionCopier
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.exit_status import DONE, FAILED, exit_status, json_line, tell
from agentrail.cli.journal_file import check_differ, open_journal, open_target, without_password
from agentrail.cli.screen import clean, date_and_time, escaped, one_line
from agentrail.cli.session_names import name_in_chat, resume_command
from agentrail.cli.session_options import SessionOptions, parsed
from agentrail.cli.session_rows import condition
from agentrail.cli.stored_sessions import (
    existing_journal,
    no_such_session,
    state_after,
    stored_id,
    stored_records,
    stored_sessions,
)
from agentrail.cli.text_table import aligned
from agentrail.errors import SessionExists, SessionNotStored
from agentrail.ports.journal import Journal, SessionFilter, StoredSession
from agentrail.runtime.shared.clock import Clock
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message, ToolMessage
from agentrail.values.usage import cost_text

WIDTH: Final = 100
"""Columns of a line."""

UNTITLED: Final = "(no title)"


def main(argv: Sequence[str]) -> int:
    """Run `agentrail sessions` with the arguments *argv*, and return the exit status."""
    return exit_status(lambda: trio.run(_run, parsed(argv)))


async def _run(options: SessionOptions) -> int:
    opened = open_journal if options.command == "import" else existing_journal
    async with opened(options.journal) as journal:
        if options.words and options.command != "import":
            options = options.but(words=(await stored_id(journal, options.words[0]), *options.words[1:]))
        try:
            return await COMMANDS[options.command](journal, options)
        except SessionNotStored as missing:
            tell(f"agentrail: {await no_such_session(journal, missing)}")
        except SessionExists as taken:
            problem = f"the journal has a session `{taken.args[0]}` already"
            tell(f"agentrail: {problem}; delete it first, or use another journal")
        return FAILED


# Looking


async def _list(journal: PlacedJournal, options: SessionOptions) -> int:
    listed: Sequence[StoredSession]
    if options.limit is None:
        stored_ones = await stored_sessions(journal, SessionFilter(label=options.label))
        listed = sorted(stored_ones, key=lambda stored: (-stored.active, stored.session_id))
    else:
        listed = await journal.last_used(options.limit, label=options.label)
    if options.as_json:
        for stored in listed:
            print(json_line(_as_json(stored)))
        return DONE
    rows = [
        (
            name_in_chat(stored.session_id),
            condition(stored),
            date_and_time(stored.active),
            stored.about.title or UNTITLED,
        )
        for stored in listed
    ]
    for row in aligned(rows, WIDTH):
        print(row)
    tell("1 session" if len(rows) == 1 else f"{len(rows)} sessions")
    return DONE


def _as_json(stored: StoredSession) -> JsonObject:
    about = stored.about
    return {
        "session": stored.session_id,
        "condition": condition(stored),
        "title": about.title,
        "labels": sorted(about.labels),
        "tenant": about.tenant,
        "owner": about.owner,
        "records": stored.head,
        "created": about.created,
        "active": stored.active,
        "problem": stored.problem,
    }


async def _show(journal: Journal, options: SessionOptions) -> int:
    records = await stored_records(journal, options.words[0])
    state, count = state_after(records), len(records)
    usage, messages = state.usage, [*state.history][-options.messages :] if options.messages else []
    if options.as_json:
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
        return DONE
    model, cost = escaped(state.model), cost_text(usage)
    print(f"{escaped(state.session_id)}: {one_line(clean(state.title or UNTITLED))}")
    print(f"{state.phase.value}, model {model}, {usage.total_tokens} tokens, {cost}, {count} records")
    for message in messages:
        print(f"\n{escaped(_role(message))}:\n{clean(message.text)}".rstrip())
    return DONE


def _role(message: Message) -> str:
    match message:
        case AssistantMessage():
            return "assistant"
        case ToolMessage(name=name):
            return f"tool {name}"
        case _:
            return "user" if message.origin.value == "prompt" else message.origin.value


# Moving


async def _export(journal: Journal, options: SessionOptions) -> int:
    from agentrail.cli.unsealed_records import UnsealedRecords  # noqa: PLC0415 - imports what agents are made of

    session_id, file = options.words
    if (
        not options.is_sure
        and await trio.Path(file).exists()
        and not await _confirmed(f"{file} is there; overwrite it?", "overwritten")
    ):
        tell("nothing is exported")
        return FAILED
    count = await write_archive(UnsealedRecords(journal), session_id, file)
    tell(f"{session_id}: {count} records are in {file}")
    return DONE


async def _import(journal: PlacedJournal, options: SessionOptions) -> int:
    from agentrail.cli.session_import import import_file  # noqa: PLC0415 - imports what agents are made of

    for line in await import_file(journal, options.words[0], options.journal):
        tell(line)
    return DONE


async def _copy(journal: PlacedJournal, options: SessionOptions) -> int:
    from agentrail.cli.session_import import withdraw_allowed  # noqa: PLC0415 - imports what agents are made of
    from agentrail.cli.unsealed_records import UnsealedRecords  # noqa: PLC0415

    session_id, file = options.words
    first = await journal.read(session_id, 0, 1)
    if not first:
        raise SessionNotStored(session_id)
    check_differ(shown_place(journal), file)
    async with open_target(file) as other:
        await withdraw_allowed(other, first[0])
        copied = await SessionCopier(UnsealedRecords(journal), other, Clock().now_ms, CopyReport()).copy(session_id)
    if copied.problem:
        tell(f"agentrail: {session_id}: {copied.problem}")
        return FAILED
    if not copied.new:
        raise SessionExists(session_id)
    tell(f"{session_id}: {copied.records} records are in {without_password(file)}")
    return DONE


async def _fork(journal: PlacedJournal, options: SessionOptions) -> int:
    from agentrail.cli.session_fork import fork_session  # noqa: PLC0415 - imports everything that runs sessions

    name = await fork_session(journal, await stored_records(journal, options.words[0]), options.at)
    print(name)
    tell(f"{resume_command(name, options.journal)} goes on with it")
    return DONE


async def _delete(journal: Journal, options: SessionOptions) -> int:
    session_id = options.words[0]
    if not await journal.read(session_id, 0, 1):
        # another program may have read the file while it was deleted, so that its bytes are still there
        await journal.delete(session_id, _holder(), Clock().now_ms())
        raise SessionNotStored(session_id)
    if not options.is_sure and not await _confirmed(f"Delete {session_id} and its sub-agents for good?", "deleted"):
        tell("nothing is deleted")
        return FAILED
    count = await journal.delete(session_id, _holder(), Clock().now_ms())
    if not count:
        raise SessionNotStored(session_id)
    tell(f"{session_id} is deleted" if count == 1 else f"{session_id} and {count - 1} sub-agents are deleted")
    return DONE


async def _confirmed(question: str, action: str) -> bool:
    """Ask the person to confirm; return the answer. Raise `BadInputError` if there is no terminal."""
    if not sys.stdin.isatty():
        message = f"nobody can be asked whether it is to be {action}; `--yes` says so"
        raise BadInputError(message)
    answer = await trio.to_thread.run_sync(partial(input, f"{escaped(question)} [y/N] "), abandon_on_cancel=True)
    return answer.strip().lower() in {"y", "yes"}


def _holder() -> str:
    return f"agentrail sessions, process {os.getpid()}"


COMMANDS: Final[Mapping[str, Callable[[PlacedJournal, SessionOptions], Awaitable[int]]]] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "export": _export,
        "import": _import,
        "copy": _copy,
        "fork": _fork,
        "delete": _delete,
    }
)
"""The function of each command."""

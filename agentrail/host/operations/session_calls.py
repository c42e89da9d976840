"""Calls about the life of sessions (open, list, show, fork, delete), and the lists of all approvals and commands.

`TextSearch`: what people and models said in stored sessions: a bounded number of records for each request.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio
from attrs import frozen

from agentrail.api.bodies import (
    ChangeQuery,
    DeleteQuery,
    ForkBody,
    OpenBody,
    PageQuery,
    RewindBody,
    RewindQuery,
    SessionsQuery,
)
from agentrail.api.limits import page_of
from agentrail.api.public_ids import WHOLE_JOURNAL, SessionName, named, new_name, read_internal, visible
from agentrail.api.session_values import ChildView, HeldCall
from agentrail.api.views import (
    ApprovalsView,
    ChangeView,
    ChildShown,
    CommandsView,
    CommandView,
    ContextLayerView,
    ContextView,
    DetailView,
    ErasedView,
    HeldView,
    OpenedView,
    PassageView,
    RewindPreviewView,
    RewoundView,
    SessionsView,
    SessionView,
    StatusView,
    view,
)
from agentrail.app.supervisor import Supervisor
from agentrail.core.context_window import budget_of, layers_of, tokens_of
from agentrail.core.vocabulary.inputs import AnyInput, SessionBranched, SessionOpened
from agentrail.core.vocabulary.state import State
from agentrail.errors import (
    BadRecord,
    ScopeMissing,
    SessionBeingDeleted,
    SessionExists,
    SessionNotStored,
    SessionStored,
    UnknownApproval,
    UnknownSession,
    UsageError,
)
from agentrail.host.authentication.identity import Identity
from agentrail.host.hosted_sessions import ADMIN, HostedSessions, is_for_others, of_tenant
from agentrail.host.operations.call import Answer, OperationCall, running_session
from agentrail.host.plugins.plugin_runner import HostPluginRow, commands_for
from agentrail.host.uploads.session_files import SessionFiles
from agentrail.insight.text_comparison import difference_of
from agentrail.ports.journal import Journal, Record, SessionFilter, StoredSession
from agentrail.runtime.inbox.replies import held_calls
from agentrail.tools.builtin.file_changes import MOST_SHOWN, READ_WITHIN, TOO_SLOW, FileChange, Unseen, change_of
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import PromptReceived, SteeringReceived
from agentrail.values.events.response import ResponseComplete
from agentrail.values.json import JsonObject
from agentrail.values.newest import Newest

audit_log = logging.getLogger("agentrail.audit")

SESSION: Final = "session"
"""The kind of a session in the tree."""

EVERYBODY: Final = "*"
"""As the owner in a query: all users of the tenant."""


class SessionLifeCalls:
    """Carries out the calls about the life of sessions."""

    def __init__(
        self,
        sessions: HostedSessions,
        supervisor: Supervisor,
        files: SessionFiles,
        journal: Journal,
        when_erased: Sequence[Callable[[str], None]],
    ) -> None:
        """Make the calls; *when_erased* are called with the id of a session that is gone, or of which the texts are."""
        self._sessions = sessions
        self._files = files
        self._search = TextSearch(journal)
        self._when_erased = when_erased
        self._supervisor = supervisor

    async def open_session(self, call: OperationCall) -> Answer:
        """Open a new session."""
        body = call.body(OpenBody)
        name = _new(call, call.who.user, body.session)
        context = call.context("chat", name.visible, body.agent)
        exists: SessionExists | SessionStored | None = None
        try:
            await self._sessions.opened(call.who, context, name, body.title, body.labels, call.command)
        except (SessionExists, SessionStored) as error:
            exists = error
        if exists is not None:
            first = await self._first(call, name)
            about = (await self._sessions.stored(name)).about
            expected = (body.title, tuple(sorted(set(body.labels))), body.agent or about.spec)
            if not isinstance(first, SessionOpened) or (about.title, about.labels, about.spec) != expected:
                raise exists
        return _opened_answer(call, name)

    async def fork(self, call: OperationCall) -> Answer:
        """Open a new session with the past of another, which belongs to the same user."""
        body = call.body(ForkBody)
        origin = self._sessions.name(call.row, call.who, call.session)
        agent = (await self._sessions.stored(origin)).about.spec
        name = _new(call, origin.user, body.session)
        exists: SessionExists | SessionStored | None = None
        try:
            await self._sessions.forked(origin, agent, name, body.at, call.command)
        except (SessionExists, SessionStored) as error:
            exists = error
        if exists is not None:
            first = await self._first(call, name)
            if not isinstance(first, SessionBranched) or first.origin != origin.internal:
                raise exists
            if isinstance(body.at, int) and body.at != first.at:
                raise exists
        return _opened_answer(call, name)

    async def preview_rewind(self, call: OperationCall) -> Answer:
        """Say which files would come back, and which somebody else has changed since."""
        _, session = await running_session(self._sessions, call)
        return call.view_answer(view(RewindPreviewView, await session.preview_rewind(call.query(RewindQuery).since)))

    async def rewind(self, call: OperationCall) -> Answer:
        """Bring back files that the calls of a session have changed."""
        body = call.body(RewindBody)
        _, session = await running_session(self._sessions, call)
        rewound = await session.rewind(body.since, body.files, over_edits=body.over_edits, command=call.command)
        return call.view_answer(view(RewoundView, rewound))

    async def _first(self, call: OperationCall, name: SessionName) -> AnyInput | None:
        """Return the first input of the session *name* if this request, sent before, has opened it; else `None`."""
        if call.command is None:
            return None
        stored = await self._supervisor.answered(name.internal, call.command)
        return None if stored is None else stored.input

    async def list_sessions(self, call: OperationCall) -> Answer:
        """List the sessions of the user, or of others of the tenant."""
        query, who = call.query(SessionsQuery), call.who
        owner = who.user if query.owner is None else query.owner
        is_whole = who.tenant == WHOLE_JOURNAL and query.owner is None
        everybody = is_whole or query.owner == EVERYBODY  # a user may be called `*`, too
        if (everybody or owner != who.user) and not is_for_others(call.row, who):
            raise ScopeMissing(call.row.name, call.row.others or ADMIN)
        limit = page_of(query.limit)
        session_filter = of_tenant(who.tenant).but(
            owner=None if everybody else owner, label=query.label, ended=query.ended
        )
        after = None
        if query.after is not None:
            try:
                after = named(who.tenant, who.user, query.after)
            except UnknownSession:
                raise UsageError("bad-query", call.row.name, "its `after`", "is not the `next` of a page") from None
        if query.text is not None:
            return call.view_answer(await self._searched(query.text, session_filter, after, limit, who.tenant))
        sessions = await self._sessions.listed(session_filter, after, limit + 1)
        items = tuple([_session_view(session, who.tenant) for session in sessions[:limit]])
        return call.view_answer(SessionsView(items, items[-1].session if len(sessions) > limit else None))

    async def _searched(
        self, text: str, session_filter: SessionFilter, after: SessionName | None, limit: int, tenant: str
    ) -> SessionsView:
        sessions = await self._sessions.listed(session_filter, after, MOST_SESSIONS + 1)
        searched = await self._search.search(sessions, text, limit)
        items = tuple([_session_view(session, tenant, passage) for session, passage in searched.hits])
        is_over = searched.count == len(sessions)
        return SessionsView(items, None if is_over else _session_view(sessions[searched.count - 1], tenant).session)

    async def show_session(self, call: OperationCall) -> Answer:
        """Show a session with what it does; it is neither started nor woken for that."""
        name = self._sessions.name(call.row, call.who, call.session)
        listed = _session_view(await self._sessions.stored(name), name.tenant)
        handle = self._sessions.here(name)
        state = None if handle is None else await self._sessions.state(name)
        return call.view_answer(
            DetailView(
                *[getattr(listed, field) for field in SessionView.__struct_fields__],
                status=None if handle is None else view(StatusView, handle.status(), handle.id),
                tools=() if state is None else tuple(sorted(state.tools)),
                plugins=() if state is None else tuple([attached.key for attached in state.plugins]),
                allowed=() if state is None else state.standing_approvals,
                context=None if state is None else _context_view(state),
            )
        )

    async def tree(self, call: OperationCall) -> Answer:
        """Show the sessions of the tenant that run here, with their sub-agents."""
        await trio.lowlevel.checkpoint()
        return call.view_answer(view(ChildShown, _only(self._supervisor.tree(), call.who.tenant)))

    async def delete_session(self, call: OperationCall) -> Answer:
        """Erase a session, or blot out its texts; its uploaded files are erased in both cases."""
        query = call.query(DeleteQuery)
        if not query.redact and (query.first is not None or query.last is not None):
            raise UsageError(
                "bad-query",
                call.row.name,
                "its `first` or `last`",
                "says which texts are blotted out: give `redact`",
            )
        name = self._sessions.name(call.row, call.who, call.session)
        agent = (await self._sessions.stored(name)).about.spec
        sandbox = await self._sessions.storage_to_erase(name, agent)
        await self._sessions.parted(name)
        records = None
        async with self._files.closed(name):
            if query.redact:  # files last: if the redaction is refused because a turn is open, they stay
                records = await self._supervisor.redact(name.internal, query.first or 1, query.last, by=call.who.user)
                await self._files.erase(name, sandbox)
            # files first: if their deletion fails or the process ends, the session still exists, and can be deleted
            # again
            else:
                erase = partial(self._files.erase, name, sandbox)
                await self._supervisor.delete(name.internal, first=erase)
            for forget in self._when_erased:
                forget(name.internal)
        # Logged, as nothing is left of a deleted session, and a redaction is noted in the session's own records alone.
        outcome = "deleted" if records is None else f"redacted ({records} records)"
        audit_log.info("the session `%s` was %s by `%s`", name.internal, outcome, call.who.user)
        return call.view_answer(ErasedView(name.visible, records))


def _context_view(state: State) -> ContextView:
    budget = budget_of(state)
    layers = [ContextLayerView(name, tokens) for name, tokens in layers_of(state).items() if tokens]
    return ContextView(budget.window, budget.is_assumed, budget.trigger, tokens_of(state), tuple(layers))


def _new(call: OperationCall, user: str, name: str | None) -> SessionName:
    return new_name(call.who.tenant, user, name or call.made_name)


def _opened_answer(call: OperationCall, name: SessionName) -> Answer:
    headers = (("location", f"/v1/sessions/{name.visible}"),)
    return call.view_answer(OpenedView(name.visible), headers=headers)


def _session_view(stored: StoredSession, tenant: str, passage: PassageView | None = None) -> SessionView:
    about = stored.about
    return SessionView(
        session=stored.session_id if tenant == WHOLE_JOURNAL else visible(stored.session_id),
        owner=about.owner,
        agent=about.spec,
        title=about.title,
        labels=tuple(sorted(about.labels)),
        created=about.created,
        active=stored.active,
        at_work=stored.at_work,
        ended=stored.ended,
        records=stored.head,
        due=stored.due,
        problem=stored.problem,
        passage=passage,
    )


def _only(child: ChildView, tenant: str) -> ChildView:
    """Return *child* with only the sessions of *tenant* in it, and everything under those sessions."""
    children = [below if below.kind == SESSION else _only(below, tenant) for below in child.children]
    return child.but(
        children=tuple([below for below in children if below.kind != SESSION or _is_of(below.name, tenant)])
    )


def _is_of(session_id: str, tenant: str) -> bool:
    owned = read_internal(session_id)
    return owned is not None and owned.tenant == tenant


APPROVAL: Final = "approval"
"""The kind of a held call that is to be approved or rejected; a question is answered."""

TENANTS: Final = 200
"""Of how many tenants it is kept what waits in their sessions that do not run; of others it is read again."""

SEPARATOR: Final = "~"
"""Stands in a cursor between since when something waits, and its id."""


class ListingCalls:
    """Carries out the calls that list commands, and calls that wait, of all sessions of a tenant."""

    def __init__(
        self, rows: HostPluginRow, sessions: HostedSessions, supervisor: Supervisor, *, four_eyes: bool
    ) -> None:
        self._rows = rows
        self._sessions = sessions
        self._supervisor = supervisor
        self._four_eyes = four_eyes
        # by tenant, then by session
        self._read = Newest[str, dict[str, tuple[int, tuple[HeldCall, ...]]]](TENANTS)

    async def commands(self, call: OperationCall) -> Answer:
        """List the commands of host plugins."""
        await trio.lowlevel.checkpoint()
        commands_ = await commands_for(self._rows, call.who)
        return call.view_answer(CommandsView(tuple([view(CommandView, command) for command in commands_])))

    async def approvals(self, call: OperationCall) -> Answer:
        """List the held calls and questions of the tenant that the caller may decide about, oldest first."""
        query = call.query(PageQuery)
        limit = page_of(query.limit)
        after = (0, "") if query.after is None else _page_start(call, query.after)
        decidable = [
            held_call for held_call in await self._waiting(call.who.tenant) if self._may_decide(call.who, held_call)
        ]
        rest = sorted([held_call for held_call in decidable if _cursor(held_call) > after], key=_cursor)
        last = _cursor(rest[limit - 1]) if len(rest) > limit else None
        following = None if last is None else f"{last[0]}{SEPARATOR}{last[1]}"
        return call.view_answer(ApprovalsView(tuple(rest[:limit]), following))

    async def change(self, call: OperationCall) -> Answer:
        """Show what a held call would change in a file; of a sub-agent's, what its arguments say of a text."""
        approval = call.query(ChangeQuery).approval
        name = self._sessions.name(call.row, call.who, call.session)
        calls_by_id = {visible(call_.id): call_ for call_ in held_calls(await self._sessions.state(name))}
        if approval not in calls_by_id:
            raise UnknownApproval.among(approval, calls_by_id)
        held_call = calls_by_id[approval]
        change: FileChange | Unseen | None = None
        if held_call.kind == APPROVAL and not held_call.path:
            change = TOO_SLOW
            with trio.move_on_after(READ_WITHIN):
                change = await change_of(await self._sessions.folder(name), held_call.tool, held_call.args)
        return call.view_answer(await trio.to_thread.run_sync(_change_view, held_call.args, change))

    def _may_decide(self, who: Identity, call: HeldView) -> bool:
        """Whether *who*, who has the scope to decide, may decide about *call*: with four eyes, not about an own one."""
        return not (self._four_eyes and call.kind == APPROVAL and who.user in call.asked_by)

    async def _waiting(self, tenant: str) -> list[HeldView]:
        """Return the calls and questions that wait in the sessions of *tenant*, without starting or waking one."""
        stored = await self._sessions.listed(SessionFilter(tenant=tenant, ended=False))
        last_read = self._read.get(tenant, {})
        now = dict[str, tuple[int, tuple[HeldCall, ...]]]()
        views: list[HeldView] = []
        for session in stored:
            name = read_internal(session.session_id)
            handle = None if name is None else self._sessions.here(name)
            if handle is not None:
                calls = handle.status().held
            else:
                last = last_read.get(session.session_id)
                calls = last[1] if last is not None and last[0] == session.head else await self._stored_calls(session)
                now[session.session_id] = session.head, calls
            views += [view(HeldView, call, session.session_id) for call in calls]
        self._keep(tenant, now)
        return views

    def _keep(self, tenant: str, now: dict[str, tuple[int, tuple[HeldCall, ...]]]) -> None:
        """Cache the held calls read for *tenant*; the cache has the last `TENANTS` tenants."""
        if now:
            self._read[tenant] = now
        else:
            self._read.pop(tenant, None)

    async def _stored_calls(self, stored: StoredSession) -> tuple[HeldCall, ...]:
        """Return the held calls of a session that does not run here, from its records; none if they cannot be read."""
        if stored.problem:
            return ()
        try:
            return held_calls(await self._supervisor.state(stored.session_id))
        except (BadRecord, SessionBeingDeleted, SessionNotStored):
            return ()


def _change_view(args: JsonObject, change: FileChange | Unseen | None) -> ChangeView:
    """Return the view of a *change*; without one, of the text that *args* replace, wherever it stands."""
    if isinstance(change, FileChange):
        old, new = change.old_text or "", change.new_text
        return ChangeView(change.path, old, new, None, difference_of(old, new))
    old_text, new_text = args.get("old_text"), args.get("new_text")
    if isinstance(old_text, str) and isinstance(new_text, str) and len(old_text) + len(new_text) <= MOST_SHOWN:
        return ChangeView(None, "", "", change, difference_of(old_text, new_text, around=len(old_text)))
    return ChangeView(None, "", "", change, None)


def _cursor(call: HeldView) -> tuple[int, str]:
    return call.since, call.id


def _page_start(call: OperationCall, after: str) -> tuple[int, str]:
    """Parse the cursor *after* of a list; raise `UsageError` if it is not valid."""
    since, separator, approval_id = after.partition(SEPARATOR)
    if not (separator and since.isascii() and since.isdigit()):
        raise UsageError("bad-query", call.row.name, "its `after`", "is not the `next` of a page")
    return int(since), approval_id


MOST_SESSIONS: Final = 200
"""In how many sessions a request searches."""

MOST_RECORDS: Final = 5_000
"""After how many records a request begins no further session; of a longer session, the last ones are searched."""

AT_ONCE: Final = 200
"""How many records are read at once."""

BEFORE: Final = 60
"""How many characters before the text a passage has, at most."""

AFTER: Final = 120
"""How many characters from the beginning of the text on a passage has, at most."""


@frozen
class Searched:
    """What a search has found, and how far it has come."""

    hits: tuple[tuple[StoredSession, PassageView | None], ...]
    """Sessions that have the text, each with its first passage; and those that cannot be read, without one."""
    count: int
    """In how many of the sessions it has searched."""


class TextSearch:
    """Searches in the records of sessions: the journal reads them, and a worker thread compares their texts."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._workers = trio.CapacityLimiter(1)  # so that the event loop has time beside it

    async def search(self, sessions: Sequence[StoredSession], text: str, most: int) -> Searched:
        """Search for *text* in *sessions*, in their order, until *most* have it or enough records were read."""
        pattern = re.compile(re.escape(text), re.IGNORECASE)
        hits: list[tuple[StoredSession, PassageView | None]] = []
        records = count = 0
        for session in sessions[:MOST_SESSIONS]:
            if len(hits) == most or records >= MOST_RECORDS:
                break
            count += 1
            records += min(session.head, MOST_RECORDS)
            try:
                passage = await self._first_passage(session, pattern)
            except BadRecord as error:
                hits.append((session.but(problem=str(error)), None))
                continue
            except SessionBeingDeleted:
                continue
            if passage is not None:
                hits.append((session, passage))
        return Searched(tuple(hits), count)

    async def _first_passage(self, session: StoredSession, pattern: re.Pattern[str]) -> PassageView | None:
        after = max(0, session.head - MOST_RECORDS)
        while records := await self._journal.read(session.session_id, after, AT_ONCE):
            work = partial(_passage, records, pattern)
            passage = await trio.to_thread.run_sync(work, limiter=self._workers, abandon_on_cancel=True)
            if passage is not None:
                return passage
            after = records[-1].number
        return None


def _passage(records: Sequence[Record], pattern: re.Pattern[str]) -> PassageView | None:
    """Return the first passage that *pattern* finds in what was said in *records*."""
    for record in records:
        for envelope in record.events:
            words = _words_of(envelope.event)
            match = pattern.search(words)
            if match is not None:
                first, end = max(0, match.start() - BEFORE), match.start() + AFTER
                return PassageView(envelope.seq, envelope.at, words[first:end])
    return None


def _words_of(event: Event) -> str:
    """Return what a person or the model has said, if *event* tells that."""
    match event:
        case PromptReceived() | SteeringReceived():
            return event.text
        case ResponseComplete():
            return event.message.text
        case _:
            return ""

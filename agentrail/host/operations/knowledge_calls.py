"""`KnowledgeCalls`: the documents of a tenant that agents look up, in stores: list, show, put, delete, search.

A store is a file of one tenant: whatever it is called, no request opens that of another one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakValueDictionary

import trio

from agentrail.api.bodies import (
    CitedQuery,
    DocumentQuery,
    DocumentsQuery,
    DocumentTextQuery,
    SearchQuery,
    StoreQuery,
)
from agentrail.api.limits import MOST_PAGE, page_of
from agentrail.api.views import (
    CitationView,
    CitedView,
    DocumentsView,
    DocumentTextView,
    DocumentView,
    FoundView,
    SearchView,
    StoresView,
    StoreView,
    view,
)
from agentrail.errors import RefusedError, TransientModelError, UsageError, WrongType
from agentrail.errors.agentrail_error import cut
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall, Upload
from agentrail.host.uploads.session_files import HEAD, claimed_media, media_of
from agentrail.lazy import LazyModule
from agentrail.values.messages import AssistantMessage, Message

if TYPE_CHECKING:
    from agentrail import knowledge
    from agentrail.knowledge import Knowledge, KnowledgeFolder
else:  # most hosts have none
    knowledge = LazyModule("agentrail.knowledge")

audit_log = logging.getLogger("agentrail.audit")

SEARCH_SECONDS: Final = 30.0
"""The most seconds that a search may take: an embedder may be far away."""

PUT_SECONDS: Final = 600.0
"""The most seconds that it may take to put a document into its store, once its content is here."""

MOST_FOUND: Final = 50
"""The most passages of one search."""

PART: Final = 100_000
"""The most characters of a document that are sent at once."""

MOST_CHARS: Final = 2_000_000
"""In how many characters of answers, the last ones of a session, citations are looked for."""

MOST_CITATIONS: Final = 200
"""The most citations of a session that are told."""

T = TypeVar("T")


def check_knowledge(folder: object) -> None:
    """Raise an error unless *folder* is a `KnowledgeFolder`, or `None`."""
    if folder is not None and not isinstance(folder, knowledge.KnowledgeFolder):
        raise WrongType.of("knowledge", folder, "a `KnowledgeFolder`, or None")


@asynccontextmanager
async def closed_after(folder: KnowledgeFolder | None) -> AsyncGenerator[None]:
    """Close the stores of *folder* when the `async with` is left; whoever uses one later opens it again."""
    try:
        yield
    finally:
        if folder is not None:
            await folder.aclose()  # noqa: ASYNC102 - it is shielded


class KnowledgeCalls:
    """Carries out the calls about knowledge; *folder* is where the stores are, `None` if the host keeps none."""

    def __init__(self, sessions: HostedSessions, folder: KnowledgeFolder | None) -> None:
        self._sessions = sessions
        self._folder = folder
        self._writing = WeakValueDictionary[str, trio.Lock]()
        """Locks of tenants that put documents, one at a time as they are in memory, or erase stores."""

    async def stores(self, call: OperationCall) -> Answer:
        """List the stores of the tenant."""
        if self._folder is None:
            await trio.lowlevel.checkpoint()
            return call.view_answer(StoresView((), is_on=False))
        names = (await self._folder.stores(call.who.tenant))[:MOST_PAGE]
        return call.view_answer(StoresView(tuple([StoreView(name) for name in names]), is_on=True))

    async def documents(self, call: OperationCall) -> Answer:
        """List the documents of a store."""
        query = call.query(DocumentsQuery)
        store = await self._existing_store(call, query.store)
        limit = min(page_of(query.limit), MOST_PAGE - 1)  # one more tells whether there is a next page
        documents = await store.documents(query.after or "", limit + 1)
        items = tuple([view(DocumentView, document) for document in documents[:limit]])
        following = items[-1].name if len(documents) > limit else None
        return call.view_answer(DocumentsView(items, following, await store.count()))

    async def document(self, call: OperationCall) -> Answer:
        """Show a part of a document."""
        query = call.query(DocumentTextQuery)
        store = await self._existing_store(call, query.store)
        document = await store.document(query.name)
        start = min(query.start, document.chars)
        most = start + PART
        end = most if query.end is None else max(start, min(query.end, most))
        text = await store.text(query.name, start, end)
        return call.view_answer(DocumentTextView(view(DocumentView, document), start, text))

    async def put_document(self, call: OperationCall) -> Answer:
        """Put the body into a store as a document, in place of the one that has its name."""
        query, upload = call.query(DocumentQuery), call.body(Upload)
        media = claimed_media(upload.media_type)
        store = self._store(call, query.store)
        async with self._alone(call.who.tenant):
            await self._check_room(call, store, query)
            content = await upload.content.read(call.limits.file_bytes)
            media_of(media, content[:HEAD])
            work = partial(store.add, query.name, content)
            await _within(PUT_SECONDS, f"put the document into the store `{cut(query.store)}`", work)
            await store.erase()  # nothing is left of the document that it replaces
        _audit(call, f"the document {query.name!r} was put into the store `{query.store}`")
        return call.view_answer(view(DocumentView, await store.document(query.name)))

    async def delete_document(self, call: OperationCall) -> Answer:
        """Delete a document, with its words and vectors."""
        query = call.query(DocumentQuery)
        store = await self._existing_store(call, query.store)
        if not await store.remove(query.name):
            raise UsageError("unknown-document", cut(query.name))
        _audit(call, f"the document {query.name!r} was deleted from the store `{query.store}`")
        return call.empty_answer()

    async def erase_store(self, call: OperationCall) -> Answer:
        """Erase a store with all that is in it."""
        query = call.query(StoreQuery)
        store = await self._existing_store(call, query.store)
        async with self._alone(call.who.tenant):  # else what is put meanwhile would be lost with the file
            await store.delete()
        _audit(call, f"the store `{query.store}` was erased")
        return call.empty_answer()

    async def search(self, call: OperationCall) -> Answer:
        """Search a store as an agent does."""
        query = call.query(SearchQuery)
        store = await self._existing_store(call, query.store)
        limit = min(query.limit or MOST_FOUND // 5, MOST_FOUND)
        work = partial(store.search, query.query, limit)
        passages = await _within(SEARCH_SECONDS, f"search the store `{cut(query.store)}`", work)
        return call.view_answer(SearchView(tuple([view(FoundView, passage) for passage in passages])))

    async def cited(self, call: OperationCall) -> Answer:
        """List the passages of a store that the last answers of a session cite."""
        query = call.query(CitedQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        history = (await self._sessions.state(name)).history
        store = await self._existing_store(call, query.store)
        citations, is_cut = await trio.to_thread.run_sync(_citations, history)
        items = [await _citation_view(store, number, citation) for citation, number in citations.items()]
        return call.view_answer(CitedView(tuple(items), is_cut))

    def _store(self, call: OperationCall, name: str) -> Knowledge:
        """Return the store of the tenant with a *name*, whether or not it is there."""
        if self._folder is None:
            raise UsageError("no-knowledge")
        return self._folder.store(name, call.who.tenant)

    async def _existing_store(self, call: OperationCall, name: str) -> Knowledge:
        """Return the store of the tenant with a *name*; raise `UsageError` if there is none."""
        store = self._store(call, name)
        if not await store.exists():
            raise UsageError("unknown-store", cut(name))
        return store

    @asynccontextmanager
    async def _alone(self, tenant: str) -> AsyncGenerator[None]:
        """Wait until no document of *tenant* is put, and none of its stores is erased."""
        lock = self._writing.setdefault(tenant, trio.Lock())
        async with lock:
            yield

    async def _check_room(self, call: OperationCall, store: Knowledge, query: DocumentQuery) -> None:
        """Raise an error if the tenant may have no further store, or the store no further document."""
        limits = call.limits
        if not await store.exists():
            if self._folder is not None and len(await self._folder.stores(call.who.tenant)) >= limits.stores:
                raise RefusedError("too-many-stores", limits.stores)
            return
        size = await trio.to_thread.run_sync(_size, store.path)
        if size >= limits.store_bytes:
            raise RefusedError("store-full", size, limits.store_bytes)
        if await store.count() >= limits.documents and not await _has(store, query.name):
            raise UsageError("too-many-documents", limits.documents)


def _size(path: Path) -> int:
    """Return how many bytes the file of a store takes, with its log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


async def _has(store: Knowledge, name: str) -> bool:
    """Whether *store* has a document with this *name*."""
    try:
        await store.document(name)
    except UsageError as error:
        if error.code != "unknown-document":
            raise
        return False
    return True


async def _within(seconds: float, attempt: str, work: Callable[[], Awaitable[T]]) -> T:
    """Return what *work* returns; raise `TransientModelError` if it takes longer than *seconds*."""
    with trio.move_on_after(seconds):
        return await work()
    problem = f"cannot {attempt} within {seconds:g} s: the embedder does not answer"
    raise TransientModelError(problem)


def _audit(call: OperationCall, change: str) -> None:
    """Log a *change* of what a tenant knows: nothing is left of what was deleted that could tell."""
    who = call.who
    audit_log.info("%s by `%s` of `%s`", change, who.user, who.tenant)


def _citations(history: Sequence[Message]) -> tuple[Mapping[str, int], bool]:
    """Return the citations in the answers of *history*, those of the last ones first, and whether there may be more.

    Each has the number of the last message that has it.
    """
    citations: dict[str, int] = {}
    chars = 0
    for number in range(len(history) - 1, -1, -1):
        message = history[number]
        if not isinstance(message, AssistantMessage):
            continue
        text = message.text
        chars += len(text)
        if chars > MOST_CHARS:
            return citations, True
        for citation in knowledge.citations_in(text):
            if len(citations) == MOST_CITATIONS and citation not in citations:
                return citations, True
            citations.setdefault(citation, number)
    return citations, False


async def _citation_view(store: Knowledge, message: int, citation: str) -> CitationView:
    document = citation.rpartition("#")[0]
    try:
        passage = await store.passage(citation)
    except UsageError:  # the store does not have it any more, or never had it
        return CitationView(citation, message, document, None, None)
    return CitationView(citation, message, passage.document, passage.start, passage.end)

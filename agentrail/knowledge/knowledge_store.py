"""`Knowledge`: a store of documents in one file, searched by words and by meaning."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias, cast

import trio
import trio.abc
from typing_extensions import TypeIs

from agentrail.adapters.extras import need_extra
from agentrail.errors import OutsideError, UsageError, WrongType
from agentrail.knowledge.chunks import Chunk, chunks_of
from agentrail.knowledge.document import Document
from agentrail.knowledge.embedder import ClosableEmbedder, Embedder
from agentrail.knowledge.found import Found
from agentrail.knowledge.store_file import NewDocument, StoreFile
from agentrail.knowledge.store_names import check_document_name
from agentrail.knowledge.vectors import MAX_DIMENSIONS, packed
from agentrail.knowledge.words import MAX_QUERY
from agentrail.ports.protocol_members import has_members
from agentrail.values.argument_checks import checked
from agentrail.values.data_blocks import data_block

Convert: TypeAlias = Callable[[str, bytes], str | None]
"""Returns the text of a document, given its name and its bytes; `None` if the bytes are a text in UTF-8. It blocks."""

NamedEmbedder: TypeAlias = Embedder | str | tuple[str, Mapping[str, object]]
"""An embedder, or its name, such as `openai:text-embedding-3-small`, also in a pair with options of its provider."""

MAX_CHARS: Final = 64 * 1024 * 1024
"""The most characters of a document, and the most bytes."""

MAX_CHUNKS: Final = 200_000
"""The most passages of a document: more than `MAX_CHARS` without headings have, but each heading begins another one."""

MAX_TEXT: Final = 100_000
"""The most characters that `Knowledge.text` returns at once."""

MAX_PASSAGES: Final = 50
"""The most passages that a search or a reading returns."""

MAX_LISTED: Final = 1_000
"""The most documents that `Knowledge.documents` returns at once."""

IN_OVERVIEW: Final = 50
"""The most documents of which `Knowledge.overview` lists the names."""

BATCH: Final = 64
"""The most texts that an embedder gets at once."""

NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class Knowledge(trio.abc.AsyncResource):
    """Documents in the SQLite file *path*, which models search and cite.

    *embedder* makes vectors of passages, so that a search finds what means alike; without one, words alone are
    compared. Passages of less than *min_similarity*, the cosine of their vector with that of the query, are not found
    by meaning. *convert* makes texts of documents that are no text, such as PDFs.

    Several processes may use the file. It is made at the first `add`; use the object in one Trio run, and close it.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: NamedEmbedder | None = None,
        convert: Convert | None = None,
        min_similarity: float = 0.2,
    ) -> None:
        self._set_up(checked_path(path), NOBODY, made_embedder(embedder), convert, min_similarity)

    def _set_up(
        self,
        path: Path,
        identity: Mapping[str, str],
        embedder: Embedder | None,
        convert: Convert | None,
        min_similarity: float,
    ) -> None:
        self.path = path
        """Path of the file."""
        self._embedder = embedder
        self._convert = convert
        self._min_similarity = checked_similarity(min_similarity)
        self._file = StoreFile(self.path, identity, "" if embedder is None else embedder.name)

    def __repr__(self) -> str:
        return f"<Knowledge {str(self.path)!r}>"

    async def aclose(self) -> None:
        """Close the file, and the connections of the embedder; the next use opens them again."""
        # Else a cancelled session leaves the file open, and its log beside it:
        # tests/knowledge/test_knowledge.py::test_a_cancelled_block_closes_the_file
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._file.close)
            if has_members(self._embedder, ClosableEmbedder):
                await self._embedder.aclose()

    async def exists(self) -> bool:
        """Return whether the store was made: whether `add` was ever called, and `delete` not since."""
        return await trio.to_thread.run_sync(self._file.exists)

    @checked
    async def add(self, name: str, text: str | bytes) -> int:
        """Add a document, in place of the one of this *name*, and return how many passages it was cut into.

        Bytes are UTF-8, unless `convert` makes a text of them. No-op if the document has this text: the result is 0.
        If this fails or is cancelled, the old document is whole.
        """
        check_document_name(name)
        plain, digest = await self._text_of(name, text)
        if await trio.to_thread.run_sync(self._file.has_text, name, digest):
            return 0
        self._check_numpy()
        new = await self._embedded(name, plain, digest)
        await trio.to_thread.run_sync(self._file.replace, new, trio.from_thread.check_cancelled)
        return len(new.chunks)

    @checked
    async def remove(self, *names: str) -> tuple[str, ...]:
        """Remove the documents *names*, leave nothing of them in the file, and return those that there were."""
        removed = await trio.to_thread.run_sync(self._file.remove, [*map(_encodable, names)])
        await self.erase()
        return removed

    async def erase(self) -> None:
        """Leave no word and no vector of removed and replaced documents in the file, nor in its log.

        `remove` does so; after an `add` that replaces, fails or is cancelled, call it. No-op if there is nothing.
        """
        await trio.to_thread.run_sync(self._file.erase)

    async def delete(self) -> None:
        """Remove all documents, and delete the file, unless another process has it open: then it stays, empty."""
        await trio.to_thread.run_sync(self._file.clear)
        await self.erase()
        await trio.to_thread.run_sync(self._file.unlink)

    @checked
    async def documents(self, after: str = "", limit: int = 100) -> tuple[Document, ...]:
        """Return the first *limit* documents, of at most 1,000, whose names come after *after*, in their order."""
        _check_range("limit", limit, 1, MAX_LISTED)
        return await trio.to_thread.run_sync(self._file.documents, _encodable(after), limit)

    async def count(self) -> int:
        """Return how many documents there are."""
        return await trio.to_thread.run_sync(self._file.count)

    @checked
    async def document(self, name: str) -> Document:
        """Return what there is to say of the document *name*; raise `UsageError` if there is none."""
        document = await trio.to_thread.run_sync(self._file.document, _encodable(name))
        if document is None:
            raise UsageError("unknown-document", name[:MAX_TEXT])
        return document

    @checked
    async def search(self, query: str, limit: int = 8) -> tuple[Found, ...]:
        """Return the *limit* passages, of at most 50, that fit *query* best; none if nothing fits.

        Of a query, the first 10,000 characters count. It is never syntax: all its words are looked for, except those
        that nearly a third of the passages have.
        """
        _check_range("limit", limit, 1, MAX_PASSAGES)
        query = _encodable(query)
        vector = b""
        has_vectors = await trio.to_thread.run_sync(self._file.check_search)
        if has_vectors and query.strip():
            self._check_numpy()
            (vector,) = await self._vectors([query], is_query=True)
        try:
            return await trio.to_thread.run_sync(self._file.search, query, vector, limit, self._min_similarity)
        except ValueError as error:
            raise self._bad_embedding(str(error)) from None

    @checked
    async def read(self, document: str, first: int = 0, limit: int = 8) -> tuple[Found, ...]:
        """Return at most *limit* passages of *document*, from number *first* on; raise `UsageError` if unknown."""
        _check_range("first", first, 0, MAX_CHARS)
        _check_range("limit", limit, 1, MAX_PASSAGES)
        passages = await trio.to_thread.run_sync(self._file.read, _encodable(document), first, limit)
        if not passages:
            await self.document(document)
        return passages

    @checked
    async def passage(self, citation: str) -> Found:
        """Return the passage that *citation* names, such as `handbook.md#3`; raise `UsageError` if there is none."""
        name, _, number = citation.rpartition("#")
        is_number = number.isascii() and number.isdecimal() and len(number) < len(str(MAX_CHARS)) + 1
        if is_number:
            passages = await trio.to_thread.run_sync(self._file.read, _encodable(name), int(number), 1)
            if passages and passages[0].citation == citation:
                return passages[0]
        raise UsageError("unknown-passage", citation[:MAX_TEXT])

    @checked
    async def text(self, document: str, start: int = 0, end: int | None = None) -> str:
        """Return the characters of *document* from *start* to *end*, 100,000 at most; raise `UsageError` if unknown."""
        _check_range("start", start, 0, MAX_CHARS)
        _check_range("end", MAX_CHARS if end is None else end, 0, MAX_CHARS)
        past = start + MAX_TEXT if end is None else min(end, start + MAX_TEXT)
        text = await trio.to_thread.run_sync(self._file.text, _encodable(document), start, past)
        if not text:
            await self.document(document)
        return text

    async def overview(self) -> str:
        """Return a section for the system prompt: the names of the documents, if there are few, and how to cite."""
        documents = await self.documents(limit=IN_OVERVIEW + 1)
        if not documents:
            return "There are no documents to search."
        if len(documents) > IN_OVERVIEW:
            names = f"There are {await self.count()} documents."
        else:
            names = data_block("documents", "\n".join(f"- {document.name}" for document in documents))
        return f"{names}\n{HOW}"

    async def rebuild(self) -> int:
        """Cut all documents anew, make their vectors by the embedder of this object, and return how many there are.

        Until all is done, the store is as it was.
        """
        self._check_numpy()
        documents: list[NewDocument] = []
        after = ""
        while rows := await self.documents(after, MAX_LISTED):
            for row in rows:
                whole = await trio.to_thread.run_sync(self._file.text, row.name, 0, MAX_CHARS + 1)
                documents.append(await self._embedded(row.name, whole, row.digest))
            after = rows[-1].name
        if documents:
            await trio.to_thread.run_sync(self._file.replace_all, documents, trio.from_thread.check_cancelled)
            await self.erase()
        return len(documents)

    async def _text_of(self, name: str, text: str | bytes) -> tuple[str, str]:
        """Return the text of a document, and the SHA-256 of it."""
        if len(text) > MAX_CHARS:
            raise UsageError("document-too-large", name, f"{MAX_CHARS:,} characters")
        plain = text if isinstance(text, str) else await trio.to_thread.run_sync(self._converted, name, text)
        if len(plain) > MAX_CHARS:
            raise UsageError("document-too-large", name, f"{MAX_CHARS:,} characters")
        try:
            return plain, await trio.to_thread.run_sync(_digest, plain)
        except UnicodeEncodeError as error:
            problem = f"its character {error.start} is half of a pair"
            raise UsageError("document-unreadable", name, problem) from None

    def _converted(self, name: str, data: bytes) -> str:
        converted: object = None
        if self._convert is not None:
            try:
                converted = self._convert(name, data)
            except Exception as error:
                problem = f"`convert` raised {type(error).__name__}"
                raise UsageError("document-unreadable", name, problem) from error
        if isinstance(converted, str):
            return converted
        if converted is not None:
            problem = f"`convert` returned a `{type(converted).__name__}`, and no text"
            raise UsageError("document-unreadable", name, problem)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            problem = f"its byte {error.start} is no UTF-8; `convert` can make a text of it"
            raise UsageError("document-unreadable", name, problem) from None
        if "\0" in text:
            raise UsageError("document-unreadable", name, "it has a NUL, as no text has; `convert` can make one of it")
        return text

    async def _embedded(self, name: str, text: str, digest: str) -> NewDocument:
        """Return the document with its chunks and their vectors."""
        chunks = await trio.to_thread.run_sync(_chunks, text)
        if len(chunks) > MAX_CHUNKS:
            raise UsageError("document-too-large", name, f"{MAX_CHUNKS:,} passages")
        vectors: list[bytes] = []
        if self._embedder is not None:
            for start in range(0, len(chunks), BATCH):
                batch = chunks[start : start + BATCH]
                texts = [f"{chunk.heading}\n{text[chunk.start : chunk.end]}".strip() for chunk in batch]
                vectors += await self._vectors(texts)
        if len({len(vector) for vector in vectors}) > 1:
            raise self._bad_embedding("its vectors have several lengths")
        return NewDocument(name, text, digest, chunks, vectors)

    async def _vectors(self, texts: Sequence[str], *, is_query: bool = False) -> list[bytes]:
        """Return a vector for each of *texts*; raise `OutsideError` if the embedder returns none for one."""
        if self._embedder is None:
            return []
        answering = cast("object", self._embedder.embed(texts, is_query=is_query))
        if not isinstance(answering, Awaitable):
            raise self._bad_embedding("its `embed` returns nothing to wait for; make it an `async def`")
        answer = await cast("Awaitable[object]", answering)
        try:
            return await trio.to_thread.run_sync(_packed, answer, len(texts))
        except (TypeError, ValueError, OverflowError) as error:
            raise self._bad_embedding(str(error)) from None

    def _bad_embedding(self, problem: str) -> OutsideError:
        return OutsideError("bad-embedding", "" if self._embedder is None else self._embedder.name, problem)

    def _check_numpy(self) -> None:
        if self._embedder is not None:
            need_extra("knowledge", "numpy", "search by meaning")


HOW: Final = (
    "Search them by `knowledge_search` before you answer. Cite each fact by the mark of its passage, in double "
    "brackets, such as [[handbook.md#3]]."
)
"""How the model uses the documents."""


def made_embedder(embedder: NamedEmbedder | None) -> Embedder | None:
    """Return *embedder*, made if it was named; raise an error if it is none."""
    if embedder is None or _is_embedder(embedder):
        return embedder
    from agentrail.models import open_embedder  # noqa: PLC0415 - it brings the client of HTTP

    match embedder:
        case str(name):
            return open_embedder(name)
        case (str(name), Mapping() as options):
            return open_embedder(name, options)
        case _:
            raise WrongType.of("embedder", embedder, "an `Embedder`, its name, or a pair of its name and options")


def _is_embedder(value: object) -> TypeIs[Embedder]:
    try:
        if isinstance(value, type) or not has_members(value, Embedder):
            return False
        return isinstance(getattr(value, "name", None), str)
    except Exception as error:
        raise UsageError("argument-raised", type(value).__name__, "embedder", type(error).__name__) from error


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the whole *path*, with its links; raise an error if no file can have it."""
    try:
        is_path = isinstance(cast("object", os.fspath(path)), str) and b"\0" not in os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        is_path = False
    if not is_path:
        raise WrongType.of("path", path, "a `Path`, or a text without a NUL and halves of pairs")
    return Path(os.path.abspath(path))  # noqa: PTH100 - links stay, and are refused when a file is opened


def checked_similarity(value: float) -> float:
    """Return *value*; raise an error unless it is a cosine, which no vector is near enough to otherwise."""
    if not -1 <= value <= 1:  # so neither is NaN
        raise WrongType.of("min_similarity", value, "a number from -1 to 1")
    return value


def _check_range(argument: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        number = str(value) if abs(value) < 10**20 else "a number of more than 20 digits"  # Python prints none of 5,000
        raise WrongType(argument, number, f"a whole number from {least} to {most}")


def _encodable(text: str) -> str:
    """Return *text* with a mark in place of halves of surrogate pairs, which no file can hold; a plain `str`.

    Of a longer one than names and queries have, the rest is cut off: SQLite would refuse it.
    """
    return str.encode(text[:MAX_QUERY], "utf-8", "replace").decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _chunks(text: str) -> list[Chunk]:
    """Return the chunks of *text*; of too many, one more than a document may have."""
    return list(islice(chunks_of(text), MAX_CHUNKS + 1))


def _packed(answer: object, count: int) -> list[bytes]:
    vectors = _items(answer, f"list of {count} vectors")
    if len(vectors) != count:
        problem = f"it returned {len(vectors)} vectors for {count} texts"
        raise ValueError(problem)
    return [packed(cast("Sequence[float]", _items(vector, "list of numbers"))) for vector in vectors]


def _items(value: object, form: str) -> Sequence[object]:
    """Return *value* if it is a list, tuple or the like of 1 to `MAX_DIMENSIONS` items; else raise `ValueError`."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[object]", value)
        if 1 <= len(items) <= MAX_DIMENSIONS:
            return items
    problem = f"it returned what is no {form}"
    raise ValueError(problem)

"""`StoreFile`: what is read from, and written to, the file of a store. All methods block: use a thread."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from agentrail.errors import OutsideError, UsageError
from agentrail.knowledge.chunks import CHUNKING, Chunk
from agentrail.knowledge.document import Document
from agentrail.knowledge.file_check import unusable
from agentrail.knowledge.found import Found
from agentrail.knowledge.store_connection import StoreConnection, empty_log
from agentrail.knowledge.store_names import is_shown_as_it_is
from agentrail.knowledge.store_tables import has_tables
from agentrail.knowledge.vectors import Vectors
from agentrail.knowledge.words import folded, indexed_words, match_expression, query_terms

MAX_DOCUMENTS: Final = 100_000
"""The most documents of a store."""

OFTEN: Final = 0.3
"""Share of the passages from which on a term that they have says nothing."""

OFTEN_AT_LEAST: Final = 30
"""How many passages must have such a term: of a few, any term is in many."""

CANDIDATES: Final = 4
"""How many times the passages that are wanted each of the two searches finds."""

RANK_BASE: Final = 60
"""What is added to each rank before its reciprocal is taken, so that the first few ranks count alike."""

CHECK_EVERY: Final = 200
"""After how many chunks a write looks whether it is still wanted."""

_DOCUMENT: Final = "SELECT name, chars, passages, digest, added_ms FROM document"
_PASSAGE: Final = (
    "SELECT chunk.id, document.name, number, heading, first, past, text FROM chunk "
    "JOIN document ON document.id = chunk.document"
)
_EMBEDDER: Final = "embedder"
_DIMENSIONS: Final = "dimensions"
_CHUNKING: Final = "chunking"
_LEFT: Final = "left"
"""The note that texts were removed, or replaced, whose words may still be in the file; each has a value of its own."""


class NewDocument(NamedTuple):
    """A document that is to be written."""

    name: str
    """Its name."""
    text: str
    """Its text."""
    digest: str
    """SHA-256 of the text."""
    chunks: Sequence[Chunk]
    """Its chunks."""
    vectors: Sequence[bytes]
    """The vectors of the chunks; empty if there is no embedder."""


class StoreFile:
    """The file of a store: one connection writes, another one reads meanwhile."""

    def __init__(self, path: Path, identity: Mapping[str, str], embedder: str) -> None:
        self.path = path
        """Path of the file."""
        self._embedder = embedder
        """Name of the embedder; empty if there is none."""
        self._writer = StoreConnection(path, identity)
        self._reader = StoreConnection(path, identity)
        self._vectors = Vectors()

    def close(self) -> None:
        """Close both connections."""
        self._reader.close()
        self._writer.close()
        self._vectors.forget()

    def exists(self) -> bool:
        """Whether the store was made."""
        with self._reader.reading("read") as db:
            return db is not None

    def has_text(self, name: str, digest: str) -> bool:
        """Whether the store has the document *name* with the text of *digest*; checks that it may be written."""
        with self._reader.reading("read") as db:
            if db is None:
                return False
            self._check_notes(_notes(db), must_write=True)
            return (
                db.execute("SELECT 1 FROM document WHERE name = ? AND digest = ?", (name, digest)).fetchone()
                is not None
            )

    def check_search(self) -> bool:
        """Whether a search by meaning would find anything; checks that the embedder is that of the store."""
        with self._reader.reading("read") as db:
            if db is None:
                return False
            notes = _notes(db)
            self._check_notes(notes, must_write=False)
            return bool(self._embedder) and _DIMENSIONS in notes

    def replace(self, new: NewDocument, check_wanted: Callable[[], None]) -> None:
        """Write *new* in place of the document of its name; *check_wanted* raises if it is not wanted any more."""
        with self._writer.writing(f"add `{new.name}`") as db:
            notes = _notes(db)
            if not db.execute("SELECT 1 FROM document LIMIT 1").fetchone():
                notes = {key: notes[key] for key in notes if key not in {_EMBEDDER, _DIMENSIONS, _CHUNKING}}
                db.execute("DELETE FROM meta WHERE key IN (?, ?, ?)", (_EMBEDDER, _DIMENSIONS, _CHUNKING))
            self._check_notes(notes, must_write=True)
            self._note_dimensions(db, notes, new)
            _forget(db, new.name)
            _check_room(db)
            _insert(db, new, check_wanted)

    def replace_all(self, documents: Sequence[NewDocument], check_wanted: Callable[[], None]) -> None:
        """Write *documents* in place of all that there are, with the embedder of this store."""
        with self._writer.writing("rebuild the store") as db:
            for (name,) in db.execute("SELECT name FROM document").fetchall():
                if name not in {new.name for new in documents}:
                    problem = f"`{name}` was added meanwhile"
                    raise OutsideError("knowledge-failed", str(self.path), "rebuild the store", problem)
            db.execute("DELETE FROM meta WHERE key IN (?, ?, ?)", (_EMBEDDER, _DIMENSIONS, _CHUNKING))
            notes = _notes(db)
            for new in documents:
                self._note_dimensions(db, notes, new)
                notes = _notes(db)
                if _forget(db, new.name):
                    _insert(db, new, check_wanted)

    def remove(self, names: Sequence[str]) -> tuple[str, ...]:
        """Remove the documents *names*, and return those that there were."""
        if not self.exists():
            return ()
        with self._writer.writing("remove documents") as db:
            return tuple([name for name in names if _forget(db, name)])

    def clear(self) -> None:
        """Remove all documents."""
        if not self.exists():
            return
        with self._writer.writing("remove all documents") as db:
            db.execute("DELETE FROM document")
            db.execute("DELETE FROM chunk")
            db.execute("INSERT INTO words(words) VALUES('delete-all')")
            db.execute("DELETE FROM meta WHERE key IN (?, ?, ?)", (_EMBEDDER, _DIMENSIONS, _CHUNKING))
            _note(db, _LEFT, secrets.token_hex(8))

    def erase(self) -> None:
        """Leave nothing of removed and replaced texts, and of failed writes, in the file and its log."""
        self._vectors.forget()
        with self._writer.alone("erase what was removed") as db:
            if db is None:
                return
            note = _notes(db).get(_LEFT) if has_tables(db, self.path) else None
            if note is not None:
                db.execute("INSERT INTO words(words) VALUES('optimize')")
                # Balancing a tree leaves copies of rows in gaps of pages, `secure_delete` or not: all are made anew
                db.execute("VACUUM")
                # What another process has removed meanwhile is in the file: its note stays
                db.execute("DELETE FROM meta WHERE key = ? AND value = ?", (_LEFT, note))
            # Not only then: a failed write, or a process that was killed, has left there what nothing tells of
            if not empty_log(db):
                problem = "another program reads the file, so its log cannot be emptied; close that"
                raise OutsideError("knowledge-failed", str(self.path), "erase what was removed", problem)

    def unlink(self) -> None:
        """Delete the file, which was cleared, unless another process has it open: then the empty file stays."""
        with self._writer.alone("delete the file") as db:
            if db is None:
                return
            self._reader.close()
            try:
                (mode,) = db.execute("PRAGMA journal_mode = DELETE").fetchone()
            except sqlite3.OperationalError:  # another connection has the file open
                return
            if mode == "delete" and not db.execute("SELECT 1 FROM document LIMIT 1").fetchone():
                self.path.unlink(missing_ok=True)

    def documents(self, after: str, limit: int) -> tuple[Document, ...]:
        """Return at most *limit* documents whose names come after *after*, in their order."""
        with self._reader.reading("list documents") as db:
            if db is None:
                return ()
            select = f"{_DOCUMENT} WHERE name > ? ORDER BY name LIMIT ?"
            return tuple([self._document(row) for row in db.execute(select, (after, limit))])

    def document(self, name: str) -> Document | None:
        """Return the document *name*; `None` if there is none."""
        with self._reader.reading("read a document") as db:
            row = None if db is None else db.execute(f"{_DOCUMENT} WHERE name = ?", (name,)).fetchone()
            return None if row is None else self._document(row)

    def count(self) -> int:
        """Return how many documents there are."""
        with self._reader.reading("count documents") as db:
            return 0 if db is None else int(db.execute("SELECT count(*) FROM document").fetchone()[0])

    def search(self, query: str, vector: bytes, limit: int, least: float) -> tuple[Found, ...]:
        """Return the *limit* passages that fit *query* best: by words, and by *vector* unless that is empty."""
        with self._reader.reading("search") as db:
            if db is None:
                return ()
            ranked = [_by_words(db, query, CANDIDATES * limit)]
            if vector:
                ranked.append(self._vectors.nearest(db, vector, CANDIDATES * limit, least))
            scores: dict[int, float] = {}
            for chunks in ranked:
                for rank, chunk in enumerate(chunks):
                    scores[chunk] = scores.get(chunk, 0.0) + 1 / (RANK_BASE + rank)
            best = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:limit]
            marks = ",".join("?" * len(best))
            rows = {row[0]: row for row in db.execute(f"{_PASSAGE} WHERE chunk.id IN ({marks})", best)}
            return tuple([self._passage(rows[chunk], scores[chunk]) for chunk in best if chunk in rows])

    def read(self, name: str, first: int, limit: int) -> tuple[Found, ...]:
        """Return at most *limit* passages of the document *name*, from number *first* on."""
        with self._reader.reading("read a document") as db:
            if db is None:
                return ()
            select = f"{_PASSAGE} WHERE name = ? AND number >= ? ORDER BY number LIMIT ?"
            return tuple([self._passage(row) for row in db.execute(select, (name, first, limit))])

    def text(self, name: str, start: int, end: int) -> str:
        """Return the characters of the document *name* from *start* to *end*."""
        with self._reader.reading("read a document") as db:
            if db is None:
                return ""
            select = f"{_PASSAGE} WHERE name = ? AND past > ? AND first < ? ORDER BY number"
            text, past = "", start
            for row in db.execute(select, (name, start, end)):
                passage = self._passage(row)
                text += passage.text[past - passage.start : max(end - passage.start, 0)]
                past = passage.end
            return text

    def _document(self, row: Sequence[object]) -> Document:
        match row:
            case (str(name), int(chars), int(passages), str(digest), int(added_ms)) if is_shown_as_it_is(name):
                return Document(name, chars, passages, digest, added_ms)
            case _:
                raise self._odd_row()

    def _passage(self, row: Sequence[object], score: float = 0.0) -> Found:
        match row:
            case (int(), str(name), int(number), str(heading), int(start), int(end), str(text)) if is_shown_as_it_is(
                name
            ):
                return Found(name, number, heading, start, end, text, score)
            case _:
                raise self._odd_row()

    def _odd_row(self) -> OutsideError:
        return unusable(self.path, "a row of it has other values than a store writes; bring it back from a copy")

    def _check_notes(self, notes: Mapping[str, str], *, must_write: bool) -> None:
        """Raise `UsageError` if the store was made with another embedder or chunking than this one has."""
        chunking, embedder = notes.get(_CHUNKING, CHUNKING), notes.get(_EMBEDDER, self._embedder)
        if (must_write and chunking != CHUNKING) or (embedder != self._embedder and (must_write or self._embedder)):
            present = f"the embedder `{embedder}`" if embedder else "no embedder"
            other = f"`{self._embedder}`" if self._embedder else "none"
            if chunking != CHUNKING:
                present, other = f"the chunks `{chunking}`", f"`{CHUNKING}`"
            raise UsageError("other-embedder", str(self.path), present, other)

    def _note_dimensions(self, db: sqlite3.Connection, notes: Mapping[str, str], new: NewDocument) -> None:
        """Note the embedder, and how many numbers its vectors have; raise `OutsideError` if those of *new* differ."""
        _note(db, _CHUNKING, CHUNKING)
        _note(db, _EMBEDDER, self._embedder)
        if new.vectors:
            dimensions = str(len(new.vectors[0]) // 4)
            if notes.get(_DIMENSIONS, dimensions) != dimensions:
                problem = f"its vectors have {dimensions} numbers, and those of the store {notes[_DIMENSIONS]}"
                raise OutsideError("bad-embedding", self._embedder, problem)
            _note(db, _DIMENSIONS, dimensions)


def _notes(db: sqlite3.Connection) -> dict[str, str]:
    return {str(key): str(value) for key, value in db.execute("SELECT key, value FROM meta LIMIT 100")}


def _note(db: sqlite3.Connection, key: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))


def _check_room(db: sqlite3.Connection) -> None:
    if db.execute("SELECT count(*) FROM document").fetchone()[0] >= MAX_DOCUMENTS:
        raise UsageError("too-many-documents", MAX_DOCUMENTS)


def _forget(db: sqlite3.Connection, name: str) -> bool:
    """Take the document *name* out of all tables; return whether it was there."""
    row = db.execute("SELECT id FROM document WHERE name = ?", (name,)).fetchone()
    if row is None:
        return False
    # `words` has no texts, and SQLite before 3.43 takes a row out of it only by the old ones
    db.execute(
        "INSERT INTO words(words, rowid, text, heading) "
        "SELECT 'delete', id, coalesce(words, text), heading FROM chunk WHERE document = ?",
        row,
    )
    db.execute("DELETE FROM chunk WHERE document = ?", row)
    db.execute("DELETE FROM document WHERE id = ?", row)
    _note(db, _LEFT, secrets.token_hex(8))
    return True


def _insert(db: sqlite3.Connection, new: NewDocument, check_wanted: Callable[[], None]) -> None:
    values = (new.name, new.digest, len(new.text), len(new.chunks), time.time_ns() // 1_000_000)
    cursor = db.execute("INSERT INTO document(name, digest, chars, passages, added_ms) VALUES(?, ?, ?, ?, ?)", values)
    document = cursor.lastrowid
    for number, chunk in enumerate(new.chunks):
        if number % CHECK_EVERY == 0:
            check_wanted()
        text = new.text[chunk.start : chunk.end]
        words = indexed_words(text)
        vector = new.vectors[number] if new.vectors else None
        row = db.execute(
            "INSERT INTO chunk(document, number, heading, first, past, overlap, text, words, vector) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document,
                number,
                chunk.heading,
                chunk.start,
                chunk.end,
                chunk.overlap,
                text,
                None if words == text else words,
                vector,
            ),
        ).lastrowid
        db.execute("INSERT INTO words(rowid, text, heading) VALUES(?, ?, ?)", (row, words, chunk.heading))
    check_wanted()


def _by_words(db: sqlite3.Connection, query: str, limit: int) -> list[int]:
    """Return the ids of at most *limit* chunks with words of *query*, best first; frequent words do not count."""
    terms = query_terms(query)
    if not terms:
        return []
    (total,) = db.execute("SELECT count(*) FROM chunk").fetchone()
    most = max(OFTEN * total, OFTEN_AT_LEAST)
    counts = {term: _passages_with(db, term) for term in terms}
    rare = tuple(term for term in terms if counts[term] <= most)
    expression = match_expression(rare or (min(terms, key=counts.__getitem__),))
    select = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, 1.0, 2.0), rowid LIMIT ?"
    return [chunk for (chunk,) in db.execute(select, (expression, limit))]


def _passages_with(db: sqlite3.Connection, term: str) -> int:
    """Return how many passages have the word *term*; 0 for a pair of characters, which is never frequent."""
    row = db.execute("SELECT doc FROM temp.vocabulary WHERE term = ?", (folded(term),)).fetchone()
    return 0 if row is None else int(row[0])


def stored_name(path: Path) -> str:
    """Return the name of the store that the file *path* notes; empty if it notes none, or is no store."""
    connection = StoreConnection(path, {})
    try:
        with connection.reading("read its name") as db:
            return "" if db is None else _notes(db).get("store", "")
    except OutsideError:
        return ""
    finally:
        connection.close()

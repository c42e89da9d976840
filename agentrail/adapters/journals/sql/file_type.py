"""Checks by its first bytes that a file is a journal, before SQLite opens it: opening it may already write to it."""

from __future__ import annotations

from contextlib import suppress
from os import SEEK_END
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from agentrail.adapters.journals.sql.sql_tables import VERSION
from agentrail.adapters.journals.sql.sqlite_tables import APPLICATION, UNRELEASED_APPLICATION, tables_of
from agentrail.codec.versions import UNRELEASED
from agentrail.errors import JournalUnusable

MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of each database of SQLite."""

HEAD: Final = 100
"""The size of the header of a database, in bytes."""

SMALLEST: Final = 512
"""The size of the smallest file that SQLite writes, in bytes."""

BESIDE: Final = ("-wal", "-shm", "-journal")
"""How the names of the files end that SQLite opens beside a database; it follows links, and empties what they name."""

REMOVE_LINK: Final = "look where it leads, and remove it"

PAGES_OF_64_K: Final = 1
"""The number in the header that means the largest page size, 65,536 bytes."""

SHOWN: Final = 24
"""The number of bytes that an error shows of a file that is no database."""

EXPORTED: Final = (b'"agentrail export"', b'"agentrail session"')
"""Parts of the first line of an export file; the second one is of before the first release."""

ROLLBACK: Final = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of a rollback journal (`-journal`), and the last ones of one that names another file.

That is one for a transaction over several databases, which agentrail has none of. When SQLite has undone the
transaction it deletes the named file, whatever that is.
"""

NOT_OURS: Final = "it is a file of another program; give another path"


def check_kind(path: Path) -> None:
    """Raise `JournalUnusable` if the file is no journal, or its end is missing. An empty file counts as a new journal.

    This process must have no connection to the file: closing the descriptor here would release SQLite's locks on it.
    """
    status = path.stat()
    if S_ISDIR(status.st_mode):
        raise JournalUnusable(str(path), "it is a folder; give the path of a file in it")
    if not S_ISREG(status.st_mode):
        raise JournalUnusable(str(path), "it is no regular file; give another path")
    _check_beside(path)
    with path.open("rb") as file:
        head = file.read(HEAD)
    problem = _problem(path, head, status.st_size) if head else None
    if problem is not None:
        raise JournalUnusable(str(path), problem)


def _check_beside(path: Path) -> None:
    """Raise `JournalUnusable` if a file beside the journal would have SQLite wait, or harm a file elsewhere."""
    resolved = path.resolve()  # SQLite names its files after the file that a link leads to
    for end in BESIDE:
        beside = resolved.with_name(f"{resolved.name}{end}")
        try:
            is_regular = S_ISREG(beside.lstat().st_mode)
        except FileNotFoundError:
            continue
        if not is_regular:
            problem = f"`{beside.name}` is a link or no regular file, and SQLite would write to it; {REMOVE_LINK}"
            raise JournalUnusable(str(path), problem)
        if end == "-journal" and _names_another(beside):
            problem = f"`{beside.name}` beside it names another file, which SQLite would delete; remove it"
            raise JournalUnusable(str(path), problem)


def _names_another(rollback: Path) -> bool:
    with suppress(FileNotFoundError), rollback.open("rb") as file:
        file.seek(max(file.seek(0, SEEK_END) - len(ROLLBACK), 0))
        return file.read() == ROLLBACK
    return False


def _problem(path: Path, head: bytes, size: int) -> str | None:
    """Return why a file of *size* bytes that begins with *head* is no whole journal; `None` if it may be one."""
    if not number_at(head, 40) and _is_there(path, "-journal"):
        return None  # a process was killed while it created the file: SQLite will undo the creation
    if not head.startswith(MAGIC[: len(head)]):
        if any(part in head for part in EXPORTED):
            return "it is an export file; read it into a journal by `agentrail journal copy`, and give another path"
        return f"it is not a database, but begins with {head[:SHOWN]!r}; give another path"
    if size < SMALLEST:
        return f"its end is missing, of at least {SMALLEST} bytes {size} are there; bring it back from a copy"
    application, version = number_at(head, 68), number_at(head, 60)
    if application == UNRELEASED_APPLICATION:
        return UNRELEASED
    # it has tables, but not the `application_id` of a journal
    if number_at(head, 40) and application != APPLICATION:
        return NOT_OURS
    if application == APPLICATION and tables_of(version) is None:
        return other_version(version)
    whole_size = size_of_pages(head) * number_at(head, 28)
    # SQLite's condition under which the number of pages in the header is up to date
    is_said = number_at(head, 24) == number_at(head, 92)
    if is_said and size < whole_size and not _is_there(path, "-wal"):  # with a log, missing pages may be there
        return f"its end is missing, of {whole_size:,} bytes {size:,} are there; bring it back from a copy"
    return None


def other_version(version: object) -> str:
    """Return why a journal whose tables have another *version* cannot be used."""
    from agentrail.version import __version__  # noqa: PLC0415 - looking it up takes time, and only an error needs it

    knows = f"its tables have version {version}, and agentrail {__version__} knows {VERSION}"
    return f"{knows}; use the agentrail that has written it, or give another path"


def _is_there(path: Path, what: str) -> bool:
    """Whether there is a file that is not empty with the name of *path* and *what* appended, such as `-wal`."""
    beside = path.with_name(f"{path.name}{what}")
    return beside.exists() and beside.stat().st_size > 0


def size_of_pages(head: bytes) -> int:
    """Return the size of the pages of a database, in bytes, from its header."""
    stored = int.from_bytes(head[16:18])
    return 1 << 16 if stored == PAGES_OF_64_K else stored


def number_at(head: bytes, offset: int) -> int:
    """Return the number of four bytes that begins at byte *offset* of the header."""
    return int.from_bytes(head[offset : offset + 4])

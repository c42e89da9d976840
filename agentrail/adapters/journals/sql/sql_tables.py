"""The tables of a journal, and the words of its statements: the same for each database.

Texts are stored as the bytes of their UTF-8, which may be of half a surrogate pair. So they are sorted by their bytes,
and neither a NUL nor the encoding of the database matters.

The row of a session changes with each of its records; what the session can be found by seldom does, and has a table of
its own. Records refer to their session by a number, because each record repeats it twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

SqlValue: TypeAlias = int | str | bytes | None
"""A value that is bound to a place of a statement."""

SqlRow: TypeAlias = tuple[object, ...]
"""A row of a result."""

VERSION: Final = 1
"""The version of the tables."""

DEFINITIONS: Final = (
    "create table ~meta (version integer not null, epoch NUMBER not null)",
    "create table ~lease (key KEY, holder BYTES not null unique, until NUMBER not null)",
    """create table ~session (
        key KEY,
        id BYTES not null unique,
        slot NUMBER not null,
        epoch NUMBER not null,
        lease NUMBER not null,
        held NUMBER not null,
        head NUMBER not null,
        seq NUMBER not null,
        checksum BYTES not null,
        due NUMBER,
        at_work NUMBER not null,
        ended NUMBER not null,
        active NUMBER not null
    )""",
    "create index session_by_due on ~session (due, id) where due is not null and at_work = 0",
    "create index session_at_work on ~session (id) where at_work = 1",
    "create index session_ended on ~session (id) where ended = 1",
    """create table ~about (
        session BYTES primary key,
        parent BYTES,
        tenant BYTES not null,
        owner BYTES not null,
        spec BYTES not null,
        title BYTES not null,
        labels BYTES not null,
        created NUMBER not null
    )""",
    "create index about_by_parent on ~about (parent) where parent is not null",
    "create index about_by_tenant on ~about (tenant, session) where length(tenant) > 0",
    "create index about_by_owner on ~about (owner, session) where length(owner) > 0",
    "create table ~label (label BYTES not null, session BYTES not null, primary key (label, session))",
    "create index label_by_session on ~label (session)",
    """create table ~record (
        session NUMBER not null,
        number NUMBER not null,
        epoch NUMBER not null,
        seq NUMBER not null,
        command BYTES,
        format NUMBER not null,
        blobs text not null,
        checksum BYTES not null,
        body BYTES not null,
        sealed BYTES,
        unique (session, number)
    )""",
    "create index record_by_command on ~record (session, command) where command is not null",
    """create table ~snapshot (
        session NUMBER primary key,
        number NUMBER not null,
        record_checksum BYTES not null,
        format NUMBER not null,
        blobs text not null,
        checksum BYTES not null,
        body BYTES not null
    )""",
    """create table ~blob (
        session NUMBER not null,
        digest text not null,
        content BYTES not null,
        unique (session, digest)
    )""",
)
"""Make the tables. `KEY`, `NUMBER` and `BYTES` are types, and `~` stands before the name of each table: see `Dialect`.

`meta.epoch` is the number of the last claim, in a database that has no sequences.
"""

MONEY_TABLE: Final = """create table if not exists ~money (
        day NUMBER not null,
        tenant BYTES not null,
        run BYTES not null,
        number NUMBER not null,
        session BYTES not null,
        amount NUMBER not null,
        unique (day, tenant, run, number)
    )"""
"""Makes the table of money, which a journal has only once a host on it limits that; rows of past days are deleted.

A row with an empty run is what the tenant has spent, each other one what is reserved for a request.
"""


class InsertedColumns(NamedTuple):
    """The columns of a table that are inserted together, each with its type."""

    table: str
    columns: tuple[str, ...]
    types: tuple[str, ...]


def _inserted(table: str, columns: str) -> InsertedColumns:
    """Return the columns that *columns* names: with `#` at the end numbers, with `$` texts, and else bytes."""
    names = columns.split()
    types = {"#": "NUMBER", "$": "text"}
    return InsertedColumns(
        table, tuple(name.rstrip("#$") for name in names), tuple(types.get(name[-1], "BYTES") for name in names)
    )


SESSION: Final = _inserted(
    "session", "key# id slot# epoch# lease# held# head# seq# checksum due# at_work# ended# active#"
)
NEW_SESSION: Final = _inserted("session", "id slot# epoch# lease# held# head# seq# checksum at_work# ended# active#")
ABOUT: Final = _inserted("about", "session parent tenant owner spec title labels created#")
LABEL: Final = _inserted("label", "label session")
RECORD: Final = _inserted("record", "session# number# epoch# seq# command format# blobs$ checksum body")
SNAPSHOT: Final = _inserted("snapshot", "session# number# record_checksum format# blobs$ checksum body")
BLOB: Final = _inserted("blob", "session# digest$ content")
MONEY: Final = _inserted("money", "day# tenant run number# session amount#")


def _replacing(key: str, columns: tuple[str, ...]) -> str:
    return f"on conflict ({key}) do update set " + ", ".join(f"{name} = excluded.{name}" for name in columns)


AS_LISTED: Final = ("due", "at_work", "ended")
"""The columns of a session's row that are in an index: for each of them that is set, its index is written anew."""

MOVED: Final = _replacing(
    "key", tuple(name for name in SESSION.columns if name not in {"key", "id", "slot", *AS_LISTED})
)
"""Replaces the row of a session but for the columns that are in an index."""

RESTATED: Final = _replacing("key", tuple(name for name in SESSION.columns if name not in {"key", "id", "slot"}))
"""Replaces the row of a session."""

TOLD: Final = (
    _replacing("session", ("tenant", "owner", "spec", "title", "labels", "created"))
    + ", parent = coalesce(excluded.parent, about.parent)"
)
KEPT: Final = _replacing("session", SNAPSHOT.columns[1:])
AS_IT_IS: Final = "on conflict do nothing"


def as_stored(text: str) -> bytes:
    """Return *text* as it is stored."""
    return text.encode(errors="surrogatepass")


def as_text(stored: object) -> str:
    """Return the text that `as_stored` was given; of a damaged one what can be read, which fits no checksum."""
    content = stored if isinstance(stored, bytes) else repr(stored).encode()
    try:
        return content.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return content.decode(errors="replace")

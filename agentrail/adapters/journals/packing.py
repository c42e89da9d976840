"""Serialises records and snapshots: strict JSON, with large texts stored apart as blobs, and a checksum per record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, TypeVar

from agentrail.adapters.journals.message_index import MessageReferences, MessagesOf, messages_in, nothing_earlier
from agentrail.adapters.journals.stored_form import StoredRecord, full_record, stored_record
from agentrail.adapters.journals.text_dedup import check_whole, expand_texts, most_whole, share_texts
from agentrail.codec.decode_error import MisfitError
from agentrail.codec.json_text import from_own_text, to_text
from agentrail.codec.values import decode, read, write
from agentrail.codec.versions import FORMAT, upcast
from agentrail.errors import BadData, BadText
from agentrail.ports.journal import Record, Snapshot
from agentrail.values.json import Json
from agentrail.values.messages import Message
from agentrail.values.value import Value

T = TypeVar("T", StoredRecord, Snapshot)

BLOB_FROM: Final = 16 * 1024
"""Size in bytes of the smallest record whose long texts are stored as blobs: once, however many records have them."""

LONG: Final = 4 * 1024
"""Length in characters of the shortest text that is stored as a blob, in records of at least `BLOB_FROM` bytes."""

NO_CHECK: Final = b""
"""The previous checksum of the first record, which has no record before it."""

NO_BLOBS: Final[Mapping[str, bytes]] = MappingProxyType({})
"""The long texts of a value that has none."""

_BLOB: Final = "$blob"
"""The key of an object that stands for a blob. A dot is appended to other keys that begin so, to tell them apart."""


class PackedRecord(Value, gc=True):
    """A serialised record or snapshot."""

    body: bytes
    """The JSON of the value: with names of blobs in place of long texts, or each text that it repeats written once."""
    blobs: Mapping[str, bytes]
    """The long texts, by their names (digests of their bytes); if empty, the body names no blob."""
    format: int = FORMAT
    """The version of the JSON's format."""


def pack(value: Record | Snapshot, references: MessageReferences | None = None) -> PackedRecord:
    """Serialise *value*; raise `BadValue` if a part of it cannot be written as JSON.

    A record refers to the messages of *references*, those of the records before it, and its own are added there.
    """
    body = write(
        stored_record(value, MessageReferences() if references is None else references)
        if isinstance(value, Record)
        else value
    )
    if len(body) < BLOB_FROM or not _may_be_long(body.decode()):
        return PackedRecord(share_texts(body), NO_BLOBS)
    blobs: dict[str, bytes] = {}
    split = to_text(_split(from_own_text(body), blobs)).encode()
    if blobs and len(body) <= most_whole(len(split) + sum(map(len, blobs.values()))):
        return PackedRecord(split, blobs)
    return PackedRecord(share_texts(body), NO_BLOBS)


def unpack(packed: PackedRecord, session_id: str, number: int, earlier: MessagesOf = nothing_earlier) -> Record:
    """Return the record *number* of a session from what `pack` has made of it; raise `UnpackError` if that fails.

    *earlier* returns the messages of earlier records: it is called if the record refers to them.
    """
    try:
        return full_record(_unpack(StoredRecord, packed), session_id, number, earlier)
    except MisfitError as misfit:
        problem = f"{misfit.subject} {misfit.problem}"
        raise UnpackError(problem) from misfit


def unpack_messages(packed: PackedRecord) -> Sequence[Message]:
    """Return the messages in the change of a packed record; raise `UnpackError` if it cannot be read."""
    return messages_in(_unpack(StoredRecord, packed).change)


def unpack_snapshot(packed: PackedRecord) -> Snapshot:
    """Return the snapshot that *packed* holds; raise `UnpackError` if it cannot be read."""
    return _unpack(Snapshot, packed)


def _unpack(type_: type[T], packed: PackedRecord) -> T:
    try:
        text = _text_of(packed) if packed.format == FORMAT else None
        if text is not None:
            return read(type_, text)
        data = from_own_text(packed.body if packed.blobs else expand_texts(packed.body))
        if packed.blobs:
            texts = _BlobTexts(packed)
            data = _with_blobs(data, texts)
            texts.check_whole()
        return decode(type_, upcast(data, packed.format))
    except (BadText, BadData, MisfitError, ValueError) as why:
        problem = f"{why.subject} {why.problem}" if isinstance(why, MisfitError) else str(why)
        raise UnpackError(problem) from why


class UnpackError(Exception):
    """Stored bytes cannot be read; the caller adds where they were stored."""


def checksum_of(previous: bytes, columns: bytes, body: bytes) -> bytes:
    """Return the checksum of a record: over the *previous* record's, its other *columns*, and its *body*."""
    return digest(previous + columns + body)


def digest(content: bytes) -> bytes:
    """Return the checksum of *content*."""
    checksum = _FRESH.copy()  # copying a hash object takes a quarter less time than making one
    checksum.update(content)
    return checksum.digest()


_FRESH: Final = blake2b(digest_size=16)


def digest_of(content: bytes) -> str:
    """Return the name of the blob with this *content*: its digest."""
    return blake2b(content, digest_size=32).hexdigest()


def _may_be_long(text: str) -> bool:
    """Whether the JSON *text* may contain a long text. Splitting it at quotes costs a tenth of parsing it."""
    between = text.replace("\\\\", "..").replace('\\"', "..").split('"')
    return max(map(len, between)) >= LONG


def _split(data: Json, blobs: dict[str, bytes]) -> Json:
    """Return *data* with names of blobs in place of its long texts, which are added to *blobs*."""
    if isinstance(data, str):
        if len(data) < LONG:
            return data
        content = data.encode()
        name = digest_of(content)
        blobs[name] = content
        return {_BLOB: name}
    if isinstance(data, Mapping):
        return {f"{key}." if key.startswith(_BLOB) else key: _split(item, blobs) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_split(item, blobs) for item in data]
    return data


def _text_of(packed: PackedRecord) -> bytes | None:
    """Return the JSON of a value with all its texts; `None` if the body has keys that only look like those of blobs.

    A quote within a text has a backslash before it, so what stands for a blob is found without parsing the body.
    """
    if not packed.blobs:
        return expand_texts(packed.body)
    first, *others = packed.body.split(_STANDS_FOR)
    if packed.body.count(_LIKE_A_BLOB) != len(others):
        return None
    texts: dict[str, bytes] = {}
    pieces = [first]
    for part in others:
        name, _, rest = part.partition(b'"}')
        blob = name.decode()
        if blob not in texts:
            texts[blob] = to_text(_content(blob, packed.blobs)).encode()
        pieces += (texts[blob], rest)
    check_whole(sum(map(len, pieces)), len(packed.body) + sum(map(len, texts.values())))
    return b"".join(pieces)


_STANDS_FOR: Final = b'{"%b":"' % _BLOB.encode()
_LIKE_A_BLOB: Final = b'"%b' % _BLOB.encode()


class _BlobTexts:
    """The long texts of a body: each is made once, and counted as often as the body names it."""

    def __init__(self, packed: PackedRecord) -> None:
        self._blobs = packed.blobs
        self._texts: dict[str, str] = {}
        self._whole = self._stored = len(packed.body)

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = _content(name, self._blobs)
            self._stored += len(self._texts[name])
        text = self._texts[name]
        self._whole += len(text)
        return text

    def check_whole(self) -> None:
        """Raise `ValueError` if the body has too many bytes with its texts."""
        check_whole(self._whole, self._stored)


def _with_blobs(data: Json, texts: _BlobTexts) -> Json:
    """Return *data* with the long texts in place of their names: the inverse of `_split`."""
    if isinstance(data, Mapping):
        if _BLOB in data:
            return texts[str(data[_BLOB])]
        return {key[:-1] if key.startswith(_BLOB) else key: _with_blobs(item, texts) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_with_blobs(item, texts) for item in data]
    return data


def _content(name: str, blobs: Mapping[str, bytes]) -> str:
    content = blobs.get(name)
    if type(content) is not bytes or digest_of(content) != name:
        problem = f"the blob {name} that it names is damaged"
        raise UnpackError(problem)
    return content.decode()

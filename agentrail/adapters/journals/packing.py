"""Serialises records and snapshots: strict JSON, with large texts stored apart as blobs, and a checksum per record."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from agentrail.codec import FORMAT, decode, encode_text, from_own_text, to_text, upcast
from agentrail.codec.misfit import MisfitError
from agentrail.errors import BadData, BadText
from agentrail.ports.journal import Record, Snapshot
from agentrail.values.json import Json

T = TypeVar("T", Record, Snapshot)

BLOB_FROM: Final = 64 * 1024
"""Size of a record, in bytes, from which on its long texts are stored as blobs."""

LONG: Final = 4 * 1024
"""Characters from which on a text is long, and stored as a blob."""

NO_CHECK: Final = b""
"""Checksum that stands for the record before the first one."""

NO_BLOBS: Final[Mapping[str, bytes]] = MappingProxyType({})
"""The long texts of a value that has none."""

_BLOB: Final = "$blob"
"""The key of an object that stands for a blob; a key that begins so of itself gets a dot more."""


class Packed(NamedTuple):
    """A serialised value."""

    body: bytes
    """Its JSON, with names of blobs in place of long texts."""
    blobs: Mapping[str, bytes]
    """The long texts, by the digests of their bytes; empty: no name of a blob is in the body."""
    format: int = FORMAT
    """The format of its JSON."""


def pack(value: Record | Snapshot) -> Packed:
    """Serialise *value*; raise `BadValue` if JSON cannot hold a part of it."""
    text = encode_text(value)
    body = text.encode()
    if len(body) < BLOB_FROM or not _may_be_long(text):
        return Packed(body, NO_BLOBS)
    blobs: dict[str, bytes] = {}
    split = _split(from_own_text(body), blobs)
    return Packed(to_text(split).encode(), blobs) if blobs else Packed(body, NO_BLOBS)


def unpack(wanted: type[T], packed: Packed) -> T:
    """Return the value of *packed*, the inverse of `pack`; raise `UnpackError` if it cannot be read."""
    try:
        data = from_own_text(packed.body)
        if packed.blobs:
            data = _joined(data, packed.blobs)
        return decode(wanted, upcast(data, packed.format))
    except (BadText, BadData, MisfitError) as why:
        problem = f"{why.place} {why.problem}" if isinstance(why, MisfitError) else str(why)
        raise UnpackError(problem) from why


class UnpackError(Exception):
    """Stored bytes cannot be read; the caller adds where they were stored."""


def check_of(before: bytes, outside: str, body: bytes) -> bytes:
    """Return the chained checksum of a record: over the previous checksum, the columns beside it, and its body."""
    return blake2b(b"".join((before, outside.encode(), body)), digest_size=16).digest()


def digest_of(content: bytes) -> str:
    """Return the name of the blob with this *content*: its digest."""
    return blake2b(content, digest_size=32).hexdigest()


def _may_be_long(text: str) -> bool:
    """Whether JSON may contain a long text: scanning for quotes costs a tenth of parsing it."""
    between = text.replace("\\\\", "..").replace('\\"', "..").split('"')
    return max(map(len, between)) >= LONG


def _split(data: Json, blobs: dict[str, bytes]) -> Json:
    """Return *data* with names of blobs in place of its long texts."""
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


def _joined(data: Json, blobs: Mapping[str, bytes]) -> Json:
    """Return *data* with its long texts where they were."""
    if isinstance(data, Mapping):
        if _BLOB in data:
            return _content(str(data[_BLOB]), blobs)
        return {key[:-1] if key.startswith(_BLOB) else key: _joined(item, blobs) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_joined(item, blobs) for item in data]
    return data


def _content(name: str, blobs: Mapping[str, bytes]) -> str:
    content = blobs.get(name)
    if type(content) is not bytes or digest_of(content) != name:
        problem = f"the blob {name} that it names is damaged"
        raise UnpackError(problem)
    return content.decode()

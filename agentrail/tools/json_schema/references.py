"""`References`: finds what references lead to, by tables of ids and anchors that are made once for a schema.

The library `referencing` looks through all resources again for each reference, so that its time grows with the square
of a schema. Here each resource and each anchor costs steps once, and so does each reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from agentrail.values.json import Json
from agentrail.values.step_budget import Meter

MAX_URI: Final = 2_048
"""The most characters of the URI of a schema, as its `$id` and those of the schemas around it make it."""

_JOIN: Final = 20
"""The steps that resolving a URI counts as, beside those for its characters."""
_CHARS: Final = 4
"""The characters of two URIs that count as one step when they are joined."""

ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class ReferenceTarget(NamedTuple):
    """What a reference leads to."""

    contents: Json
    """A schema, or another value."""
    base: str
    """The URI against which references in it are resolved."""


class LostReferenceError(Exception):
    """A reference leads to nothing in the schema."""


class LongUriError(Exception):
    """The URI of a schema has too many characters, or is none; the text says which."""


class References:
    """The ids and anchors of one schema, and the base URI of each schema that was added."""

    __slots__ = ("_anchors", "_bases", "_joined", "_meter", "_resources")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._resources: dict[str, Json] = {}
        """The schemas with an id, and the whole one, by their URI."""
        self._anchors: dict[tuple[str, str], ReferenceTarget] = {}
        """By the URI of its resource and its name: the schema that has an anchor."""
        self._bases: dict[int, str] = {}
        """By the `id()` of a schema: the URI against which its references are resolved."""
        self._joined: dict[tuple[str, str], str] = {}

    def base_of(self, schema: Mapping[str, Json], outer: str) -> str:
        """Return the base URI of *schema*, where *outer* is that around it; raise `LongUriError` if it cannot be."""
        schema_id = schema.get("$id")
        if not isinstance(schema_id, str):
            return outer
        try:
            base = self._join(outer, schema_id.rstrip("#"))
        except ValueError as why:
            raise LongUriError(f"is no URI: {why}") from why
        if len(base) > MAX_URI:
            raise LongUriError(f"makes a URI of more than {MAX_URI} characters; make it shorter")
        return base

    def add(self, schema: Mapping[str, Json], base: str, *, is_top: bool) -> None:
        """Add *schema*, whose base URI is *base*. Of two with one id or anchor, the first counts."""
        self._bases[id(schema)] = base
        if is_top or isinstance(schema.get("$id"), str):
            self._resources.setdefault(base, schema)
        for keyword in ANCHORS:
            name = schema.get(keyword)
            if isinstance(name, str):
                self._anchors.setdefault((base, name), ReferenceTarget(schema, base))

    def find(self, ref: str, base: str) -> ReferenceTarget:
        """Return what *ref* leads to from a schema with the URI *base*; raise `LostReferenceError` if to nothing."""
        uri, fragment = (base, ref[1:]) if ref.startswith("#") else urldefrag(self._join(base, ref))
        if uri not in self._resources:
            raise LostReferenceError
        if fragment.startswith("/"):
            return self._at(self._resources[uri], unquote(fragment[1:]), uri)
        if not fragment:
            return ReferenceTarget(self._resources[uri], uri)
        target = self._anchors.get((uri, fragment))
        if target is None:
            raise LostReferenceError
        return target

    def _at(self, contents: Json, pointer: str, base: str) -> ReferenceTarget:
        """Return what stands at a *pointer* (RFC 6901) within *contents*; schemas on the way may have another base."""
        for segment in pointer.split("/"):
            try:
                if isinstance(contents, Mapping):
                    contents = contents[segment.replace("~1", "/").replace("~0", "~")]
                elif isinstance(contents, Sequence) and not isinstance(contents, str) and segment.isdecimal():
                    contents = contents[int(segment)]
                else:
                    raise LostReferenceError
            except (LookupError, ValueError) as why:
                raise LostReferenceError from why
            base = self._bases.get(id(contents), base)
        return ReferenceTarget(contents, base)

    def _join(self, base: str, ref: str) -> str:
        """Return *ref* resolved against *base*; raise `ValueError` if one of them is no URI."""
        joined = self._joined.get((base, ref))
        if joined is None:
            self._meter.spend(_JOIN + (len(base) + len(ref)) // _CHARS)
            joined = self._joined[base, ref] = urljoin(base, ref)
            urlsplit(joined)  # without a base, nothing has looked at it yet
        return joined

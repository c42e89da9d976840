"""What a phrasing is."""

from __future__ import annotations

from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.value import Value, value


@value
class Phrasing(Value):
    """One way to ask for something."""

    template: str
    """What it looks like (see `templates`)."""
    example: str
    """Somebody saying it."""
    slots: JsonObject
    """What the example names."""


def said(template: str, example: str, **slots: str) -> Phrasing:
    """Return the phrasing *template*; *example* is one of it and names *slots*."""
    return Phrasing(template, example, freeze_object(slots))

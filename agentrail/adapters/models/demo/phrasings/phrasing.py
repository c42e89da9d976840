"""What a phrasing is."""

from __future__ import annotations

import re

from agentrail.adapters.models.demo.templates import pattern_of
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
    pattern: re.Pattern[str]
    """The template, compiled: when the module is imported, because all together take longer than an answer may."""


def said(template: str, example: str, **slots: str) -> Phrasing:
    """Return the phrasing *template*; *example* is one of it and names *slots*."""
    return Phrasing(template, example, freeze_object(slots), pattern_of(template))

"""The class of a phrasing: a pattern of sentences that ask the demo for one kind of tool."""

from __future__ import annotations

import re

from agentrail.adapters.models.demo.templates import pattern_of
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.value import Value


class Phrasing(Value, gc=True):
    """One way in which a user may ask for something."""

    template: str
    """The pattern of the sentence, in the notation of the module `templates`."""
    example: str
    """A sentence that matches the template; the tests read it."""
    slots: JsonObject
    """The slots that the example fills, with their values."""
    pattern: re.Pattern[str]
    """The template, compiled when the module is imported: compiling all of them would delay the first answer."""


def said(template: str, example: str, **slots: str) -> Phrasing:
    """Return a phrasing; *example* is a sentence that matches *template* and fills *slots*."""
    return Phrasing(template, example, freeze_object(slots), pattern_of(template))

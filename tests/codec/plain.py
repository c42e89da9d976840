"""JSON as plain data, for tests that look into it."""

from agentrail.codec.json_text import from_own_text
from agentrail.codec.values import write
from agentrail.models import Json


def encode(value: object) -> Json:
    """Return *value* as JSON data from which `decode` makes an equal value; raise `BadValue` as `write` does."""
    return from_own_text(write(value))

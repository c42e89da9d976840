"""What may be asked of one provider with one key."""

from __future__ import annotations

from agentrail.values.value import Authored, value


@value
class Limit(Authored):
    """How much one provider is asked at most, with each of its keys; `None`: no limit."""

    concurrency: int | None = None
    """Requests that may be out at once."""
    requests_per_minute: int | None = None
    """Requests that go out within any 60 seconds."""
    tokens_per_minute: int | None = None
    """Tokens of the requests that go out within any 60 seconds, read and written."""

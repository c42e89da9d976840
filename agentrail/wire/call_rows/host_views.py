"""What the calls about the host itself give back."""

from __future__ import annotations

from agentrail.wire.views import View


class HealthView(View):
    """The host answers."""

    status: str = "ok"
    """Always `ok`."""


class CheckView(View):
    """One check of whether the host is ready."""

    name: str
    """What was looked at."""
    ok: bool
    """Whether it is as it should be."""
    ms: float
    """How long the look took, in milliseconds."""


class ReadyView(View):
    """Whether the host can do its work; the status of the response is 503 if not."""

    ready: bool
    """Whether all checks are passed."""
    checks: tuple[CheckView, ...]
    """The checks."""

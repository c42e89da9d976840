"""Results of the call `figures`: what sessions did and used, over time."""

from __future__ import annotations

from collections.abc import Mapping

from agentrail.api.views import View


class LatencyView(View):
    """How long something took, in seconds."""

    count: int
    """How often it was."""
    mean_s: float
    """The mean."""
    longest_s: float
    """The longest time."""


class FigureBucketView(View):
    """Figures of a stretch of time."""

    at_ms: int
    """When it began, in milliseconds since 1970."""
    cost_usd: float
    """What responses have cost, in US dollars, as far as their prices are known."""
    unpriced: int
    """Number of responses without a known price."""
    responses: int
    """Number of responses of models."""
    input_tokens: int
    """Tokens read by models, cached ones included."""
    output_tokens: int
    """Tokens written by models, reasoning included."""
    cached_tokens: int
    """How many of the input tokens came from the provider's cache."""
    cached_share: float | None
    """The share of the input tokens that came from the provider's cache; null if none were read."""
    turns: Mapping[str, int]
    """Turns that ended, by how: a stop reason, or `aborted`."""
    tool_errors: int
    """Number of calls that ended with an error."""
    turn: LatencyView | None
    """Time of the turns that ended; null if none did, and for a session or a tool."""
    first_word: LatencyView | None
    """Time from the start of a turn to the first word or thought of the model; null as above."""
    tool: LatencyView | None
    """Time of calls that ended; null if none did, and for a session or a model."""
    abort: LatencyView | None
    """Time from the call of an abort to its record in the journal; null as above."""
    person: LatencyView | None = None
    """Time for which calls and questions waited for a person; null as for `tool`."""


class SeriesView(View):
    """Figures of one tenant, session, model or tool, over time."""

    name: str
    """Its name, or of a session the id; empty for all those of which there were too many at one time."""
    buckets: tuple[FigureBucketView, ...]
    """Its figures, in order; stretches without any are left out."""


class HostBucketView(View):
    """Figures of the host in a stretch of time."""

    at_ms: int
    """When it began, in milliseconds since 1970."""
    commit: LatencyView | None
    """Time of commits to the journal; null if there were none."""
    loop_lag_s: float
    """By how many seconds a task was woken too late, at worst."""


class FiguresView(View):
    """What sessions did and used, over time."""

    since_ms: int
    """From when on, in milliseconds since 1970."""
    until_ms: int
    """Until when, in milliseconds since 1970."""
    kept_since_ms: int
    """Since when the host has figures, in milliseconds since 1970; it forgets all when nobody looks for an hour."""
    bucket_ms: int
    """How long a stretch is, in milliseconds."""
    per: str
    """What each series is of: `tenant`, `session`, `model` or `tool`."""
    series: tuple[SeriesView, ...]
    """The series, those first that have cost most, or else have done most."""
    more: int
    """How many more series there are, which are not shown."""
    host: tuple[HostBucketView, ...]
    """Figures of the host, for those who may see all tenants; empty for others."""
    missing: tuple[str, ...] = ()
    """Addresses of hosts of the same cluster that have not answered in time, so theirs is left out."""

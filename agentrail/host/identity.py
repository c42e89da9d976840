"""`Identity`: who makes a request, as the host knows it; never as the request says it."""

from __future__ import annotations

from agentrail.values.value import Authored


class Identity(Authored):
    """Who makes a request."""

    tenant: str
    """Id of the tenant."""
    user: str
    """Id of the user, unique in the tenant."""
    scopes: frozenset[str] = frozenset()
    """What the user may do: `talk`, `decide`, `observe`, `admin`."""

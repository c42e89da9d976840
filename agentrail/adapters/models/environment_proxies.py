"""Proxies and certificates that environment variables name, beyond what httpx does with them.

httpx reads these variables by itself. This module adds networks in `NO_PROXY`, which httpx does not know, and clearer
errors. The address of a proxy may contain a password, so no error here contains it.
"""

from __future__ import annotations

import ipaddress
import os
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

PROXIES: Final = ("http", "https", "all", "no")
"""The variables that name proxies, without `_proxy`."""

CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that name certificates; the first that is set counts."""

MAY_PASS: Final = frozenset({408, 425, 429})
"""Statuses of a proxy in the range of `REFUSALS` that may still change: timeout, too early, too many requests."""

REFUSALS: Final = range(300, 500)
"""Statuses of a proxy that mean that it will refuse the same request again."""


def why_unusable(error: Exception) -> str:
    """Return the reason why httpx cannot make a client with these environment variables; *error* is its exception."""
    if isinstance(error, OSError):
        name = next((name for name in CERTIFICATES if os.environ.get(name)), CERTIFICATES[0])
        return f"the certificates that `{name}` names cannot be read ({type(error).__name__}); it must be a PEM file"
    proxies = getproxies()
    names = " or ".join(f"`{name.upper()}_PROXY`" for name in PROXIES if proxies.get(name))
    advice = (
        "a SOCKS proxy needs the package `socksio`: pip install httpx[socks]"
        if isinstance(error, ImportError)
        else "a proxy is an address such as `http://name:password@host:3128`, and `NO_PROXY` a list of hosts"
    )
    return f"the proxy that the environment names cannot be used: look at {names}; {advice}"


def is_final(status: int) -> bool:
    """Whether a proxy that answers *status* would refuse the same request again, so that a retry is useless."""
    return status in REFUSALS and status not in MAY_PASS


def is_kept_from_proxies(url: str) -> bool:
    """Whether the host of *url* is an IP address within a network, such as `10.0.0.0/8`, in `NO_PROXY`."""
    excluded = getproxies().get("no", "")
    if "/" not in excluded:
        return False
    try:
        address = ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:  # a name: it is not resolved, as in other programs that read `NO_PROXY`
        return False
    for entry in excluded.split(","):
        with suppress(ValueError):  # an entry that is no network is ignored, as curl does
            if address in ipaddress.ip_network(entry.strip().strip("[]"), strict=False):
                return True
    return False

"""What the environment says about the way to a provider: its proxies and certificates.

httpx reads them; here is what it does not know (networks in `NO_PROXY`) or says badly (what is wrong with them).
The address of a proxy may hold a password, so nothing here repeats it.
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
"""What a proxy answers in the class of refusals although it may not the next time."""

REFUSALS: Final = range(300, 500)


def why_unusable(error: Exception) -> str:
    """Return why no client can be made with this environment; *error* is what httpx raised."""
    if isinstance(error, OSError):
        name = next((name for name in CERTIFICATES if os.environ.get(name)), CERTIFICATES[0])
        return f"the certificates that `{name}` names cannot be read ({type(error).__name__}); it must be a PEM file"
    found = getproxies()
    names = " or ".join(f"`{name.upper()}_PROXY`" for name in PROXIES if found.get(name))
    wanted = (
        "a SOCKS proxy needs the package `socksio`: pip install httpx[socks]"
        if isinstance(error, ImportError)
        else "a proxy is an address such as `http://name:password@host:3128`, and `NO_PROXY` a list of hosts"
    )
    return f"the proxy that the environment names cannot be used: look at {names}; {wanted}"


def is_final(status: int) -> bool:
    """Whether a proxy that answers *status* will do so the next time."""
    return status in REFUSALS and status not in MAY_PASS


def is_kept_from_proxies(url: str) -> bool:
    """Whether `NO_PROXY` holds a network, such as `10.0.0.0/8`, with the address in *url*."""
    excluded = getproxies().get("no", "")
    if "/" not in excluded:
        return False
    try:
        address = ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:  # a name; which address it has is not asked for, as nobody else does
        return False
    for entry in excluded.split(","):
        with suppress(ValueError):  # curl passes over what it cannot read, too
            if address in ipaddress.ip_network(entry.strip().strip("[]"), strict=False):
                return True
    return False

"""Which addresses the environment keeps from its proxies by a network; httpx knows names and single addresses alone."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit
from urllib.request import getproxies


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

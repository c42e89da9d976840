"""`Webhooks`: sends what a face tells to addresses that its clients name: signed, and to public addresses alone.

Requests are signed as [Standard Webhooks](https://www.standardwebhooks.com) says, for which receivers have libraries.
An address is looked up when a client names it and again for each request, and the connection goes to what was found
then; no redirect is followed. So no address leads into a private network, whatever its name means later.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import trio

from agentrail.adapters.web import HttpxWeb, WebRequest, networks
from agentrail.errors import BadChoice, WebFailed, WebRefused, WrongType
from agentrail.host.authentication.signing_keys import KEY_FOUND, KEY_WANTED, signing_keys
from agentrail.runtime.shared.clock import Clock
from agentrail.values.argument_checks import checked
from agentrail.values.secrets import Secret

log = logging.getLogger("agentrail.host")

ALLOWED_WANTED: Final = "networks such as `10.0.0.0/8`, or addresses such as `127.0.0.1`"
URL_WANTED: Final = "it must begin with `https://`, have no user name, and lead to public addresses alone"

PAUSES: Final = (0.0, 1.0, 5.0, 25.0)
"""Seconds before each attempt."""

SECONDS: Final = 10.0
"""The most seconds of one attempt."""

AT_ONCE: Final = 32
"""The most requests that are made at once."""

AT_ONCE_OF_TENANT: Final = 4
"""The most requests for one tenant that are made at once: one whose receivers do not answer leaves the rest to others.
"""

LOOK_UPS: Final = 16
"""The most names that are looked up at once: each takes a thread, and one that gets no answer keeps it for long."""

TAKEN: Final = range(200, 300)
"""Statuses by which a receiver says that it has taken a request."""

BUSY: Final = frozenset({408, 425, 429})
"""Statuses after which a request is sent again, besides those of faults of the receiver."""

FAULTS: Final = 500
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Webhooks:
    """Sends signed requests to addresses that clients have named.

    Each tenant has a secret of its own, which is made of *key*: see `secret_of`. The key may be two keys with a space
    between, the new one and the one before: requests are signed with both, so that a key can be replaced receiver by
    receiver. Private, local and special networks are refused, but for those *allowed*, where addresses may also begin
    with `http://`.
    """

    @checked
    def __init__(self, key: str | Secret, *, allowed: Sequence[str] = ()) -> None:
        self._keys = signing_keys(key)
        """What the secrets are made of, which is shown nowhere."""
        if not self._keys:
            raise WrongType("key", KEY_FOUND, KEY_WANTED)
        try:
            networks([name if isinstance(cast("object", name), str) else "" for name in allowed])
        except ValueError:
            raise BadChoice("allowed", allowed, ALLOWED_WANTED) from None
        self._look_ups = trio.CapacityLimiter(LOOK_UPS)
        self._web = HttpxWeb(allowed=allowed, resolve=self._resolve)
        self._slots = trio.CapacityLimiter(AT_ONCE)
        self._slots_of_tenant = WeakValueDictionary[str, trio.CapacityLimiter]()
        """For each tenant for which there are requests."""

    def __repr__(self) -> str:
        return "<Webhooks>"

    @checked
    def secret_of(self, tenant: str) -> str:
        """Return the secret by which receivers of *tenant* know what this host has sent, such as `whsec_…`.

        Of two keys, it is made of the first.
        """
        return f"whsec_{b64encode(self._secrets_of(tenant)[0]).decode()}"

    @checked
    async def check(self, url: str, tenant: str) -> None:
        """Raise `WebRefused` if nothing is sent to *url*. The error does not say what its name means here."""
        async with self._slot_of(tenant), self._slots:
            try:
                await self._web.check(url, timeout=SECONDS)
            except (WebFailed, WebRefused):
                raise WebRefused(url, URL_WANTED) from None

    @checked
    async def send(self, url: str, body: bytes, tenant: str, *, headers: Mapping[str, str] = NO_HEADERS) -> bool:
        """Send *body* for *tenant*, up to four times; return whether the receiver has taken it, with a status of 2xx.

        Names in *headers* are in lower case.
        """
        if not all(isinstance(cast("object", text), str) for header in headers.items() for text in header):
            raise WrongType("headers", "a name or a value that is no text", "texts by their names")
        number = f"msg_{secrets.token_hex(16)}"
        status = 0
        for pause in PAUSES:
            await trio.sleep(pause)
            async with self._slot_of(tenant), self._slots:
                status = await self._post(url, body, {**headers, **self._signature(number, body, tenant)})
            if status and status < FAULTS and status not in BUSY:
                break
        if status not in TAKEN:
            log.info("a webhook at %s takes nothing: %s", _host_in(url), status or "no answer")
        return status in TAKEN

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Return the status of the answer; 0 if there is none, 403 if nothing may be sent there."""
        # its filters keep queries, and what a server has sent, out of the logs of httpx
        import_module("agentrail.adapters.models.http")
        try:
            return await self._web.status_of(url, WebRequest("POST", headers, body), timeout=SECONDS)
        except WebFailed:
            return 0
        except WebRefused:
            return 403

    def _slot_of(self, tenant: str) -> trio.CapacityLimiter:
        return self._slots_of_tenant.setdefault(tenant, trio.CapacityLimiter(AT_ONCE_OF_TENANT))

    def _secrets_of(self, tenant: str) -> Sequence[bytes]:
        """Return the secret of *tenant* by each key."""
        subject = f"agentrail webhooks of {tenant}".encode("utf-8", "surrogatepass")
        return [hmac.digest(key, subject, "sha256") for key in self._keys]

    def _signature(self, number: str, body: bytes, tenant: str) -> Mapping[str, str]:
        """Return the headers that sign *body*, which has this *number*."""
        at = str(Clock().now_ms() // 1000)
        content = f"{number}.{at}.".encode() + body
        signatures = [hmac.digest(secret, content, "sha256") for secret in self._secrets_of(tenant)]
        return {
            "user-agent": "agentrail",
            "webhook-id": number,
            "webhook-timestamp": at,
            "webhook-signature": " ".join([f"v1,{b64encode(signature).decode()}" for signature in signatures]),
        }

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of *host*; threads for it are apart from those of the host, as clients choose names."""
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        rows = await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=self._look_ups)
        return tuple(dict.fromkeys([str(address[0]) for *_, address in rows]))


def _host_in(url: str) -> str:
    """Return the host of *url*, without what else is in it: that may be a secret of the client."""
    try:
        return ascii(urlsplit(url).hostname)
    except ValueError:
        return "an address that is none"

"""Networks of hosts, each in a network namespace of its own: any host can be cut off from any of them.

A network is a bridge, on which this process has an address too; a host has a cable to each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attrs import frozen

NETWORKS = ("database", "hosts", "clients")
"""Where hosts reach the database, where they reach each other, and where the balancer reaches them."""

FIRST = 10
"""The last number in the addresses of the first host."""


@frozen
class Networks:
    """Bridges, and namespaces with a cable to each of them."""

    name: str
    """With which the names of all that is made here begin."""
    number: int
    """By which the addresses differ from those of other tests."""
    count: int
    """How many hosts there are."""

    def address(self, network: str, host: int | None = None) -> str:
        """Return the address of a *host* on a *network*; that of this process if `None`."""
        last = 1 if host is None else FIRST + host
        return f"198.18.{3 * self.number + NETWORKS.index(network)}.{last}"

    def around(self, host: int) -> tuple[str, ...]:
        """Return the command that runs another one where *host* is."""
        return ("ip", "netns", "exec", self._namespace(host))

    def cut(self, network: str, host: int) -> None:
        """Take the cable of *host* out of *network*: nothing is refused, nothing is told, nothing comes through."""
        _ip("link", "set", self._cable(network, host), "down")

    def join(self, network: str, host: int) -> None:
        """Put the cable in again."""
        _ip("link", "set", self._cable(network, host), "up")

    def make(self) -> None:
        """Make bridges, namespaces and cables."""
        for network in NETWORKS:
            _ip("link", "add", self._bridge(network), "type", "bridge")
            _ip("address", "add", f"{self.address(network)}/24", "dev", self._bridge(network))
            _ip("link", "set", self._bridge(network), "up")
        for host in range(self.count):
            inside = ("-netns", self._namespace(host))
            _ip("netns", "add", self._namespace(host))
            _ip(*inside, "link", "set", "lo", "up")
            for network in NETWORKS:
                cable = self._cable(network, host)
                _ip("link", "add", cable, "type", "veth", "peer", "name", network, "netns", self._namespace(host))
                _ip("link", "set", cable, "master", self._bridge(network), "up")
                _ip(*inside, "address", "add", f"{self.address(network, host)}/24", "dev", network)
                _ip(*inside, "link", "set", network, "up")

    def remove(self) -> None:
        """Remove all that was made; cables go with their namespaces."""
        for host in range(self.count):
            _ip("netns", "delete", self._namespace(host), check=False)
        for network in NETWORKS:
            _ip("link", "delete", self._bridge(network), check=False)

    def _namespace(self, host: int) -> str:
        return f"{self.name}-{host}"

    def _bridge(self, network: str) -> str:
        return f"{self.name}{network[0]}"

    def _cable(self, network: str, host: int) -> str:
        return f"{self.name}{network[0]}{host}"


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)  # noqa: S603, S607 - words of this module


@contextmanager
def networks(count: int) -> Iterator[Networks]:
    """Make networks for *count* hosts; skip the test where this process may not."""
    namespaces = Networks(f"ar{os.getpid()}", os.getpid() % 80, count)
    if shutil.which("ip") is None:
        pytest.skip("NOT PROVED: no `ip` of iproute2 here, so hosts cannot be cut off from each other")
    try:
        try:
            namespaces.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"NOT PROVED: network namespaces cannot be made here: {error.stderr.decode().strip()}")
        yield namespaces
    finally:
        namespaces.remove()

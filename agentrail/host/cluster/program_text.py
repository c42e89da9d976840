"""What a host runs, in a line, and the warning when another host of its cluster runs something else.

Hosts may differ while a new version is rolled out; nobody should find out later that they still do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from agentrail.app.spec import SessionSpec
from agentrail.host.profiles import Profile, offered
from agentrail.version import __version__

log: Final = logging.getLogger("agentrail.host")

DIGITS: Final = 8
"""How many digits of a digest are shown."""

DIFFERS: Final = (
    "the host at %s runs `%s`, and this one `%s`: it depends on the host what an agent can do; replace the older one"
)


def program_text(profiles: Iterable[Profile]) -> str:
    """Return the version of agentrail, the names of *profiles*, and a digest of what these are made of."""
    parts = {profile.id: _parts(profile) for profile in profiles}
    digest = sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"agentrail {__version__}, {', '.join(parts)}, {digest}"


def _parts(profile: Profile) -> tuple[object, ...]:
    """Return what makes *profile* another one, if it changes: names, and the instructions; not the code behind them."""
    spec = profile.spec
    if not isinstance(spec, SessionSpec):
        return (str(getattr(spec, "__qualname__", type(spec).__qualname__)),)
    able = offered(profile, spec)
    return (spec.base, spec.system, spec.identity, sorted(able.tools), sorted(able.plugins), able.models)


class ProgramCheck:
    """Compares what other hosts say that they run with *own*, and logs each difference once."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._told: dict[str, str] = {}

    def look(self, host: str, program: str) -> None:
        """Log a warning if the host at the address *host* runs another *program*, unless that was logged before."""
        if not program or self._told.get(host, self._own) == program:
            return
        self._told[host] = program
        if program != self._own:
            log.warning(DIFFERS, host, program, self._own)

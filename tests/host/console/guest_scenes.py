"""The scenes of the console at a host at which each user has a key; the file of keys lies where it starts."""

from __future__ import annotations

from typing import Final

from agentrail.host import ApiKeys, Host
from tests.host.console.scenes import LIMITS, profile

guests: Final = Host([profile], authenticator=ApiKeys("keys.txt"), limits=LIMITS)

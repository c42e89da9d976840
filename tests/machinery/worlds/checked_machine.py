"""`CheckedMachine`: Hypothesis draws a whole session, and each step is checked against the invariants of a session."""

from __future__ import annotations

from agentrail.testing import Scene, SessionMachine
from tests.machinery.worlds.checked_world import CheckedWorld


class CheckedMachine(SessionMachine):
    """A state machine over one random session, whose world checks the invariants after every step."""

    def world_of(self, scene: Scene) -> CheckedWorld:
        return CheckedWorld(scene)

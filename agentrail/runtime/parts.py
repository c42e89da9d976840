"""What a session's actor is given: everything of it that is not its own state."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import trio

from agentrail.hooks.live import Live, Validator
from agentrail.ports.journal import Journal
from agentrail.ports.model import Compactor, Model
from agentrail.ports.tool import Service, Tool
from agentrail.runtime.asks import ReadText
from agentrail.runtime.calls import Calls
from agentrail.runtime.clock import Clock
from agentrail.runtime.gate import Gate
from agentrail.runtime.timers import Timers


class House:
    """What all sessions of a supervisor share."""

    __slots__ = ("calls", "clock", "compactor", "gate", "journal", "model", "nursery", "random", "timers")

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        journal: Journal,
        model: Callable[[str], Model],
        compactor: Compactor,
        gate: Gate,
        random_: random.Random,
    ) -> None:
        self.nursery = nursery
        self.journal = journal
        self.model = model
        self.compactor = compactor
        self.gate = gate
        self.random = random_
        self.calls = Calls()
        self.clock = Clock()
        self.timers = Timers()


class Outfit:
    """The code of one session: its plugins, tools and services, and how its tools are checked."""

    __slots__ = ("_revision", "judge", "models", "read_text", "services", "tools", "validator")

    def __init__(
        self,
        judge: Live,
        tools: dict[tuple[str, int], Tool],
        models: Mapping[str, Model],
        services: Mapping[str, Service],
        read_text: ReadText,
        validator: Callable[[Tool], Validator],
    ) -> None:
        self._revision = 0
        self.judge = judge
        self.tools = tools
        self.models = dict(models)
        self.services = services
        self.read_text = read_text
        self.validator = validator

    def next_revision(self) -> int:
        """Return a number for a change of plugins or tools; no two changes have the same."""
        self._revision += 1
        return self._revision

"""What a person may choose in an editor for a session: its mode and its model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agentrail.cli.acp.params import invalid
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.command_options import MODES_ABOUT
from agentrail.cli.settings.default_agent import DEMO, MODES, USUAL, Mode, key_of, mode_named
from agentrail.cli.talk.console_commands import CHANGEABLE_MODES, mode_labelled
from agentrail.values.json import Json, JsonObject

MODE: Final = "mode"
MODEL: Final = "model"

NAMES: Final[dict[Mode, str]] = {"ask": "Ask", "edits": "Edit files", "yes": "Do not ask", "plan": "Plan"}
"""What the modes are called."""


class SessionConfig(NamedTuple):
    """The mode and the model of a session, and the modes and models that a person may switch to."""

    mode: Mode | None
    """The mode; `None` for an agent of a file, which says itself what it asks about."""
    model: str
    """Name of the model."""
    models: tuple[str, ...]
    """The models to which a person may switch; none for an agent of a file."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes to which a person may switch."""
        if self.mode is None:
            return ()
        return CHANGEABLE_MODES if self.mode in CHANGEABLE_MODES else (self.mode,)

    def mode_named(self, name: str) -> Mode:
        """Return the mode of this name; raise `RpcError` if it cannot be chosen."""
        mode = mode_named(name)
        if mode is None or mode not in self.modes:
            raise invalid(f"there is no mode {name!r} here; there are: {', '.join(self.modes) or 'none'}")
        return mode

    def model_named(self, name: str) -> str:
        """Return the model of this name; raise `RpcError` if it cannot be chosen."""
        if name not in self.models:
            raise invalid(f"there is no model {name!r} to choose; there are: {', '.join(self.models)}")
        return name

    def using(self, model: str) -> SessionConfig:
        """Return a copy in which the session uses *model*."""
        return self._replace(model=model, models=tuple(dict.fromkeys((model, *self.models))) if self.models else ())

    def fields(self) -> JsonObject:
        """Return the fields about modes and options in the answer to the request that opens the session."""
        fields: dict[str, Json] = {"configOptions": self.options()}
        if self.mode is not None:
            fields["modes"] = {
                "currentModeId": self.mode,
                "availableModes": [
                    {"id": mode, "name": NAMES[mode], "description": MODES_ABOUT[mode]} for mode in self.modes
                ],
            }
        return fields

    def options(self) -> Sequence[Json]:
        """Return the configuration options, each with its choices and its current value."""
        modes = [_choice(mode, NAMES[mode], MODES_ABOUT[mode]) for mode in self.modes]
        models = [_choice(model, model) for model in self.models]
        rows = ((MODE, "What it may do without asking", self.mode, modes), (MODEL, "Model", self.model, models))
        return [
            {"id": name, "name": title, "category": name, "type": "select", "currentValue": value, "options": choices}
            for name, title, value, choices in rows
            if value and choices
        ]


def config_of(source: AgentSource, model: str, labels: Iterable[str] = ()) -> SessionConfig:
    """Return the configuration of a session of *source* that uses *model* and has *labels*."""
    if source.file:
        return SessionConfig(None, model, ())
    mode = mode_labelled(labels) or mode_named(source.mode) or MODES[0]
    others = [name for name in (*USUAL, DEMO) if name == DEMO or key_of(name.partition(":")[0], os.environ.get)]
    return SessionConfig(mode, model, tuple(others)).using(model)


def _choice(value: str, name: str, about: str = "") -> JsonObject:
    return {"value": value, "name": name, **({"description": about} if about else {})}

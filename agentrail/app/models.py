"""The registry of models: from a name to a model, imported when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentrail.errors import UnknownModel
from agentrail.ports.model import Model

Factory = Callable[[str], Model]


def _demo(_: str) -> Model:
    from agentrail.adapters.models.demo import DemoModel  # noqa: PLC0415 - adapters are imported when they are wanted

    return DemoModel()


BUILT_IN: Final[Mapping[str, Factory]] = {"demo": _demo}
"""What stands before the colon of a model's name, and who makes such models of what stands behind it."""


class Models:
    """Makes each model once."""

    def __init__(self, factories: Mapping[str, Factory]) -> None:
        self._factories = {**BUILT_IN, **factories}
        self._made: dict[str, Model] = {}

    def __call__(self, name: str) -> Model:
        """Return the model called *name*, or raise `UnknownModel`."""
        made = self._made.get(name)
        if made is None:
            provider, _, model = name.partition(":")
            factory = self._factories.get(provider)
            if factory is None:
                raise UnknownModel(name, ", ".join(f"`{known}`" for known in sorted(self._factories)))
            made = self._made[name] = factory(model)
        return made

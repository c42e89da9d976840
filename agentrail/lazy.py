"""Lazy imports: names of a package, or whole modules, that are imported at their first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Final

_AGENT: Final = (
    'an agent is a `SessionSpec`, such as `SessionSpec(model="demo", tools=[…])`; '
    "`open_supervisor()` runs it: `session = await supervisor.spawn(spec)`, then `await session.ask(text)`"
)

ELSEWHERE: Final = {
    "Agent": _AGENT,
    "Runner": "`async with open_supervisor() as supervisor:` runs sessions; `agentrail.sync.run_sync`, one question",
    "StateGraph": "there is no graph: the model chooses each step, and plugins bound it (`coming-from/langgraph`)",
    "create_agent": _AGENT,
    "create_react_agent": _AGENT,
}
"""What to write here for a name of another library, which people try first."""


def lazily(package: str, extra: str = "") -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for *package*, whose names are imported at their first use.

    The names and their modules are those of the stub beside it, `__init__.pyi`: what type checkers see is what there
    is. If a module cannot be found, a note on the error names *extra*, the extra that installs what *package* needs.
    """
    with open(f"{sys.modules[package].__file__}i", encoding="utf-8") as stub:  # noqa: PTH123 - `pathlib` takes long to import
        lines = [line.split() for line in stub]
    homes = {words[3]: words[1] for words in lines if words[:1] == ["from"]}

    def find(name: str) -> object:
        """Import the name and return its value."""
        home = homes.get(name)
        if home is None:
            if package == "agentrail" and name in ELSEWHERE:
                # `from agentrail import …` would replace the text of an `AttributeError` by its own
                message = f"agentrail has no `{name}`: {ELSEWHERE[name]}"
                raise ImportError(message, name=package)
            message = f"module `{package}` has no `{name}`; it has {', '.join(homes)}"
            raise AttributeError(message)
        if home == package:
            return import_module(f"{package}.{name}")
        try:
            value: object = getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if extra:
                from agentrail.distribution import install_origin, install_words  # noqa: PLC0415 - for the note alone

                words = install_words(install_origin(), extra)
                error.add_note(f"`{package}.{name}` needs the extra `{extra}`: pip install {words}")
            raise
        setattr(sys.modules[package], name, value)
        return value

    public = [name for name, home in homes.items() if home != package and not name.startswith("__")]
    return find, partial(_names, package, lambda: homes), public


def catalogued(package: str, catalogue: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a `__getattr__` and a `__dir__` for *package*, which look its names up in `PUBLIC` of module *catalogue*.

    The module is imported at the first use of a name, or of `__all__`.
    """

    def find(name: str) -> object:
        """Look the name up in the catalogue and return its value."""
        public: Mapping[str, object] = import_module(catalogue).PUBLIC
        if name == "__all__":
            return list(public)
        if name not in public:
            message = f"module `{package}` has no `{name}`; it has {', '.join(public)}"
            raise AttributeError(message)
        setattr(sys.modules[package], name, public[name])
        return public[name]

    return find, partial(_names, package, lambda: import_module(catalogue).PUBLIC)


def _names(package: str, public: Callable[[], Iterable[str]]) -> list[str]:
    """Return the *public* names of *package*, imported or not, and its names with `__`, set by Python; sorted."""
    return sorted({*public(), *(name for name in vars(sys.modules[package]) if name.startswith("__"))})


class LazyModule:
    """Stands for the module *name*; the first access to one of its names imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        """Import the module, and keep the value of *name*."""
        value: object = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value

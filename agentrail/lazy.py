"""Lazy imports: names of a package, or whole modules, that are imported at their first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Final

_SPLIT: Final = (
    "a2a",
    "events",
    "errors",
    "evals",
    "host",
    "insight",
    "journals",
    "knowledge",
    "mcp",
    "models",
    "plugins",
    "sandboxes",
    "telemetry",
)
"""The packages, beside those of `_KITS`, in which a name is looked for that another public package does not have."""

_KITS: Final = ("testing", "tools")
"""Packages with names for tests and for tools."""


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
            raise _missing(package, name, homes)
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
            raise _missing(package, name, public)
        setattr(sys.modules[package], name, public[name])
        return public[name]

    return find, partial(_names, package, lambda: import_module(catalogue).PUBLIC)


def _missing(package: str, name: str, public: Iterable[str]) -> AttributeError | ImportError:
    """Return the error for *name*, which *package*, with the names *public*, does not have; it says what to write."""
    if name.startswith("_"):
        return AttributeError(f"module `{package}` has no `{name}`")
    from inspect import stack  # noqa: PLC0415 - only an error needs it

    message = f"{package} has no `{name}`: {_advice(package, name, list(public))}"
    # `from agentrail import …` asks by `hasattr` first, in this function of Python's, and would replace the text of an
    # `AttributeError` by its own. All else gets one, so that `hasattr` of a program is false.
    # A module of the package is no missing name: Python imports it next.
    callers = [frame.function for frame in stack(0)[2:3]]
    if callers == ["_handle_fromlist"] and find_spec(f"{package}.{name}") is None:
        return ImportError(message, name=package)
    return AttributeError(message)


def _advice(package: str, name: str, public: list[str]) -> str:
    """Return what to write instead of *name*, which *package* does not have."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    from agentrail.other_names import hint_for  # noqa: PLC0415 - as above

    if package != "agentrail" and name in dir(sys.modules["agentrail"]):
        return f"write `from agentrail import {name}`"
    others = (f"agentrail.{part}" for part in (*_SPLIT, *_KITS) if f"agentrail.{part}" != package)
    home = next((other for other in others if name in dir(import_module(other))), "")
    if hint := hint_for("agentrail", name):
        return f"{hint}; `{home}` has another `{name}`" if home else hint
    if home:
        return f"write `from {home} import {name}`"
    near = get_close_matches(name, public, 1)
    return f"did you mean `{near[0]}`?" if near else f"it has {', '.join(public)}"


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

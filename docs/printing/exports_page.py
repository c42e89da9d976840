"""The page of the public names of a package."""

from __future__ import annotations

from types import FunctionType, ModuleType, UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

from docs.printing.fields_page import item, summary
from docs.printing.markdown import code, codes
from docs.printing.source_text import Source

CHOICES: Final = frozenset({Literal, Union, UnionType})
"""The kinds of types whose arguments are the alternatives."""


def names(source: Source, package: ModuleType, *others: ModuleType) -> list[str]:
    """Return the public names of *package*, each with what it is; those that *others* have too stand in one line."""
    offered = sorted(cast("list[str]", package.__all__))
    told = {other.__name__: [name for name in offered if _is_in(other, package, name)] for other in others}
    own = [name for name in offered if not any(name in names for names in told.values())]
    return [
        *(f"As in {code(other)}: {codes(names)}." for other, names in told.items() if names),
        *([""] if any(told.values()) else []),
        *(item(name, _about(source, name, getattr(package, name))) for name in own),
    ]


def _is_in(other: ModuleType, package: ModuleType, name: str) -> bool:
    """Whether *other* offers what *package* has under *name*."""
    return name in cast("list[str]", other.__all__) and getattr(other, name) is getattr(package, name)


def _about(source: Source, name: str, found: object) -> str:
    """Return the text about *found*: its docstring, or the text under the constant, or the members of the union."""
    if isinstance(found, type | FunctionType) or hasattr(found, "__wrapped__"):
        return summary(found.__doc__)
    members = [getattr(one, "__name__", str(one)) for one in get_args(found)] if get_origin(found) in CHOICES else []
    return summary(source.constant(name)) or (f"Any of {codes(sorted(members))}." if members else "")

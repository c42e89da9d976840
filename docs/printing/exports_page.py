"""The page of the public names of a package."""

from __future__ import annotations

from types import FunctionType, ModuleType, UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

from docs.printing.fields_page import summary
from docs.printing.markdown import code, codes, table
from docs.printing.source_text import Source

CHOICES: Final = frozenset({Literal, Union, UnionType})
"""The kinds of types whose arguments are the alternatives."""


def names(source: Source, package: ModuleType) -> list[str]:
    """Return the public names of *package*, each with what it is."""
    offered = sorted(cast("list[str]", package.__all__))
    return table(
        ("name", "what it is"), [(code(name), _about(source, name, getattr(package, name))) for name in offered]
    )


def _about(source: Source, name: str, found: object) -> str:
    """Return the text about *found*: its docstring, or the text under the constant, or the members of the union."""
    if isinstance(found, type | FunctionType) or hasattr(found, "__wrapped__"):
        return summary(found.__doc__)
    members = [getattr(one, "__name__", str(one)) for one in get_args(found)] if get_origin(found) in CHOICES else []
    return summary(source.constant(name)) or (f"Any of {codes(sorted(members))}." if members else "")

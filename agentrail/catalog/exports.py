"""What a package offers, as a document."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import cast

from agentrail.catalog.fields import summary
from agentrail.catalog.markdown import code, table
from agentrail.catalog.source import Source


def names(source: Source, package: ModuleType) -> list[str]:
    """Return the public names of *package*, each with what it is."""
    offered = sorted(cast("list[str]", package.__all__))
    return table(
        ("name", "what it is"), [(code(name), _about(source, name, getattr(package, name))) for name in offered]
    )


def _about(source: Source, name: str, found: object) -> str:
    if isinstance(found, type) or _is_function(found):
        return summary(found.__doc__)
    return summary(source.constant(name))


def _is_function(found: object) -> bool:
    return callable(found) and hasattr(found, "__name__") and not isinstance(found, Mapping)

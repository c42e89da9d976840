"""The built-in tools, with the arguments that the model gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentrail.tools import standard_tools
from agentrail.values.tools import ToolSpec
from docs.printing.markdown import code, codes, table


def built_in() -> list[str]:
    """Return a row for each built-in tool."""
    specs = [tool.spec for tool in standard_tools()]
    return table(
        ("tool", "arguments; those in brackets may be left out", "effect", "what it does"),
        [(code(spec.name), _arguments(spec), code(spec.effect.value), _first(spec.description)) for spec in specs],
    )


def _arguments(spec: ToolSpec) -> str:
    required = set(cast("tuple[str, ...]", spec.parameters.get("required", ())))
    names = list(cast("Mapping[str, object]", spec.parameters["properties"]))
    given, optional = [name for name in names if name in required], [name for name in names if name not in required]
    return ", ".join(filter(None, [codes(given), f"({codes(optional)})" if optional else ""]))


def _first(description: str) -> str:
    """Return the first clause of a description."""
    return description.partition(";")[0].partition(".")[0].replace("\n", " ")

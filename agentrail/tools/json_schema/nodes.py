"""A compiled schema (`Node`), and the check of a value against it (`Check`), in counted steps.

A check takes at least one step for each part of the value and of the schema that it uses, so a limit of steps limits
its time. The verdict is the same on every machine, because it does not depend on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Final, TypeAlias

from agentrail.tools.json_schema.regex import Regex
from agentrail.values.json import FrozenObject, Json
from agentrail.values.step_budget import Meter, TooManyStepsError

MAX_NESTED: Final = 240
"""The most schemas applied inside each other; more raise `TooManyStepsError`.

JSON has at most 64 levels (`MAX_DEPTH`), so each level may take three.
"""

KINDS: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
KIND_OF: Final[Mapping[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    tuple: "array",
    list: "array",
    FrozenObject: "object",
    dict: "object",
}

ValuePath: TypeAlias = "tuple[ValuePath, str | int] | None"
"""The place of a value in the arguments, as a linked list with the last step first; `None` at the top."""
CheckFunction: TypeAlias = Callable[[Json, Meter], bool]
Apply: TypeAlias = "Callable[[Check, Node, Json, ValuePath, list[SchemaFault]], None]"


class SchemaFault:
    """A value that one keyword of the schema rejects."""

    __slots__ = ("branches", "found", "keyword", "names", "path", "said", "schema")

    def __init__(
        self,
        path: ValuePath,
        keyword: str,
        value: Json,
        schema: Mapping[str, Json],
        branches: Sequence[Sequence[SchemaFault]] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.keyword = keyword
        self.found = value
        self.said = schema.get(keyword)
        self.schema = schema
        self.branches = branches
        self.names = names


class Node:
    """One compiled schema: the checks for each JSON type, and the nodes of the schemas inside it."""

    __slots__ = ("applied", "children", "leaves", "lists", "named", "patterns", "refs", "schema")

    def __init__(self, schema: Mapping[str, Json] | bool) -> None:
        self.schema: Mapping[str, Json] = schema if isinstance(schema, Mapping) else {}
        self.leaves: dict[str, list[tuple[str, CheckFunction]]] = {}
        """For each JSON type, the keywords without sub-schemas that apply to it, with their checks."""
        self.applied: dict[str, list[Apply]] = {}
        """For each JSON type, the functions of the keywords with sub-schemas that apply to it."""
        self.children: dict[str, Node] = {}
        self.lists: dict[str, tuple[Node, ...]] = {}
        self.named: dict[str, dict[str, Node]] = {}
        self.patterns: list[tuple[Regex, Node]] = []
        self.refs: list[Node] = []
        if schema is False:
            self.leaves = {kind: [("false", never)] for kind in KINDS}


def never(_: Json, _meter: Meter) -> bool:
    """Return `False`: the check of the schema `false`, which no value fits."""
    return False


class Check:
    """One check of a value against a node, with the meter of the steps that are left."""

    __slots__ = ("meter", "nested")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.nested = 0

    def apply(self, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
        """Check *instance* against *node* and append faults to *faults*; raise `TooManyStepsError` if steps run out."""
        kind = KIND_OF[type(instance)]
        leaves, applied = node.leaves.get(kind, ()), node.applied.get(kind, ())
        self.meter.spend(1 + len(leaves) + len(applied))
        for keyword, holds in leaves:
            if not holds(instance, self.meter):
                faults.append(SchemaFault(path, keyword, instance, node.schema))
        if applied:
            self.nested += 1
            if self.nested > MAX_NESTED:
                raise TooManyStepsError
            for apply in applied:
                apply(self, node, instance, path, faults)
            self.nested -= 1

    def fits(self, node: Node, instance: Json) -> bool:
        """Whether *instance* fits *node*."""
        faults: list[SchemaFault] = []
        self.apply(node, instance, None, faults)
        return not faults

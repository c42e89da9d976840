"""Names that tell nothing of their value: how many there are may only fall."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.parsed import functions_in, package_nodes

pytestmark = pytest.mark.long

WEAK: Final = {
    *(
        "asked",
        "done",
        "each",
        "found",
        "given",
        "heard",
        "held",
        "kept",
        "known",
        "left",
        "made",
        "meant",
        "one",
        "put",
    ),
    *("read", "said", "seen", "sent", "shown", "taken", "told", "wanted", "written"),
}
"""Bare participles and the like. A local is a noun for its value; a participle only qualifies one (`found_tools`)."""

MOST: Final = {
    "adapters": 16,
    "aio": 2,
    "api": 12,
    "app": 1,
    "cli": 2,
    "core": 16,
    "errors": 26,
    "hooks": 4,
    "host": 3,
    "insight": 1,
    "plugins": 6,
    "ports": 2,
    "remote": 3,
    "reprs": 1,
    "runtime": 16,
    "sync": 2,
    "testing": 8,
    "tools": 5,
    "values": 3,
}
"""How many locals and parameters of each area have such a name, at most.

Words of the interface count too: `held` of a row of the tree, `sent` of what the model saw, `left` of a lease,
`wanted` of the sessions of a journal.
"""


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def area_of(module: str) -> str:
    return module.removeprefix("agentrail.").split(".")[0]


def over(counts: Counter[str], most: dict[str, int]) -> dict[str, int]:
    """Return the counts that are above *most*; one that shrinks fails no test."""
    return {area: count for area, count in counts.items() if count > most.get(area, 0)}


def test_names_that_tell_nothing_only_become_fewer() -> None:
    counts = Counter(
        area_of(module)
        for module, nodes in package_nodes().items()
        for name in names_in(nodes)
        if name.strip("_") in WEAK
    )
    assert over(counts, MOST) == {}


FUNCTIONS: Final = {
    "adapters": 2,
    "codec": 1,
    "core": 1,
    "host": 1,
    "insight": 1,
    "ports": 1,
    "remote": 1,
    "runtime": 1,
    "testing": 21,
}
"""How many functions of each area have such a name, at most: a conversion is named by its result."""


def test_functions_that_tell_nothing_only_become_fewer() -> None:
    counts = Counter(
        area_of(module)
        for module, nodes in package_nodes().items()
        for node in functions_in(nodes)
        if node.name.strip("_") in WEAK - VERBS and not is_property(node)
    )
    assert over(counts, FUNCTIONS) == {}


VERBS: Final = {"put", "read"}


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


STORED_TWICE: Final = {"StreamStalled"}
"""Names that an event and an input both have in stored records."""

MIRRORED: Final = {
    *("Monitor", "RootSupervisor", "SessionHandle", "Subscription", "Supervisor", "Trace", "TurnStream"),
}
"""Classes of programs outside of Trio, which are called as what they mirror."""


def test_the_name_of_a_class_is_that_of_no_other() -> None:
    names = Counter(node.name for nodes in package_nodes().values() for node in nodes if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == STORED_TWICE | MIRRORED

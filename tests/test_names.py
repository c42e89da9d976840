"""Names that tell nothing of their value: how many there are may only fall."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import agentrail

ROOT: Final = Path(agentrail.__file__).parent

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
    "cli": 4,
    "core": 16,
    "errors": 26,
    "hooks": 4,
    "host": 3,
    "insight": 1,
    "plugins": 6,
    "ports": 2,
    "remote": 3,
    "reprs.py": 1,
    "runtime": 16,
    "sync": 2,
    "testing": 8,
    "tools": 5,
    "values": 3,
}
"""How many locals and parameters of each area have such a name. Whoever has made them fewer writes the new number.

Words of the interface count too: `held` of a row of the tree, `sent` of what the model saw, `left` of a lease,
`wanted` of the sessions of a journal.
"""


def names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.long
def test_names_that_tell_nothing_only_become_fewer() -> None:
    counts = Counter(
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        for name in names_in(ast.parse(path.read_text(encoding="utf-8")))
        if name.strip("_") in WEAK
    )
    assert dict(counts) == MOST


FUNCTIONS: Final = {
    "adapters": 2,
    "cli": 1,
    "codec": 1,
    "core": 1,
    "host": 1,
    "insight": 1,
    "ports": 1,
    "remote": 1,
    "runtime": 1,
    "testing": 21,
}
"""How many functions of each area have such a name: what converts is named by its result, what acts by a verb."""


@pytest.mark.long
def test_functions_that_tell_nothing_only_become_fewer() -> None:
    counts = Counter(
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.strip("_") in WEAK - VERBS and not is_property(node)
    )
    assert dict(counts) == FUNCTIONS


VERBS: Final = {"put", "read"}


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


STORED_TWICE: Final = {"StreamStalled"}
"""Names that an event and an input both have in stored records."""

MIRRORED: Final = {"AskedPrompt", "Monitor", "RootSupervisor", "SessionHandle", "Subscription", "Supervisor", "Trace"}
"""Classes of programs outside of Trio, which are called as what they mirror."""


@pytest.mark.long
def test_the_name_of_a_class_is_that_of_no_other() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == STORED_TWICE | MIRRORED

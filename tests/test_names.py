"""Names that tell nothing of their value: how many there are may only fall."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import pytest

from tests.parsed import ROOT, functions_in, module_of, package_nodes, package_trees, texts_below

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
    "adapters": 14,
    "aio": 1,
    "api": 8,
    "app": 1,
    "cli": 2,
    "core": 8,
    "errors": 21,
    "hooks": 3,
    "host": 1,
    "insight": 1,
    "plugins": 5,
    "ports": 2,
    "remote": 2,
    "reprs": 1,
    "runtime": 14,
    "sync": 1,
    "testing": 3,
    "tools": 4,
    "values": 2,
    "what_if": 2,
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
    "evals": 1,
    "host": 1,
    "insight": 1,
    "ports": 1,
    "remote": 1,
    "testing": 17,
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


PAIRS: Final = {
    "agentrail.adapters.models.sse": "Server-sent events are a format; what reads it is an `EventReader`.",
    "agentrail.api.protocols": "It holds the protocols of the handles of all ways to reach a session.",
    "agentrail.evals.judging": "Judging is what it is about; several models that judge are a jury.",
    "agentrail.host.http11.websocket_protocol": "The protocol of RFC 6455; what reads it is a `MessageReader`.",
}
"""Modules of one class that share no word with it, each with the reason; at most five."""

LEAST_LINES: Final = 60
LEAST_SHARE: Final = 0.45
"""A module is one of one class if its largest class has so many lines, and such a share of the module's."""


def words_of(name: str) -> frozenset[str]:
    """Return the words of an identifier, in lower case and in the singular."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().split("_")
    return frozenset([part.rstrip("s") for part in parts if part])


def test_a_module_of_one_class_is_named_after_it() -> None:
    pairs: dict[str, str] = {}
    for path, text in texts_below("agentrail").items():
        module = module_of(ROOT / path)
        classes = [node for node in package_trees()[module].body if isinstance(node, ast.ClassDef)]
        if not classes or path.name.startswith("__"):
            continue
        lines = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in classes}
        largest = max(lines, key=lambda name: (lines[name], name))
        is_of_one = lines[largest] >= max(LEAST_LINES, LEAST_SHARE * (text.count("\n") + 1))
        if is_of_one and not words_of(largest) & words_of(path.stem):
            pairs[module] = largest
    assert pairs.keys() <= PAIRS.keys(), pairs
    assert len(PAIRS) <= 5


VAGUE: Final = frozenset(
    [
        *("asked", "at", "before", "behind", "each", "found", "given", "gone", "kept", "known", "left", "made", "one"),
        *("own", "place", "said", "shown", "there", "told", "wanted", "whole"),
    ]
)
"""Names that tell nothing of a value. What still has one is a word of the interface, such as `Envelope.at`."""

MOST_VAGUE: Final = 3.0
"""How many of 1,000 locals, parameters and fields have such a name, at most."""


def test_a_binding_is_a_noun_for_its_value() -> None:
    bound = Counter(name for nodes in package_nodes().values() for name in names_in(nodes))
    vague = {name: bound[name] for name in VAGUE if bound[name]}
    share = 1000 * sum(vague.values()) / bound.total()
    assert share <= MOST_VAGUE, vague


OLD: Final = frozenset(
    [
        *("bell", "cue", "gathered", "judge", "lived", "moment", "mood", "performer", "place", "roof", "seat"),
        *("servant", "stage", "stray"),
    ]
)
"""Words that had a second meaning, or were theatre: `words.md` of the design has those in their place."""

STILL: Final = {
    "_long_lived": "Objects that live long: Python's word for what its collector does not look at.",
    **dict.fromkeys(
        ["judge_model", "judge_service", "_has_judge"], "A model that judges texts: the name that evaluations use."
    ),
    **dict.fromkeys(
        ["Moment", "moment", "moments", "all_moments"], "A record with the states around it, in `insight`."
    ),
    "MOMENT": "A short time, in seconds.",
    "bell": "The bell of a terminal.",
    "place": "What a part of a request is, for a reader of it: a field of the interface (`SeenPartView.place`).",
    **dict.fromkeys(["judge", "judges"], "A model that judges answers in evaluations."),
}
"""Identifiers that have such a word in another meaning, each with the reason."""


@cache
def identifiers() -> dict[str, set[str]]:
    """Return the modules of each identifier that the package defines or uses."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module, nodes in package_nodes().items():
        for node in nodes:
            for name in identifiers_of(node):
                found[name].add(module)
        for part in module.split("."):
            found[part].add(module)
    return found


def identifiers_of(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers that *node* itself has."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case _:
            return


def test_old_words_are_in_no_identifier() -> None:
    old = {name: modules for name, modules in identifiers().items() if words_of(name) & OLD and name not in STILL}
    assert old == {}


def test_each_exception_is_still_needed() -> None:
    assert STILL.keys() <= identifiers().keys()

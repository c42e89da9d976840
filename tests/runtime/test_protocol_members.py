"""Whether an object has what an optional protocol asks for: its own attributes count, and `isinstance` is not asked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agentrail.models import ChecksOptions
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import OnDisk, Unhides
from agentrail.ports.tool import Checkable, ToolSource
from agentrail.sandboxes import HidesPaths, LocalSandbox, MemorySandbox, Receiver
from bench.rig import Note
from tests.parsed import package_nodes


class Mixed:
    """Objects of this class hide paths only if they are told which."""

    root = None

    def __init__(self, hidden: tuple[str, ...] | None = None) -> None:
        if hidden is not None:
            self.hidden = hidden


class Refusing:
    """A class whose property says for each object whether it is there."""

    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def root(self) -> str:
        """The root, if there is one."""
        if not self._root:
            raise AttributeError
        return self._root


@pytest.mark.parametrize("_", range(2))
def test_objects_of_one_class_may_differ_in_what_they_have(_: int) -> None:
    assert not has_members(Mixed(), HidesPaths)
    assert has_members(Mixed((".env",)), HidesPaths)
    assert not has_members(Refusing(""), OnDisk)
    assert has_members(Refusing("/srv"), OnDisk)


def test_an_attribute_may_come_and_go() -> None:
    mixed = Mixed()
    mixed.hidden = (".env",)
    assert has_members(mixed, HidesPaths)
    del mixed.hidden
    assert not has_members(mixed, HidesPaths)


def test_a_member_that_is_none_is_missing() -> None:
    assert not has_members(Mixed(), OnDisk)


def test_all_members_are_wanted() -> None:
    assert not has_members(Note(), ToolSource)
    assert not has_members(Note(), Checkable)
    assert not has_members(None, ChecksOptions)


def test_the_answer_is_that_of_isinstance(tmp_path: Path) -> None:
    for sandbox in (LocalSandbox(str(tmp_path)), MemorySandbox(), Note(), None):
        for protocol in (HidesPaths, OnDisk, Receiver, Unhides):
            assert has_members(sandbox, protocol) == isinstance(sandbox, protocol)


def _names(node: ast.expr) -> set[str]:
    """Return the last parts of all names in *node*."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


@pytest.mark.long
def test_no_code_asks_isinstance_for_a_protocol() -> None:
    nodes = [(module, node) for module, all_nodes in package_nodes().items() for node in all_nodes]
    protocols = {
        node.name
        for _, node in nodes
        if isinstance(node, ast.ClassDef) and any("runtime_checkable" in _names(mark) for mark in node.decorator_list)
    }
    assert {"ToolSource", "HidesPaths", "Receiver"} <= protocols
    asking = [
        f"{module}:{node.lineno}"
        for module, node in nodes
        if isinstance(node, ast.Call) and _names(node.func) & {"isinstance", "issubclass"}
        if any(_names(arg) & protocols for arg in node.args[1:])
    ]
    assert asking == []

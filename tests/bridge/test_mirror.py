"""The mirrors are whole: each public member with its signature, its docstring and its errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import cast

import pytest

from agentrail import ActorTrace, Monitor, SessionHandle, Supervisor, aio, open_supervisor, sync
from agentrail.errors import UnknownArgument
from docs.printing.mirrors import in_blocking_words
from tests.each_case import each_case

NAMES = {"ActorTrace": "Trace"}
"""Classes whose mirror has another name."""

PAIRS = [
    (original, getattr(package, NAMES.get(original.__name__, original.__name__)))
    for original in (SessionHandle, Supervisor, ActorTrace, Monitor)
    for package in (aio, sync)
]

FOR_THE_RUNTIME = {"offer", "end"}
"""Methods of a trace that its session calls."""

ADDED = {"subscribe": {"window"}}
"""Arguments that only the mirror has."""


def members(cls: type) -> Iterator[str]:
    return (name for name in dir(cls) if not name.startswith("_"))


def signature(cls: type, name: str) -> tuple[str, ...]:
    """Return the parameters of a member with their annotations and defaults, and what it returns, as text."""
    member = inspect.getattr_static(cls, name)
    inspected = inspect.signature(cast("FunctionType", member.fget if isinstance(member, property) else member))
    parameters = [
        str(parameter) for parameter in inspected.parameters.values() if parameter.name not in ADDED.get(name, ())
    ]
    returns = re.sub(r"commands\.", "", str(inspected.return_annotation)).replace("ActorTrace", "Trace")
    return (*parameters, returns)


@each_case(PAIRS)
def test_each_public_member_is_mirrored_with_its_docstring(original: type, mirror: type) -> None:
    names = set(members(original)) - FOR_THE_RUNTIME
    assert set(members(mirror)) == names
    for name in names:
        first, second = inspect.getattr_static(original, name), inspect.getattr_static(mirror, name)
        if hasattr(type(first), "__set_name__") or inspect.ismemberdescriptor(first):
            continue  # a slot
        blocks = "sync" in mirror.__module__
        words = inspect.getdoc(first) or ""
        assert inspect.getdoc(second) == (in_blocking_words(words) if blocks else words), name
        assert inspect.iscoroutinefunction(second) == (inspect.iscoroutinefunction(first) and not blocks), name
        assert signature(mirror, name) == signature(original, name), name


def test_a_subscription_has_what_a_reader_needs() -> None:
    for mirror in (aio.Subscription, sync.Subscription):
        assert set(members(mirror)) == {"dropped", "merged", "next_now", "position", "waiting"}


def test_the_handle_has_as_many_members_as_were_counted() -> None:
    names = list(members(aio.SessionHandle))
    calls = [name for name in names if inspect.iscoroutinefunction(inspect.getattr_static(aio.SessionHandle, name))]
    assert (len(names), len(calls)) == (len(list(members(SessionHandle))), len(names) - 12)


def test_a_supervisor_is_opened_with_the_same_options() -> None:
    options = [str(parameter) for parameter in inspect.signature(open_supervisor).parameters.values()]
    for opening in (aio.open_supervisor, sync.open_supervisor):
        assert [str(parameter) for parameter in inspect.signature(opening).parameters.values()] == options
    assert aio.open_supervisor.__doc__ == open_supervisor.__doc__
    assert sync.open_supervisor.__doc__ == in_blocking_words(open_supervisor.__doc__ or "")
    with pytest.raises(UnknownArgument, match="journal"):
        aio.open_supervisor(jornal=None)  # type: ignore[call-arg]


def test_the_root_can_be_closed_besides() -> None:
    assert set(members(aio.RootSupervisor)) == {*members(aio.Supervisor), "close"}
    assert set(members(sync.RootSupervisor)) == {*members(sync.Supervisor), "close", "run"}

"""The handle of a session has few methods, the same ones in each flavour; names that it had say what to write."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest

import agentrail
from agentrail import RemoteSession, SessionHandle, aio, sync, testing
from agentrail.remote.remote_session import OF_SESSIONS
from tests.each_case import each_case

MOST_METHODS: Final = 50

FLAVOURS: Final = (SessionHandle, aio.SessionHandle, sync.SessionHandle, RemoteSession)

ONLY_AT_A_HOST: Final = {"detail", "files", "record", "records", "seen", "state_at", "timeline", "why"}
"""What a host tells about a session from its records; a program reads them in its journal, by `agentrail.insight`."""

GONE: Final = {
    "ask_nowait": "use `session.stream(text)`, or `session.prompt(text, command=id)`",
    "prompt_nowait": "use `session.prompt(text)`",
    "send": "each command has a method of its own",
    "wake": "`session.resume()` wakes",
}
"""By name of a method that handles had: how the hint begins."""


def methods(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@each_case(FLAVOURS)
def test_a_handle_has_few_methods(cls: type) -> None:
    assert len(methods(cls)) <= MOST_METHODS


def test_each_flavour_has_the_same_methods() -> None:
    names = methods(SessionHandle)
    assert methods(aio.SessionHandle) == methods(sync.SessionHandle) == names
    assert methods(RemoteSession) == names - OF_SESSIONS.keys() | ONLY_AT_A_HOST
    assert len(names | ONLY_AT_A_HOST) <= MOST_METHODS
    assert OF_SESSIONS.keys() < names


@each_case([(cls, *gone) for cls in FLAVOURS for gone in GONE.items()])
def test_a_method_that_is_gone_says_what_to_write(cls: type[object], name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"object has no attribute '{name}': ") as raised:
        getattr(cls.__new__(cls), name)
    assert hint in str(raised.value)


@each_case([("Cue", "ScriptStep"), ("Stage", "SetUp"), ("Staged", "ModelSetup")])
def test_a_class_of_the_kit_with_another_name_says_the_new_one(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"agentrail.testing has no `{old}`: use `{new}`, from"):
        getattr(testing, old)


@each_case([agentrail, aio, sync])
def test_the_class_that_only_a_method_gave_says_what_to_write(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"has no `AskedPrompt`: use `session.stream\(text\)`"):
        getattr(module, "AskedPrompt")  # noqa: B009 - type checkers know that it is not there

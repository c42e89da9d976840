"""The pytest plugin: fixtures for tests of agents; installed with agentrail, it needs pytest-trio only when used.

async def test_it_greets(supervisor, scripted_model) -> None:
session = await supervisor.spawn(SessionSpec(model=scripted_model("Hello.")))
assert (await session.ask("Hi")).text == "Hello."
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pytest

if TYPE_CHECKING:
    from trio.testing import MockClock

    from agentrail import Supervisor
    from agentrail.testing import Evaluate, ScriptedModel

Opens: TypeAlias = "Callable[[], AsyncGenerator[Supervisor]]"

OF_TRIO: Final = frozenset({"supervisor", "virtual_clock"})
"""The fixtures that only a test on Trio can use."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have pytest-trio run the async tests that take a fixture of Trio, also without its option `trio_mode`."""
    if not config.pluginmanager.hasplugin("trio"):
        return
    functions = [item for item in items if isinstance(item, pytest.Function)]
    for function in functions:
        if iscoroutinefunction(function.obj) and not OF_TRIO.isdisjoint(function.fixturenames):
            function.add_marker("trio")


def _trio_fixture() -> Callable[[Opens], Opens]:
    """Return the decorator of pytest-trio for async fixtures, which run in the same Trio run as their test.

    Without pytest-trio it is `pytest.fixture`.
    """
    try:
        module = import_module("pytest_trio")
    except ModuleNotFoundError:
        return cast("Callable[[Opens], Opens]", pytest.fixture)  # pytest then reports an async fixture as an error
    return cast("Callable[[Opens], Opens]", module.trio_fixture)


@_trio_fixture()
async def supervisor() -> AsyncGenerator[Supervisor]:
    """A supervisor with a journal in memory, which ends with the test; its random numbers are the same each time."""
    from agentrail import open_supervisor  # noqa: PLC0415 - pytest loads this module in tests that have no agents

    async with open_supervisor(seed=0) as opened:
        yield opened  # noqa: ASYNC119 - pytest always resumes the generator, even if the test fails


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Makes a model that answers from a script: `scripted_model("Hello.", say("Bye."))`."""
    from agentrail.testing import ScriptedModel  # noqa: PLC0415

    return lambda *script, **options: ScriptedModel(script, **options)


@pytest.fixture
def evaluate() -> Evaluate:
    """Runs a case of an evaluation, and fails the test if its scores are too low; the test is a plain `def`."""
    from agentrail.testing.evaluated_case import evaluate_case  # noqa: PLC0415

    return evaluate_case


@pytest.fixture
def virtual_clock() -> MockClock:
    """A clock that jumps to the next deadline when all tasks wait; a test that takes it runs in virtual time."""
    from trio.testing import MockClock  # noqa: PLC0415

    return MockClock(autojump_threshold=0)

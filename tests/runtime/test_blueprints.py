"""Blueprints: functions that build specifications, with a name and a purpose, of which explicit options come first."""

from __future__ import annotations

import pytest

from agentrail import SessionSpec, blueprint, open_supervisor
from agentrail.errors import UnknownField, WrongType
from agentrail.plugins import BudgetGuard, SecurityGuard
from agentrail.testing import ScriptedModel
from tests.runtime.families import tasks
from tests.runtime.journals import TestJournal
from tests.runtime.world import World

IDENTITY = "Your name: reviewer\nYour purpose: Reviews patches."


@blueprint("reviewer", purpose="Reviews patches.")
def reviewer(rounds: int = 3) -> SessionSpec:
    """Return a reviewer."""
    return SessionSpec(model="demo", system="Be strict.", max_rounds=rounds, plugins=[SecurityGuard()])


def test_what_a_blueprint_leaves_out_is_filled_from_its_name_and_purpose() -> None:
    assert reviewer(5) == SessionSpec(
        model="demo",
        name="reviewer",
        description="Reviews patches.",
        system=f"Be strict.\n\n{IDENTITY}",
        max_rounds=5,
        plugins=[SecurityGuard()],
    )


def test_explicit_options_come_before_all_that_a_blueprint_says() -> None:
    plugins = [BudgetGuard(max_rounds=2)]
    spec = reviewer(rounds=5).but(model="other", system="Be kind.", max_rounds=2, plugins=plugins)
    assert spec == SessionSpec(
        model="other",
        name="reviewer",
        description="Reviews patches.",
        system="Be kind.",
        max_rounds=2,
        plugins=plugins,
    )


def test_what_the_function_itself_says_stays() -> None:
    @blueprint("reviewer", purpose="Reviews patches.")
    def own() -> SessionSpec:
        return SessionSpec(model="demo", name="mine", description="Looks.")

    assert own() == SessionSpec(model="demo", name="mine", system=IDENTITY, description="Looks.")


def test_a_blueprint_is_the_function_that_it_was() -> None:
    assert (reviewer.__name__, reviewer.__doc__) == ("reviewer", "Return a reviewer.")


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownField, match="max_rounds"):
        reviewer().but(max_round=2)


async def test_name_and_purpose_are_in_the_prompt(world: World) -> None:
    model = ScriptedModel(["fine"])
    session = await world.supervisor.spawn(reviewer().but(model=model))
    await session.ask("look")
    assert model.requests[0].system == f"Be strict.\n\n{IDENTITY}"


async def test_a_blueprint_is_a_sub_agent_with_its_purpose_as_description(world: World) -> None:
    model = ScriptedModel(["fine"], name="child")
    session = await world.spawn(
        [tasks("reviewer"), "done"], agents={"reviewer": reviewer().but(model=model, plugins=[])}
    )
    await session.ask("look")
    assert model.requests[0].system == f"Be strict.\n\n{IDENTITY}"


async def test_a_stored_session_comes_back_by_the_name_of_its_blueprint() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        await (await supervisor.spawn(reviewer(), "s")).ask("look")
    async with open_supervisor(journal=journal, seed=1, specs={"reviewer": reviewer}) as supervisor:
        session = await supervisor.resume("s")
        assert len(session.messages()) == 2


@pytest.mark.parametrize(("name", "purpose"), [("", "Reviews."), ("reviewer", " ")])
def test_a_blueprint_without_a_name_or_a_purpose_is_refused(name: str, purpose: str) -> None:
    with pytest.raises(WrongType, match="a text that is not empty"):
        blueprint(name, purpose=purpose)


def test_a_blueprint_of_what_is_no_plain_function_is_refused() -> None:
    async def later() -> SessionSpec:
        return SessionSpec(model="demo")

    with pytest.raises(WrongType, match="a plain function that returns a `SessionSpec`"):
        blueprint("reviewer", purpose="Reviews.")(later)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(WrongType, match="a plain function that returns a `SessionSpec`"):
        blueprint("reviewer", purpose="Reviews.")("text")  # type: ignore[arg-type]  # on purpose


def test_a_function_that_builds_something_else_is_named() -> None:
    @blueprint("reviewer", purpose="Reviews.")
    def nothing() -> SessionSpec:
        return None  # type: ignore[return-value]  # on purpose

    with pytest.raises(WrongType, match="cannot take a `NoneType` as `build`; give a `SessionSpec`"):
        nothing()


def test_arguments_that_are_misspelt_or_of_another_type_are_refused() -> None:
    with pytest.raises(WrongType, match="cannot take a `NoneType` as `purpose`"):
        blueprint("reviewer", purpose=None)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(UnknownField, match="purpose"):
        blueprint("reviewer", purposes="Reviews.")  # type: ignore[call-arg]  # on purpose

"""A script for each prompt: one model for several sessions at once."""

import pytest

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import TurnAborted, WrongType
from agentrail.testing import ScriptedModel, by_prompt, call, say


@tool
async def look() -> str:
    """Look."""
    return "seen"


def scripted() -> SessionSpec:
    element = by_prompt({"look": [say(calls=[call("look")]), "It is there."], "hi": ["Hello."]})
    return SessionSpec(model=ScriptedModel([element], repeat_last=True), tools=[look], max_retries=0)


async def test_each_session_plays_the_script_of_its_prompt() -> None:
    async with open_supervisor() as supervisor:
        spec = scripted()
        first, second = await supervisor.spawn(spec), await supervisor.spawn(spec)
        answers = [(await session.ask(text)).text for session in (first, second) for text in ("hi", "look", "hi")]
    assert answers == ["Hello.", "It is there.", "Hello."] * 2


async def test_a_prompt_without_a_script_is_named() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(scripted())
        with pytest.raises(TurnAborted, match="there is no script for the prompt 'bye'"):
            await session.ask("bye")
    with pytest.raises(WrongType, match=r"`script\[0\]`"):
        by_prompt({"hi": [5]})  # type: ignore[list-item]  # on purpose

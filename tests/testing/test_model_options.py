"""What a scripted model is told besides the request: options are checked as a provider's model checks them."""

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import BadOptions
from agentrail.testing import ScriptedModel


async def test_options_that_no_provider_takes_are_refused_in_a_test_too() -> None:
    async with open_supervisor() as supervisor:
        model = ScriptedModel(["hello"], repeat_last=True)
        with pytest.raises(BadOptions):
            await supervisor.spawn(SessionSpec(model=model, model_options={"max_tokens": -1}))
        session = await supervisor.spawn(SessionSpec(model=model, model_options={"max_tokens": 100}))
        assert (await session.ask("hi")).text == "hello"

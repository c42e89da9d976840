"""A tool that answers in JSON has an answer: as a text too, wherever the text of a result is read."""

from __future__ import annotations

from agentrail import Continue, Plugin, tool
from agentrail.events import ToolExecutionEnd
from agentrail.models import Data, Image, Text, ToolMessage, UserMessage
from agentrail.plugins import Answered, Ask, BeforePrompt, Context, Intervene, RunTool
from agentrail.testing import call, say
from tests.runtime.world import World


@tool(effect="pure")
async def weigh() -> dict[str, object]:
    """Weigh it."""
    return {"kg": 5, "of": ["a", "b"]}


WEIGHED = '{"kg":5,"of":["a","b"]}'


class Asks(Plugin[None]):
    """Ask the tool before the first prompt."""

    def before_prompt(
        self, hook: BeforePrompt, state: None, ctx: Context
    ) -> Continue[None] | Ask[None] | Intervene[None]:
        if hook.answer is None:
            return Ask(RunTool("weigh"))
        assert isinstance(hook.answer, Answered)
        return Intervene(f"it weighs {hook.answer.value}")


async def test_the_text_of_a_result_in_json_is_its_json(world: World) -> None:
    session = await world.spawn([say(calls=[call("weigh")]), "so"], tools=[weigh], plugins=[Asks()])
    heard = world.heard(session)
    await session.ask("how much?")
    (result,) = (message for message in session.messages() if isinstance(message, ToolMessage))
    assert [type(part) for part in result.parts] == [Data]
    assert result.text == WEIGHED
    assert {end.text for end in heard.of(ToolExecutionEnd)} == {WEIGHED}
    assert f"it weighs {WEIGHED}" in [message.text for message in session.messages()]


def test_the_text_of_a_message_leaves_out_images_alone() -> None:
    parts = (Text("a "), Data({"b": 1}), Image("image/png", "AAAA"), Text(" c"))
    assert UserMessage(parts).text == 'a {"b":1} c'

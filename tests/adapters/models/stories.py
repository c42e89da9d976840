"""Conversations that are told twice: to our adapters, and, move by move, to the official SDKs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from agentrail import Secret
from agentrail.models import (
    AssistantMessage,
    Data,
    File,
    Image,
    JsonObject,
    Message,
    ModelRequest,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.tools import ToolSpec
from agentrail.values.content import Said
from tests.adapters.models.histories import LAMP, PIXEL, TOOLS
from tests.kit import freeze, freeze_object

PHOTO: Final = "/9j/4AAQSkZJRg=="
"""The beginning of a JPEG file."""

BILL: Final = "JVBERi0xLjcK"
"""The beginning of a PDF file."""

OTHER_PIXEL: Final = "iVBORw0KGgoA"


@frozen
class Call:
    """A call of a tool, under the id that the provider made."""

    id: str
    name: str
    args: Mapping[str, object] = field(factory=dict)


@frozen
class Answered:
    """What a tool answered."""

    id: str
    name: str
    text: str
    image: str = ""
    """The data of a JPEG, if there is one."""
    pdf: str = ""
    """The data of a PDF, if there is one."""
    is_error: bool = False
    data: object = None
    """What the tool returned instead of text: JSON."""


@frozen
class Asks:
    """The user says something, and shows PNGs."""

    text: str
    images: tuple[str, ...] = ()
    pdf: str = ""
    """The data of a PDF called `bill.pdf`, if there is one."""
    uploaded: str = ""
    """The id of a PDF that was uploaded to the provider, if there is one."""


@frozen
class Says:
    """The model answers."""

    text: str = ""
    thought: str = ""
    seal: str = ""
    """The signature of the thought, as the provider gives it."""
    calls: tuple[Call, ...] = ()


@frozen
class Results:
    """The results of the calls of the answer before, and what the user says after them."""

    results: tuple[Answered, ...]
    said: str = ""


Move: TypeAlias = Asks | Says | Results


@frozen
class Story:
    """A conversation as the official SDK is told it, and as our history holds it."""

    moves: tuple[Move, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    options: Mapping[str, object] = field(factory=dict)
    """Options of ours; each writer of `official` knows what they are called by its provider."""
    ours: tuple[Message, ...] | None = None
    """Our history where it is not the moves: what was cut or never came."""

    def request(self, model: str, seals: Mapping[str, str]) -> ModelRequest:
        """Return the request as a session makes it; *seals* are the signatures as our history keeps them."""
        messages = self.ours
        if messages is None:
            messages = tuple(message for move in self.moves for message in _messages(move, model, seals))
        named = tuple(_of(model, message) for message in messages)
        return ModelRequest(model, named, self.system, tools=self.tools, may_call=self.may_call)


def _of(model: str, message: Message) -> Message:
    return message.but(model=model) if isinstance(message, AssistantMessage) else message


def _messages(move: Move, model: str, seals: Mapping[str, str]) -> list[Message]:
    match move:
        case Asks(text=text, images=images, pdf=pdf, uploaded=uploaded):
            shown: list[Part] = [Image("image/png", image) for image in images]
            if pdf:
                shown.append(File("application/pdf", pdf, name="bill.pdf"))
            if uploaded:
                shown.append(File("application/pdf", reference=uploaded, provider=model.partition(":")[0]))
            return [UserMessage((*((Text(text),) if text else ()), *shown))]
        case Says(text=text, thought=thought, seal=seal, calls=calls):
            said: list[Said] = [Thinking(thought, seals[seal])] if seal else []
            said += [Text(text)] if text else []
            asked = tuple(ToolCall(f"own-{call.id}", call.name, freeze_object(call.args), call.id) for call in calls)
            stop = StopReason.TOOL_CALLS if calls else StopReason.END
            return [AssistantMessage(tuple(said), asked, model, stop)]
        case Results(results=results, said=said_after):
            found: list[Message] = [_result(result) for result in results]
            return [*found, UserMessage((Text(said_after),))] if said_after else found


def _result(result: Answered) -> ToolMessage:
    parts: tuple[Part, ...] = (Text(result.text),) if result.text else ()
    if result.data is not None:
        parts += (Data(freeze(result.data)),)
    if result.image:
        parts += (Image("image/jpeg", result.image),)
    if result.pdf:
        parts += (File("application/pdf", result.pdf, name="bill.pdf"),)
    return ToolMessage(f"own-{result.id}", result.name, parts, result.is_error)


KITCHEN: Final = Call("id_1", "lamp", {"room": "kitchen"})
ALL: Final = Call("id_2", "lamps")
ON: Final = Answered("id_1", "lamp", "on")
LOOK: Final = Asks("are the lamps on?")
ANSWER: Final[JsonObject] = freeze_object(
    {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False}
)
MANY: Final = "".join(f"{number} süß 漢字 🙂\n" for number in range(20_000))
"""More than 300,000 bytes."""
DEEP: Final = {"rooms": ["attic", "Küche"], "on": True, "none": None, "watts": 1.5, "of": {"floor": -1, "": "漢字 🙂"}}
ODD: Final = "call/with|odd:characters"
"""An id that another provider has made."""

STORIES: Final[Mapping[str, Story]] = {
    "a prompt": Story((Asks("hello"),)),
    "a system prompt": Story((Asks("hello"),), system="Be short."),
    "characters of all kinds": Story((Asks('süß 漢字 🙂 "quoted" \\ \n\t\u2028 </script>'),), system="ä"),
    "several turns": Story((Asks("one"), Says("1"), Asks("two"), Says("2"), Asks("three"))),
    "a picture": Story((Asks("what is this?", (PIXEL,)),)),
    "a PDF": Story((Asks("what does it cost?", pdf=BILL), Says("5"), Asks("sure?"))),
    "a PDF that was uploaded": Story((Asks("what does it cost?", uploaded="file_1"),)),
    "a result with a PDF": Story(
        (LOOK, Says("I look.", calls=(KITCHEN,)), Results((Answered("id_1", "lamp", "a bill", pdf=BILL),))), tools=TOOLS
    ),
    "tools are offered": Story((LOOK,), tools=TOOLS),
    "a call and its result": Story((LOOK, Says("I look.", calls=(KITCHEN,)), Results((ON,))), tools=TOOLS),
    "a call without a word": Story((LOOK, Says(calls=(KITCHEN,)), Results((ON,))), tools=(LAMP,)),
    "parallel calls, one fails": Story(
        (
            LOOK,
            Says("I look.", calls=(KITCHEN, ALL)),
            Results((ON, Answered("id_2", "lamps", "no such room", is_error=True))),
            Says("One is."),
            Asks("which?"),
        ),
        tools=TOOLS,
    ),
    "a result with a picture": Story(
        (LOOK, Says("I look.", calls=(KITCHEN,)), Results((Answered("id_1", "lamp", "a photo", PHOTO),))), tools=TOOLS
    ),
    "a sealed thought before a call": Story(
        (LOOK, Says("I look.", "Two lamps.", "c2VhbA==", (KITCHEN,)), Results((ON,), "and the others?")), tools=TOOLS
    ),
    "a turn that was aborted": Story(
        (Asks("tell me a story"), Says("Once upon a"), Asks("a shorter one")),
        ours=(
            UserMessage((Text("tell me a story"),)),
            AssistantMessage((Thinking("Hm."), Text("Once upon a")), (), "", interrupted=True),
            UserMessage((Text("a shorter one"),)),
        ),
    ),
    "a call that was aborted": Story(
        (
            LOOK,
            Says(calls=(KITCHEN, ALL)),
            Results((ON, Answered("id_2", "lamps", "stopped", is_error=True)), "never mind"),
        ),
        tools=TOOLS,
    ),
    "no more calls": Story((LOOK,), tools=TOOLS, may_call=False),
    "a call must be made": Story((LOOK,), tools=TOOLS, options={"tool_choice": "any"}),
    "this tool must be called": Story((LOOK,), tools=TOOLS, options={"tool_choice": {"tool": "lamp"}}),
    "an answer of a form": Story((LOOK,), options={"response_format": ANSWER}),
    "limits": Story((LOOK,), options={"max_tokens": 500}),
    "effort": Story((LOOK,), options={"reasoning_effort": "high", "max_tokens": 40_000}),
    "words that end the answer": Story((LOOK,), options={"stop": ["END", "."]}),
    "temperature": Story((LOOK,), options={"temperature": 0.5}),
    "a field of the provider's own": Story((LOOK,), options={"extra": True}),
    "several pictures": Story((Asks("which is brighter?", (PIXEL, OTHER_PIXEL, PIXEL)), Says("2"), Asks("sure?"))),
    "a picture without a word": Story((Asks("", (PIXEL,)),)),
    "a system prompt of blanks": Story((Asks("hello"),), system=" \n"),
    "results follow results": Story(
        (LOOK, Says(calls=(KITCHEN,)), Results((ON,)), Says(calls=(ALL,)), Results((Answered("id_2", "lamps", "3"),))),
        tools=TOOLS,
    ),
    "arguments of all kinds": Story(
        (LOOK, Says(calls=(Call("id_1", "lamp", DEEP),)), Results((Answered("id_1", "lamp", "süß 漢字 🙂 \u2028"),))),
        tools=TOOLS,
    ),
    "a long text": Story((Asks(MANY), Says(MANY), Asks(MANY)), system=MANY),
    "a long result": Story((LOOK, Says(calls=(KITCHEN,)), Results((Answered("id_1", "lamp", MANY),))), tools=TOOLS),
    "a result of JSON": Story(
        (LOOK, Says(calls=(KITCHEN,)), Results((Answered("id_1", "lamp", "", data=DEEP),))), tools=TOOLS
    ),
    "a result without a word": Story(
        (LOOK, Says(calls=(KITCHEN,)), Results((Answered("id_1", "lamp", ""),))), tools=TOOLS
    ),
    "a failed result with a picture": Story(
        (LOOK, Says(calls=(KITCHEN,)), Results((Answered("id_1", "lamp", "dark", PHOTO, is_error=True),))), tools=TOOLS
    ),
    "an empty word beside a call": Story(
        (LOOK, Says(calls=(KITCHEN,)), Results((ON,))),
        tools=TOOLS,
        ours=(
            UserMessage((Text(LOOK.text),)),
            AssistantMessage((Text(""),), (ToolCall("own-id_1", "lamp", freeze_object(KITCHEN.args), "id_1"),), ""),
            ToolMessage("own-id_1", "lamp", (Text("on"),)),
        ),
    ),
    "blanks beside a call": Story((LOOK, Says(" \n", calls=(KITCHEN,)), Results((ON,))), tools=TOOLS),
    "an id that is none here": Story(
        (LOOK, Says(calls=(Call(ODD, "lamp", {"room": "attic"}),)), Results((Answered(ODD, "lamp", "on"),))),
        tools=TOOLS,
    ),
    "a name that is none here": Story(
        (
            LOOK,
            Says(calls=(Call("id_1", "lämpchen 1"),)),
            Results((Answered("id_1", "lämpchen 1", "?", is_error=True),)),
        ),
        tools=TOOLS,
    ),
    "no call may be made": Story((LOOK,), tools=TOOLS, options={"tool_choice": "none"}),
    "any JSON object": Story((LOOK,), options={"response_format": {}}),
    "headers of one's own": Story(
        (LOOK,), options={"headers": {"X-Team": "lamps", "x-gate": Secret("GATE"), "User-Agent": "lamps/1"}}
    ),
    "several options": Story(
        (LOOK,),
        tools=TOOLS,
        options={"max_tokens": 500, "tool_choice": {"tool": "lamps"}, "response_format": ANSWER, "extra": True},
    ),
}

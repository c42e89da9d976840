"""What may differ between the request of an official SDK and ours, with the reason; anything else is a defect.

The table is printed into the reference. A test fails at a difference that is not here, and at a row that nothing needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import field, frozen

from docs.printing.markdown import table
from tests.adapters.models.server import Asked

ALL: Final = ("anthropic", "openai", "openai-chat", "gemini", "bedrock")


def _places(given: str) -> tuple[str, ...]:
    return (given,) if given.startswith("header ") else tuple(given.split())


@frozen
class Difference:
    """A place in which the two may differ."""

    places: tuple[str, ...] = field(converter=_places)
    """Each `header NAME`, `path`, or the way to a field of the body; `[]` is any item of a list."""
    theirs: str
    """What the SDK sends, for people."""
    ours: str
    """What we send, for people."""
    why: str
    """The reason."""
    providers: tuple[str, ...] = ALL
    stories: tuple[str, ...] = ()
    """The stories in which it may differ; empty: all."""


TELEMETRY: Final = "which client on which system this is; it changes no answer"
OF_OPENAI: Final = ("openai", "openai-chat")

DIFFERENCES: Final = (
    Difference(
        "header accept",
        "`application/json`, `*/*`",
        "`text/event-stream`",
        "each of our requests is answered by a stream, and servers in between go by this header",
    ),
    Difference(
        "header accept-encoding",
        "`gzip, deflate`",
        "`identity`",
        "a compressed stream is held back until there is enough to compress; one that comes all the same is read",
    ),
    Difference("header user-agent", "its own name and version", "`agentrail`", TELEMETRY),
    Difference("header x-stainless-*", "system, runtime, retries", "–", TELEMETRY, ("anthropic", *OF_OPENAI)),
    Difference("header amz-sdk-*", "retries, and an id of the call", "–", TELEMETRY, ("bedrock",)),
    Difference("header x-goog-api-client", "its own name and version", "–", TELEMETRY, ("gemini",)),
    Difference(
        "path",
        "`/v1/…`",
        "`/v1beta/…`",
        "it has all that `/v1` has and the models in preview, and servers in between know no other; the SDK sends the "
        "same bodies there when it is told to",
        ("gemini",),
    ),
    Difference("generationConfig", "`{}` where nothing is set", "–", "an empty object says nothing", ("gemini",)),
    Difference(
        "contents[].parts[].thoughtSignature",
        "–",
        "`skip_thought_signature_validator`",
        "on calls that came without a signature: the API refuses a history of another model without it",
        ("gemini",),
    ),
    Difference(
        "messages[].content[]",
        "–",
        "a line that says which tool returned the picture",
        "a message of a tool holds no picture, so the user shows it, and the model must know whose it is",
        ("openai-chat",),
    ),
    Difference(
        "max_completion_tokens",
        "`max_completion_tokens`",
        "`max_tokens`, at an address of one's own only",
        "servers that imitate OpenAI know the older name; at OpenAI's own address ours is the same",
        ("openai-chat",),
    ),
    Difference("max_tokens", "–", "see `max_completion_tokens`", "as there", ("openai-chat",)),
    Difference(
        "system instructions messages systemInstruction",
        "as it is",
        "–",
        "Anthropic refuses a text of blanks, and it tells a model nothing",
        stories=("a system prompt of blanks",),
    ),
    Difference(
        "messages[].content input contents[].parts",
        "as they are",
        "–",
        "as there; models write a line break before a call",
        stories=("blanks beside a call",),
    ),
    Difference(
        "messages[].content[]",
        "–",
        "a text that no tool may be called",
        "the API has no other way to say it",
        ("bedrock",),
        ("no call may be made", "no more calls"),
    ),
    Difference(
        "messages[].content[].id messages[].content[].tool_use_id input[].call_id messages[].tool_calls[].id "
        "messages[].tool_call_id contents[].parts[].functionCall.id contents[].parts[].functionResponse.id "
        "messages[].content[].toolUse.toolUseId messages[].content[].toolResult.toolUseId",
        "as it is",
        "the session's id of the call, in letters, digits, `_` and `-`",
        "APIs refuse the ids that other providers make; a call and its result have the same one",
        stories=("an id that is none here",),
    ),
    Difference(
        "messages[].content[].name input[].name messages[].tool_calls[].function.name "
        "contents[].parts[].functionCall.name contents[].parts[].functionResponse.name "
        "messages[].content[].toolUse.name",
        "as it is",
        "with `_` for each character that no name may have",
        "a model made it up and was told that there is no such tool; APIs refuse a history that has it",
        stories=("a name that is none here",),
    ),
    Difference(
        "messages[].content[].content[].text input[].output messages[].content "
        "contents[].parts[].functionResponse.response.output messages[].content[].toolResult.content[].text",
        "what `json.dumps` writes, if the user calls it",
        "sorted keys, no blanks, no escapes but the needed ones",
        "the same values are the same text, so that the provider's cache knows them again, and fewer tokens",
        stories=("a result of JSON",),
    ),
    Difference(
        "messages[].content[].content[] input[].output messages[].content "
        "contents[].parts[].functionResponse.response.output messages[].content[].toolResult.content[]",
        "empty",
        "`(no output)`",
        "servers refuse an empty text, and a model takes it for a fault",
        stories=("a result without a word",),
    ),
    Difference(
        "messages[].content",
        "in the result",
        "behind the result, as if the user showed it",
        "the API refuses pictures in a result that is an error",
        ("anthropic", "bedrock"),
        stories=("a failed result with a picture",),
    ),
    Difference(
        "messages[].content[].source messages[].content[].type messages[].content[].text contents[].parts[].fileData "
        "contents[].parts[].text",
        "the id of the file",
        "a text that says why the file is not shown",
        "files that were uploaded are kept by the makers' own services, and Vertex AI knows none of them",
        ("vertex",),
        stories=("a PDF that was uploaded",),
    ),
    Difference(
        "header authorization",
        "the key as a Bearer, where `OpenAI` is used at `/openai/v1`",
        "–",
        "see `api-key`",
        ("azure", "azure-chat"),
    ),
    Difference(
        "header api-key",
        "–",
        "the key, as `AzureOpenAI` sends it",
        "one header for both APIs of Azure",
        ("azure", "azure-chat"),
    ),
)

TRANSPORT: Final = frozenset({"connection", "content-length", "host"})
"""Headers that say how long the body is and where it goes, which are looked at by themselves."""

SAME: Final[Mapping[str, str]] = {
    "openai": "the text of a call's arguments is compared as JSON",
    "openai-chat": "the text of a call's arguments is compared as JSON",
    "gemini": "names of fields and base64 are compared in one spelling: the API reads `mime_type` as `mimeType`, "
    "and `_9j_` as `/9j/`",
}
"""What is the same to the provider, and is made equal before the bodies are compared."""


def _opaque(text: str) -> object:
    found: object = json.loads(text)
    return found


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found.group(1).upper(), name)


FREE: Final = frozenset({"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels"})
"""Fields that hold what users wrote, in which no name is Google's."""
BYTES: Final = frozenset({"data", "thoughtSignature"})


def _as_it_is(found: object) -> object:
    return found


def _with_arguments(found: object) -> object:
    if isinstance(found, dict):
        return {
            key: _opaque(item) if key == "arguments" and isinstance(item, str) else _with_arguments(item)
            for key, item in found.items()
        }
    return [_with_arguments(item) for item in found] if isinstance(found, list) else found


def _in_one_spelling(found: object) -> object:
    if isinstance(found, list):
        return [_in_one_spelling(item) for item in found]
    if not isinstance(found, dict):
        return found
    whole: dict[str, object] = {}
    for key, item in found.items():
        name = _camel(key)
        if name in BYTES and isinstance(item, str) and "validator" not in item:
            whole[name] = item.replace("-", "+").replace("_", "/")
        else:
            whole[name] = item if name in FREE else _in_one_spelling(item)
    return whole


READINGS: Final[Mapping[str, Callable[[object], object]]] = {
    "anthropic": _as_it_is,
    "openai": _with_arguments,
    "openai-chat": _with_arguments,
    "gemini": _in_one_spelling,
    "bedrock": _as_it_is,
}


def differences(provider: str, theirs: Asked, ours: Asked) -> Iterator[tuple[str, str]]:
    """Return the places in which the two requests differ, with what stands there."""
    if theirs.method != ours.method:
        yield "method", f"{theirs.method} {ours.method}"
    if theirs.target != ours.target:
        yield "path", f"{theirs.target} {ours.target}"
    for name in sorted((theirs.headers.keys() | ours.headers.keys()) - TRANSPORT):
        if (there := theirs.headers.get(name)) != (here := ours.headers.get(name)):
            yield f"header {name}", f"{there} {here}"
    reading = READINGS[provider]
    yield from _between(reading(theirs.json), reading(ours.json), "")


def _between(theirs: object, ours: object, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            inner = f"{place}.{key}" if place else key
            if key in theirs and key in ours:
                yield from _between(theirs[key], ours[key], inner)
            else:
                yield inner, f"{theirs.get(key, '–')} {ours.get(key, '–')}"
    elif isinstance(theirs, list) and isinstance(ours, list):
        yield from _between_lists(theirs, ours, place)
    elif type(theirs) is not type(ours) or theirs != ours:
        yield place, f"{theirs} {ours}"


def _between_lists(theirs: list[object], ours: list[object], place: str) -> Iterator[tuple[str, str]]:
    if len(theirs) == len(ours):
        for there, here in zip(theirs, ours, strict=True):
            yield from _between(there, here, f"{place}[]")
        return
    more = [item for item in ours if item not in theirs]
    if [item for item in ours if item in theirs] == theirs:  # ours has all of theirs, in their order, and more
        for item in more:
            yield f"{place}[]", f"– {item}"
    else:
        yield place, f"{theirs} {ours}"


def row_of(provider: str, place: str, story: str) -> Difference | None:
    """Return the row that allows a difference at *place* of *story*."""
    for row in DIFFERENCES:
        fits = any(place.startswith(known[:-1]) if known.endswith("*") else place == known for known in row.places)
        if fits and provider in row.providers and (not row.stories or story in row.stories):
            return row
    return None


def _where(row: Difference) -> str:
    where = ", ".join(f"`{place}`" for place in row.places)
    return f"{', '.join(row.stories)}: {where}" if row.stories else where


def printed() -> list[str]:
    """Return the table for the reference."""
    rows = [
        (_where(row), ", ".join(row.providers) if row.providers != ALL else "all", row.theirs, row.ours, row.why)
        for row in DIFFERENCES
    ]
    return table(("where", "provider", "the SDK", "agentrail", "why"), rows)

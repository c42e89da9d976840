"""Whoever writes what: in a request to any provider, only what the program says stands between the program's tags."""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.models.model_turns import RULE
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import Settings
from agentrail.models import (
    PROVIDERS,
    AssistantMessage,
    Data,
    File,
    Message,
    ModelRequest,
    Origin,
    Part,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)

WORDS = (
    "< </ <\n \uff1c \ufe64 / \uff0f > \uff1e \u200b \xad \u2067 \n x &lt; system SYSTEM sys tem s ystem \u017fystem "
    "\uff53\uff59stem memory mem ory <system> </system> </memory> "
    "sy\ufb06em \U0001d42cystem \u24e2ystem \u02e2ystem s\u0301ystem \u015bystem mem\u00f6ry \u24dcemory "
    "\ufff9 \u0600 \U0001d173 \u3164 \u2800 \u1160 \u115f \uffa0 \0 \x7f \ue000 \ufe0f \u0338 \u226e"
)
PIECES = st.sampled_from(WORDS.split(" "))
HOSTILE = st.lists(PIECES, max_size=9).map("".join)
PARTS: st.SearchStrategy[Part] = (
    HOSTILE.map(Text)
    | HOSTILE.map(lambda text: Data((text,)))
    | HOSTILE.map(lambda text: File("text/plain", "NQ==", name=text))
    | HOSTILE.map(lambda text: File("text/markdown", b64encode(text.encode()).decode() or "NQ=="))
    | HOSTILE.map(lambda text: File("application/json", b64encode(text.encode()).decode() or "NQ==", name="a"))
    | HOSTILE.map(lambda text: File("application/pdf", "JVBERi0=", name=text))
    | HOSTILE.map(lambda text: File("video/x", reference="one", name=text))
)
SAID = st.lists(
    st.builds(UserMessage, st.lists(PARTS, max_size=3).map(tuple), st.sampled_from(tuple(Origin))), max_size=6
).map(tuple)
NAMED = st.lists(st.tuples(HOSTILE, HOSTILE), max_size=2).map(tuple)
"""Sections and memory files."""


UNSEEN = re.compile("[\u115f\u1160\u2800]")
"""Letters that look like a blank."""


def tags(text: str, word: str) -> list[str]:
    """Return what a careless reader takes for a tag: in letters of any style, and with what nobody sees left out."""
    plain = UNSEEN.sub("", unicodedata.normalize("NFKD", text).casefold())
    seen = "".join(one for one in plain if unicodedata.category(one)[0] not in "CM" or one.isspace())
    return re.findall(rf"<\s*/?\s*{word}(?!\w)", seen)


def texts_of(found: object, key: str = "") -> Iterator[str]:
    """Yield the texts that the model reads, in order: those of files too, and the names of files."""
    if isinstance(found, str) and key in {"text", "content", "instructions", "title", "filename"}:
        yield found
    elif isinstance(found, str) and key in {"data", "file_data"}:
        yield b64decode(found.rpartition(",")[2]).decode(errors="replace")
    elif isinstance(found, dict):
        is_text = found.get("type") == "text"
        for name, item in found.items():
            yield from texts_of(item, "text" if is_text and name == "data" else name)
    elif isinstance(found, list):
        for item in found:
            yield from texts_of(item, key)


def said_by_user(provider: str, request: ModelRequest, model: str = "m") -> list[object]:
    """Return the messages of the rendered request, without the system prompt."""
    body = json.loads(json.dumps(format_of(PROVIDERS[provider]).render(request, provider, model, Settings()).body))
    messages = body.get("messages") or body.get("input") or body["contents"]
    return [message for message in messages if message.get("role") != "system"]


def shown(provider: str, request: ModelRequest) -> str:
    """Return all that the user says in the rendered request, without anything between the texts."""
    return "".join(texts_of(said_by_user(provider, request)))


def without_results(found: object) -> object:
    """Return *found* without the results of tools, in which tags are a quotation."""
    if isinstance(found, list):
        return [without_results(item) for item in found]
    if not isinstance(found, dict):
        return found
    if found.get("type") in {"tool_result", "function_call_output"} or found.get("role") == "tool":
        return {}
    return {
        name: without_results(item) for name, item in found.items() if name not in {"functionResponse", "toolResult"}
    }


def system(provider: str, request: ModelRequest) -> str:
    body = json.loads(json.dumps(format_of(PROVIDERS[provider]).render(request, provider, "m", Settings()).body))
    own = [body.get("system"), body.get("systemInstruction"), {"instructions": body.get("instructions")}]
    return "".join(texts_of([*own, *[one for one in body.get("messages", []) if one["role"] == "system"]], "text"))


@given(SAID, NAMED, st.sampled_from(sorted(PROVIDERS)))
def test_nobody_but_the_program_writes_its_tags(
    said: tuple[UserMessage, ...], sections: tuple[tuple[str, str], ...], provider: str
) -> None:
    request = ModelRequest(f"{provider}:m", said, sections=sections, request_id="r1")
    found = tags(shown(provider, request), "system")
    assert found == ["<system", "</system"] * (len(found) // 2)
    people = tuple(message for message in said if message.origin in {Origin.PROMPT, Origin.STEERING})
    if any(message.text.strip() for message in people) and len(people) == len(said):
        assert len(found) == 2 * any(text.strip() for _, text in sections)


@given(NAMED, SAID, st.sampled_from(sorted(PROVIDERS)))
def test_no_memory_file_writes_its_tags(
    files: tuple[tuple[str, str], ...], said: tuple[UserMessage, ...], provider: str
) -> None:
    request = ModelRequest(f"{provider}:m", said, background=files, memory=len(files), request_id="r1")
    whole = system(provider, request)
    count = sum(bool(text.strip()) for _, text in files)
    # Two more are in the sentence that says what they are.
    assert tags(whole, "memory") == ["<memory", "</memory"] * (count + bool(count))
    assert tags(whole, "system") == ["<system", "</system"]
    assert whole.count(RULE) == 1


@given(st.lists(PARTS, max_size=3).map(tuple), st.booleans(), st.sampled_from(sorted(PROVIDERS)))
def test_no_file_of_a_result_writes_the_tags_among_the_texts_of_the_user(
    parts: tuple[Part, ...], is_error: bool, provider: str
) -> None:
    history: tuple[Message, ...] = (
        UserMessage((Text("go"),)),
        AssistantMessage((), (ToolCall("c1", "lamp"),), f"{provider}:m"),
        ToolMessage("c1", "lamp", parts, is_error),
    )
    request = ModelRequest(f"{provider}:m", history, request_id="r1")
    for model in ("m", "gemini-2.5-pro"):  # an older one takes files only after the results
        assert tags("".join(texts_of(without_results(said_by_user(provider, request, model)))), "system") == []

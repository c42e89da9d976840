"""Whoever writes what: in a request to any provider, only what the program says stands between the program's tags."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.models.model_turns import RULE
from agentrail.adapters.models.providers import PROVIDERS, format_of
from agentrail.adapters.models.settings import Settings
from agentrail.values.content import Data, File, Part, Text
from agentrail.values.messages import Origin, UserMessage
from agentrail.values.stream import ModelRequest

WORDS = (
    "< </ <\n \uff1c \ufe64 / \uff0f > \uff1e \u200b \xad \u2067 \n x &lt; system SYSTEM sys tem s ystem \u017fystem "
    "\uff53\uff59stem memory mem ory <system> </system> </memory>"
)
PIECES = st.sampled_from(WORDS.split(" "))
HOSTILE = st.lists(PIECES, max_size=9).map("".join)
PARTS: st.SearchStrategy[Part] = (
    HOSTILE.map(Text)
    | HOSTILE.map(lambda text: Data((text,)))
    | HOSTILE.map(lambda text: File("text/plain", "NQ==", name=text))
    | HOSTILE.map(lambda text: File("video/x", reference="one", name=text))
)
SAID = st.lists(
    st.builds(UserMessage, st.lists(PARTS, max_size=3).map(tuple), st.sampled_from(tuple(Origin))), max_size=6
).map(tuple)
NAMED = st.lists(st.tuples(HOSTILE, HOSTILE), max_size=2).map(tuple)
"""Sections and memory files."""


def tags(text: str, word: str) -> list[str]:
    """Return what a careless reader takes for a tag: whatever its width and case, and what nobody sees."""
    plain = unicodedata.normalize("NFKC", "".join(one for one in text if unicodedata.category(one) != "Cf")).casefold()
    return re.findall(rf"<\s*/?\s*{word}(?!\w)", plain)


def texts_of(found: object, key: str = "") -> Iterator[str]:
    """Yield the texts that the model reads, in order; a file with a name of its own is no text."""
    if isinstance(found, str) and key in {"text", "content", "instructions"}:
        yield found
    elif isinstance(found, dict):
        for name, item in found.items():
            yield from texts_of(item, name)
    elif isinstance(found, list):
        for item in found:
            yield from texts_of(item, key)


def shown(provider: str, request: ModelRequest) -> str:
    """Return all that the user says in the rendered request, without anything between the texts."""
    body = json.loads(json.dumps(format_of(PROVIDERS[provider]).render(request, provider, "m", Settings()).body))
    messages = body.get("messages") or body.get("input") or body["contents"]
    return "".join(texts_of([message for message in messages if message.get("role") != "system"]))


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

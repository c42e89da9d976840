"""Whatever a history holds, what goes to a provider is what any provider takes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.models.model_turns import ANY_ID, ModelTurn, RoleTurn, UserTurn, turns_of
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import ANY, Takes
from agentrail.models import (
    PROVIDERS,
    AssistantMessage,
    Data,
    File,
    Image,
    Message,
    ModelRequest,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.values.content import Said

T = TypeVar("T")

MODELS = st.sampled_from(("own:a", "own:b", "other:c", ""))
IDS = st.sampled_from(("", "id_1", "id_2", "c1", "c00000001", "odd/id", "x" * 80))
ALL_FILES = Takes((ANY,), (ANY,), ids=True)
BILL = File("application/pdf", "JVBERi0xLjcK")
NOTE = File("text/plain", "NQ==", name="note.txt")
UPLOADED = File("application/pdf", reference="file_1", provider="own")
CALL_IDS = ("c1", "c2", "odd id", "c" * 80)
PARTS: st.SearchStrategy[Part] = st.sampled_from(
    (Text("said"), Text(""), Text(" \n"), Image("image/png", "AAAA"), Data(()), Data("data"), BILL, NOTE, UPLOADED)
)
SAID: st.SearchStrategy[Said] = st.sampled_from(
    (Text("said"), Text(""), Thinking("cut"), Thinking("hm", "seal"), Thinking("", "seal"))
)


def tuples(of: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(of, max_size=3).map(tuple)


VIA = st.sampled_from(("", "call_tool"))
CALLS = tuples(st.builds(ToolCall, st.sampled_from(CALL_IDS), st.just("lamp"), provider_id=IDS, via=VIA))
MESSAGES: st.SearchStrategy[Message] = (
    st.builds(UserMessage, tuples(PARTS))
    | st.builds(AssistantMessage, tuples(SAID), CALLS, MODELS)
    | st.builds(ToolMessage, st.sampled_from(CALL_IDS), st.just("lamp"), tuples(PARTS), st.booleans())
)
HISTORIES = st.lists(MESSAGES, max_size=8).map(tuple)
"""Histories in which nothing is in order: results without calls, calls without results, ids twice, and no words."""


def why_wrong(turns: tuple[RoleTurn, ...]) -> str | None:
    kinds = [type(turn) for turn in turns]
    if not turns or kinds[0] is not UserTurn or kinds[-1] is not UserTurn:
        return "it does not begin and end with the user"
    for before, after in pairwise(turns):
        if type(before) is type(after):
            return "two turns of one side"
        if isinstance(before, ModelTurn) and isinstance(after, UserTurn):
            wanted = [asked.wire_id for asked in before.asked]
            if [result.wire_id for result in after.results] != wanted:
                return "results that are not those of the calls"
    ids = [asked.wire_id for turn in turns if isinstance(turn, ModelTurn) for asked in turn.asked]
    if len(set(ids)) != len(ids) or not all(map(ANY_ID.fullmatch, ids)):
        return "ids that no provider takes"
    return next((problem for turn in turns if (problem := _why_empty(turn)) is not None), None)


def _why_empty(turn: RoleTurn) -> str | None:
    if isinstance(turn, UserTurn):
        shown = (*turn.parts, *(part for result in turn.results for part in result.parts))
        if not shown or not all(
            isinstance(part, Image | File) or (isinstance(part, Text) and part.text) for part in shown
        ):
            return "a turn of the user, or a result, that says nothing"
        return None
    if any(isinstance(part, Thinking) and part.signature is None for part in turn.parts):
        return "a thought without a seal"
    return None if turn.asked or any(isinstance(part, Text) for part in turn.parts) else "an empty turn of the model"


@given(HISTORIES)
def test_a_history_is_projected_to_what_any_provider_takes(said: tuple[Message, ...]) -> None:
    turns = turns_of(said, "own", ALL_FILES)
    assert why_wrong(turns) is None, turns


@given(HISTORIES, HISTORIES)
def test_what_was_sent_stays_as_it_was_when_more_is_said(first: tuple[Message, ...], more: tuple[Message, ...]) -> None:
    """A provider's cache knows the beginning of a request only if it is the same as before."""
    before, after = turns_of(first, "own", ALL_FILES), turns_of((*first, *more), "own", ALL_FILES)
    assert after[: len(before) - 1] == before[:-1]


@given(HISTORIES, st.sampled_from(sorted(PROVIDERS)))
def test_each_format_renders_any_history(said: tuple[Message, ...], provider: str) -> None:
    request = ModelRequest(f"{provider}:m", said)
    rendered = format_of(PROVIDERS[provider]).render(request, provider, "m", Settings())
    assert json.loads(json.dumps(rendered.body, allow_nan=False))

"""Rules for single steps about what the model sees and says: tools on demand, answers in a form, replaced texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from agentrail.core.tools_on_demand import CALLER, FINDER, ROOM, definition, free
from agentrail.core.vocabulary.commands import Accepted, PromptSent
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.core.vocabulary.inputs import CompactionEnded, StreamEnded
from agentrail.core.vocabulary.state import State
from agentrail.hooks.ruling import Verdict
from agentrail.testing.world.choose import Seen
from agentrail.testing.world.outstanding import demand
from agentrail.values.content import Text
from agentrail.values.events.life import AgentAbort, AgentEnd, AgentStart, PromptReceived
from agentrail.values.events.response import AnswerRejected
from agentrail.values.events.tools import ToolsFound
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, UserMessage
from agentrail.values.tools import ToolSpec

LATELY: Final = 20
"""In how many of the last messages a text is looked for."""

# Tools on demand


def _deferred(state: State) -> list[ToolSpec]:
    return [attached.spec for attached in state.tools.values() if attached.spec.deferred]


def _declares(seen: Seen) -> None:
    """Check that a request declares each tool but the deferred ones, which it names in the description of another.

    A request that the same step gives up again is left out: plugins may have changed the tools after it.
    """
    going = seen.after.request
    for effect in seen.step.effects:
        if not isinstance(effect, StartRequest) or going is None or effect.request.request_id != going.request_id:
            continue
        request, deferred = effect.request, _deferred(seen.after)
        plain = [attached.spec for attached in seen.after.tools.values() if not attached.spec.deferred]
        leading = [tool for tool in request.tools if tool not in plain]
        demand([*request.deferred] == deferred, "{} can be found, and {} are to be", request.deferred, deferred)
        demand([*request.tools[: len(plain)]] == plain, "{} are declared as {}", plain, request.tools)
        demand(len(leading) == (2 if deferred else 0), "{} are declared for the deferred tools {}", leading, deferred)
        unnamed = [tool.name for tool in deferred if tool.name not in leading[0].description]
        demand(not unnamed, "no description names {}", unnamed)


def _finds(seen: Seen) -> None:
    """Check that tools that were found stay so, and that the model has their definitions after a compaction."""
    before, after = seen.before, seen.after
    found = {name for event in seen.events if isinstance(event, ToolsFound) for name in event.names}
    lost = {*before.found, *found} - {*after.found}
    demand(not lost, "{} were found, and are forgotten", lost)
    if not isinstance(seen.given, CompactionEnded) or after.history is before.history or not after.found:
        return
    wanted = [definition(spec) for spec in _deferred(after) if spec.name in after.found]
    told = [message.text for message in after.history] + [*after.notices]
    missing = [each for each in wanted if not any(each in text for text in told)]
    demand(not missing or sum(map(len, wanted)) > ROOM, "after a compaction nothing tells of {}", missing)


def _resolves(seen: Seen) -> None:
    """Check that a call of `call_tool` stands in the history as one of the tool that it names."""
    given, before, after = seen.given, seen.before, seen.after
    request = before.request
    if not isinstance(given, StreamEnded) or request is None or request.request_id != given.request_id:
        return
    new = after.history[len(before.history) :]
    said = next((one for one in new if isinstance(one, AssistantMessage)), None)
    if said is None or len(said.calls) != len(given.response.calls) or not _deferred(before):
        return
    finder, caller = free(FINDER, before.tools), free(CALLER, before.tools)
    for made, kept in zip(given.response.calls, said.calls, strict=True):
        name, args = made.args.get("name"), made.args.get("arguments")
        if made.name == caller and isinstance(name, str) and name != caller and not isinstance(args, str):
            via = "" if name == finder else caller
            demand((kept.name, kept.via) == (name, via), "{} stands in the history as {}", made, kept)


# Answers in a form


def _returns(state: State, ref: str) -> JsonObject | None:
    """Return the schema that the prompt *ref* was sent with; `None` if *state* does not have it."""
    waiting = [*state.queue, *([] if state.taking is None else [state.taking])]
    return next((prompt.returns for prompt in waiting if prompt.ref == ref), None)


def _forms(seen: Seen) -> None:
    """Check that a turn wants the form of its prompt, and ends with an answer of that form or is aborted."""
    before, after, answer = seen.before, seen.after, seen.step.answer
    for event in seen.events:
        match event:
            case AgentStart(ref=ref) if after.turn is not None and after.turn.ref == ref:
                wanted = _returns(before, ref)
                if isinstance(seen.given, PromptSent) and isinstance(answer, Accepted) and answer.ref == ref:
                    wanted = seen.given.returns
                demand(
                    wanted in (None, after.turn.returns), "{} wants {}, its turn {}", ref, wanted, after.turn.returns
                )
            case AgentEnd(ref=ref, fits=fits, stop_reason=stop) if before.turn is not None and before.turn.ref == ref:
                formed = bool(before.turn.returns or before.setup.returns)
                demand(formed or not fits, "{} ends with an answer in a form, and wanted none", ref)
                demand(fits or not formed or stop != "end", "{} ends without an answer in its form", ref)
                demand(not fits or _is_object(after.last_reply or ""), "{} ends with {!r}", ref, after.last_reply)
            case AnswerRejected(attempt=attempt, is_last=is_last):
                most = after.setup.options.answer_max_retries + 1
                over = any(isinstance(other, AgentAbort) and other.kind == "answer" for other in seen.events)
                demand(attempt <= most, "{} is more than the {} that are allowed", event, most)
                demand(is_last == over, "{}, and the turn is aborted: {}", event, over)
            case _:
                pass


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text.strip().removeprefix("```json").strip("`")), dict)
    except ValueError:
        return False


# What was said


def _said(seen: Seen) -> None:
    """Check that what plugins replaced in a prompt or a response is what the history has."""
    for ruling in seen.step.rulings:
        text = ruling.gathered.said
        if text is None or ruling.verdict in (Verdict.ABORT, Verdict.BLOCK, Verdict.ASK):
            continue
        if ruling.hook == "before_prompt":
            told = [event.text for event in seen.events if isinstance(event, PromptReceived)]
            demand(text in told and text in _texts(seen, UserMessage), "{!r} is not what the user has said", text)
        elif ruling.hook == "after_response":
            demand(text in _texts(seen, AssistantMessage), "{!r} is not what the model has said", text)


def _texts(seen: Seen, kind: type[UserMessage | AssistantMessage]) -> list[str]:
    return [message.text for message in seen.after.history[-LATELY:] if isinstance(message, kind)]


def _files(seen: Seen) -> None:
    """Check that the files of a prompt that starts a turn are in the history as they were sent."""
    given, answer, turn = seen.given, seen.step.answer, seen.after.turn
    if not isinstance(given, PromptSent) or not isinstance(answer, Accepted) or turn is None or turn.ref != answer.ref:
        return
    files = [part for part in given.parts if not isinstance(part, Text)]
    there = list(_parts(seen)) if files else []
    demand(all(file in there for file in files), "of {} only {} are in the history", files, there)


def _parts(seen: Seen) -> Iterator[object]:
    for message in seen.after.history[-LATELY:]:
        if isinstance(message, UserMessage):
            yield from message.parts


SEEN: Final[tuple[Callable[[Seen], None], ...]] = (_declares, _finds, _resolves, _forms, _said, _files)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""

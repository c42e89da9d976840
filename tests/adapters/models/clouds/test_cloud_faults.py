"""What goes wrong at a cloud is the same error, or the same end, as with the maker of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

import pytest

from agentrail import Secret, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.models.anthropic.message_decoder import STOPS as CLAUDE_STOPS
from agentrail.adapters.models.bedrock.converse_decoder import BROKEN as BEDROCK_BROKEN
from agentrail.adapters.models.bedrock.converse_decoder import STOPS as BEDROCK_STOPS
from agentrail.adapters.models.gemini.content_decoder import BROKEN as GEMINI_BROKEN
from agentrail.adapters.models.gemini.content_decoder import STOPS as GEMINI_STOPS
from agentrail.adapters.models.openai.faults import IN_STREAM
from agentrail.adapters.models.openai_chat.chat_decoder import STOPS as CHAT_STOPS
from agentrail.adapters.models.provider_errors import error_of_body
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.redaction import Redactor
from agentrail.adapters.models.remote_model import Hearing
from agentrail.adapters.models.wire_format import WireFormat
from agentrail.errors import (
    AccessDenied,
    AnswerUnfit,
    ContextTooLong,
    KeyRefused,
    ModelError,
    Overloaded,
    ProviderFailed,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    StreamEndedEarly,
    StreamGarbled,
    TurnAborted,
)
from agentrail.events import AgentAbort, AgentEnd, ModelSwitched, Retry
from agentrail.models import PROVIDERS, Json, StopReason
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import converse_events as converse
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models import openai_events as openai
from tests.adapters.models.server import Reset, events, refusing, serving, steps, streaming
from tests.each_case import each_case

GEMINI: Final = "vertex:gemini-3-flash-preview"
CLAUDE: Final = "vertex:claude-sonnet-5"
BEDROCK: Final = "bedrock:anthropic.claude-sonnet-5-v1:0"

MAKERS: Final = {
    GEMINI: "gemini:gemini-3-flash-preview",
    CLAUDE: "anthropic:claude-sonnet-5",
    "azure:lamps": "openai:gpt-5.4",
    "azure-chat:lamps": "openai-chat:gpt-5.4",
}
"""Models at clouds that speak the wire format of their makers, with the same model there."""


def format_named(name: str) -> WireFormat:
    provider, _, model = name.partition(":")
    return format_of(PROVIDERS[provider], model)


def heard(name: str, stream: bytes) -> StopReason | tuple[type[ModelError], str]:
    """Return how an answer ends that the model called *name* sends as *stream*."""
    hearing = Hearing(format_named(name), Redactor(()), lambda _: None)
    try:
        hearing.feed(stream)
        return hearing.response().stop
    except ModelError as error:
        return type(error), str(error.args[0])


def in_stream(name: str, kind: str) -> bytes:
    """Return a stream with an error of this *kind*, in the format of the maker of the model called *name*."""
    maker = name.partition(":")[0]
    if maker == "gemini":
        return events(gemini.content({"text": "well"}), gemini.error(0, kind, "not today"), named=False)
    if maker == "anthropic":
        return events(anthropic.opening(), anthropic.error(kind, "not today"))
    return events({"type": "error", **openai.error(kind, "not today")}, named=maker == "openai")


@each_case(
    [
        (cloud, maker, kind)
        for cloud, maker in MAKERS.items()
        for kind in (*format_named(maker).faults.by_type, *IN_STREAM.by_type, "unheard_of")
    ]
)
def test_an_error_of_the_maker_is_the_same_at_the_cloud(cloud: str, maker: str, kind: str) -> None:
    assert heard(cloud, in_stream(maker, kind)) == heard(maker, in_stream(maker, kind))
    headers = {"retry-after": "7"}
    body = json.dumps(openai.error(kind, "not today", kind)).encode()
    for status in (400, 429):
        at_cloud = error_of_body(format_named(cloud).faults, status, headers, body)
        at_maker = error_of_body(format_named(maker).faults, status, headers, body)
        assert at_cloud == at_maker


def ended(name: str, reason: str) -> bytes:
    """Return an answer that ends for this *reason*."""
    match name.partition(":")[0]:
        case "gemini":
            return events(gemini.content({"text": "well"}), gemini.closing(reason), named=False)
        case "anthropic":
            text = anthropic.block(0, "text", "text_delta", "text", "well")
            return events(anthropic.opening(), *text, *anthropic.closing(reason))
        case "openai":
            return events(*openai.message(0, "well"), openai.closing("incomplete", reason))
        case _:
            return events(chat.piece(content="well"), chat.piece(reason), named=False) + chat.DONE


REASONS: Final = {
    GEMINI: (*GEMINI_STOPS, *GEMINI_BROKEN),
    CLAUDE: tuple(CLAUDE_STOPS),
    "azure:lamps": ("content_filter", "max_output_tokens"),
    "azure-chat:lamps": (*CHAT_STOPS, "stop", "error"),
}


@each_case([(cloud, reason) for cloud, reasons in REASONS.items() for reason in reasons])
def test_an_answer_ends_at_the_cloud_as_with_its_maker(cloud: str, reason: str) -> None:
    maker = MAKERS[cloud]
    assert heard(cloud, ended(maker, reason)) == heard(maker, ended(maker, reason))


def test_answers_that_a_filter_ends_are_refusals_everywhere() -> None:
    filtered = {
        GEMINI: "SAFETY",
        CLAUDE: "refusal",
        "azure:lamps": "content_filter",
        "azure-chat:lamps": "content_filter",
    }
    ends = [heard(cloud, ended(MAKERS[cloud], reason)) for cloud, reason in filtered.items()]
    ends += [heard(BEDROCK, converse.ended(reason)) for reason in ("content_filtered", "guardrail_intervened")]
    assert set(ends) == {StopReason.REFUSED}
    blocked = events({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, named=False)
    assert heard(GEMINI, blocked) is StopReason.REFUSED


# Google's own errors, which reach whoever asks for a model of another maker


EXHAUSTED: Final = gemini.error(429, "RESOURCE_EXHAUSTED", "Resource exhausted.")


@each_case(
    [
        (name, written)
        for name in (GEMINI, CLAUDE, "gemini:gemini-3-flash-preview")
        for written in (
            events(EXHAUSTED, named=False),
            json.dumps(EXHAUSTED).encode(),
            json.dumps(EXHAUSTED, indent=2).encode(),
            json.dumps([EXHAUSTED], indent=2).encode() + b"\n\n",
        )
    ]
)
def test_google_s_error_ends_an_answer_also_as_bare_json(name: str, written: bytes) -> None:
    begun = events(gemini.content({"text": "well"}), named=False)
    if name == CLAUDE:
        begun = events(anthropic.opening())
    for stream in (written, begun + written):
        assert heard(name, stream) == (RateLimited, "RESOURCE_EXHAUSTED 429: Resource exhausted.")


@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
def test_google_s_refusals_mean_the_same_for_both_makers(name: str) -> None:
    def refusal(status: int, kind: str, message: str = "no", *details: dict[str, object]) -> ModelError:
        body = json.dumps(gemini.error(status, kind, message, *details)).encode()
        return error_of_body(format_named(name).faults, status, {}, body)

    too_long = (
        "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576."
    )
    assert type(refusal(403, "PERMISSION_DENIED", "no", gemini.reason("BILLING_DISABLED"))) is QuotaSpent
    assert type(refusal(400, "FAILED_PRECONDITION")) is AccessDenied
    assert type(refusal(400, "INVALID_ARGUMENT", too_long)) is ContextTooLong
    assert type(refusal(499, "CANCELLED")) is ProviderFailed
    assert refusal(429, "RESOURCE_EXHAUSTED", "later", gemini.retry("3.5s")).retry_after == 3.5


# Azure


NOTES: Final = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
UNFILTERED: Final = {
    "choices": [
        {"index": 0, "finish_reason": None, "content_filter_result": {"error": {"code": "content_filter_error"}}}
    ]
}


@each_case(
    [
        ("azure-chat:m", [NOTES, chat.piece(content="well"), UNFILTERED, chat.piece("stop")], StopReason.END),
        ("azure-chat:m", [NOTES, openai.error("content_filter", "filtered")], RequestRefused),
        ("azure-chat:m", [openai.error("429", "later", "")], RateLimited),
        ("azure-chat:m", [NOTES], StreamEndedEarly),
        ("azure:m", [openai.failed("content_filter", "filtered")], RequestRefused),
        ("azure:m", [openai.failed("rate_limit_exceeded", "later")], RateLimited),
        ("azure:m", [{"type": "error", **openai.error("no_capacity", "busy", "too_many_requests")}], Overloaded),
        ("azure:m", [{"type": "error", **openai.error(None, "later", "too_many_requests")}], RateLimited),
        ("azure:m", [{"type": "response.failed", "response": {"error": None}}], ProviderFailed),
        (
            "azure:m",
            [
                {"type": "response.failed", "response": {"status": "failed", "error": None}},
                {"type": "error", **openai.error("content_policy_violation", "filtered")},
            ],
            RequestRefused,
        ),
    ]
)
def test_azure_ends_an_answer(name: str, sent: Sequence[object], wanted: object) -> None:
    end = heard(name, events(*sent, named=False))
    assert (end[0] if isinstance(end, tuple) else end) is wanted


def test_a_token_of_entra_without_the_role_is_no_wrong_key() -> None:
    body = json.dumps(openai.error("PermissionDenied", "Principal does not have access to API/Operation.")).encode()
    assert type(error_of_body(format_named("azure:m").faults, 401, {}, body)) is AccessDenied


async def test_an_answer_that_has_begun_is_not_asked_for_again_when_a_filter_ends_it() -> None:
    begun = events(chat.piece(content='{"a"'), openai.error("content_filter", "filtered"), named=False)
    async with serving(streaming(begun)) as server, opened() as supervisor:
        session = await spawned(supervisor, "azure-chat:m", server.url)
        with pytest.raises((TurnAborted, AnswerUnfit)):
            await session.ask("go", returns={"type": "object", "properties": {"a": {"type": "string"}}})
        assert len(server.asked) == 1


# Bedrock


def test_each_reason_for_the_end_that_aws_knows_is_known() -> None:
    known = {*BEDROCK_STOPS, *BEDROCK_BROKEN}
    assert known == {
        *("content_filtered", "end_turn", "guardrail_intervened", "malformed_model_output", "malformed_tool_use"),
        *("max_tokens", "model_context_window_exceeded", "stop_sequence", "tool_use"),
    }
    for reason in BEDROCK_STOPS.keys() & CLAUDE_STOPS.keys():
        assert BEDROCK_STOPS[reason] is CLAUDE_STOPS[reason]
    for reason in BEDROCK_BROKEN:
        assert heard(BEDROCK, converse.ended(reason)) == (StreamGarbled, f"the model stopped by `{reason}`")


NOVA: Final = "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input."


@each_case(
    [
        ("validationException", NOVA, ContextTooLong),
        ("validationException", "prompt is too long: 207000 tokens > 200000 maximum", ContextTooLong),
        ("validationException", "no", RequestRefused),
        ("throttlingException", "Too many tokens, please wait before trying again.", RateLimited),
        ("modelStreamErrorException", "no", ProviderFailed),
        ("serviceUnavailableException", "no", Overloaded),
        ("unheardOfException", "no", ProviderFailed),
        ("", "no", ProviderFailed),
    ]
)
def test_bedrock_ends_an_answer(kind: str, message: str, wanted: type[ModelError]) -> None:
    for begun in (b"", converse.delta({"text": "well"})):
        end = heard(BEDROCK, begun + converse.exception(kind, message))
        assert isinstance(end, tuple)
        assert end[0] is wanted


def test_a_signature_that_is_missing_is_a_matter_of_keys() -> None:
    headers = {"x-amzn-errortype": "MissingAuthenticationTokenException"}
    assert type(error_of_body(format_named(BEDROCK).faults, 403, headers, b'{"message": "no"}')) is KeyRefused


# Sessions


OPTIONS: Final[Mapping[str, Json]] = {"token": Secret("TOKEN")}
PROJECT: Final[Mapping[str, Json]] = {**OPTIONS, "project": "lamps-1"}
BEGUN: Final = {
    GEMINI: events(gemini.content({"text": "half"}), named=False),
    CLAUDE: events(anthropic.opening(), *anthropic.block(0, "text", "text_delta", "text", "half")[:2]),
    "azure:lamps": events(*openai.message(0, "half")[:2]),
    "azure-chat:lamps": events(chat.piece(content="half"), named=False),
    BEDROCK: converse.delta({"text": "half"}),
}
"""The beginning of an answer of each."""

WHOLE: Final = {
    GEMINI: gemini.saying("whole"),
    CLAUDE: anthropic.saying("whole"),
    "azure:lamps": openai.saying("whole"),
    "azure-chat:lamps": chat.saying("whole"),
    BEDROCK: converse.saying("whole"),
}
BUSY: Final = {
    GEMINI: events(EXHAUSTED, named=False),
    CLAUDE: events(anthropic.error("overloaded_error", "busy")),
    "azure:lamps": events(openai.failed("rate_limit_exceeded", "busy")),
    "azure-chat:lamps": events(openai.error("too_many_requests", "busy"), named=False),
    BEDROCK: converse.exception("throttlingException", "busy"),
}
"""What each sends in the stream when it has too much to do."""

WAITS: Final = {
    "azure:lamps": "retry-after-ms: 30",
    "azure-chat:lamps": "retry-after-ms: 30",
    BEDROCK: "x-amz-retry-after: 30",
    GEMINI: "retry-after: 0.03",
    CLAUDE: "retry-after: 0.03",
}


def opened() -> AbstractAsyncContextManager[Supervisor, bool | None]:
    return open_supervisor(secrets={"TOKEN": "token-0123456789abcdef"}.get)


def options_for(name: str, url: str) -> dict[str, Json]:
    return {**(PROJECT if name.startswith("vertex") else OPTIONS), "base_url": url}


async def spawned(supervisor: Supervisor, name: str, url: str, **more: object) -> SessionHandle:
    spec = SessionSpec(model=name, model_options=options_for(name, url), retry_base=0.001)
    return await supervisor.spawn(spec.but(**more))


async def retries_of(session: SessionHandle) -> list[Retry]:
    """Take a turn, and return what was tried again in it."""
    heard: list[Retry] = []
    async with session.subscribe(types=[Retry, AgentEnd, AgentAbort]) as envelopes:
        await session.prompt("hello")
        async for envelope in envelopes:
            if not isinstance(envelope.event, Retry):
                break
            heard.append(envelope.event)
    return heard


@pytest.mark.parametrize("name", BEGUN)
async def test_what_may_pass_is_tried_again_at_each_cloud(name: str) -> None:
    plays = (
        refusing(429, b'{"message": "slow"}', WAITS[name]),
        refusing(429, b'{"message": "slow"}'),
        refusing(503, b"<html>"),
        streaming(BEGUN[name] + BUSY[name]),
        streaming(BEGUN[name]),
        steps(BEGUN[name], Reset()),
        streaming(WHOLE[name]),
    )
    async with serving(*plays) as server, opened() as supervisor:
        session = await spawned(supervisor, name, server.url, max_retries=9)
        retries = await retries_of(session)
        assert session.messages()[-1].text == "whole"
    assert [retry.reason.partition(":")[0] for retry in retries[:3]] == [
        *["the provider's limit is reached"] * 2,
        "the provider is overloaded",
    ]
    assert retries[0].delay_ms >= 30 > retries[1].delay_ms
    assert [retry.dropped_text for retry in retries] == [False, False, False, True, True, True]
    assert ["ended early" in retry.reason for retry in retries[3:]] == [False, True, True]


async def test_a_chain_goes_on_from_cloud_to_cloud() -> None:
    spent = refusing(400, b'{"message": "no"}', "x-amzn-errortype: ServiceQuotaExceededException")
    missing = refusing(404, json.dumps(gemini.error(404, "NOT_FOUND", "not enabled")).encode())
    busy = refusing(429, b'{"error": {"code": "429", "message": "later"}}')
    good = streaming(openai.saying("whole"))
    async with serving(spent) as aws, serving(missing) as google, serving(busy) as azure, serving(good) as direct:
        names = (BEDROCK, GEMINI, CLAUDE, "azure:lamps")
        servers = (aws, google, google, azure)
        chain = [(name, options_for(name, server.url)) for name, server in zip(names, servers, strict=True)]
        chain.append(("openai:gpt-5.4", {"base_url": direct.url, "api_key": Secret("TOKEN")}))
        async with opened() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=chain, retry_base=0.001, fallback_after=2))
            async with session.subscribe(types=[ModelSwitched]) as switches:
                assert (await session.ask("hello")).text == "whole"
                await session.stop()
                used = [envelope.event.to async for envelope in switches if isinstance(envelope.event, ModelSwitched)]
        assert used == [GEMINI, CLAUDE, "azure:lamps", "openai:gpt-5.4"]
        assert [len(server.asked) for server in (aws, google, azure, direct)] == [1, 2, 2, 1]

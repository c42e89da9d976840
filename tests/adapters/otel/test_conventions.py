"""Names and values are those of the conventions: of the registry in Python, and of the helper that others use."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as registry
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.util.genai.handler import TelemetryHandler

from agentrail import SessionSpec, tool
from agentrail.adapters.otel import metric_export
from agentrail.adapters.otel.conventions import (
    CAPTURE,
    REASONS,
    ROWS,
    model_name,
    name_of,
    provider_of,
    wants_content,
)
from agentrail.adapters.otel.spans import CallSpan, RequestSpan, SpanRef, TurnSpan
from agentrail.journals import MemoryJournal
from agentrail.models import PROVIDERS, StopReason
from agentrail.testing import ScriptedModel, call, say
from tests.adapters.otel.watched import Spans, attributes, watched


def names_in(module: object) -> set[str]:
    return {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def test_all_names_are_in_the_registry_or_our_own() -> None:
    known = names_in(registry) | names_in(error_attributes)
    assert {row.name for row in ROWS if not row.name.startswith("agentrail.")} - known == set()
    assert "gen_ai.system" not in {row.name for row in ROWS}
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_values_of_closed_lists_are_in_the_registry() -> None:
    operations = {item.value for item in registry.GenAiOperationNameValues}
    assert {"invoke_agent", "chat", "execute_tool"} <= operations
    providers = {item.value for item in registry.GenAiProviderNameValues}
    local = {
        "fireworks",
        "llamacpp",
        "lmstudio",
        "ollama",
        "openrouter",
        "together",
        "vllm",
    }  # the list has none of them
    assert {provider_of(f"{name}:x") for name in PROVIDERS} - providers == local
    assert set(REASONS) == set(StopReason)


def request(model: str) -> RequestSpan:
    return RequestSpan(
        ref=SpanRef(1, 2),
        parent=SpanRef(1, 1),
        session_id="s",
        agent="clerk",
        tenant="",
        start=1,
        end=2,
        request_id="r1",
        model=model,
        round=1,
        attempt=1,
    )


def test_metrics_have_the_names_of_the_registry() -> None:
    known = names_in(gen_ai_metrics)
    ours = {"operation.duration", "operation.time_to_first_chunk", "token.usage"}
    assert {f"gen_ai.client.{name}" for name in ours} <= known
    assert metric_export.TOKENS[0] == 1


@pytest.mark.parametrize(
    ("environment", "is_exported"),
    [
        ({}, False),
        ({CAPTURE: "span_only"}, True),
        ({CAPTURE: "SPAN_AND_EVENT"}, True),
        ({CAPTURE: "true"}, True),
        ({CAPTURE: "NO_CONTENT"}, False),
        ({CAPTURE: "event_only"}, False),
        ({CAPTURE: "yes please"}, False),
        ({CAPTURE: "true", "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}, True),
    ],
)
def test_the_environment_says_whether_content_is_exported(
    environment: Mapping[str, str], caplog: pytest.LogCaptureFixture, *, is_exported: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        assert wants_content(environment) == is_exported
    is_wanted = environment.get(CAPTURE, "NO_CONTENT").upper() != "NO_CONTENT"
    assert ("content is not exported" in caplog.text) == (is_wanted and not is_exported)


@tool
async def remove(path: str) -> str:
    """Remove a file."""
    return f"removed {path}"


async def told(spans: Spans) -> None:
    model = ScriptedModel([say("hm", calls=[call("remove", {"path": "secret-path"})]), "the secret answer"])
    async with watched(spans, MemoryJournal()) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[remove]), "s")
        await session.ask("the secret prompt")


async def test_without_the_switch_no_text_is_exported() -> None:
    spans = Spans()
    await told(spans)
    assert "secret" not in "".join(span.to_json() for span in spans)


async def test_with_the_switch_texts_are_exported_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    spans = Spans()
    await told(spans)
    turn = attributes(spans.only("invoke_agent"))
    assert json.loads(str(turn["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "the secret prompt"}]}
    ]
    first, second = map(attributes, spans.named("chat"))
    (message,) = json.loads(str(first["gen_ai.output.messages"]))
    assert message["finish_reason"] == "tool_call"
    assert [part["type"] for part in message["parts"]] == ["text", "tool_call"]
    assert message["parts"][1]["arguments"] == {"path": "secret-path"}
    assert second["gen_ai.output.messages"] == turn["gen_ai.output.messages"]
    executed = attributes(spans.only("execute_tool"))
    assert json.loads(str(executed["gen_ai.tool.call.arguments"])) == {"path": "secret-path"}
    assert executed["gen_ai.tool.call.result"] == "removed secret-path"


async def test_a_session_that_was_redacted_exports_nothing_of_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    journal, spans = MemoryJournal(), Spans()
    async with watched(Spans(), journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["the secret answer"])), "s")
        await session.ask("the secret prompt")
    async with watched(spans, journal) as supervisor:
        await supervisor.redact("s", by="the officer")
        session = await supervisor.resume("s", SessionSpec(model=ScriptedModel(["hello"])))
        await session.ask("hi")
    assert spans.names == ["chat scripted", "invoke_agent"]
    assert "secret" not in "".join(span.to_json() for span in spans)


# The helper of OpenTelemetry for instrumentations as a second opinion


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Yield spans that the helper makes, of the same things as `ours`."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    spans = Spans()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans.exporter))
    handler = TelemetryHandler(provider)
    with handler.invoke_local_agent(request_model="scripted", agent_name="clerk") as turn:
        turn.conversation_id = "s"
    with handler.inference("scripted", request_model="scripted") as chat:
        chat.conversation_id = "s"
        chat.finish_reasons = ["stop"]
        chat.response_model_name = "scripted"
        chat.input_tokens, chat.output_tokens = 1, 2
    with handler.tool("remove", tool_type="function", agent_name="clerk") as executed:
        executed.tool_call_id = "c3"
        executed.arguments = {"path": "secret-path"}
        executed.tool_result = "removed secret-path"
    return spans


async def test_spans_are_those_that_the_helper_of_the_conventions_makes(theirs: Spans) -> None:
    spans = Spans()
    model = ScriptedModel([say("hm", calls=[call("remove", {"path": "secret-path"})]), "the secret answer"])
    async with watched(spans) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, name="clerk", tools=[remove]), "s")
        await session.ask("the secret prompt")
    for beginning in ("invoke_agent", "chat", "execute_tool"):
        our_span, their_span = spans.named(beginning)[-1], theirs.only(beginning)
        assert (our_span.name, our_span.kind) == (their_span.name, their_span.kind)
        same = attributes(our_span)
        different = {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"}
        for name, value in attributes(their_span).items():
            assert name in same, (beginning, name)
            if name not in different:
                assert same[name] == value, (beginning, name)


def test_names_of_spans_are_the_operation_and_what_it_is_about() -> None:
    whose = {"session_id": "s", "agent": "", "tenant": "", "start": 1}
    turn = TurnSpan(ref=SpanRef(1, 1), parent=None, turn=1, **whose)  # type: ignore[arg-type]
    executed = CallSpan(ref=SpanRef(1, 2), parent=None, call_id="c", tool="t\ud800", turn=turn.ref, **whose)  # type: ignore[arg-type]
    assert (name_of(turn), name_of(executed)) == ("invoke_agent", "execute_tool t\ufffd")
    assert name_of(request("anthropic:claude-opus-5")) == "chat claude-opus-5"
    assert model_name("demo") == "demo"

"""What a provider does not count is estimated from the characters, so that nothing that was used costs nothing."""

from __future__ import annotations

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import TurnAborted
from agentrail.models import Price, Response, Usage
from agentrail.plugins import BudgetGuard
from agentrail.values.stream import estimate_usage
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models import openai_events as openai
from tests.adapters.models.expected import RESPONSES
from tests.adapters.models.goldens import OWN
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import events, recorded, serving, streaming

ANSWER = "All lamps are on, but for one."
ASKED = "are the lamps on?"
WRITTEN, READ = 8, 5


def of_chat(usage: dict[str, object] | None) -> bytes:
    last = [] if usage is None else [{"choices": [], "usage": usage}]
    return events(chat.piece(content=ANSWER), chat.piece("stop"), *last, named=False) + chat.DONE


def of_openai(usage: dict[str, object] | None) -> bytes:
    return events(*openai.message(0, ANSWER), {"type": "response.completed", "response": {"usage": usage}})


def of_gemini(usage: dict[str, object] | None) -> bytes:
    last = {"candidates": [{"finishReason": "STOP"}], **({} if usage is None else {"usageMetadata": usage})}
    return events(gemini.content({"text": ANSWER}), last, named=False)


def of_anthropic(read: object, written: object) -> bytes:
    begun = {"input_tokens": read, "output_tokens": 1}
    return events(
        {"type": "message_start", "message": {"usage": begun}},
        *anthropic.block(0, "text", "text_delta", "text", ANSWER),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": written}},
        {"type": "message_stop"},
    )


ANSWERS = {
    ("openai-chat", "neither"): of_chat(None),
    ("openai-chat", "read"): of_chat({"prompt_tokens": 40}),
    ("openai-chat", "written"): of_chat({"completion_tokens": 9}),
    ("openai-chat", "both"): of_chat({"prompt_tokens": 40, "completion_tokens": 9}),
    ("openai-chat", "neither, in words"): of_chat({"prompt_tokens": "40", "completion_tokens": 9e999}),
    ("openai-chat", "neither, beyond count"): of_chat({"prompt_tokens": 10**400, "completion_tokens": -3}),
    ("openai", "neither"): of_openai(None),
    ("openai", "read"): of_openai({"input_tokens": 40}),
    ("openai", "written"): of_openai({"output_tokens": 9}),
    ("gemini", "neither"): of_gemini(None),
    ("gemini", "read"): of_gemini({"promptTokenCount": 40}),
    ("gemini", "written"): of_gemini({"candidatesTokenCount": 9}),
    ("anthropic", "neither"): of_anthropic(None, None),
    ("anthropic", "read"): of_anthropic(40, None),
    ("anthropic", "written"): of_anthropic(None, 9),
    ("anthropic", "both"): of_anthropic(40, 9),
}

USAGES = {
    "neither": Usage(READ, WRITTEN, estimated=True),
    "read": Usage(40, WRITTEN, estimated=True),
    "written": Usage(READ, 9, estimated=True),
    "both": Usage(40, 9),
}


@pytest.mark.parametrize(("provider", "what"), ANSWERS)
async def test_what_a_provider_leaves_out_is_estimated_and_costs_money(provider: str, what: str) -> None:
    model, wanted = OWN[provider], USAGES[what.partition(",")[0]]
    price = Price(1.0, 10.0)
    async with serving(streaming(ANSWERS[provider, what])) as server, open_supervisor() as supervisor:
        spec = SessionSpec(model=model, model_options={"base_url": server.url}, prices={model: price})
        reply = await (await supervisor.spawn(spec)).ask(ASKED)
    assert (reply.text, reply.usage) == (ANSWER, wanted.but(cost_usd=price.cost(wanted)))


async def test_a_budget_holds_with_a_server_that_counts_nothing() -> None:
    async with serving(streaming(of_chat(None))) as server, open_supervisor() as supervisor:
        spec = SessionSpec(model="vllm:m", model_options={"base_url": server.url}, plugins=[BudgetGuard(max_tokens=30)])
        session = await supervisor.spawn(spec)
        for _ in range(2):
            await session.ask(ASKED)
        with pytest.raises(TurnAborted, match="max_tokens=30 is used up"):
            await session.ask(ASKED)
        assert len(server.asked) == 2


def test_calls_thoughts_and_tools_count() -> None:
    response = RESPONSES["openrouter_tools"].but(usage=Usage())
    request = asked(user(ASKED))
    bare = estimate_usage(Response(), request.but(tools=())).usage
    assert bare == Usage(READ, estimated=True)
    assert estimate_usage(Response(), request).usage.input_tokens > READ + 20
    assert estimate_usage(response, request).usage.output_tokens == 11
    assert estimate_usage(response.but(calls=()), request).usage.output_tokens == 5


async def test_what_was_counted_is_left_alone() -> None:
    async with serving(streaming(recorded("anthropic_refusal.sse"))) as server, open_supervisor() as supervisor:
        spec = SessionSpec(model=OWN["anthropic"], model_options={"base_url": server.url})
        assert (await (await supervisor.spawn(spec)).ask(ASKED)).usage == Usage(9, 4)


@pytest.mark.parametrize("own", [False, True])
async def test_the_cost_that_a_server_tells_is_the_cost_unless_there_is_a_price_of_ones_own(*, own: bool) -> None:
    told: dict[str, object] = {"prompt_tokens": 10, "completion_tokens": 20, "cost": 0.125}
    async with serving(streaming(of_chat(told))) as server:
        prices = {"openrouter:some/model": Price(1.0, 1.0)} if own else {}
        async with open_supervisor() as supervisor:
            options = {"base_url": server.url}
            spec = SessionSpec(model="openrouter:some/model", model_options=options, prices=prices)
            session = await supervisor.spawn(spec)
            reply = await session.ask(ASKED)
            assert reply.usage.cost_usd == (Price(1.0, 1.0).cost(Usage(10, 20)) if own else 0.125)
            assert session.status().usage.cost_usd == reply.usage.cost_usd
        assert server.asked[0].json["usage"] == {"include": True}


@pytest.mark.parametrize("cost", [-1, "free", None, 10**30])
async def test_a_cost_that_is_none_is_not_read(cost: object) -> None:
    told: dict[str, object] = {"prompt_tokens": 10, "completion_tokens": 20, "cost": cost}
    async with serving(streaming(of_chat(told))) as server, open_supervisor() as supervisor:
        spec = SessionSpec(model="openrouter:some/model", model_options={"base_url": server.url})
        reply = await (await supervisor.spawn(spec)).ask(ASKED)
        assert (reply.usage.input_tokens, reply.usage.cost_usd) == (10, None)

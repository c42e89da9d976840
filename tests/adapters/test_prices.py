"""What models cost: prices of one's own, what a provider says, what is published; what nobody knows is never 0."""

from __future__ import annotations

import sys

import pytest

from agentrail.adapters.published_prices import PROVIDERS, published_cost, published_price
from agentrail.app.pricing import PriceFunction, PriceList
from agentrail.app.spec import NO_PRICES
from agentrail.models import FrozenObject, Price, Usage
from tests.kit import EMPTY, NOTHING_USED

SONNET = "anthropic:claude-sonnet-4-5"
USED = Usage(1_000, 100, 200, 50, cache_write_tokens=300)


def test_a_price_counts_each_kind_of_token_once() -> None:
    assert Price(2.0, 10.0).cost(Usage(1_000_000, 100_000)) == 3.0
    assert Price(2.0, 10.0, 0.5, 4.0).cost(Usage(1_000_000, 0, 400_000, cache_write_tokens=100_000)) == pytest.approx(
        1.6
    )
    assert Price(2.0, 10.0).cost(Usage(1_000_000, 0, 400_000, cache_write_tokens=100_000)) == 2.0


def test_published_prices_know_cached_tokens_and_not_every_model() -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    assert published_cost(SONNET, Usage(1_000, 100)) == pytest.approx(0.0045)
    assert published_cost(SONNET, USED) == pytest.approx(500 * 3e-6 + 200 * 0.3e-6 + 300 * 3.75e-6 + 100 * 15e-6)
    assert published_cost(SONNET, Usage(10, 0, 200)) == pytest.approx(200 * 0.3e-6)  # a server that cannot count
    assert published_cost("anthropic:no-such-model", USED) is None
    assert published_cost("vllm:some-model", USED) is None
    assert published_cost("demo", USED) is None


@pytest.mark.parametrize(
    "model",
    [
        "azure:gpt-4.1",
        "azure-chat:gpt-4o",
        "bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock:amazon.nova-lite-v1:0",
        "vertex:claude-sonnet-4-5@20250929",
        "vertex:gemini-2.5-flash",
    ],
)
def test_models_at_clouds_have_prices_by_their_names_there(model: str) -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    cost = published_cost(model, Usage(1_000_000, 100_000))
    assert cost is not None
    assert cost > 0
    for options in ({}, {"region": "us-east-1", "project": "lamps-1"}):
        assert PriceList(NO_PRICES).knows(model, FrozenObject(**options))


def test_every_provider_that_is_looked_up_is_known_to_the_package() -> None:
    genai_prices = pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    known = {provider.id for provider in genai_prices.data_snapshot.get_snapshot().providers}
    assert set(PROVIDERS.values()) <= known


def test_without_the_package_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert published_cost(SONNET, USED) is None
    prices = PriceList(NO_PRICES)
    assert (prices.knows(SONNET, EMPTY), prices.priced(SONNET, EMPTY, USED)) == (False, USED)


def test_prices_of_ones_own_go_before_all_others() -> None:
    prices = PriceList({SONNET: Price(1.0, 1.0), "acme:large": Price(0.0, 0.0)})
    assert prices.priced(SONNET, EMPTY, Usage(1_000_000, 0, cost_usd=7.0)).cost_usd == 1.0
    assert prices.priced("acme:large", EMPTY, USED).cost_usd == 0.0
    assert prices.knows("acme:large", EMPTY)


def test_then_goes_what_the_provider_says_and_an_address_of_ones_own_has_no_published_price() -> None:
    prices = PriceList(NO_PRICES)
    assert prices.priced("openrouter:some-model", EMPTY, USED.but(cost_usd=0.25)).cost_usd == 0.25
    assert prices.priced(SONNET, FrozenObject(base_url="http://127.0.0.1:8000"), USED).cost_usd is None
    assert not prices.knows(SONNET, FrozenObject(base_url="http://127.0.0.1:8000"))


@pytest.mark.parametrize(
    ("url", "is_known"),
    [
        ("https://lamps.openai.azure.com", True),
        ("https://lamps.openai.azure.com/openai/v1", True),
        ("https://lamps.services.ai.azure.com/openai/v1/", True),
        ("https://lamps.openai.azure.com.evil.example", False),
        ("https://lamps.openai.azure.us", False),
        ("https://gateway.lamps.example/azure", False),
    ],
)
@pytest.mark.parametrize("provider", ["azure", "azure-chat"])
def test_the_address_of_a_customer_at_azure_changes_no_price(provider: str, url: str, is_known: bool) -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    assert PriceList(NO_PRICES).knows(f"{provider}:gpt-4.1", FrozenObject(base_url=url)) is is_known
    assert not PriceList(NO_PRICES).knows("openai:gpt-4.1", FrozenObject(base_url=url))


def test_nothing_used_costs_nothing_that_is_known() -> None:
    assert PriceList({"demo": Price(1.0, 1.0)}).priced("demo", EMPTY, NOTHING_USED) is NOTHING_USED


def test_a_function_says_what_it_knows() -> None:
    prices = PriceList(lambda model, usage: usage.total_tokens / 100 if model == "acme:large" else None)
    assert prices.priced("acme:large", EMPTY, USED).cost_usd == 11.0
    assert not prices.knows("acme:small", EMPTY)


@pytest.mark.parametrize("found", [-1.0, float("nan"), float("inf"), True, "0.5", KeyError("acme")])
def test_a_function_that_breaks_knows_nothing_and_is_written_to_the_log(
    found: object, caplog: pytest.LogCaptureFixture
) -> None:
    def cost(_model: str, _usage: Usage) -> float | None:
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[return-value]  # a mistake

    wrong: PriceFunction = cost
    assert PriceList(wrong).priced("acme:large", EMPTY, USED).cost_usd is None
    assert "the price of `acme:large` is unknown" in caplog.text


def test_the_published_price_of_a_model_is_that_of_short_contexts() -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    assert published_price(SONNET) == Price(3.0, 15.0, 0.3, 3.75)
    by_day, by_night = Price(0.27, 1.1, 0.07), Price(0.135, 0.55, 0.035)  # it has cheaper hours
    assert published_price("deepseek:deepseek-chat") in {by_day, by_night}
    assert published_price("anthropic:no-such-model") is None
    assert published_price("demo") is None

"""`agentrail models`: which keys are there, which model is chosen, and what is known of models."""

from __future__ import annotations

import json
import sys
from typing import Final

import pytest

from agentrail.cli.settings.default_agent import USUAL
from agentrail.models import PROVIDERS
from tests.cli.calling import subcommand

main = subcommand("models")

SECRET: Final = "sk-none-may-see-it"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        for key in provider.keys:
            monkeypatch.delenv(key, raising=False)


def rows(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, object]]:
    assert main([*argv, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_providers_are_listed_and_without_a_key_the_demo_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    listed = rows(capsys)
    assert [row["provider"] for row in listed] == [*PROVIDERS, "demo"]
    assert {row["key_found"] for row in listed} == {None}
    assert {row["model"] for row in listed} - {None} == {*USUAL, "demo"}
    assert [row["provider"] for row in listed if row["chosen"]] == ["demo"]
    assert main([]) == 0
    assert "`chat` and `run` choose demo, which is offline: no key of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "choose anthropic:claude-sonnet-5: ANTHROPIC_API_KEY is set.\n"),
        (
            ("GOOGLE_API_KEY", "MISTRAL_API_KEY"),
            "choose gemini:gemini-flash-latest: GOOGLE_API_KEY is set, and no key that is looked for before it.\n",
        ),
    ],
    ids=["first", "later"],
)
def test_a_key_is_named_and_never_told(
    keys: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in keys:
        monkeypatch.setenv(key, SECRET)
    monkeypatch.setenv("GROQ_API_KEY", " ")
    for argv in ([], ["--json"]):
        assert main(argv) == 0
        out = capsys.readouterr().out
        assert SECRET not in out
        assert all(key in out for key in keys)
    assert {row["key_found"] for row in rows(capsys)} == {None, *keys}
    assert main([]) == 0
    out = capsys.readouterr().out
    assert reason in out
    assert "GROQ_API_KEY is not set" in out


def test_of_a_cloud_doctor_says_whether_there_are_credentials(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", SECRET)
    assert main([]) == 0
    lines = {line.partition(" ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert all("  see `agentrail doctor`  " in lines[cloud] for cloud in ("bedrock", "vertex"))
    assert "  AZURE_OPENAI_API_KEY is set  " in lines["azure"]
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", SECRET)
    assert main([]) == 0
    assert "  AWS_BEARER_TOKEN_BEDROCK is set  " in capsys.readouterr().out


def test_a_model_has_its_window_and_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    (row,) = rows(capsys, "anthropic:claude-sonnet-4-5")
    price = {"input": 3.0, "output": 15.0, "cached": 0.3, "cache_write": 3.75}
    assert row == {"model": "anthropic:claude-sonnet-4-5", "window": 200_000, "price": price}
    assert main(["anthropic:claude-sonnet-4-5"]) == 0
    head, line, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["MODEL", "WINDOW", "$", "IN", "OUT", "CACHED"]
    assert line.split() == ["anthropic:claude-sonnet-4-5", "200,000", "3", "15", "0.3"]


def test_without_the_extra_prices_are_unknown_and_it_says_how_to_get_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert main(["anthropic:claude-sonnet-4-5"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split() == ["anthropic:claude-sonnet-4-5", "200,000", "-", "-", "-"]
    assert captured.err.startswith("agentrail: cannot show prices: it needs packages of the extra `prices`")


def test_a_model_of_which_nothing_is_known_says_what_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ollama:gamma"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["ollama:gamma", "-", "-", "-", "-"]
    assert "a session assumes 32,000 tokens" in out


@pytest.mark.long
def test_a_provider_stands_for_all_its_models(capsys: pytest.CaptureFixture[str]) -> None:
    listed = rows(capsys, "openai-chat")
    assert {"openai-chat:gpt-4.1", "openai-chat:o3"} <= {str(row["model"]) for row in listed}
    assert all(row["window"] for row in listed)


def test_models_of_a_provider_are_those_that_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    names = {row["model"] for row in rows(capsys, "openai")}
    assert {"openai:gpt-5.4", "openai:chatgpt-4o-latest"} <= names
    assert not {"openai:chatgpt-", "openai:gpt-3", "openai:gpt-5-4", "openai:text-embedding-3-small"} & names
    assert main(["openai"]) == 0
    assert "Longer names that begin like one of these are taken, too, and have its window" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("antropic", "did you mean `anthropic`?"),
        ("gpt-5.4", "a name has a provider before the colon, as in `anthropic:claude-sonnet-5`; there are `anthropic`"),
        ("openai:", "no model is called 'openai:'"),
        ("ollama", "no model of ollama is known here; its own pages list them"),
    ],
)
def test_what_is_no_model_is_wrong_usage(name: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("agentrail: no model ")
    assert problem in captured.err

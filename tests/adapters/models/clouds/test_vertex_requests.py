"""Requests to Vertex AI: what differs there from the makers' own APIs."""

import pytest

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.models import PROVIDERS, AssistantMessage, File, ModelRequest, Text, Thinking, UserMessage

VERTEX = PROVIDERS["vertex"]
CLAUDE, GEMINI = "claude-sonnet-4@20250514", "gemini-3-flash-preview"


def rendered(model: str, *messages: UserMessage | AssistantMessage, **options: object) -> Rendered:
    request = ModelRequest(f"vertex:{model}", messages)
    return format_of(VERTEX, model).render(request, "vertex", model, Settings().but(**options))


HELLO = UserMessage((Text("hello"),))


@pytest.mark.parametrize("effort", ["", "low", "high"])
def test_a_dated_name_means_what_it_means_to_anthropic(effort: str) -> None:
    own = format_of(PROVIDERS["anthropic"], "").render(
        ModelRequest("anthropic:claude-sonnet-4-20250514", (HELLO,)),
        "anthropic",
        "claude-sonnet-4-20250514",
        Settings(reasoning_effort=effort),
    )
    here = rendered(CLAUDE, HELLO, reasoning_effort=effort)
    assert {**here.body, "model": "claude-sonnet-4-20250514"} == {**own.body, "anthropic_version": "2026-10-21"}
    assert here.path == f"/publishers/anthropic/models/{CLAUDE}:streamRawPredict"
    assert "anthropic-version" not in here.headers


@pytest.mark.parametrize(
    ("temperature", "version"), [(None, "2026-10-21"), (1.0, "2026-10-21"), (0.5, "vertex-2023-10-16")]
)
def test_a_temperature_is_sent_by_the_version_that_has_it(temperature: float | None, version: str) -> None:
    assert rendered(CLAUDE, HELLO, temperature=temperature).body["anthropic_version"] == version


@pytest.mark.parametrize(("model", "other"), [(CLAUDE, GEMINI), (GEMINI, CLAUDE)])
def test_thoughts_of_the_other_maker_stay_behind(model: str, other: str) -> None:
    def of(author: str) -> AssistantMessage:
        return AssistantMessage((Thinking("hm", "thought:c2VhbA=="), Text("well")), model=f"vertex:{author}")

    sent = str(rendered(model, HELLO, of(other), HELLO, reasoning_effort="low").body)
    assert "c2VhbA==" not in sent
    assert "c2VhbA==" in str(rendered(model, HELLO, of(model), HELLO, reasoning_effort="low").body)


@pytest.mark.parametrize(
    ("model", "file", "is_taken"),
    [
        (GEMINI, File("application/pdf", reference="gs://lamps/bill.pdf"), True),
        (GEMINI, File("application/pdf", reference="https://lamps.example/bill.pdf"), True),
        (GEMINI, File("application/pdf", reference="files/1", provider="gemini"), False),
        (CLAUDE, File("application/pdf", reference="https://lamps.example/bill.pdf"), False),
        (CLAUDE, File("application/pdf", reference="file_1", provider="anthropic"), False),
        (CLAUDE, File("application/pdf", reference="file_1", provider="vertex"), False),
        (CLAUDE, File("application/pdf", data="AAAA"), True),
    ],
)
def test_files(model: str, file: File, is_taken: bool) -> None:
    assert (format_of(VERTEX, model).takes("vertex", model).why_not(file, "vertex") is None) == is_taken
    assert ("cannot be shown to you" in str(rendered(model, UserMessage((file,))).body)) != is_taken

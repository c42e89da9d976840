"""What interceptors answer is sent right, or refused as a fault of the plugin: never as a fault of the host."""

from typing import Final

import pytest
import trio

from agentrail.errors import BrokenPlugin
from agentrail.host import HandledResponse, HostPlugin, Request
from agentrail.host.requests.http_messages import OWNED
from tests.host.hosted import open_desk, scripted
from tests.host.plugins.probes import Reports

GOOD: Final = {
    "no content": (HandledResponse(204), 204, b"", None),
    "nothing to show": (HandledResponse(205), 205, b"", None),
    "not modified": (HandledResponse(304, None, {"ETag": '"a"'}), 304, b"", ("etag", '"a"')),
    "no body": (HandledResponse(200), 200, b"null", ("content-type", "application/json")),
    "a problem": (
        HandledResponse(403, {"title": "no"}, {"Content-Type": "application/problem+json"}),
        403,
        b'{"title":"no"}',
        ("content-type", "application/problem+json"),
    ),
    "for caches": (HandledResponse(200, 1, {"Cache-Control": "max-age=9"}), 200, b"1", ("cache-control", "max-age=9")),
    "spaces": (HandledResponse(429, 1, {"Retry-After": " 7 "}), 429, b"1", ("retry-after", "7")),
    "an empty value": (HandledResponse(200, 1, {"X-Empty": ""}), 200, b"1", ("x-empty", "")),
}

BAD: Final = {
    "204 with a body": (HandledResponse(204, {"a": 1}), "no body with the status 204"),
    "205 with a body": (HandledResponse(205, ""), "no body with the status 205"),
    "304 with a body": (HandledResponse(304, []), "no body with the status 304"),
    "an early answer": (HandledResponse(103), "a status from 200 to 599"),
    "an unknown status": (HandledResponse(600), "a status from 200 to 599"),
    **{name: (HandledResponse(200, 1, {name.title(): "1"}), "without those of the connection") for name in OWNED},
    "a name with an end of line": (HandledResponse(200, 1, {"a\r\nb": "c"}), "names of headers of letters"),
    "a name that ends a line": (HandledResponse(200, 1, {"a\n": "c"}), "names of headers of letters"),
    "a name with a colon": (HandledResponse(200, 1, {"a:": "c"}), "names of headers of letters"),
    "no name": (HandledResponse(200, 1, {"": "c"}), "names of headers of letters"),
    "a value with an end of line": (HandledResponse(200, 1, {"a": "b\r\nset-cookie: c"}), "values of headers"),
    "a value that ends a line": (HandledResponse(200, 1, {"a": "b\n"}), "values of headers"),
    "a value with a NUL": (HandledResponse(200, 1, {"a": "\0"}), "values of headers"),
    "a value of Latin-1": (HandledResponse(200, 1, {"a": "\xe9"}), "values of headers"),
    "a header twice": (HandledResponse(200, 1, {"A": "1", "a": "2"}), "each header once"),
}


class Answers(HostPlugin):
    """Answers each request as it is told."""

    def __init__(self, answer: HandledResponse, *, critical: bool = False) -> None:
        self.answer = answer
        self.critical = critical

    def intercept(self, request: Request) -> HandledResponse:
        return self.answer


BODY: Final = {"message": "hi", "session": "trip"}


@pytest.mark.parametrize(("answer", "status", "content", "header"), GOOD.values(), ids=GOOD)
async def test_an_answer_is_sent_as_it_is(
    answer: HandledResponse, status: int, content: bytes, header: tuple[str, str] | None
) -> None:
    async with open_desk(scripted("one"), [Answers(answer)]) as desk:
        outcomes = await desk.ann.post("/v1/chat", json=BODY)
        assert (outcomes.status_code, outcomes.content) == (status, content)
        assert header is None or outcomes.headers.get_list(header[0]) == [header[1]]
        assert (await desk.ann.get("/v1/sessions")).json()["items"] == []


async def test_a_value_that_would_begin_another_header_is_not_sent() -> None:
    async with open_desk(scripted("one"), [Answers(BAD["a value with an end of line"][0])]) as desk:
        answered = await desk.ann.post("/v1/chat", json=BODY)
    assert (answered.status_code, answered.json()["text"]) == (200, "one")


async def test_who_is_told_of_a_fault_may_be_an_async_function() -> None:
    texts: list[str] = []

    async def report(plugin: str, hook: str, _: BaseException) -> None:
        await trio.lowlevel.checkpoint()
        texts.append(f"{plugin}.{hook}")

    plugin = Answers(BAD["an early answer"][0])
    async with open_desk(scripted("one"), [plugin], on_plugin_error=report) as desk:
        await desk.ann.post("/v1/chat", json=BODY)
    assert texts == ["Answers.intercept"]


@pytest.mark.long
@pytest.mark.parametrize("critical", [False, True])
async def test_an_answer_that_cannot_be_sent_is_a_fault_of_its_plugin(critical: bool) -> None:
    reports, plugin = Reports(), Answers(HandledResponse(), critical=critical)
    async with open_desk(scripted(*["one"] * len(BAD)), [plugin], on_plugin_error=reports) as desk:
        outcomes: dict[str, tuple[int, str]] = {}
        for name, (plugin.answer, _) in BAD.items():
            answered = await desk.ann.post("/v1/chat", json=BODY)
            outcomes[name] = (answered.status_code, answered.json().get("type", answered.json().get("text")))
    expected = (503, "urn:agentrail:problem:plugin-failed") if critical else (200, "one")
    assert outcomes == dict.fromkeys(BAD, expected)
    wrong = [
        name
        for (name, (_, problem)), (plugin_name, hook, error) in zip(BAD.items(), reports.told, strict=True)
        if (plugin_name, hook) != ("Answers", "intercept")
        or not isinstance(error, BrokenPlugin)
        or problem not in str(error)
    ]
    assert wrong == []

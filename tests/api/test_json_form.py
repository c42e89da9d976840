"""`to_json` writes what a host sends; the types of TypeScript among the docs fit it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

import pytest
from jsonschema import Draft202012Validator

from agentrail import HeldCall, Reply, SessionSpec, Status, open_supervisor, to_json, tool
from agentrail.api.openapi import document
from agentrail.api.sse_frames import data_of, event_frame
from agentrail.errors import WrongType
from agentrail.events import EVENTS, AgentEnd, Envelope, Gap
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.codec.sampling import event_sample
from tests.each_case import each_case
from tests.host.clients.programs import run

TYPES: Final = Path(__file__).parents[2] / "docs" / "reference" / "agentrail.ts"
INSTALLED: Final = Path(__file__).parents[2] / "build" / "clients"
COMPILER: Final = INSTALLED / "node_modules" / "typescript" / "bin" / "tsc"
NODE: Final = shutil.which("node")


DOCUMENT: Final = document()


def schema_of(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]})


def samples() -> list[Envelope]:
    """Return an envelope with each event."""
    return [event_sample(event) for event in EVENTS]


@each_case(samples())
def test_an_envelope_is_written_as_a_host_sends_it(envelope: Envelope) -> None:
    written = to_json(envelope)
    assert "\n" not in written
    if not isinstance(envelope.event, Gap):  # a frame of its own
        assert written.encode() == data_of(event_frame(envelope))
    schema_of(type(envelope.event).__name__).validate(json.loads(to_json(envelope.event)))
    assert json.loads(written)["event"] == json.loads(to_json(envelope.event))


@tool
async def pay(cents: int) -> str:  # noqa: ASYNC124 - a tool is async
    """Pay."""
    return f"paid {cents}"


async def spoken() -> tuple[Reply, Status, HeldCall, list[Envelope]]:
    """Return what a session gives whose turn waits for a person."""
    model = ScriptedModel([say("One moment.", calls=[call("pay", {"cents": 3})]), "Paid."])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec, "s")
        async with session.subscribe(since=0) as events:
            held = await session.ask("Pay my bill.")
            status = session.status()
            await session.approve(held.held[0].id)
            envelopes: list[Envelope] = []
            async for envelope in events:
                envelopes.append(envelope)
                if isinstance(envelope.event, AgentEnd):
                    break
        return held, status, held.held[0], envelopes


@pytest.mark.long
async def test_replies_and_states_are_written_as_a_host_sends_them() -> None:
    reply, status, held, _ = await spoken()
    for name, written in (
        ("WholeReplyView", to_json(reply, session="s")),
        ("StatusView", to_json(status)),
        ("HeldView", to_json(held, session="s")),
        ("UserMessage", to_json(reply.messages[0])),
    ):
        schema_of(name).validate(json.loads(written))
    assert json.loads(to_json(reply, session="s"))["session"] == "s"
    assert json.loads(to_json(reply))["held"][0]["args"] == {"cents": 3}


def test_what_has_no_such_form_is_refused() -> None:
    with pytest.raises(WrongType, match="cannot take a `dict` as `value`; give an `Envelope`"):
        to_json({})  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.skipif(
    NODE is None or not COMPILER.is_file(),
    reason="NOT PROVED, because TypeScript is not installed: run `make client-makers`",
)
async def test_the_types_of_the_page_take_what_is_written(tmp_path: Path) -> None:
    reply, status, _, envelopes = await spoken()
    values = [
        f"const e{number}: t.Envelope = {to_json(sample)};" for number, sample in enumerate([*samples(), *envelopes])
    ]
    values += [f"const r: t.WholeReplyView = {to_json(reply)};", f"const s: t.StatusView = {to_json(status)};"]
    text = "export const told = (e: t.Envelope) => (e.event.$ === 'MessageDelta' ? e.event.delta : e.session_id);"
    wrong = "// @ts-expect-error - a field that no event has\nconst w: t.MessageDelta = {$: 'MessageDelta', text: ''};"
    shutil.copy(TYPES, tmp_path)
    program = ["import * as t from './agentrail';", *values, text, wrong, "export {};"]
    (tmp_path / "program.ts").write_text("\n".join(program), encoding="utf-8")
    await run(NODE, COMPILER, "--strict", "--noEmit", "--skipLibCheck", "program.ts", folder=tmp_path)

"""The frozen requirements of the official conformance suite for servers, against `/v1/mcp` of a host.

Beside `prompt`, the test serves the tools that the suite expects of each server, by the same endpoint.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pytest
import trio

from agentrail import SessionSpec, tool
from agentrail.host import Host, Identity, Profile
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import LIMITS
from tests.mcp.conformance.suite import IS_INSTALLED, NODE, NOT_INSTALLED, SUITE
from tests.mcp.rig import NO_EXTRA

pytest.importorskip("mcp", reason=NO_EXTRA)

from agentrail.host.mcp_server.prompt_tool import prompt_server
from tests.mcp.conformance.fixture_tools import add_fixtures

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from agentrail.host.mcp_server.mcp_calls import McpCalls

    Context = ServerRequestContext[dict[str, object]]

pytestmark = [pytest.mark.long, pytest.mark.skipif(not IS_INSTALLED, reason=NOT_INSTALLED)]

OF_BOTH: Final = (
    *("tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio"),
    *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress"),
    *("server-sse-multiple-streams", "dns-rebinding-protection"),
)
REQUIRED: Final = {
    "2025-11-25": (
        *("server-initialize", "ping", *OF_BOTH, "tools-call-elicitation"),
        *("elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
    ),
    "2026-07-28": (
        *("server-stateless", *OF_BOTH, "input-required-result-basic-elicitation"),
        *("input-required-result-request-state", "input-required-result-multi-round"),
        *("input-required-result-missing-input-response", "input-required-result-result-type"),
        *("input-required-result-unsupported-methods", "input-required-result-tampered-state"),
        *("input-required-result-ignore-extra-params", "input-required-result-validate-input"),
    ),
}
"""The server scenarios of the two frozen sets that apply."""

NOT_SERVED: Final = {
    "resources": (
        *("resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read"),
        *("resources-subscribe", "resources-unsubscribe", "sep-2164-resource-not-found"),
    ),
    "prompts": (
        *("prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
        *("prompts-get-with-image", "input-required-result-non-tool-request"),
    ),
    "resources and prompts, whose lists it asks for beside that of tools": ("caching",),
    "completion of the arguments of prompts": ("completion-complete",),
    "messages of a log, which belongs to the operator of the host": ("logging-set-level", "tools-call-with-logging"),
    "sampling and roots, for which the host does not ask a client": (
        *("tools-call-sampling", "input-required-result-basic-sampling", "input-required-result-basic-list-roots"),
        *("input-required-result-multiple-input-requests", "input-required-result-capability-check"),
    ),
}
"""What a host leaves out on purpose, and the scenarios that do not apply for it."""

UNSCORED: Final = (("2025-11-25", "server-session-lifecycle"), ("2026-07-28", "http-header-validation"))
"""Scenarios outside the frozen sets that hold too.

Those that do not apply: `server-sse-polling` (a host keeps no stream that a client could take up again),
`json-schema-2020-12` and `http-custom-header-server-validation` (of schemas of tools that a host has not), and
`tasks-*` (an extension that a host does not offer).
"""

IN_CI: Final = {
    ("2025-11-25", "tools-call-elicitation"),
    ("2026-07-28", "server-stateless"),
    ("2026-07-28", "input-required-result-tampered-state"),
}
"""The scenarios that CI runs; the campaign runs all."""

SCENARIOS: Final = [
    pytest.param(version, name, marks=() if (version, name) in IN_CI else pytest.mark.campaign, id=f"{version}-{name}")
    for version, names in REQUIRED.items()
    for name in names
]


class Anyone:
    """Authenticator that lets all in: the suite has no key."""

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        del headers
        await trio.lowlevel.checkpoint()
        return Identity("acme", "ann", frozenset({"talk", "decide"}))


@tool
async def deploy() -> str:
    """Deploy it."""
    return "deployed"


@asynccontextmanager
async def served(patch: pytest.MonkeyPatch) -> AsyncGenerator[str]:
    """Serve a session that asks before it deploys, and the fixtures of the suite, and give the address."""

    def with_fixtures(
        calls_of: Callable[[Context], McpCalls],
        keys: Sequence[bytes],
        principal: Callable[[Context], str | None],
        may_abort: Callable[[], bool],
    ) -> Server[dict[str, object]]:
        server = prompt_server(calls_of, keys, principal, may_abort)
        add_fixtures(server)
        return server

    patch.setattr("agentrail.host.mcp_server.mcp_endpoint.prompt_server", with_fixtures)
    model = ScriptedModel([say(calls=[call("deploy", {})])], repeat_last=True)
    spec = SessionSpec(model=model, tools=[deploy], plugins=[HumanApproval(timeout=None, tools=["deploy"])])
    host = Host([Profile("desk", spec)], authenticator=Anyone(), limits=LIMITS, mcp=True)
    async with host.serving() as serving:
        yield f"{serving.url}/v1/mcp"


async def conform(url: str, version: str, scenario: str, *options: str) -> tuple[int, str]:
    """Run one scenario; return the exit code of the suite, and what it prints."""
    named = ["--url", url, "--scenario", scenario, "--spec-version", version]
    words = [str(NODE), str(SUITE), "server", *named, *options]
    ended = await trio.run_process(words, capture_stdout=True, capture_stderr=True, check=False)
    return ended.returncode, (ended.stdout + ended.stderr).decode()


@pytest.mark.campaign
@pytest.mark.parametrize("version", REQUIRED)
async def test_each_frozen_requirement_is_run_or_has_a_reason(version: str) -> None:
    words = [str(NODE), str(SUITE), "list", "--server", "--requirements", version]
    printed = (await trio.run_process(words, capture_stdout=True)).stdout.decode()
    of_servers = printed.partition("Server scenarios")[2].partition("Client scenarios")[0]
    listed = {line.strip().removeprefix("- ") for line in of_servers.splitlines() if line.startswith("  - ")}
    left_out = {name for names in NOT_SERVED.values() for name in names}
    assert listed - left_out == set(REQUIRED[version])


@pytest.mark.parametrize(("version", "scenario"), SCENARIOS)
async def test_a_frozen_requirement_for_servers(monkeypatch: pytest.MonkeyPatch, version: str, scenario: str) -> None:
    async with served(monkeypatch) as url:
        code, printed = await conform(url, version, scenario)
    assert (code, " 0 failed, 0 warnings" in printed) == (0, True), printed[-8_000:]


@pytest.mark.campaign
@pytest.mark.parametrize(("version", "scenario"), UNSCORED)
async def test_a_scenario_for_servers_that_holds_too(
    monkeypatch: pytest.MonkeyPatch, version: str, scenario: str
) -> None:
    async with served(monkeypatch) as url:
        code, printed = await conform(url, version, scenario, "--force")
    assert (code, " 0 failed, 0 warnings" in printed) == (0, True), printed[-8_000:]

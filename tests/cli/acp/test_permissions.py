"""Decisions of a person at an editor that the session refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.cli.acp.json_lines import LineWriter
from agentrail.cli.acp.peer import Peer
from agentrail.cli.acp.permissions import MOST_REFUSED, WAITS_ON, PermissionRequests
from agentrail.cli.acp.protocol import ClientAbilities, Update
from agentrail.cli.acp.rpc_messages import RpcAnswer
from agentrail.cli.acp.updates import SessionUpdates
from agentrail.cli.output.standard_output import StandardOutput
from agentrail.models import ToolMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element


@tool
async def deploy(path: str) -> str:
    """Deploy a folder."""
    return f"deployed {path}"


@tool(name="deploy")
async def deploy_all(path: str) -> str:
    """Deploy a folder and all others."""
    return f"deployed all and {path}"


@pytest.mark.parametrize(("notices", "kind"), [(True, "notice"), (False, "agent_message_chunk")])
async def test_an_approved_call_whose_tool_was_replaced_meanwhile_is_told_and_rejected(
    tmp_path: Path, notices: bool, kind: str
) -> None:
    abilities = ClientAbilities(notices=notices)
    sent_updates: list[Update] = []

    async def show(update: Update) -> None:
        await trio.lowlevel.checkpoint()
        sent_updates.append(update)

    script: list[Element] = [say(calls=[call("deploy", {"path": "x"})]), "done", "here"]
    plugins = [HumanApproval(tools=["deploy"], timeout=None)]
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(script), tools=[deploy], plugins=plugins))
        await session.ask("go")
        peer, updates = Peer(LineWriter(StandardOutput(None))), SessionUpdates(tmp_path, abilities)
        requests = PermissionRequests(session, session.id, peer, updates, abilities, show, updates.changes)
        async with trio.open_nursery() as nursery:
            await requests.look(session.status().held, nursery)
            await session.replace_tools(deploy_all)
            await wait_all_tasks_blocked()
            peer.take(RpcAnswer(1, {"outcome": {"outcome": "selected", "optionId": "allow_once"}}, None))
        assert (await session.ask("are you there?")).text == "here"
        (result,) = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        assert "was detached or redefined since" in result
        assert [update["sessionUpdate"] for update in sent_updates] == [kind]


async def test_an_editor_that_allows_all_by_itself_is_not_asked_for_ever(tmp_path: Path) -> None:
    titles: list[str] = []

    async def show(update: Update) -> None:
        await trio.lowlevel.checkpoint()
        titles.append(str(update["description"]))

    abilities = ClientAbilities(notices=True)
    script: list[Element] = [say(calls=[call("deploy", {"path": "x"})]), "done"]
    plugins = [HumanApproval(tools=["deploy"], timeout=None)]
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(script), tools=[deploy], plugins=plugins))
        ann = session.by("ann", four_eyes=True)
        await ann.ask("go")
        peer, updates = Peer(LineWriter(StandardOutput(None))), SessionUpdates(tmp_path, abilities)
        requests = PermissionRequests(ann, session.id, peer, updates, abilities, show, updates.changes)
        async with trio.open_nursery() as nursery:
            for number in range(1, 10):
                await requests.look(session.status().held, nursery)
                await wait_all_tasks_blocked()
                peer.take(RpcAnswer(number, {"outcome": {"outcome": "selected", "optionId": "allow_once"}}, None))
                await wait_all_tasks_blocked()
        assert not requests.is_waiting
        assert len(titles) == MOST_REFUSED
        assert WAITS_ON not in titles[0]
        assert titles[-1].endswith(WAITS_ON)
        (held,) = session.status().held
        await session.by("bob").approve(held)  # it waits for somebody else
        assert not session.status().held

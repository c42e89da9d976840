"""Decisions of a person at an editor that the session refuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.cli.acp.json_lines import LineWriter
from agentrail.cli.acp.peer import Peer
from agentrail.cli.acp.permissions import MOST_REFUSED, WAITS_ON, PermissionRequests
from agentrail.cli.acp.protocol import ClientAbilities, Update
from agentrail.cli.acp.rpc_messages import RpcAnswer
from agentrail.cli.acp.updates import SessionUpdates
from agentrail.cli.output.standard_output import StandardOutput
from agentrail.models import JsonObject, ToolMessage
from agentrail.plugins import HumanApproval, Plugin
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin.conversation import ask_user
from agentrail.tools.builtin.file_tools import write_file
from tests.kit import Element
from tests.patience import PATIENCE


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


class AskedPeer(Peer):
    """An editor that tells when it was first asked: what a file holds is read in a thread before."""

    def __init__(self) -> None:
        super().__init__(LineWriter(StandardOutput(None)))
        self.was_asked = trio.Event()

    async def ask(self, request_id: int, method: str, params: JsonObject) -> RpcAnswer | None:
        self.was_asked.set()
        return await super().ask(request_id, method, params)


class HeldAtEditor:
    """A session with one held call, about which an editor of certain abilities is asked."""

    def __init__(self, folder: Path, plugins: Sequence[Plugin[None]], *script: Element, forms: bool = False) -> None:
        abilities = ClientAbilities(notices=True, forms=forms)
        self.peer = AskedPeer()
        self.updates = SessionUpdates(folder, abilities)
        self.shown: list[Update] = []
        self._abilities = abilities
        tools = [deploy, write_file, ask_user]
        self._spec = SessionSpec(model=ScriptedModel(script), tools=tools, plugins=plugins, working_dir=str(folder))

    async def show(self, update: Update) -> None:
        await trio.lowlevel.checkpoint()
        self.shown.append(update)

    def choose(self, request: int, option: str, outcome: str = "selected") -> None:
        """Answer as an editor does whose person has chosen *option*."""
        self.peer.take(RpcAnswer(request, {"outcome": {"outcome": outcome, "optionId": option}}, None))

    @asynccontextmanager
    async def asked(self) -> AsyncGenerator[tuple[SessionHandle, PermissionRequests, trio.Nursery]]:
        """Prompt the session, whose call is then held, and send the requests about it."""
        async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn(self._spec)
            await session.ask("go")
            requests = PermissionRequests(
                session, session.id, self.peer, self.updates, self._abilities, self.show, self.updates.changes
            )
            await requests.look(session.status().held, nursery)
            if requests.question is None:  # that one waits for a prompt
                with trio.fail_after(PATIENCE):
                    await self.peer.was_asked.wait()
            await wait_all_tasks_blocked()
            yield session, requests, nursery
            await requests.withdraw_all()
            nursery.cancel_scope.cancel()


HOLDS: Final = HumanApproval(tools=["deploy", "write_file"], timeout=None)
DEPLOYS: Final = say(calls=[call("deploy", {"path": "x"})])


async def test_a_request_about_a_call_that_others_have_settled_is_withdrawn_and_not_asked_again(tmp_path: Path) -> None:
    held = HeldAtEditor(tmp_path, [HOLDS], DEPLOYS, "done")
    async with held.asked() as (session, requests, nursery):
        assert requests.is_waiting
        await session.approve(session.status().held[0])
        await requests.look((), nursery)
        await wait_all_tasks_blocked()
        assert not requests.is_waiting
        assert not nursery.child_tasks, "the request was withdrawn"


async def test_always_is_for_always(tmp_path: Path) -> None:
    held = HeldAtEditor(tmp_path, [HOLDS], DEPLOYS, DEPLOYS, "done")
    async with held.asked() as (session, _, _):
        held.choose(1, "allow_always")
        await wait_all_tasks_blocked()
        assert session.status().held == ()
        assert [standing.tool for standing in session.inspect().standing_approvals] == ["deploy"]


async def test_a_choice_that_was_cancelled_is_none_although_it_names_an_option(tmp_path: Path) -> None:
    held = HeldAtEditor(tmp_path, [HOLDS], DEPLOYS, "done")
    async with held.asked() as (session, _, _):
        held.choose(1, "allow_once", outcome="cancelled")
        await wait_all_tasks_blocked()
        (result,) = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        assert "the person has not decided" in result


async def test_a_turn_that_the_editor_cancels_rejects_nothing(tmp_path: Path) -> None:
    held = HeldAtEditor(tmp_path, [HOLDS], DEPLOYS, "done")
    async with held.asked() as (session, _, _):
        held.updates.is_cancelled = True
        held.choose(1, "", outcome="cancelled")
        await wait_all_tasks_blocked()
        assert len(session.status().held) == 1


async def test_a_file_that_has_changed_since_it_was_shown_is_asked_about_anew(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    writes = say(calls=[call("write_file", {"path": "a.txt", "content": "mine"})])
    held = HeldAtEditor(tmp_path, [HOLDS], writes, "done")
    async with held.asked() as (session, _, _):
        (tmp_path / "a.txt").write_text("two")
        held.choose(1, "allow_once")
        with trio.fail_after(PATIENCE):
            while not held.shown:  # noqa: ASYNC110 - files are read in threads
                await trio.sleep(0.01)
        assert len(session.status().held) == 1
        assert "has changed since it was shown" in str(held.shown[-1])
        assert (tmp_path / "a.txt").read_text() == "two"


@pytest.mark.parametrize(("action", "answer"), [("accept", "blue"), ("decline", "the person gave no answer")])
async def test_a_form_answers_if_it_was_accepted(tmp_path: Path, action: str, answer: str) -> None:
    asks = say(calls=[call("ask_user", {"question": "which?"})])
    held = HeldAtEditor(tmp_path, [], asks, "done", forms=True)
    async with held.asked() as (session, _, _):
        held.peer.take(RpcAnswer(1, {"action": action, "content": {"answer": "blue"}}, None))
        await wait_all_tasks_blocked()
        (result,) = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        assert answer in result


async def test_a_question_that_was_answered_elsewhere_takes_no_prompt(tmp_path: Path) -> None:
    held = HeldAtEditor(tmp_path, [], say(calls=[call("ask_user", {"question": "which?"})]), "done")
    async with held.asked() as (session, requests, nursery):
        assert requests.question is not None
        await session.respond(requests.question.id, "blue")
        await requests.look((), nursery)
        assert requests.question is None

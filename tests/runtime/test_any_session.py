"""Local handles and supervisors are what the interfaces of `AnySession` and `AnySupervisor` say: for type checkers."""

from __future__ import annotations

from agentrail import AnySession, AnySupervisor, SessionHandle, SessionSpec, Supervisor, awaited, open_supervisor
from agentrail.testing import ScriptedModel


def as_any_session(session: SessionHandle) -> AnySession:
    """Return *session*: mypy and pyright compare the two classes here."""
    return session


def as_any_supervisor(supervisor: Supervisor) -> AnySupervisor[SessionSpec]:
    """Return *supervisor*: mypy and pyright compare the two classes here."""
    return supervisor


async def test_a_look_at_a_local_session_can_be_awaited_as_one_at_a_remote_session() -> None:
    async with open_supervisor() as opened:
        supervisor = as_any_supervisor(opened)
        session = as_any_session(await opened.spawn(SessionSpec(model=ScriptedModel(["hello"])), "trip"))
        assert (await session.ask("hi")).text == "hello"
        assert (await awaited(session.status())).phase == "idle"
        assert [message.text for message in await awaited(session.messages())] == ["hi", "hello"]
        assert await awaited(session.queued()) == ()
        assert await awaited(session.tasks()) == ()
        assert [item.id for item in await awaited(supervisor.sessions())] == ["trip"]
        assert [child.name for child in (await awaited(supervisor.tree())).children] == ["trip"]

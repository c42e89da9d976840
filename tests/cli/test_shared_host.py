"""Several terminals on one journal: whoever is first serves it, and when it ends, another does."""

import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from agentrail.adapters.journals.auditing import model_requests
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.cli import shared_host
from agentrail.cli.agent_source import AgentSource, profile_of
from agentrail.cli.default_agent import ASK_FIRST
from agentrail.cli.shared_host import open_shared
from agentrail.cli.unix_endpoint import socket_of
from agentrail.errors import CannotListen, JournalInUse
from agentrail.values.events import AgentEnd
from tests.cli.talking import Talk, through_pipes


@contextmanager
def chat(folder: Path, *args: str) -> Generator[Talk, None, None]:
    journal = str(folder.with_suffix(".db"))
    with through_pipes("chat", "--model", "demo", "--dir", str(folder), "--journal", journal, *args) as talk:
        talk.wait_for("goes on with it.\n\n")
        yield talk


def kill(talk: Talk) -> None:
    talk.stop(signal.SIGKILL)
    assert talk.code() == -signal.SIGKILL


def source_in(folder: Path) -> AgentSource:
    return AgentSource(str(folder), model="demo")


async def test_the_first_one_serves_the_second_one(tmp_path: Path) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    async with open_shared(journal, profile_of) as first:
        assert socket_of(journal).stat().st_mode & 0o777 == 0o600
        session = await first.spawn(source.id, "talk", labels=[source.label])
        async with open_shared(journal, profile_of) as second:
            await session.ask("Who are you?")
            assert (await second.session("talk").messages())[0].text == "Who are you?"
            (stored,) = await second.stored(label=source.label)
            assert stored.about.spec == source.id
    assert not socket_of(journal).exists()


async def test_when_the_one_that_serves_leaves_another_goes_on(tmp_path: Path) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            served, leave = trio.Event(), trio.Event()

            async def serve() -> None:
                async with open_shared(journal, profile_of) as first:
                    await first.spawn(source.id, "talk")
                    served.set()
                    await leave.wait()

            nursery.start_soon(serve)
            await served.wait()
            async with open_shared(journal, profile_of) as second, second.session("talk").subscribe() as events:
                leave.set()
                before = trio.current_time()
                await second.session("talk").ask("Who are you?")
                assert trio.current_time() - before < 5
                async for envelope in events:
                    if isinstance(envelope.event, AgentEnd):
                        break


async def test_a_journal_that_another_program_holds_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_host, "PATIENCE", 0.2)
    journal = SqliteJournal(tmp_path / "j.db")
    await journal.claim("s", "other")
    with pytest.raises(JournalInUse):
        async with open_shared(journal.path, profile_of):
            pass
    await journal.close()


def test_a_long_path_has_its_socket_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    long = tmp_path / ("a" * 100) / "j.db"
    there = socket_of(long)
    assert there.parent == tmp_path / f"agentrail-{os.getuid()}"
    assert there == socket_of(long) != socket_of(long.with_name("k.db"))
    there.parent.chmod(0o755)
    with pytest.raises(CannotListen, match="not of this user alone"):
        socket_of(long)


@pytest.mark.parametrize("folder", ["/p", "/päth with=& ünd", "/" + "x" * 255, "/bad\udcff"])
def test_the_name_of_an_agent_says_what_it_is_made_of(folder: str) -> None:
    source = AgentSource(folder, "/a/app.py", "desk", "demo")
    assert source.id.isascii()
    assert source.id.isprintable()
    assert AgentSource.read(source.id) == source
    assert len(source.label) <= 200


@pytest.mark.parametrize(
    "name", ["desk", "", "agentrail:chat?", "agentrail:chat?file=a", "agentrail:chat?folder=a&b=c"]
)
def test_the_name_of_another_program_is_none_of_ours(name: str) -> None:
    assert AgentSource.read(name) is None


# With processes


@pytest.mark.long
def test_a_terminal_goes_on_when_the_one_that_serves_is_killed_in_mid_stream(tmp_path: Path) -> None:
    with chat(tmp_path) as first:
        first.say("count to 600\n")
        first.wait_for("→ count to=600")
        with chat(tmp_path, "--continue") as second:
            kill(first)
            second.say("/steer Who are you?\n")
            second.wait_for("built-in demo model: there is no")
            second.say("/status\n")
            second.wait_for("texts of steering\n")


@pytest.mark.long
def test_an_approval_outlives_the_one_that_serves_and_is_answered_elsewhere(tmp_path: Path) -> None:
    with chat(tmp_path) as first:
        first.say("write hello to a.txt\n")
        first.wait_for("[e]dit\n")
        with chat(tmp_path, "--continue") as second:
            second.wait_for("[e]dit\n")
            kill(first)
            second.say("y\n")
            second.wait_for("created `a.txt`")
    assert (tmp_path / "a.txt").read_text() == "hello"


@pytest.mark.long
def test_what_one_terminal_says_is_seen_and_answered_at_the_other(tmp_path: Path) -> None:
    with chat(tmp_path) as first:
        first.say("Who are you?\n")
        first.wait_for("docs”.\n")
        with chat(tmp_path, "--continue") as second:
            second.wait_for("> Who are you?\n")
            first.say("write hello to a.txt\n")
            second.wait_for("> write hello to a.txt\n")
            second.wait_for("[e]dit\n")
            first.wait_for("[e]dit\n")
            second.say("n not now\n")
            first.wait_for("rejected: write_file: not now\n")
            first.say("/quit\n")
            assert first.code() == 0
            second.say("Who are you?\n")
            second.wait_for("docs”.\n")


@pytest.mark.long
def test_a_session_that_was_killed_alone_goes_on_later(tmp_path: Path) -> None:
    with chat(tmp_path) as first:
        first.say("write hello to a.txt\n")
        first.wait_for("[e]dit\n")
        kill(first)
    with chat(tmp_path, "--continue") as second:
        second.wait_for("> write hello to a.txt\n")
        second.wait_for("[e]dit\n")
        second.say("y\n")
        second.wait_for("created `a.txt`")


@pytest.mark.long
def test_sessions_are_listed_and_changed_to(tmp_path: Path) -> None:
    with chat(tmp_path) as talk:
        talk.say("Who are you?\n")
        talk.wait_for("docs”.\n\n")
        talk.say("/new\n/sessions\n")
        shown = talk.wait_for("Who are you?\n")
        assert "(nothing was said)" in shown
        talk.say("/resume 2\n")
        talk.wait_for("> Who are you?\n")
        talk.say("/fork\n")
        talk.wait_for("> Who are you?\n")
        talk.say("/resume 99\n")
        talk.wait_for("✗ there is no session '99' in this list")
        talk.say("/quit\n")
        assert talk.code() == 1


@pytest.mark.long
def test_an_agent_of_a_file_is_talked_to(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(
        "from agentrail import SessionSpec, tool\n\n"
        "@tool\nasync def count(to: int) -> str:\n    'Count.'\n    return 'counted'\n\n"
        "desk = SessionSpec(model='demo', tools=(count,))\n"
    )
    with chat(tmp_path, f"{file}:desk") as talk:
        talk.say("Who are you?\n")
        assert "I can count (`count`), so" in talk.wait_for("\n\n")
    with through_pipes("chat", f"{file}:nobody", "--journal", str(tmp_path / "k.db")) as talk:
        assert "it has no `nobody` that is a Profile or SessionSpec" in talk.rest()
        assert talk.code() == 2


@pytest.mark.long
def test_a_session_is_gone_on_with_by_any_of_its_names(tmp_path: Path) -> None:
    with chat(tmp_path) as talk:
        talk.say("Who are you?\n")
        talk.wait_for("docs”.\n\n")
        talk.say("/quit\n")
        assert talk.code() == 0
    journal = str(tmp_path.with_suffix(".db"))
    with through_pipes("sessions", "list", "--journal", journal) as listing:
        (name,) = re.findall(r"(\w{8})  idle .*  Who are you\?", listing.rest())
    with through_pipes("sessions", "show", name, "--journal", journal) as shown:
        assert f"h.local.you.{name}: Who are you?" in shown.rest()
    for each in (name, f"you.{name}", f"h.local.you.{name}"):
        with chat(tmp_path, "--resume", each) as talk:
            talk.wait_for("> Who are you?\n")


@pytest.mark.parametrize("args", [("--resume", "nobody"), ("--resume", "no body/../x"), ("--continue",)])
def test_a_session_that_is_not_there_is_told_in_one_line(tmp_path: Path, args: tuple[str, ...]) -> None:
    with through_pipes("chat", "--journal", str(tmp_path / "a #1?%20.db"), "--dir", str(tmp_path), *args) as talk:
        assert re.fullmatch(r"agentrail: --\w+: .*\n", talk.rest())
        assert talk.code() == 2


@pytest.mark.long
def test_what_is_asked_about_is_said_at_the_start_and_changed_later(tmp_path: Path) -> None:
    with chat(tmp_path, "--edits") as talk:
        talk.say("write hello to a.txt\n")
        assert "[e]dit" not in talk.wait_for("created `a.txt`")
        talk.say("/mode ask\n")
        talk.wait_for("asks before write_file, edit_file, shell, web_fetch, tools of MCP servers\n")
        talk.say("write hello to b.txt\n")
        talk.wait_for("[e]dit\n")
        talk.say("n\n/mode all\n/quit\n")
        talk.wait_for("/mode ask or edits or yes")
    with chat(tmp_path, "--continue", "--yes") as talk:
        talk.say("run echo done > c.txt\n")
        assert "[e]dit" not in talk.wait_for("✓ shell")
    assert (tmp_path / "c.txt").read_text() == "done\n"
    with chat(tmp_path, "--plan") as talk:
        talk.say("write hello to d.txt\n")
        talk.wait_for("I have no tool for that")


@pytest.mark.long
def test_what_a_project_has_for_agents_is_read(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Speak of tea.")
    skill = tmp_path / ".agents" / "skills" / "brew"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: brew\ndescription: How tea is made.\n---\nBoil water.\n")
    with chat(tmp_path) as talk:
        talk.say("Who are you?\n/quit\n")
        assert talk.code() == 0
    journal = str(tmp_path.with_suffix(".db"))
    with through_pipes("sessions", "list", "--journal", journal, "--json") as listing:
        (name,) = re.findall(r'"session":\s*"([^"]+)"', listing.rest())
    found = trio.run(_last_request, Path(journal), name)
    assert "Speak of tea." in found
    assert "How tea is made." in found


async def _last_request(journal: Path, name: str) -> str:
    opened = SqliteJournal(journal)
    requests = await model_requests(opened, name)
    await opened.close()
    return repr(requests[-1])


@pytest.mark.parametrize("which", [("--continue",), ("--resume", "trip")])
def test_a_session_that_may_write_is_not_made_one_that_plans(tmp_path: Path, which: tuple[str, ...]) -> None:
    with through_pipes("chat", "--plan", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"), *which) as talk:
        assert talk.rest().startswith("agentrail: --plan: a session keeps the tools that it began with")
        assert talk.code() == 2


def test_no_mode_but_yes_lets_more_pass_than_it_says() -> None:
    assert set(ASK_FIRST["ask"]) == set(ASK_FIRST["plan"]) > set(ASK_FIRST["edits"]) > set(ASK_FIRST["yes"]) == set()

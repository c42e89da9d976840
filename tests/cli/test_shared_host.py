"""Several terminals on one journal: whoever is first serves it, and when it ends, another does."""

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.adapters import user_folders
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host import shared_host
from agentrail.cli.host.shared_host import ServedJournal, find_page, is_served, open_shared, sole_server
from agentrail.cli.host.unix_endpoint import socket_of
from agentrail.cli.settings.default_agent import ASK_FIRST
from agentrail.errors import CannotListen, JournalFull, JournalInUse, NothingWritten
from agentrail.events import AgentEnd
from agentrail.journals import Claim, SqliteJournal, model_requests
from tests.cli.talking import COMMAND, Talk, through_pipes
from tests.patience import PATIENCE, within
from tests.sandboxes.kinds import needs_bubblewrap


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


@pytest.mark.long
async def test_the_first_one_serves_the_second_one(tmp_path: Path) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    async with open_shared(journal, profile_of) as first:
        assert socket_of(journal).stat().st_mode & 0o777 == 0o600
        session = await first.spawn(AgentSeal(journal).begun(source).id, "talk", labels=[source.label])
        async with open_shared(journal, profile_of) as second:
            await session.ask("Who are you?")
            assert (await second.session("talk").messages())[0].text == "Who are you?"
            (stored,) = await second.stored(label=source.label)
            assert stored.about.spec == AgentSeal(journal).begun(source).id
    assert not socket_of(journal).exists()


@pytest.mark.long
async def test_when_the_one_that_serves_leaves_another_goes_on(tmp_path: Path) -> None:
    journal, source = tmp_path / "j.db", source_in(tmp_path)
    with trio.fail_after(2 * PATIENCE):
        async with trio.open_nursery() as nursery:
            served, leave = trio.Event(), trio.Event()

            async def serve() -> None:
                async with open_shared(journal, profile_of) as first:
                    await first.spawn(AgentSeal(journal).begun(source).id, "talk")
                    served.set()
                    await leave.wait()

            nursery.start_soon(serve)
            await served.wait()
            async with open_shared(journal, profile_of) as second, second.session("talk").subscribe() as events:
                leave.set()
                started_at = trio.current_time()
                await second.session("talk").ask("Who are you?")
                assert trio.current_time() - started_at < within(5)
                async for envelope in events:
                    if isinstance(envelope.event, AgentEnd):
                        break


async def test_a_journal_that_a_process_serves_which_cannot_be_reached_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_host, "PATIENCE", 0.2)
    journal = SqliteJournal(tmp_path / "j.db")
    await journal.release(())
    await journal.close()
    with sole_server(journal.path), pytest.raises(JournalInUse, match=f"process {os.getpid()}"):
        async with open_shared(journal.path, profile_of):
            pass


async def test_what_another_program_writes_to_the_journal_keeps_nobody_away(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    await journal.claim("s", "other")
    async with open_shared(journal.path, profile_of) as shared:
        assert await shared.stored() == ()
    await journal.close()


@pytest.mark.parametrize(("error", "tries"), [(NothingWritten("database is locked"), 2), (JournalFull("disk full"), 1)])
async def test_a_journal_that_others_make_at_the_same_time_is_opened_again(
    error: NothingWritten, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, tried = ServedJournal.release, list[ServedJournal]()

    async def fail_once(journal: ServedJournal, claims: Sequence[Claim]) -> None:
        tried.append(journal)
        if len(tried) == 1:
            raise error
        await release(journal, claims)

    monkeypatch.setattr(ServedJournal, "release", fail_once)
    with nullcontext() if tries > 1 else pytest.raises(JournalFull):
        async with open_shared(tmp_path / "j.db", profile_of) as shared:
            assert await shared.stored() == ()
    assert len([*dict.fromkeys(tried)]) == tries


# Where the socket is


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Generator[dict[str, Path], None, None]:
    """The folders in which a socket may be, in this order; their paths are short, as that of a socket has to be."""
    folder_names = {"XDG_RUNTIME_DIR": "agentrail", "AGENTRAIL_HOME": "run", "TMPDIR": f"agentrail-run-{os.getuid()}"}
    with tempfile.TemporaryDirectory(prefix="own-") as name:
        short = Path(name)
        monkeypatch.setattr(user_folders, "RUN_USER", str(short / "users"))
        monkeypatch.setattr(user_folders, "TEMPORARY", str(short / "TMPDIR"))
        for variable in folder_names:
            (short / variable).mkdir(mode=0o700)
            monkeypatch.setenv(variable, str(short / variable))
        yield {variable: short / variable / folder for variable, folder in folder_names.items()}


async def test_socket_and_token_are_never_beside_the_journal(tmp_path: Path, folders: dict[str, Path]) -> None:
    async with open_shared(tmp_path / "j.db", profile_of):
        beside = sorted(path.name for path in tmp_path.iterdir())  # noqa: ASYNC240
        assert beside == ["j.db", "j.db-shm", "j.db-wal", "j.db.lock"]
        own_folder = folders["XDG_RUNTIME_DIR"]
        assert own_folder.stat().st_mode & 0o777 == 0o700
        assert sorted(path.suffix for path in own_folder.iterdir()) == [".json", ".sock"]
    assert list(own_folder.iterdir()) == []


def wrong_owner(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)


def wrong_mode(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)


def wrong_kind(folder: Path) -> None:
    folder.with_name("elsewhere").mkdir(mode=0o700)
    folder.symlink_to("elsewhere")


def wrong_parent(folder: Path) -> None:
    os.chown(folder.parent, 12345, 12345)


@pytest.mark.parametrize("spoil", [wrong_owner, wrong_mode, wrong_kind, wrong_parent])
def test_a_folder_that_is_not_of_this_user_alone_is_not_used(
    spoil: Callable[[Path], None], tmp_path: Path, folders: dict[str, Path]
) -> None:
    journal, ready = tmp_path / "j.db", list(folders.values())
    while ready:
        assert socket_of(journal).parent == ready[0]
        shutil.rmtree(ready[0])
        spoil(ready.pop(0))
    with pytest.raises(CannotListen, match=r"is of this user alone.*; let XDG_RUNTIME_DIR name a folder of your own"):
        socket_of(journal)


def test_a_path_that_is_too_long_for_a_socket_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("a" * 100)))
    (tmp_path / ("a" * 100)).mkdir(mode=0o700)
    path = socket_of(tmp_path / "j.db")
    assert path.parent == folders["AGENTRAIL_HOME"]
    assert path == socket_of(tmp_path / "j.db") != socket_of(tmp_path / "k.db")


@pytest.mark.parametrize("serves_with_variable", [True, False])
async def test_a_process_without_the_variable_and_one_with_it_find_each_other(
    serves_with_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path]
) -> None:
    """As cron starts one: Linux has the folder of the user in a place that is known without the variable."""
    runtime = folders["XDG_RUNTIME_DIR"].parent
    (runtime.parent / "users").mkdir()
    (runtime.parent / "users" / str(os.getuid())).symlink_to(runtime)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime) if serves_with_variable else "")
    async with open_shared(tmp_path / "j.db", profile_of):
        monkeypatch.setenv("XDG_RUNTIME_DIR", "" if serves_with_variable else str(runtime))
        assert await is_served(tmp_path / "j.db")
        assert find_page(tmp_path / "j.db") is not None


async def test_a_process_that_serves_elsewhere_is_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: dict[str, Path]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    async with open_shared(tmp_path / "j.db", profile_of):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folders["XDG_RUNTIME_DIR"].parent))
        assert await is_served(tmp_path / "j.db")
        assert find_page(tmp_path / "j.db") is not None


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


@pytest.mark.campaign
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
        assert "has these sessions open, too" not in first.output
        with chat(tmp_path, "--continue") as second:
            second.wait_for("> Who are you?\n")
            assert "Another program of yours has these sessions open, too: " in second.output
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


@pytest.mark.campaign
@pytest.mark.long
def test_sessions_are_listed_and_changed_to(tmp_path: Path) -> None:
    with chat(tmp_path) as talk:
        talk.say("Who are you?\n")
        talk.wait_for("docs”.\n\n")
        talk.say("/new\n/sessions\n")
        screen = talk.wait_for("Who are you?\n")
        assert "(nothing was said)" in screen
        talk.say("/resume 2\n")
        talk.wait_for("> Who are you?\n")
        talk.say("/fork\n")
        talk.wait_for("> Who are you?\n")
        talk.say("/resume 99\n")
        talk.wait_for("✗ there is no session '99' in this list")
        talk.say("/quit\n")
        assert talk.code() == 1


@pytest.mark.campaign
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


@pytest.mark.campaign
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
    with through_pipes("sessions", "show", name, "--journal", journal) as session_view:
        assert f"h.local.you.{name}: Who are you?" in session_view.rest()
    for session_name in (name, f"you.{name}", f"h.local.you.{name}"):
        with chat(tmp_path, "--resume", session_name) as talk:
            talk.wait_for("> Who are you?\n")


@pytest.mark.long
@pytest.mark.parametrize("args", [("--resume", "nobody"), ("--resume", "no body/../x"), ("--continue",)])
def test_a_session_that_is_not_there_is_told_in_one_line(tmp_path: Path, args: tuple[str, ...]) -> None:
    with through_pipes("chat", "--journal", str(tmp_path / "a #1?%20.db"), "--dir", str(tmp_path), *args) as talk:
        assert re.fullmatch(r"agentrail: --\w+: .*\n", talk.rest())
        assert talk.code() == 2


@pytest.mark.campaign
@pytest.mark.long
def test_what_is_asked_about_is_said_at_the_start_and_changed_later(tmp_path: Path) -> None:
    with chat(tmp_path, "--edits") as talk:
        talk.say("write hello to a.txt\n")
        assert "[e]dit" not in talk.wait_for("created `a.txt`")
        talk.say("/mode ask\n")
        talk.wait_for("asks before write_file, edit_file, shell, web_fetch, web_search, tools of MCP servers\n")
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


@pytest.mark.campaign
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
    request = trio.run(_last_request, Path(journal), name)
    assert "Speak of tea." in request
    assert "How tea is made." in request


async def _last_request(journal: Path, name: str) -> str:
    opened = SqliteJournal(journal)
    requests = await model_requests(opened, name)
    await opened.close()
    return repr(requests[-1])


@pytest.mark.long
@pytest.mark.parametrize("which", [("--continue",), ("--resume", "trip")])
def test_a_session_that_may_write_is_not_made_one_that_plans(tmp_path: Path, which: tuple[str, ...]) -> None:
    with through_pipes("chat", "--plan", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"), *which) as talk:
        assert talk.rest().startswith("agentrail: --plan: a session keeps the tools that it began with")
        assert talk.code() == 2


def test_no_mode_but_yes_lets_more_pass_than_it_says() -> None:
    assert set(ASK_FIRST["ask"]) == set(ASK_FIRST["plan"]) > set(ASK_FIRST["edits"]) > set(ASK_FIRST["yes"]) == set()


# An agent that works where the journal is


LOOK: Final = """
find / -name '*.sock' 2>/dev/null
find . -type f -not -name look.sh -exec cat {} + 2>/dev/null
mv .local moved && echo moved
mkdir -p .local/share/agentrail && echo planted > .local/share/agentrail/allowed && echo planted
echo looked
"""
"""A script that shows each socket, each token and each journal that it can reach, and tries to replace them."""


@needs_bubblewrap
@pytest.mark.long
def test_an_agent_that_works_in_the_home_reaches_neither_socket_nor_token_nor_journal() -> None:
    with tempfile.TemporaryDirectory(prefix="home-") as name:  # with a short path, so that the socket is in it
        home = Path(name)
        (home / "look.sh").write_text(LOOK)
        command = ("env", "-u", "AGENTRAIL_HOME", f"HOME={home}", "XDG_RUNTIME_DIR=", *COMMAND)
        options = ("--dir", name, "--journal", str(home / "j.db"), "--model", "demo", "--yes")
        with through_pipes("chat", *options, command=command) as talk:
            talk.wait_for("goes on with it.\n\n")
            (file,) = home.rglob("*.sock.json")
            token = json.loads(file.read_text())["token"]
            talk.say("run sh look.sh\n")
            talk.wait_for("✓ shell")
            talk.say(f"read {file.relative_to(home)}\n/quit\n")
            talk.rest()
        screen = [text for text in (".sock\n", token, "SQLite format", "moved\n", "planted\n") if text in talk.output]
        assert not screen, talk.output
        assert "looked" in talk.output
        assert not (home / "moved").exists()
        assert not (home / ".local/share/agentrail/allowed").exists()

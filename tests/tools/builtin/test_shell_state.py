"""What commands leave to later ones, in sessions with real shells: a folder and exports, as state of the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.events import ToolExecutionEnd, ToolExecutionUpdate
from agentrail.journals import SqliteJournal
from agentrail.models import JsonObject, ToolMessage
from agentrail.plugins import AnyPlugin, HumanApproval, SecurityGuard
from agentrail.sandboxes import BubblewrapSandbox, LocalSandbox, Sandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ok, standard_tools, tool
from agentrail.tools.builtin.shell_script import hiding_state
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

SANDBOXES: Final[tuple[Callable[[Path], Sandbox], ...]] = (LocalSandbox, BubblewrapSandbox)


def turns(*commands: str | JsonObject | list[str]) -> ScriptedModel:
    """Return a model that runs each of *commands* in a response of its own; a list is one response."""
    steps = []
    for command in commands:
        several = command if isinstance(command, list) else [command]
        arguments: Iterable[JsonObject] = [{"command": each} if isinstance(each, str) else each for each in several]
        steps.append(say(calls=[call("shell", args) for args in arguments]))
    return ScriptedModel([*steps, "done", "done", "done"])


def spec_of(sandbox: Sandbox, model: ScriptedModel, *plugins: AnyPlugin) -> SessionSpec:
    return SessionSpec(model=model, sandbox=sandbox, tools=standard_tools(), plugins=plugins)


def files_in(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]


async def outputs(sandbox: Sandbox, *commands: str | JsonObject | list[str]) -> list[str]:
    """Return what the model got for each of *commands*, run by one session."""
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_of(sandbox, turns(*commands)))
        await session.ask("go")
        return [message.text for message in session.messages() if isinstance(message, ToolMessage)]


def prepared(root: Path) -> Path:
    (root / "sub" / "inner").mkdir(parents=True)
    return root


@pytest.mark.parametrize("make_sandbox", SANDBOXES)
async def test_a_folder_and_an_export_hold_in_later_commands(
    tmp_path: Path, make_sandbox: Callable[[Path], Sandbox]
) -> None:
    root = prepared(tmp_path)
    moved, later, failed, back = await outputs(
        make_sandbox(root),
        "cd sub && export A=1 B='two words' && echo moved >&2",
        'pwd; echo "$A $B"',
        "cd inner; export A=2; exit 3",
        'pwd; echo "$A $B"; cd ../..; pwd',
    )
    assert moved == "moved\n[later commands begin in 'sub']"
    assert later == f"{root}/sub\n1 two words"
    assert failed == "[exit code 3]\n[later commands begin in 'sub/inner']"
    assert back == f"{root}/sub/inner\n2 two words\n{root}\n[later commands begin in '.']"


async def test_it_never_leaves_the_folder_of_the_files(tmp_path: Path) -> None:
    root = prepared(tmp_path / "root")
    (tmp_path / "roof").mkdir()
    (root / "out").symlink_to("/usr")
    (root / ".ssh").mkdir()
    told = await outputs(
        LocalSandbox(root), "cd sub", "cd /usr", "cd ../out", "cd ../../roof", "cd ../.ssh", "cd $'..\\n'", "pwd"
    )
    assert [text.partition("; ")[2] for text in told[1:5]] == ["later commands begin in 'sub']"] * 4
    assert told[-1] == f"{root}/sub"


async def test_only_chosen_exports_are_kept_and_never_a_secret(tmp_path: Path) -> None:
    (tmp_path / "secrets.env").write_text("export HIDDEN=hunter2\nexport A=hunter2\n")
    first, second = await outputs(
        LocalSandbox(prepared(tmp_path)),
        "export API_KEY=abc PATH=/evil:$PATH GIT_SSH_COMMAND=x PYTHONPATH=. OK=fine; C=$(cat secrets.env); "
        'export D="$C" ROOT=$PWD/sub; . ./secrets.env; export A; E=1; export LINES="$(seq 2)"; export "X Y"',
        "env | sort | cut -d= -f1 | tr '\\n' ' '; echo $OK $ROOT",
    )
    assert "hunter2" not in first + second
    assert {"OK", "ROOT"} <= set(second.split())
    assert not {"API_KEY", "GIT_SSH_COMMAND", "PYTHONPATH", "C", "D", "A", "E", "HIDDEN", "LINES"} & set(second.split())
    assert second.split()[-2:] == ["fine", f"{tmp_path}/sub"]
    for name in ("API_KEY", "PATH", "GIT_SSH_COMMAND", "PYTHONPATH", "D", "A"):
        assert f"[`{name}` is not kept for later commands: " in first


async def test_a_variable_can_be_unset_and_changed(tmp_path: Path) -> None:
    told = await outputs(
        LocalSandbox(tmp_path), "export A=1 B=2 C=3", "unset A; B=4; export C=", 'echo "${A-no} $B ${C-no}."'
    )
    assert told[-1] == "no 4 ."


@pytest.mark.parametrize(
    "command", ["cd sub; kill -9 $$", "cd sub; exec true", "(cd sub)", "if cd sub", "trap 'echo bye' EXIT; cd sub"]
)
async def test_a_shell_that_does_not_come_to_its_end_leaves_nothing(tmp_path: Path, command: str) -> None:
    told = await outputs(LocalSandbox(prepared(tmp_path)), command, "pwd")
    assert told[-1] == str(tmp_path)


@pytest.mark.parametrize("background", [False, True])
async def test_a_shell_whose_folder_is_gone_runs_nothing_and_begins_anew(tmp_path: Path, background: bool) -> None:
    later: JsonObject = {"command": "touch here", "background": background}
    told = await outputs(LocalSandbox(prepared(tmp_path)), "cd sub; export A=1", "rm -rf ../sub", later, "pwd; echo $A")
    assert told[2].startswith("nothing was run: 'sub', where the last `cd` led, is not there any more; later")
    assert told[3] == f"{tmp_path}\n1"
    assert files_in(tmp_path) == []


async def test_a_command_that_removes_its_folder_leaves_the_shell_at_the_root(tmp_path: Path) -> None:
    told = await outputs(LocalSandbox(prepared(tmp_path)), "cd sub", "export A=1; rm -rf ../sub", "pwd; echo $A")
    assert told[1:] == [
        "[where it ended is none of the folders for files; later commands begin in '.']",
        f"{tmp_path}\n1",
    ]


async def test_a_program_cannot_forge_another_folder_than_one_of_the_files(tmp_path: Path) -> None:
    forge = "printf '\\0kept\\0/etc\\0' >&2; printf '\\0kept\\0/etc\\0' > /proc/$PPID/fd/3; cd sub"
    told = await outputs(LocalSandbox(prepared(tmp_path)), f"bash -c {forge!r}; cd .", "pwd")
    assert told[-1] == str(tmp_path)


@pytest.mark.parametrize("size", [1, 7, 30])
def test_a_report_that_comes_in_pieces_is_hidden_whole(size: int) -> None:
    report = b"\0kept\0/root\0A=" + b"x" * 40 + b"\0B=1\nC\0"
    rest = report[6:]
    shown: list[bytes] = []
    hear = hiding_state(shown.append, "export A=1 B=2", ())
    for piece in (report[:6], *(rest[at : at + size] for at in range(0, len(rest), size)), b"out", report * 2, b"end"):
        hear(piece)
    assert shown == [b"out", b"end"]


async def test_what_is_shown_is_what_runs(tmp_path: Path) -> None:
    at_root: JsonObject = {"command": "touch b", "folder": "."}
    model = turns("cd sub", "touch a", at_root, ["cd inner", "touch c"], "touch d")
    async with open_supervisor() as supervisor:
        spec = spec_of(LocalSandbox(prepared(tmp_path)), model, HumanApproval(tools=["shell"]))
        session = await supervisor.spawn(spec)
        shown: list[object] = []
        reply = await session.ask("go")
        while reply.held:
            for held in reply.held:
                shown.append(held.args.get("folder"))
                await session.approve(held)
            reply = await session.reply()
    assert shown == [None, "sub", ".", "sub", "sub", "sub/inner"]
    assert sorted(files_in(tmp_path)) == ["b", "sub/a", "sub/c", "sub/inner/d"]


async def test_the_guard_reads_a_command_in_the_folder_in_force(tmp_path: Path) -> None:
    root = prepared(tmp_path / "root")
    async with open_supervisor() as supervisor:
        spec = spec_of(BubblewrapSandbox(root), turns("cd sub/inner", "rm -rf ../..", "ls"), SecurityGuard())
        session = await supervisor.spawn(spec)
        await session.ask("go")
        texts = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    assert "blocked by SecurityGuard" in texts[1]
    assert root.exists()


async def test_it_survives_a_restart_and_forks_have_that_of_their_place(tmp_path: Path) -> None:
    root = prepared(tmp_path / "root")
    async with open_supervisor(journal=SqliteJournal(tmp_path / "journal.db")) as supervisor:
        session = await supervisor.spawn(spec_of(LocalSandbox(root), turns("cd sub; export A=1")), id="s")
        await session.ask("go")
    async with open_supervisor(journal=SqliteJournal(tmp_path / "journal.db")) as supervisor:
        spec = spec_of(LocalSandbox(root), turns("pwd; echo $A", "cd inner; export A=2"))
        session = await supervisor.resume("s", spec)
        turn = await session.prompt("go on")
        await session.reply()
        assert f"{root}/sub\n1" in [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        for at, folder in ((None, "sub/inner\n2"), (turn.ref, "sub\n1")):
            fork = await supervisor.fork("s", spec_of(LocalSandbox(root), turns("pwd; echo $A")), at=at)
            await fork.ask("where?")
            assert fork.messages()[-2].text == f"{root}/{folder}"


async def test_what_a_command_leaves_running_is_ended_and_holds_nothing_up(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        told = await outputs(LocalSandbox(prepared(tmp_path)), "cd sub; sleep 1000 & echo here", "pwd")
    assert told == ["here\n[later commands begin in 'sub']", f"{tmp_path}/sub"]


async def test_subscribers_hear_the_output_and_nothing_of_the_state(tmp_path: Path) -> None:
    heard: list[str] = []
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(
            spec_of(LocalSandbox(prepared(tmp_path)), turns("cd sub; echo out; echo err >&2"))
        )
        async with session.subscribe(types=[ToolExecutionUpdate, ToolExecutionEnd]) as events:
            await session.ask("go")
            async for envelope in events:
                if isinstance(envelope.event, ToolExecutionEnd):
                    assert envelope.event.details is not None
                    assert envelope.event.details["shell"] == {"folder": "sub", "exports": {}}
                    break
                assert isinstance(envelope.event, ToolExecutionUpdate)
                heard.append(envelope.event.update)
    assert "".join(heard) == "out\nerr\n"


async def test_a_long_value_that_is_kept_is_not_among_the_output(tmp_path: Path) -> None:
    heard: list[str] = []
    command = f"export LONG={'x' * 3000} LINES2='a\nb'; echo out"
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_of(LocalSandbox(tmp_path), turns(command)))
        async with session.subscribe(types=[ToolExecutionUpdate, ToolExecutionEnd]) as events:
            await session.ask("go")
            async for envelope in events:
                if isinstance(envelope.event, ToolExecutionEnd):
                    break
                assert isinstance(envelope.event, ToolExecutionUpdate)
                heard.append(envelope.event.update)
    assert "".join(heard) == "out\n"


async def test_a_command_with_quotes_and_lines_runs_as_it_stands(tmp_path: Path) -> None:
    command = "cd sub\ncat <<'EOF' \n it's \"$HOME\" `x` \\ \nEOF\nprintf '%s|' \"$#\" 'a b' \"it's\""
    (told,) = await outputs(LocalSandbox(prepared(tmp_path)), command)
    assert told.startswith(" it's \"$HOME\" `x` \\ \n0|a b|it's|")


NAMES_THAT_RUN: Final = (
    *(
        "BASH_ENV",
        "LD_PRELOAD",
        "GIT_DIR",
        "GIT_CONFIG_COUNT",
        "NODE_OPTIONS",
        "PAGER",
        "EDITOR",
        "http_proxy",
        "ALL_PROXY",
    ),
    *(
        "HOME",
        "IFS",
        "PROMPT_COMMAND",
        "PERL5OPT",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "XDG_CONFIG_HOME",
        "ENV",
    ),
    *(
        "PS4",
        "PYTHONHOME",
        "PYTHONUSERBASE",
        "GNUPGHOME",
        "KUBECONFIG",
        "DOCKER_HOST",
        "GOFLAGS",
        "GOPROXY",
        "RUSTFLAGS",
    ),
    *("RUSTC", "CFLAGS", "LD", "WGETRC", "ZDOTDIR", "LESS", "MAKEFLAGS", "BASH_FUNC_ls%%", "PIP_INDEX_URL"),
    *(
        "npm_config_registry",
        "NODE_EXTRA_CA",
        "TMP",
        "OPENSSL_CONF",
        "GLIBC_TUNABLES",
        "NODE_PATH",
        "SHELLOPTS",
        "API_TOKEN",
    ),
)


async def test_of_a_forged_state_no_variable_that_runs_something_is_used(tmp_path: Path) -> None:
    """A record may come from a stranger, so what it says that commands have left is held to the rules at each use."""
    trap = tmp_path / "trap.sh"
    trap.write_text(f"touch {tmp_path}/it-ran\n")
    inject = f"x}}$(touch {tmp_path}/it-ran)${{x"
    forged: JsonObject = {name: str(trap) for name in NAMES_THAT_RUN} | {
        inject: 1,
        "A\nB": "1",
        "LINE": "1\n2",
        "GOOD": "kept",
    }

    @tool(requires=("shell",))
    async def forge(folder: str = ".") -> Ok:
        """Leave what a stranger wrote."""
        return ok("left", {"shell": {"folder": folder, "exports": forged}})

    commands = [call("shell", {"command": text}) for text in ("env; echo $GOOD", "cd . && env; echo $GOOD")]
    model = ScriptedModel([say(calls=[call("forge")]), *[say(calls=[each]) for each in commands], "done"])
    spec = SessionSpec(model=model, sandbox=LocalSandbox(tmp_path), tools=[*standard_tools(), forge])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("go")
        texts = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    assert [text.splitlines()[-1] for text in texts[1:]] == ["kept", "kept"]
    assert not [text for text in texts if str(trap) in text]
    assert not (tmp_path / "it-ran").exists()

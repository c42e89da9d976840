"""`agentrail serve` as a process, with curl as its client."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import trio

from tests.cli.calling import serve_options
from tests.host.commanded import SERVE, commanded
from tests.machinery.forked import run_forked
from tests.patience import PATIENCE

FILES = {
    "a host": (
        """
from agentrail import SessionSpec
from agentrail.host import Host, Profile
other = SessionSpec(model='demo')
desk = Host([Profile('desk', other)])
""",
        "the Host `desk`",
    ),
    "a host that does not offer each agent": (
        """
from agentrail import SessionSpec
from agentrail.host import Host, Profile
one, two = SessionSpec(model='demo'), SessionSpec(model='demo', system='two')
desk = Host([Profile('desk', one)])
""",
        "the Host `desk` of app.py, and not `app.py:two`,",
    ),
    "a specification": (
        "from agentrail import SessionSpec\nhelper = SessionSpec(model='demo')\n",
        "the SessionSpec `helper`",
    ),
    "a function": (
        "from agentrail import SessionSpec\ndef helper() -> SessionSpec:\n    return SessionSpec(model='demo')\n",
        "the SessionSpec `helper`",
    ),
    "a function that makes a host, beside the agent that it serves": (
        """
from agentrail import SessionSpec
from agentrail.host import Host, Profile
desk = SessionSpec(model='demo')
def host() -> Host:
    return Host([Profile('front', desk)])
""",
        "the Host `host`",
    ),
    "a profile and two specifications": (
        """
from agentrail import SessionSpec
from agentrail.host import Profile
one, two = SessionSpec(model='demo'), SessionSpec(model='demo', system='two')
desk = Profile('desk', one)
""",
        "the Profile `desk` of app.py, and not `app.py:two`,",
    ),
    "two specifications": (
        "from agentrail import SessionSpec\none = SessionSpec(model='demo')\ntwo = one.but(system='two')\n",
        "the SessionSpec `one` of app.py, and not `app.py:two`,",
    ),
}


async def served(arguments: list[str], folder: Path, path: str, *curl: str) -> tuple[str, str, int]:
    """Start the command, ask for *path* by curl, end the command by SIGTERM; return what both said, and its status."""
    with trio.fail_after(60):
        async with commanded([*SERVE, "--port", "0", *arguments], folder) as process:
            command = ["curl", "--silent", "--noproxy", "*", "-H", f"Authorization: Bearer {process.token}", *curl]
            answer = await trio.run_process([*command, process.url + path], capture_stdout=True)
            process.process.send_signal(signal.SIGTERM)
            status = await process.process.wait()
    return process.printed, answer.stdout.decode(), status


@pytest.mark.long
@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
async def test_what_a_file_has_is_served(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    body = ("-H", "Content-Type: application/json", "-d", '{"message": "hello"}')
    log_text, answer, status = await served(["app.py"], tmp_path, "/v1/chat", *body)
    of = "" if "app.py" in expected else " of app.py"
    assert f"agentrail serves {expected}{of} at http://127.0.0.1:" in log_text
    assert json.loads(answer)["stop_reason"] == "end"
    assert status == 0


@pytest.mark.campaign
@pytest.mark.long
async def test_clients_that_say_nothing_leave_descriptors_to_others(tmp_path: Path) -> None:
    """Each client is one of a proxy, so no limit of an address stops them; the shell gives few descriptors."""
    lines = (
        "from agentrail import SessionSpec",
        "from agentrail.host import Host, HostLimits, Profile",
        "desk = Host([Profile('desk', SessionSpec(model='demo'))], limits=HostLimits(connections=90))",
    )
    (tmp_path / "app.py").write_text("\n".join(lines), encoding="utf-8")
    options = ["--port", "0", "--proxy", "127.0.0.1", "app.py"]
    command = ["sh", "-c", 'ulimit -S -n 100; exec "$@"', "sh", *SERVE, *options]
    with trio.fail_after(60):
        async with commanded(command, tmp_path) as process, AsyncExitStack() as stack:
            host, _, port = process.url.removeprefix("http://").partition(":")
            for _ in range(150):
                stream = await stack.enter_async_context(await trio.open_tcp_stream(host, int(port)))
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(b"GET / HTTP/1.1\r\n")
            with trio.fail_after(PATIENCE):
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    await stream.send_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
            process.process.send_signal(signal.SIGTERM)
            await process.process.wait()


@pytest.mark.long
async def test_a_process_that_ends_looks_for_no_garbage(tmp_path: Path) -> None:
    """The clients of the next process wait for its end, and most of that was a collection among all objects."""
    lines = (
        "import atexit, gc, pathlib",
        "from agentrail import SessionSpec",
        "helper = SessionSpec(model='demo')",
        "noted = pathlib.Path('frozen').write_text",
        "atexit.register(lambda: noted(str(gc.get_freeze_count() > len(gc.get_objects()))))",
    )
    (tmp_path / "app.py").write_text("\n".join(lines), encoding="utf-8")
    await served(["app.py"], tmp_path, "/healthz")
    assert (tmp_path / "frozen").read_text() == "True"


@pytest.mark.long
async def test_without_a_file_the_demo_agent_is_served(tmp_path: Path) -> None:
    log_text, answer, status = await served(["--journal", "kept.db"], tmp_path, "/v1/sessions")
    assert "agentrail serves the demo agent at http://127.0.0.1:" in log_text
    assert (json.loads(answer), status) == ({"items": [], "next": None}, 0)


@pytest.mark.long
async def test_the_address_stays_the_same_when_the_folder_is_served_again(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "app.py").write_text(FILES["a specification"][0], encoding="utf-8")
    tokens = []
    for arguments in (["one/app.py"], ["one/app.py", "--cores", "1"], [], ["--token", "t" * 20]):
        async with commanded([*SERVE, "--port", "0", *arguments], tmp_path) as process:
            tokens.append(process.token)
    assert tokens == [tokens[0], tokens[0], tokens[2], "t" * 20]
    assert tokens[2] != tokens[0]
    assert sorted(path.name for path in (tmp_path / "one").iterdir() if path.name != "__pycache__") == ["app.py"]


@pytest.mark.long
async def test_the_log_is_json_and_has_the_client_of_a_named_proxy(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with commanded(
            [*SERVE, "--port", "0", "--log-form", "json", "--proxy", "127.0.0.1"], tmp_path
        ) as process:
            headers = ("-H", "X-Forwarded-For: 192.0.2.7", "-H", "X-Request-Id: from-the-proxy")
            command = ["curl", "--silent", "--noproxy", "*", "--include", *headers]
            answer = await trio.run_process(
                [*command, "-H", f"Authorization: Bearer {process.token}", f"{process.url}/v1/sessions"],
                capture_stdout=True,
            )
            process.process.send_signal(signal.SIGTERM)
            assert await process.process.wait() == 0
            lines = [json.loads(line) for line in process.log.splitlines()]
    assert "x-request-id: from-the-proxy" in answer.stdout.decode().lower().splitlines()
    (entry,) = [line for line in lines if line["logger"] == "agentrail.access"]
    facts = {key: entry[key] for key in ("client", "method", "target", "status", "tenant", "user", "request")}
    assert facts == {
        "client": "192.0.2.7",
        "method": "GET",
        "target": "/v1/sessions",
        "status": 200,
        "tenant": "local",
        "user": "you",
        "request": "from-the-proxy",
    }
    assert {line["logger"] for line in lines} >= {"agentrail.access", "agentrail.host", "agentrail.process"}


@pytest.mark.long
async def test_names_of_the_host_and_origins_of_pages_are_options(tmp_path: Path) -> None:
    arguments = ["--name", "agents.example", "--origin", "https://pages.example"]
    sent = ("--include", "-H", "Host: agents.example", "-H", "Origin: https://pages.example")
    _, answer, _ = await served(arguments, tmp_path, "/v1/sessions", *sent)
    head, _, body = answer.partition("\r\n\r\n")
    assert "access-control-allow-origin: https://pages.example" in head.lower().splitlines()
    assert json.loads(body) == {"items": [], "next": None}


RAISES = """from agentrail import SessionSpec


def helper() -> SessionSpec:
    raise OSError("no database")
"""

ANYWHERE = "0.0.0.0"  # noqa: S104 - it is refused

BAD = {
    "no file": (["gone.py"], "there is no file 'gone.py'"),
    "nothing": (["empty.py"], "cannot serve empty.py: it has no Host, Profile or SessionSpec, nor a function without"),
    "another name": (["spec.py:other"], "it has no `other` that is a Host, Profile or SessionSpec"),
    "broken": (["broken.py"], "cannot serve broken.py: it raised ZeroDivisionError: division by zero (line 2)"),
    "a broken function": (["raises.py"], "cannot serve raises.py: its function `helper` raised OSError: no database"),
    "elsewhere": (
        ["spec.py", "--host", ANYWHERE],
        "or give the host an `authenticator`: for the command, `--keys PATH`",
    ),
    "no name": (["spec.py", "--name", "a b"], "hosts='a b' is not a choice"),
    "no origin": (["spec.py", "--origin", "pages.example"], "origins='pages.example' is not a choice"),
    "keys for a host": (["host.py", "--keys", "keys"], "give it `authenticator=ApiKeys('keys')`"),
    "a journal for a host": (["host.py", "--journal", "kept.db"], "give it `journal=SqliteJournal('kept.db')`"),
    "a token for a host with keys": (
        ["keys.py", "--token", "t" * 20],
        "cannot serve keys.py with --token: its host has an `authenticator` of its own",
    ),
    "a slash at the end": (["spec.py", "--origin", "http://127.0.0.1:8000/"], "without a path or a `/` at the end"),
    "no file of keys": (["keys", "list", "gone"], "there is no file 'gone'; `make` makes it"),
    "nothing about keys": (["keys"], "a command is missing: make, list, withdraw"),
    "a file of keys that is not there": (
        ["spec.py", "--keys", "gone"],
        "keys of gone: there is no such file; `agentrail serve keys make gone TENANT USER` makes one",
    ),
    "a folder as a journal": (
        ["spec.py", "--journal", "folder"],
        "/folder` cannot be used: it is a folder; give the path of a file in it",
    ),
    "a file as a journal": (["spec.py", "--journal", "empty.py"], "it is not a database, but begins with b'x = 1"),
    "no place for a journal": (
        ["spec.py", "--journal", "empty.py/kept.db"],
        "empty.py`; make it with `mkdir -p`, or give another path (Not a directory)",
    ),
    "a model of no provider": (
        ["gpt.py"],
        "cannot use the profile 'helper': there is no model `gpt-5` (did you mean `openai:gpt-5`?); known here: ",
    ),
    "bad keys": (["spec.py", "--keys", "empty.py"], "cannot take the keys of empty.py: line 1 has 3 fields"),
}


@pytest.mark.long
@pytest.mark.parametrize(("arguments", "problem"), BAD.values(), ids=BAD)
def test_what_cannot_be_served_is_told(arguments: list[str], problem: str, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "spec.py").write_text(FILES["a specification"][0], encoding="utf-8")
    (tmp_path / "host.py").write_text(FILES["a host"][0], encoding="utf-8")
    (tmp_path / "broken.py").write_text("x = 0\n1 / x\n", encoding="utf-8")
    with_keys = FILES["a host"][0].replace("', other)]", "', other)], authenticator=ApiKeys(lines='')")
    (tmp_path / "keys.py").write_text(f"from agentrail.host import ApiKeys\n{with_keys}", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gpt.py").write_text(FILES["a specification"][0].replace("'demo'", "'gpt-5'"), encoding="utf-8")
    (tmp_path / "raises.py").write_text(RAISES, encoding="utf-8")
    done = run_forked(["serve", *arguments], env=dict(os.environ), cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr.decode()


@pytest.mark.long
async def test_keys_are_made_listed_and_withdrawn(tmp_path: Path) -> None:
    async def keys(*arguments: str) -> str:
        done = await trio.run_process(
            [*SERVE, "keys", *arguments], cwd=tmp_path, capture_stdout=True, capture_stderr=True, check=False
        )
        return done.stdout.decode() + done.stderr.decode()

    key = (await keys("make", "keys", "acme", "ann", "--scopes", "talk,decide")).strip()
    assert re.fullmatch(r"ak_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    name = key.split("_")[1]
    listed = await keys("list", "keys")
    assert listed.split()[0] == name
    assert listed.split()[2:] == ["acme", "ann", "decide,talk"]
    assert await keys("withdraw", "keys", name) == f"withdrawn: {name} of ann (acme)\n"
    assert await keys("list", "keys") == ""
    assert "there is no key" in await keys("withdraw", "keys", name)
    assert "scope='fly' is not a choice" in await keys("make", "keys", "acme", "ann", "--scopes", "fly")


def test_the_collector_of_the_command_comes_seldom_unless_it_is_told_otherwise() -> None:
    assert serve_options([]).fewer_collections
    assert not serve_options(["--no-fewer-collections"]).fewer_collections

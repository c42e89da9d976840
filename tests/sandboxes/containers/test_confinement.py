"""What a command in a container sees, changes and uses: the folder without what is hidden, and the image."""

import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from agentrail.adapters.sandboxes.containers import engine as engine_module
from agentrail.adapters.sandboxes.containers.container_start import mount
from agentrail.adapters.user_folders import HOME
from agentrail.errors import BadChoice, CommandRefused, OutsideError, PathRefused, SandboxMissing, WrongType
from agentrail.sandboxes import Command, ContainerSandbox
from tests.sandboxes.containers.kinds import container_at, containers, podman

__all__ = ["podman"]

with_podman = pytest.mark.usefixtures("podman")


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[ContainerSandbox]:
    sandbox = container_at(tmp_path)
    yield sandbox
    await sandbox.close()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def output(sandbox: ContainerSandbox, line: str) -> str:
    return (await sandbox.execute(Command(line, merge=True))).stdout.text


@pytest.mark.long
@with_podman
async def test_it_has_no_rights_no_network_and_nothing_of_this_machine(
    sandbox: ContainerSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret-of-the-host")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret-of-the-host@proxy")
    outside = tmp_path.parent / "outside"
    outside.write_text("secret-of-the-host")
    (tmp_path / "link").symlink_to(outside)
    lines = (
        "grep -E 'Cap(Eff|Prm|Bnd|Amb)' /proc/self/status | sort -u -k 2; grep NoNewPrivs /proc/self/status",
        "ls /sys/class/net",
        "touch /bin/x /etc/x /run/agentrail/x; echo $?",
        "env; cat /proc/1/environ | tr '\\0' '\\n'",
        "cat link ../outside; ls ..; mount -o remount,rw /; echo $?",
        "for i in 1 2 3 4; do echo tick > /tmp/f$i; done; cat /tmp/f4; df -k /tmp | tail -n 1",
    )
    texts = [await output(sandbox, line) for line in lines]
    assert "secret" not in str(texts)
    assert {line.split()[-1] for line in texts[0].splitlines()} == {"0000000000000000", "1"}
    assert texts[1].split() == ["lo"]
    assert texts[2].count("Read-only file system") == 3
    assert texts[4].splitlines()[-2:] == ["mount: permission denied (are you root?)", "1"]
    assert texts[5].startswith("tick")
    with pytest.raises(PathRefused):
        await sandbox.read("link")


async def attempt(sandbox: ContainerSandbox, line: str) -> str:
    """Return the output of a command, or of the next one, if what it covers was moved."""
    try:
        return await output(sandbox, line)
    except CommandRefused as error:
        assert "run it again" in str(error)  # noqa: PT017 - it may be refused, and need not be
    return await output(sandbox, line)


def hide_later(folder: Path) -> None:
    (folder / ".env").write_text("KEY=hidden\n")


def replace(folder: Path) -> None:
    (folder / "new").write_text("KEY=hidden\n")
    (folder / "new").rename(folder / "deep" / ".env")


def rename_above(folder: Path) -> None:
    (folder / "deep").rename(folder / "other")


def hidden_texts(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.rglob(".env")}


@pytest.mark.long
@with_podman
@pytest.mark.parametrize(("change", "look_on"), [(hide_later, output), (replace, attempt), (rename_above, output)])
async def test_what_is_hidden_is_hidden_however_it_comes_there(
    sandbox: ContainerSandbox,
    tmp_path: Path,
    change: Callable[[Path], None],
    look_on: Callable[[ContainerSandbox, str], Awaitable[str]],
) -> None:
    (tmp_path / "deep" / ".ssh").mkdir(parents=True)
    (tmp_path / "deep" / ".ssh" / "id_rsa").write_text("hidden\n")
    (tmp_path / "deep" / ".env").write_text("KEY=hidden\n")
    look = "cat .env */.env */.ssh/* 2>&1; grep -r KEY . ; echo seen"
    assert "hidden" not in await output(sandbox, look)
    change(tmp_path)
    text = await look_on(sandbox, look)
    assert text.endswith("seen\n")
    assert "hidden" not in text
    assert "Read-only" in await output(sandbox, "echo x > deep/.env || echo x > other/.env")
    assert hidden_texts(tmp_path) == {"KEY=hidden\n"}


@pytest.mark.long
@with_podman
async def test_what_others_obey_cannot_be_written_or_made(sandbox: ContainerSandbox, tmp_path: Path) -> None:
    attack = (
        "mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout; rmdir .git; mv .git g; echo evil > .envrc; "
        "find . -type f"
    )
    assert "./" not in (await output(sandbox, attack)).replace("'./", "")
    (tmp_path / ".git").rmdir()  # the mount goes with the folder
    assert "post-checkout" not in (await attempt(sandbox, attack)).splitlines()
    await sandbox.close()
    assert names_in(tmp_path) == []


@pytest.mark.long
@with_podman
async def test_limits_end_the_command_and_not_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # podman writes a file where it was called, if a container runs out of memory
    sandbox = container_at(tmp_path, memory=32 * 1024**2)
    try:
        eater = "x=$(head -c 64000000 /dev/zero | tr '\\0' x); echo ${#x}"
        assert (await sandbox.execute(Command(eater))).exit_code != 0
        execution = await sandbox.execute(Command("head -c 20000000 /dev/zero", keep=1000))
        assert (execution.exit_code, execution.stdout.total) == (0, 20_000_000)
        assert "oom" not in names_in(tmp_path)
    finally:
        await sandbox.close()


@pytest.mark.long
@with_podman
async def test_what_runs_in_it_writes_as_the_user(sandbox: ContainerSandbox, tmp_path: Path) -> None:
    await output(sandbox, "echo x > file; mkfifo pipe; ln -s /etc/passwd link")
    assert (tmp_path / "file").stat().st_uid == os.getuid()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    for path in ("pipe", "link"):
        with pytest.raises(PathRefused):
            await sandbox.read(path)


@pytest.mark.long
@with_podman
async def test_two_sessions_in_one_folder_leave_nothing(tmp_path: Path) -> None:
    first, second = container_at(tmp_path), container_at(tmp_path)
    await output(first, "echo one > file")
    assert await output(second, "cat file") == "one\n"
    await first.close()
    try:
        await output(second, "true")
    except CommandRefused:  # what the first one has made, it has removed: the second makes it again
        await output(second, "mkdir .git/hooks; echo x > .git/hooks/x")
    await second.close()
    assert (containers(tmp_path), names_in(tmp_path)) == (set(), ["file"])


@pytest.mark.long
@with_podman
async def test_an_image_that_is_not_there_is_not_fetched(tmp_path: Path) -> None:
    sandbox = ContainerSandbox("localhost/no-such", engine="podman", folder=tmp_path)
    with pytest.raises(
        OutsideError, match=r"no image `localhost/no-such`; fetch it by `podman pull localhost/no-such`"
    ):
        await sandbox.execute(Command("true"))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["", "-v/:/host", "--privileged", "a b", "a\nb", "$(x)", "a;b", "ü", "x" * 300])
def test_a_name_cannot_be_an_option(name: str) -> None:
    for options in ({"image": name}, {"image": "x", "network": name}, {"image": "x", "user": name}):
        with pytest.raises(WrongType):
            ContainerSandbox(**options)  # type: ignore[arg-type]  # each value is a text


def test_figures_and_engines_that_are_none_are_refused() -> None:
    with pytest.raises(BadChoice):
        ContainerSandbox("x", engine="lxc")  # type: ignore[arg-type]  # that is the test
    for options in ({"memory": 1}, {"memory": True}, {"processes": 0}, {"cpus": 0.0}, {"cpus": float("nan")}):
        with pytest.raises(WrongType):
            ContainerSandbox("x", **options)


def test_a_path_is_one_field_whatever_is_in_it() -> None:
    assert mount('/a,target=/b"', "/x", "readonly") == (
        '--mount="type=bind","source=/a,target=/b""","target=/x","readonly"'
    )


FAKE = """\
#!/bin/sh
echo "$@" >> {log}
case "$1 $2" in
  "image inspect") echo "Error: No such image: x" >&2; exit 1;;
  "run --detach") {act};;
  "ps --all") ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that puts a program in the place of docker, which writes down what it is asked."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(engine_module, "FOUND_IN", f"{tmp_path}/bin:/bin:/usr/bin")
    monkeypatch.setenv(HOME, str(tmp_path / "home"))

    def put(act: str) -> Path:
        log, program = tmp_path / "log", tmp_path / "bin" / "docker"
        program.write_text(FAKE.format(log=log, act=act))
        program.chmod(0o755)
        return log

    return put


@pytest.mark.long
async def test_what_is_asked_of_the_engine(tmp_path: Path, fake: Callable[[str], Path]) -> None:
    log = fake("echo 'Error: No such image: x' >&2; exit 125")
    with pytest.raises(OutsideError, match="it has no image `x`; fetch it by `docker pull x`"):
        await ContainerSandbox("x", folder=tmp_path / "work", cpus=1.5, user="1:1").execute(Command("true"))
    words = next(line for line in log.read_text().splitlines() if line.startswith("run")).split(" ")
    usual = {"--detach", "--pull=never", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"}
    assert usual | {"--network=none", "--memory=4294967296", "--pids-limit=512", "--cpus=1.5", "--user=1:1"} <= {*words}
    assert words[-8:] == ["x", "-c", "while", ":;", "do", "sleep", "86400;", "done"]
    assert "pull" not in log.read_text().split()
    assert names_in(tmp_path / "work") == []


@pytest.mark.long
async def test_an_engine_elsewhere_is_refused(tmp_path: Path, fake: Callable[[str], Path]) -> None:
    fake("""echo "$@" | grep -o 'source=[^"]*/seen' >&2; echo 'does not exist' >&2; exit 125""")
    # The engine's own words name the folder of this process, which a machine elsewhere does not have.
    (tmp_path / "bin" / "docker").write_text(
        (tmp_path / "bin" / "docker")
        .read_text()
        .replace('"image inspect") echo "Error: No such image: x" >&2; exit 1', '"image inspect") echo y')
    )
    with pytest.raises(OutsideError, match="it sees no files of this machine"):
        await ContainerSandbox("x", folder=tmp_path / "work").execute(Command("true"))


@pytest.mark.long
async def test_an_engine_that_hangs_does_not_hold_up_an_abort(tmp_path: Path, fake: Callable[[str], Path]) -> None:
    fake("exec sleep 20")
    sandbox = ContainerSandbox("x", folder=tmp_path / "work")
    with trio.fail_after(10), trio.move_on_after(0.2) as scope:
        await sandbox.execute(Command("true"))
    assert scope.cancelled_caught


async def test_an_engine_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FOUND_IN", str(tmp_path))
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    with pytest.raises(SandboxMissing, match="`docker` cannot confine it: it was not found"):
        await ContainerSandbox("x", folder=tmp_path).execute(Command("true"))

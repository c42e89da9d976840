"""Commands see nothing of the paths that `SecurityGuard` blocks, whatever they or earlier commands try."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.adapters.sandboxes import hidden_paths
from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths
from agentrail.errors import CommandRefused
from agentrail.plugins import BLOCKED_PATHS
from agentrail.sandboxes import BubblewrapSandbox, Command
from tests.profiles import CAMPAIGN
from tests.sandboxes.kinds import needs_bubblewrap

SECRET: Final = "CANARY7f3a91"
SECRETS: Final = (
    ".env",
    ".aws/credentials",
    ".kube/config",
    ".config/gh/hosts.yml",
    "sub/.env",
    "sub/deep/er/.env.local",
    "sub/.kube/config",
    "sub/id_rsa",
    "a b/'q'/.env",
    "upper/.ENV",
    "real/linked.txt",
    "real/folder/inner.txt",
    "real/named.txt",
)
PLAIN: Final = ("notes.txt", "src/app.py", "sub/plain.txt", "sub/.env.example", "real/plain.txt", "config")


def project(root: Path) -> None:
    """Make a folder with secrets under blocked names, behind links with such names, and under other names."""
    for name in SECRETS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"KEY={SECRET}\n")
    for name in PLAIN:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("plain\n")
    (root / "src/.env").symlink_to("../real/linked.txt")
    (root / "src/.ssh").symlink_to(root / "real/folder")
    os.link(root / "sub/id_rsa", root / "real/hard.txt")
    os.link(root / "real/named.txt", root / "real/.netrc")
    (root / "alias").symlink_to(".env")
    (root / "way").symlink_to("sub")


READ: Final = (
    "cat {}",
    "head -c 99 {}",
    "dd if={} 2>&1",
    "cp {} copy && cat copy",
    "mv {} moved; cat moved",
    "ln {} hard; cat hard",
    "ln -s $PWD/{} soft; cat soft",
    "tar cf - {} | strings",
    "python3 -c 'import sys; print(open(sys.argv[1]).read())' {}",
    "sed -n p {}",
    "awk 1 {}",
    "exec 5<{}; cat <&5",
    "rm -f {}; cat {}",
    "chmod 777 {}; cat {}",
    "umount {}; cat {}",
    "mount --bind src/app.py {}; cat {}",
    "unshare -rm sh -c 'umount {}; cat {}'",
    "nl < {}",
    "base64 -w0 {} | base64 -d",
    "install {} copy; cat copy",
)
"""What may be done with one file; each is tried with three of them, in CI most with one."""

FILES: Final = (".env", "sub/deep/er/.env.local", ".kube/config")

ATTACKS: Final = (
    *(text.replace("{}", name) for text in READ for name in FILES),
    "grep -rh KEY .",
    "rg --hidden -u KEY . || find . -type f -exec cat {} +",
    "tar c . | strings",
    "find . -type f | xargs -d '\\n' cat",
    "find . -name '.e*' -exec cat {} \\;",
    "cp -r . /tmp/all; cat $(find /tmp/all -type f)",
    "cp -rL src /tmp/src; find /tmp/src -type f -exec cat {} +",
    "cp -al . /tmp/all; cat .[!.]*",
    "cat alias way/.env way/../.env ./sub/../.env",
    "cat $PWD/.env /proc/self/cwd/.env /proc/self/root$PWD/.env",
    "cat .e?v .[e]nv {.env,sub/.env}",
    "x=.en; cat ${x}v",
    "cat $(printf '\\056env')",
    "cat src/.env real/linked.txt src/.ssh/inner.txt real/folder/inner.txt",
    "cat real/hard.txt real/named.txt real/.netrc",
    "cat 'a b/'\"'q'\"'/.env' upper/.ENV",
    "mv sub other; cat other/.env other/id_rsa",
    "mv .kube k; cat k/config",
    "mv .config c; cat c/gh/hosts.yml",
    "mv sub/deep sub/shallow; cat sub/shallow/er/.env.local",
    "mkdir .git2; mv sub .git2/; mv .kube sub/.git; cat sub/.git/config .git2/sub/.env",
    "mv real other; cat other/linked.txt other/named.txt",
    "rm -rf sub; cat sub/.env",
    "mkdir x; mount -t tmpfs none x; cat .env",
    "chmod -R 000 sub; chmod -R 777 sub; cat sub/.env",
    "cd sub && cat .env ../.env",
    "cd /; cat $OLDPWD/.env",
    "for d in . sub real .aws; do python3 -m http.server --directory $d >/dev/null & cat $d/.* $d/*; kill %1; done",
    'python3 -c \'import os; os.rename(".aws", "aws")\'; cat aws/credentials .aws/credentials',
    'python3 -c \'import os; f = os.open(".", 0); print(os.read(os.open(".env", 0, dir_fd=f), 99))\'',
    "cat /proc/1/root$PWD/.env /proc/*/root$PWD/.env",
    "cat /proc/*/fd/* & sleep 1; kill %1",
    "git init -q . ; git add -f . ; git show :.env; git diff --no-index /dev/null .env",
    "git grep --no-index KEY; git hash-object -w .env",
    "paste -d' ' .env sub/id_rsa",
    "cp -r .env sub .kube /tmp/; cat /tmp/.env /tmp/sub/.env /tmp/.kube/config",
    "diff -r . /tmp; diff src/app.py .env",
    "make -f - <<< 'x:;cat .env'; awk 'BEGIN { while ((getline l < \".env\") > 0) print l }'",
    "sqlite3 :memory: \"select readfile('.env')\"; sed -n 'r .env' notes.txt",
    "split .env /tmp/part; cat /tmp/part*",
)
"""Command lines, each run in a fresh project by a shell in the sandbox; none may print a secret."""

STEPS: Final = (
    ("mv src/.env src/x", "cat src/x real/linked.txt"),
    ("rm src/.env src/.ssh", "cat real/linked.txt real/folder/inner.txt"),
    ("ln -s .env other; ln -s sub/.. up", "cat other up/.env"),
    ("ln -s ../.env sub/plain; mv sub/plain src/plain", "cat src/plain"),
    ("ln real/linked.txt x; ln real/named.txt y", "cat x y"),
    ("mv .kube k; mv sub s; mv 'a b' ab", "cat k/config s/.env s/.kube/config \"ab/'q'/.env\""),
    ("chmod 000 sub real .aws", "chmod 755 sub real .aws; cat sub/.env real/linked.txt .aws/credentials"),
    ("chmod 111 sub; chmod 333 real", "cat sub/.env real/named.txt; chmod 755 sub real; cat sub/.env real/named.txt"),
    ("mkdir -p x/.git; mv sub x/.git/; mv real x/.git/", "cat x/.git/sub/.env x/.git/real/linked.txt"),
    ("rm -rf .env; mkdir .env; ln -s ../sub .env/s", "cat .env/s/.env"),
    ("mv real/.netrc real/n", "cat real/n real/named.txt"),
    ("mkdir -p new/.aws && mv .aws/credentials new/c", "cat new/c"),
    ("touch -d @0 . sub real; mv upper/.ENV upper/x", "cat upper/x upper/.ENV"),
    ("ln -s real .ssh; rm .ssh; ln -s / .gnupg", "cat .gnupg$PWD/.env"),
)
"""Pairs of commands: the first prepares, and the second one must print no secret."""


async def output_of(sandbox: BubblewrapSandbox, line: str) -> str:
    execution = await sandbox.execute(Command(line, timeout=30, merge=True))
    return execution.stdout.text


async def leaks(root: Path, lines: tuple[str, ...], fail: Callable[[object], None]) -> None:
    """Run *lines* in a project of their own, and tell *fail* if one of them prints a secret or harms a file."""
    await trio.to_thread.run_sync(project, root)
    sandbox = BubblewrapSandbox(root)
    for line in lines:
        if SECRET in await output_of(sandbox, line):
            fail(("printed", lines))
    changed = [name for name in SECRETS if not (root / name).is_file() or SECRET not in (root / name).read_text()]
    if changed:
        fail(("changed", changed, lines))


@pytest.mark.long
@needs_bubblewrap
async def test_no_command_reads_what_is_blocked(tmp_path: Path) -> None:
    failures: list[object] = []
    reads, others = ATTACKS[: len(READ) * len(FILES)], ATTACKS[len(READ) * len(FILES) :]
    tries = [(line,) for line in (*reads[:: 1 if CAMPAIGN else len(FILES) + 1], *others)] + list(STEPS)
    assert len(reads) + len(others) + len(STEPS) > 100
    for number, lines in enumerate(tries):
        await leaks(tmp_path / f"p{number}", lines, failures.append)
        await trio.to_thread.run_sync(lambda: shutil.rmtree(tmp_path / f"p{number}", ignore_errors=True))  # noqa: B023
    assert failures == []


@pytest.mark.long
@needs_bubblewrap
async def test_what_is_not_blocked_is_used_as_ever(tmp_path: Path) -> None:
    project(tmp_path)
    sandbox = BubblewrapSandbox(tmp_path)
    lines = {
        "cat notes.txt src/app.py sub/plain.txt sub/.env.example config real/plain.txt": "plain\n" * 6,
        "echo new > sub/new && mv sub/new sub/other && mv sub/other other && cat other": "new\n",
        "mkdir -p x/y && mv x z && rmdir z/y && test -f .env || echo gone": "gone\n",
    }
    for line, output in lines.items():
        assert await output_of(sandbox, line) == output
    assert (tmp_path / ".env").read_text() == f"KEY={SECRET}\n"


@pytest.mark.long
@needs_bubblewrap
async def test_git_works_where_a_blocked_path_is_tracked(tmp_path: Path) -> None:
    project(tmp_path)
    line = "git init -q . && git add notes.txt sub/.env.example && git status --short | head -2"
    assert await output_of(BubblewrapSandbox(tmp_path, protected=()), line) == "A  notes.txt\nA  sub/.env.example\n"
    assert "A  notes.txt" in await output_of(BubblewrapSandbox(tmp_path), "git status --short")


@pytest.mark.long
@needs_bubblewrap
async def test_a_folder_that_another_command_replaces_by_a_link_leads_nowhere(tmp_path: Path) -> None:
    """A job that began before the secret was there may move the folders above it; what is beside the root is safe."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    outside.mkdir()
    (outside / ".env").write_text(SECRET)
    (outside / "x.txt").write_text(SECRET)
    swap = "while true; do mv d e; ln -s ../outside d; rm d; mkdir -p e; mv e d; done 2>/dev/null"
    sandbox = BubblewrapSandbox(root)
    outputs: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sandbox.execute, Command(swap, timeout=60))
        await trio.sleep(0.5)
        (root / "f").mkdir()
        with_secret = root / "d" / ".env"
        for _ in range(25):
            try:
                with_secret.write_text("mine")
                outputs.append(await output_of(sandbox, "cat d/x.txt d/.env; ls d; echo planted > d/planted"))
            except (CommandRefused, OSError):
                continue
        nursery.cancel_scope.cancel()
    assert [output for output in outputs if SECRET in output] == []
    assert sorted(path.name for path in outside.iterdir()) == [".env", "x.txt"]


def test_only_what_a_pattern_covers_is_hidden(tmp_path: Path) -> None:
    project(tmp_path)
    hidden = {path.removeprefix(f"{tmp_path}/") for path in HiddenPaths(BLOCKED_PATHS).find(str(tmp_path), ())}
    assert hidden == {
        *(".env", ".aws", ".kube/config", ".config/gh", "sub/.env", "sub/deep/er/.env.local", "sub/.kube/config"),
        *("sub/id_rsa", "a b/'q'/.env", "upper/.ENV", "real/linked.txt", "real/folder", "real/hard.txt"),
        *("real/named.txt", "real/.netrc"),
    }


def test_patterns_from_the_root_and_with_wild_cards_are_hidden_too(tmp_path: Path) -> None:
    for name in ("keys/a", "x/b.pem", "x/y/c.PEM", "x/pem", "own/k"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    patterns = (f"{tmp_path}/keys", "*.pem", str(tmp_path), "/etc/hostname", "/nowhere")
    hidden = HiddenPaths(patterns).find(str(tmp_path), (str(tmp_path / "own"),))
    assert hidden == [f"{tmp_path}/keys", f"{tmp_path}/x/b.pem", f"{tmp_path}/x/y/c.PEM"]


def test_a_folder_that_was_looked_through_is_read_again_after_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_paths, "SETTLED_NS", -(10**18))  # what was read counts at once
    (tmp_path / "sub").mkdir()
    paths = HiddenPaths(BLOCKED_PATHS)
    assert paths.find(str(tmp_path), ()) == []
    (tmp_path / "sub/.env").write_text("x")
    assert paths.find(str(tmp_path), ()) == [f"{tmp_path}/sub/.env"]
    (tmp_path / "sub").rename(tmp_path / "other")
    assert paths.find(str(tmp_path), ()) == [f"{tmp_path}/other/.env"]
    (tmp_path / "other/.env").unlink()
    assert paths.find(str(tmp_path), ()) == []


def test_with_too_many_hidden_paths_no_command_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_paths, "MAX_HIDDEN", 3)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / ".env").write_text("x")
    with pytest.raises(CommandRefused, match="more than 3 files and folders in"):
        HiddenPaths(BLOCKED_PATHS).find(str(tmp_path), ())


# What it costs before a file is opened


def listed(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object] = lambda: None) -> list[str]:
    """Return the folders that are listed from now on; *before* is called each time."""
    folders: list[str] = []
    real = os.scandir

    def scandir(folder: str) -> Iterator[os.DirEntry[str]]:
        before()
        folders.append(folder)
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    return folders


def test_threads_that_open_files_at_once_look_through_the_folders_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        (tmp_path / str(number)).mkdir()
    folders = listed(monkeypatch)
    hidden, barrier = HiddenPaths(BLOCKED_PATHS), threading.Barrier(4)

    def open_one() -> None:
        barrier.wait()
        hidden.look_through(str(tmp_path))

    threads = [threading.Thread(target=open_one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 201


def test_folders_that_are_slow_to_list_are_left_alone_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0

    def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    folders = listed(monkeypatch, lambda: pass_by(2))
    hidden = HiddenPaths(BLOCKED_PATHS)
    hidden.look_through(str(tmp_path))
    pass_by(19)
    hidden.look_through(str(tmp_path))
    assert len(folders) == 1
    pass_by(1)
    hidden.look_through(str(tmp_path))
    assert len(folders) == 2


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.pem", ("a.pem", ".pem")),
        ("key?", ("key1", "KEY2")),
        ("k[ae]y*", ("kay", "keys")),
        (".env.*.local", (".env.test.local",)),
    ],
)
def test_wild_patterns_find_what_they_cover(pattern: str, names: tuple[str, ...], tmp_path: Path) -> None:
    for name in (*names, "plain.txt"):
        (tmp_path / name).touch()
    assert HiddenPaths([pattern]).find(str(tmp_path), ()) == sorted(str(tmp_path / name) for name in names)

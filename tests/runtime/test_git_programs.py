"""A git command that only reads passes without a question, unless the repository could make it run a program."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.plugins import HumanApproval
from agentrail.runtime.work.git_programs import unknown_settings
from agentrail.sandboxes import Content, Listing, MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import shell
from tests.each_case import each_case
from tests.kit import Element
from tests.patience import PATIENCE
from tests.runtime.world import World

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *words: str) -> None:
    env = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)  # noqa: S603, S607 - constants


class Clone:
    """A repository with one changed file, and a program that notes that it has run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.ran = folder / "ran"
        self.program = folder / "program"
        self.program.write_text(f"#!/bin/sh\ntouch {self.ran}\n")
        self.program.chmod(0o755)
        self.make(self.folder)
        (self.folder / "a.txt").write_text("two\n")

    def make(self, folder: Path) -> None:
        folder.mkdir()
        git(folder, "init", "-q")
        (folder / "a.txt").write_text("one\n")
        (folder / ".gitattributes").write_text("*.txt diff=x filter=y\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "one")

    def set(self, key: str, value: str = "") -> None:
        git(self.folder, "config", key, value or str(self.program))


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def run(clone: Clone, command: str) -> None:
    subprocess.run(  # noqa: S603 - constants
        command.split(), cwd=clone.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE
    )


def programs_asked_about(clone: Clone, command: str) -> tuple[str, str]:
    return trio.run(
        asked_about, clone, command
    )  # in real time: files are read in threads, which virtual time overtakes


async def asked_about(clone: Clone, command: str) -> tuple[str, str]:
    """Return what a person is told about *command*, empty if nobody is asked, and what the model gets."""
    model = ScriptedModel([say(calls=[call("shell", {"command": command})]), "Done."])
    spec = SessionSpec(model=model, tools=[shell], plugins=[HumanApproval()], working_dir=str(clone.folder))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        reply = await session.ask("Look.")
        return " ".join([held.hint for held in reply.held]), session.messages()[-2].text


def in_the_hook(clone: Clone) -> None:
    shutil.copy(clone.program, clone.folder / ".git" / "hooks" / "post-index-change")


def in_another_repository(clone: Clone) -> None:
    clone.make(clone.folder / "sub")
    git(clone.folder, "add", "sub")
    git(clone.folder / "sub", "config", "core.fsmonitor", str(clone.program))


def in_a_file_that_is_included(clone: Clone) -> None:
    (clone.folder / "more").write_text(f"[core]\nfsmonitor = {clone.program}\n")
    clone.set("include.path", "../more")


def in_the_folder_itself(clone: Clone) -> None:
    """Let `.git` be none, so that git takes the folder for a bare repository."""
    shutil.copytree(clone.folder / ".git", clone.folder, dirs_exist_ok=True)
    shutil.rmtree(clone.folder / ".git" / "refs")
    config = f"[core]\nrepositoryformatversion = 0\nworktree = {clone.folder}\nfsmonitor = {clone.program}\n"
    (clone.folder / "config").write_text(config)


def in_a_common_folder(clone: Clone) -> None:
    shutil.copytree(clone.folder / ".git", clone.folder / "common")
    (clone.folder / ".git" / "commondir").write_text("../common\n")
    (clone.folder / "common" / "config").write_text(f"[core]\nfsmonitor = {clone.program}\n")


def in_another_place(clone: Clone) -> None:
    clone.set("core.fsmonitor")
    (clone.folder / ".git").rename(clone.folder / "elsewhere")
    (clone.folder / ".git").write_text("gitdir: elsewhere\n")


def of_an_object_that_is_fetched(clone: Clone) -> None:
    object_ = subprocess.check_output(["git", "rev-parse", "HEAD:a.txt"], cwd=clone.folder, text=True)  # noqa: S607 - a constant
    (clone.folder / ".git" / "objects" / object_[:2] / object_[2:].strip()).unlink()
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "o",
        "remote.o.promisor": "true",
        "remote.o.url": "ssh://x/y",
    }.items():
        clone.set(key, value)
    clone.set("core.sshCommand")


ATTACKS: dict[str, tuple[Callable[[Clone], None], str]] = {
    "core.fsmonitor": (lambda clone: clone.set("core.fsmonitor"), "git status"),
    "diff.external": (lambda clone: clone.set("diff.external"), "git diff"),
    "diff.x.command": (lambda clone: clone.set("diff.x.command"), "git diff"),
    "diff.x.textconv": (lambda clone: clone.set("diff.x.textconv"), "git show"),
    "filter.y.clean": (lambda clone: clone.set("filter.y.clean"), "git diff"),
    "filter.y.process": (lambda clone: clone.set("filter.y.process"), "git blame a.txt"),
    "gpg.program": (lambda clone: clone.set("gpg.program"), "git log --show-signature"),
    "a hook": (in_the_hook, "git status"),
    "a repository within": (in_another_repository, "git status"),
    "included": (in_a_file_that_is_included, "git ls-files"),
    "the folder itself": (in_the_folder_itself, "git status"),
    "a common folder": (in_a_common_folder, "git status"),
    "another place": (in_another_place, "git status"),
    "a fetch": (of_an_object_that_is_fetched, "git diff"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_a_command_that_would_run_a_program_is_held(clone: Clone, name: str) -> None:
    attack, command = ATTACKS[name]
    attack(clone)
    clone.ran.unlink(missing_ok=True)
    hint, _ = programs_asked_about(clone, command)
    assert "git" in hint.partition(";")[2]
    assert "seconds" not in hint
    assert not clone.ran.exists()
    if name != "gpg.program":  # it needs a signed commit
        run(clone, command)
        assert clone.ran.exists(), "the attack is none"


@pytest.mark.long
@pytest.mark.parametrize("command", ["git status --short", "git diff", "git log -p", "git show", "git blame a.txt"])
def test_in_an_ordinary_repository_it_passes(clone: Clone, command: str) -> None:
    clone.set("remote.origin.url", "https://example.org/a.git")
    clone.set("branch.main.merge", "refs/heads/main")
    clone.set("user.name", "A")
    hint, result = programs_asked_about(clone, command)
    assert hint == ""
    assert result


@pytest.mark.long
def test_a_secret_of_the_settings_is_not_told(clone: Clone) -> None:
    clone.set("url.https://user:s3cret@example.org/.insteadOf", "https://example.org/")
    clone.set("http.https://s3cret.example.org/.extraHeader", "Authorization: s3cret")
    hint, _ = programs_asked_about(clone, "git status")
    assert "`url.*.insteadof`, `http.*.extraheader`" in hint
    assert "s3cret" not in hint


@pytest.mark.long
@pytest.mark.parametrize("command", ["git diff --submodule=diff", "git ls-files --recurse-submodules"])
def test_a_command_that_looks_into_other_repositories_is_held(clone: Clone, command: str) -> None:
    assert (programs_asked_about(clone, command))[0]


def test_without_a_repository_it_is_held(tmp_path: Path) -> None:
    class Empty(Clone):
        def __init__(self, folder: Path) -> None:
            self.folder = folder

    assert "it is not known whether git runs a program" in (programs_asked_about(Empty(tmp_path), "git status"))[0]


class Failing(MemorySandbox):
    """A repository whose sandbox loses its connection at one path; without one, a git command passes there."""

    def __init__(self, method: str = "none", path: str = "", *, hooks: bool = True) -> None:
        link = (0o160000).to_bytes(4, "big")
        entry = bytes(24) + link + bytes(32) + len("sub").to_bytes(2, "big") + b"sub"
        index = (
            b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + entry + bytes(8 - len(entry) % 8) + bytes(20)
        )
        within = {"HEAD": b"ref: refs/heads/main\n", "config": b"", "index": index}
        empty = dict.fromkeys(("objects/pack/x", "refs/heads/main", *(["hooks/x"] if hooks else [])), b"")
        super().__init__({**{f".git/{name}": data for name, data in {**within, **empty}.items()}, "sub/a": b""})
        self.lost = (method, path)

    def reach(self, method: str, path: str) -> None:
        if (method, path) == self.lost:
            raise ConnectionResetError(path)

    async def read(self, path: str, offset: int = 0, limit: int = 1_000_000) -> Content:
        self.reach("read", path)
        return await super().read(path, offset, limit)

    async def exists(self, path: str) -> bool:
        self.reach("exists", path)
        return await super().exists(path)

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        self.reach("list", path)
        return await super().list(path, limit, ignored=ignored)


@tool(name="shell")
async def pretended(command: str) -> str:
    """Run nothing."""
    return command


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("none", ""),
        ("list", ".git"),
        ("read", ".git/HEAD"),
        ("exists", ".git/objects/pack"),
        ("exists", ".git/refs/heads"),
        ("list", "."),
        ("read", ".git/config"),
        ("list", ".git/hooks"),
        ("read", ".git/index"),
        ("list", "sub"),
    ],
)
async def test_if_the_sandbox_fails_it_is_held(world: World, method: str, path: str) -> None:
    hints = await asked_hints(world, Failing(method, path))
    unknown = f"`shell` wants to run `git status`; it is not known whether git runs a program: {path}"
    assert [hint.replace("ConnectionResetError: ", "") for hint in hints] == ([unknown] if path else [])


async def test_without_a_folder_for_hooks_it_passes(world: World) -> None:
    assert await asked_hints(world, Failing(hooks=False)) == []


async def asked_hints(world: World, sandbox: Failing) -> list[str]:
    """Return what is asked about a git command in *sandbox*."""
    script: list[Element] = [say(calls=[call("shell", {"command": "git status"})]), "Done."]
    guard = HumanApproval(timeout=None)
    session = await world.spawn(script, tools=[pretended], plugins=[guard], sandbox=sandbox)
    return [held.hint for held in (await session.ask("Look.")).held]


@each_case(
    [
        ('[core]\n\tfilemode = true\n\n# more\n[remote "a"]\n\turl = x # y\n', []),
        ("[core]\r\n\tbare = false\r\n", []),
        ("[CORE]\n\tFSMonitor = x\n", ["core.fsmonitor"]),
        ("[core] fsmonitor = x\n", ["line 1 of .git/config"]),
        ("[core]\rfsmonitor = x\n", ["line 1 of .git/config"]),
        ("[core]\x0bfsmonitor = x\n", ["line 1 of .git/config"]),
        ("[core]\n# a \\\nfsmonitor = x\n", ["line 2 of .git/config", "core.fsmonitor"]),
        (
            '[core]\n\tabbrev = 4 \\\n"\n[diff]\nexternal = x\n',
            ["line 2 of .git/config", "line 3 of .git/config", "diff.external"],
        ),
        ("[diff.x]\n\ttextconv = x\n", ["line 1 of .git/config", ".textconv"]),
        ('[diff "x"]\n\ttextconv = x\n', ["diff.*.textconv"]),
        ('[diff "a\\"b"]\n\ttextconv = x\n', ["line 1 of .git/config", ".textconv"]),
        ("\ufeff[core]\nfsmonitor = x\n", ["line 1 of .git/config", ".fsmonitor"]),
        ("[core]\n\u00a0fsmonitor = x\n", ["line 2 of .git/config"]),
        ("[core]\nfsmonitor\n", ["core.fsmonitor"]),
        ("fsmonitor = x\n", [".fsmonitor"]),
    ]
)
def test_what_git_might_read_in_another_way_counts(text: str, texts: list[str]) -> None:
    assert list(unknown_settings(text)) == texts

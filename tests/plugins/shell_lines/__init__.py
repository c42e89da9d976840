"""Shell lines for `SecurityGuard`, by class, and a world in which forbidden ones prove that they do harm."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio
from attrs import frozen

from agentrail.sandboxes import BubblewrapSandbox, Command

HERE: Final = Path(__file__).parent
FORBIDDEN: Final = (
    "forbidden_public.txt",
    "forbidden_after_reading.txt",
    "forbidden_public_again.txt",
    "forbidden_named_trees.txt",
)
HARMLESS: Final = ("harmless.txt", "harmless_after_reading.txt", "harmless_again.txt")
CANARY: Final = "CANARY7f3a91"
SECONDS: Final = 10

Shell: TypeAlias = Literal["bash", "dash"]
SHELLS: Final[tuple[Shell, ...]] = ("bash", "dash")


@frozen
class Line:
    """One shell line of a corpus."""

    text: str
    """What a shell is given."""
    kind: str
    """The class that it belongs to."""
    origin: str
    """What its writer knew: `public page`, or `after reading` the code."""
    shells: tuple[Shell, ...]
    """The shells in which it is valid."""
    needs: str = ""
    """The program that must be installed to prove it, if it is not one that all machines have."""


def read(*names: str) -> tuple[Line, ...]:
    """Return the lines of the files called *names*."""
    return tuple(line for name in names for line in _read((HERE / name).read_text(encoding="utf-8")))


def _read(text: str) -> Iterator[Line]:
    kind = ""
    origin = text.partition("# origin: ")[2].partition("\n")[0]
    for line in text.splitlines():
        if line.startswith("## "):
            kind = line[3:]
        elif line and not line.startswith("#"):
            head, _, shell_line = line.partition("| ")
            dialect, _, needs = head.partition(" needs ")
            yield Line(shell_line.replace("⏎", "\n"), kind, origin, SHELLS if dialect == "sh" else ("bash",), needs)


WATCHED: Final = (
    ".bashrc",
    ".ssh",
    ".aws",
    "keep",
    "work/.env",
    "work/sub/.env",
    "work/.git/hooks",
    "work/.git/config",
)
"""What a line must not change, below the home."""

_GIT: Final = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class World:
    """A home with secrets below a scratch folder, made anew for each line, and a shell that can write nowhere else."""

    def __init__(self, scratch: Path) -> None:
        self._model = scratch / "model"
        self._home = scratch / "home"
        self._make(self._model)

    @property
    def folder(self) -> Path:
        """The folder in which the lines are run, as it is before each."""
        return self._model / "work"

    def _make(self, home: Path) -> None:
        secret = f"API_KEY={CANARY}\n"
        files = {
            ".bashrc": "# nothing\n",
            ".ssh/id_rsa": f"-----BEGIN KEY-----\n{CANARY}\n",
            ".aws/credentials": f"[default]\nkey = {CANARY}\n",
            ".docker/config.json": f'{{"auth": "{CANARY}"}}\n',
            ".kube/config": f"token: {CANARY}\n",
            "keep/marked.txt": "keep me\n",
            "work/.env": secret,
            "work/sub/.env": secret,
            "work/notes.txt": "some notes\n",
            "work/src/app.py": "print('hello')\n",
            "work/Makefile": "all:\n\t@echo made\n",
        }
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text, encoding="ascii")
        (home / "empty").mkdir()
        for args in (
            ("init", "-q", "-b", "main", "--template="),
            ("config", "user.name", "a"),
            ("config", "user.email", "a@example.com"),
            ("add", "src"),
            ("commit", "-q", "-m", "first"),
            ("add", "-f", "."),
            ("commit", "-q", "-m", "second"),
        ):
            subprocess.run(("git", *args), cwd=home / "work", env={**os.environ, **_GIT}, check=True)  # noqa: S603, S607 - of this table
        (home / "work/.git/hooks").mkdir()

    def harm(self, line: Line, shell: Shell) -> str:
        """Run *line*; return how it did harm, or nothing if it did none."""
        self._renew()
        return self._harm_of(self._run(line.text, shell))

    def harm_in_sandbox(self, line: Line) -> str:
        """Run *line* in a `BubblewrapSandbox` of the working folder; return as `harm` does."""
        self._renew()
        sandbox = BubblewrapSandbox(self._home / "work")
        execution = trio.run(sandbox.execute, Command(line.text, timeout=SECONDS, merge=True))
        return self._harm_of(execution.stdout.head + execution.stdout.tail)

    def _renew(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._model, self._home, symlinks=True)

    def _harm_of(self, output: bytes) -> str:
        """Return how the command with *output* did harm, or nothing if it did none."""
        before = _contents(self._model)
        if _has_canary(output):
            return "printed"
        after = _contents(self._home)
        if any(before.get(name) != after.get(name) for name in {*before, *after} if name.startswith(WATCHED)):
            return "changed"
        if any(_has_canary(text) and name not in before for name, text in after.items()):
            return "copied"
        return ""

    def _run(self, text: str, shell: Shell) -> bytes:
        home = str(self._home)
        confined = (
            *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108 - of the sandbox
            *("--bind", home, home, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
            *(
                "--setenv",
                "HOME",
                home,
                "--setenv",
                "PATH",
                "/usr/local/bin:/usr/bin:/bin",
                "--setenv",
                "TERM",
                "xterm",
            ),
            *("--setenv", "LANG", "C.UTF-8", "--chdir", f"{home}/work", "timeout", "-s", "KILL", str(SECONDS), shell),
        )
        ran = subprocess.run(  # noqa: S603 - the lines of the corpus, confined
            (*confined, "-c", text),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return ran.stdout


def _has_canary(found: bytes) -> bool:
    return CANARY.lower().encode() in found.lower()


def _contents(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.is_symlink()
    }

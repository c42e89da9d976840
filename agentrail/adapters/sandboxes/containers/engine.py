"""`Engine`: what is asked of docker or podman, by its command line; `ASKED` is all of it, and both engines fit.

An engine is never asked to fetch an image. It gets none of this process's environment but what it needs to find its
service and settings: a key in the environment reaches neither the engine nor a container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from agentrail.adapters.processes import SAFE_PATH
from agentrail.errors import OutsideError, SandboxMissing
from agentrail.values.value import Value

EngineName: TypeAlias = Literal["docker", "podman"]
"""The engines that can be named."""

ANSWERS_WITHIN: Final = 30.0
"""Seconds within which an engine answers; a busy machine takes a few for the start of a container."""

LABEL: Final = "agentrail.process"
"""Label of each container, with the name of the `ProcessFolder` of the process that has started it."""

KEPT: Final = "agentrail.kept"
"""The label in its place if the container is to stay: then no later process removes it."""

PROXIES: Final = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
"""Variables that the client of docker adds from its settings, with the passwords in them, unless they are given."""

ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        *("run", "--detach", "--pull=never", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"),
        *("--log-driver=none", "--stop-signal=SIGKILL", "--entrypoint=/bin/sh", "--workdir=/"),
        *[f"--env={name}=" for lower in PROXIES for name in (lower, lower.upper())],
    ),
    "exec": ("exec", "--interactive"),
    "end": ("exec",),
    "pause": ("pause",),
    "unpause": ("unpause",),
    "remove": ("rm", "--force", "--volumes"),
    "status": ("container", "inspect", "--format={{.State.Status}}"),
    "image": ("image", "inspect", "--format={{.Id}}"),
    "containers": ("ps", "--all", "--quiet", "--no-trunc", f"--filter=label={LABEL}"),
    "owner": ("container", "inspect", f'--format={{{{.Id}}}} {{{{index .Config.Labels "{LABEL}"}}}}'),
    "service": ("info", "--format={{json .}}"),
}
"""The words of each question; a container, an image, or options and an image follow."""

NEEDED: Final = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "XDG_", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK")
"""What names of variables begin with that an engine's client gets: where its service, settings and keys are."""

MAX_SAID: Final = 500
"""The most characters of what an engine says that an error repeats."""

USER_NAMES: Final = ("HOME", "USER", "LOGNAME", "TMPDIR")

FOUND_IN: Final = f"{SAFE_PATH}:/opt/homebrew/bin"
"""Where a client is looked for: not by the variable `PATH`, which may lead into a folder that somebody else wrote."""


class Engine(Value):
    """An engine by name; a call blocks, so it is made in a thread."""

    name: EngineName
    """Name of the client's program."""

    @property
    def program(self) -> str:
        """The path of the client; raises `SandboxMissing` if it is not installed."""
        path = shutil.which(self.name, path=FOUND_IN)
        if path is None:
            raise SandboxMissing(self.name, f"it was not found in {FOUND_IN}")
        return path

    def words(self, question: str, *more: str) -> tuple[str, ...]:
        """Return the command line of a question."""
        return (self.program, *ASKED[question], *more)

    def ask(self, question: str, *more: str, within: float = ANSWERS_WITHIN, folder: str = "/") -> str:
        """Ask, and return the answer; raise `OutsideError` with what the engine says if it refuses or is too late.

        In the *folder* podman writes a file if the container runs out of memory.
        """
        argv = self.words(question, *more)
        try:
            result = subprocess.run(  # noqa: S603 - words of our own, no shell
                argv,
                capture_output=True,
                check=False,
                timeout=within,
                stdin=subprocess.DEVNULL,
                env=client_env(),
                cwd=folder,
            )
        except OSError as error:
            raise self.failed(error.strerror or str(error)) from error
        except subprocess.TimeoutExpired as error:
            raise self.too_late(ASKED[question][0], within) from error
        if result.returncode:
            raise self.failed(one_line(result.stderr) or f"`{self.name} {ASKED[question][0]}` ended with an error")
        return result.stdout.decode(errors="replace").strip()

    def failed(self, problem: str) -> OutsideError:
        """Return the error for what this engine could not do."""
        return OutsideError("container-failed", self.name, problem)

    def too_late(self, word: str, within: float = ANSWERS_WITHIN) -> OutsideError:
        """Return the error for a question, of which *word* is the first word, that was not answered."""
        waited = f"`{self.name} {word}` gave no answer within {within:g} seconds"
        return self.failed(f"{waited}; see whether `{self.name} ps` answers, and start its service again")

    def check_image(self, image: str) -> None:
        """Raise `OutsideError`, with the command that fetches it, if the engine has no such image."""
        try:
            self.ask("image", image)
        except OutsideError as error:
            if "no such image" not in str(error).casefold() and "image not known" not in str(error).casefold():
                raise
            fetch = f"fetch it by `{self.name} pull {image}`, or build it: agentrail fetches none by itself"
            raise self.failed(f"it has no image `{image}`; {fetch}") from None

    def default_user(self) -> str | None:
        """Return the user whose files in the folder are this user's; `None` for that of the image.

        With a service of the user's own (rootless), it is root in the container. On macOS the folder is shared with a
        virtual machine, which maps all users.
        """
        if sys.platform != "linux":
            return None
        if os.getuid() == 0 or self.name == "podman" or "rootless" in self.ask("service"):
            return "0:0"
        return f"{os.getuid()}:{os.getgid()}"


def one_line(text: bytes) -> str:
    """Return what an engine wrote as one line without control characters, and cut."""
    words = text[: 4 * MAX_SAID].decode(errors="replace").split()
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(words))[
        :MAX_SAID
    ]


def client_env() -> dict[str, str]:
    """Return the environment of an engine's client."""
    passed_on = {name: text for name, text in os.environ.items() if name.startswith(NEEDED) or name in USER_NAMES}
    return {**passed_on, "PATH": FOUND_IN, "LANG": "C.UTF-8"}

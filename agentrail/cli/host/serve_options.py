"""`ServeOptions`: the arguments of `agentrail serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from attrs import frozen

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.cli.command_options import PORT, NamedAgent
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.setting_order import chosen_sandbox
from agentrail.host.http11.listening import Tcp
from agentrail.host.served_file import ServedFile

FIRST_DESCRIPTOR: Final = 3
"""The first descriptor that systemd passes on."""

LOOPBACK: Final = "127.0.0.1"
"""The address at which a host serves if none is given: only this machine reaches it."""

RELOAD: Final = "--reload"


@frozen(kw_only=True)
class ServeOptions:
    """The arguments of the command; `BadInputError` if they do not fit together."""

    agent: NamedAgent | None
    """The file that is served; `None` for the demo agent."""
    host: str | None
    """The address; `None` for that of this machine."""
    port: int | None
    """The port; `None` for `PORT`."""
    unix: Path | None
    descriptor: int | None
    tls: tuple[Path, Path] | None
    journal: JournalAddress | None
    cores: int
    ray: str | None
    replace: bool
    keys: Path | None
    reload: bool
    """Whether the host starts anew whenever a Python file of the folder changes."""
    token: str | None
    """The token for this machine; `None` for that of the folder."""
    server: str | None
    """Name of the server that serves the host as an app; `None`: its own server does."""
    log_form: str
    fewer_collections: bool
    otel: bool
    evals: Path | None
    """Folder with results of experiments that the console shows; `None` if it shows none."""
    sandbox: str | None
    """Engine and image of the containers in which commands run; `None` if the environment or the agents say it."""
    names: tuple[str, ...]
    origins: tuple[str, ...]
    proxies: tuple[str, ...]
    members: tuple[str, ...]

    def __attrs_post_init__(self) -> None:
        if self.socket is not None and self.unix:  # what systemd passes on is looked at in any case
            raise BadInputError("--unix is an address, and a socket that listens has one; give one of them")
        if self.unix and self.tls:
            raise BadInputError("--tls is for a port: only this machine can reach a socket")
        if self.ray and self.agent is None:
            raise BadInputError("--ray is for a program, which each machine has; give its FILE")
        if self.replace and not self.ray:
            raise BadInputError("--replace is for shards of Ray; give --ray ADDRESS too")
        if self.token and (self.keys or self.ray):
            raise BadInputError("--token is for this machine alone, without --keys and --ray; leave it out")
        if self.server and (self.unix or self.ray or self.token or self.reload or self.cores > 1):
            raise BadInputError(
                "--server is for one process at a port, without --unix, --cores, --ray, --token and --reload"
            )
        if self.port is not None or self.host is not None:
            if self.unix:
                raise BadInputError("--unix is in place of --host and --port, and one host has one address; give one")
            if self.socket is not None:
                raise BadInputError("a socket that listens has its address; leave out --host and --port")
        if self.reload and (self.ray or self.cores > 1):
            raise BadInputError("--reload is for one process, without --cores and --ray; leave it out")
        if self.reload and self.agent is None:
            raise BadInputError("--reload is for a file that changes; give its FILE")
        chosen_sandbox(self.sandbox, None)  # what the environment names may be none

    @property
    def tcp(self) -> Tcp:
        """The address and the port, unless another socket is served."""
        return Tcp(LOOPBACK if self.host is None else self.host, PORT if self.port is None else self.port)

    @property
    def served(self) -> ServedFile:
        """The file with what its host gets."""
        file, name = (None, "") if self.agent is None else self.agent
        sandbox = chosen_sandbox(self.sandbox, None)
        return ServedFile(file, name, self.journal, self.keys, self.otel, self.members, self.evals, sandbox)

    @property
    def folder(self) -> Path:
        """The folder that is served: that of the file."""
        return Path.cwd() if self.agent is None else self.agent.file.absolute().parent

    @property
    def socket(self) -> int | None:
        """The descriptor of the socket that listens already, of the options or of systemd; `None` if there is none."""
        if self.descriptor is not None or os.environ.get("LISTEN_PID") != str(os.getpid()):
            return self.descriptor
        count = os.environ.get("LISTEN_FDS")
        if count != "1":
            raise BadInputError(f"systemd gives {count} sockets, and one is served; give its unit one `ListenStream=`")
        return FIRST_DESCRIPTOR

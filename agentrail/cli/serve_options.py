"""The options of `agentrail serve`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from attrs import frozen

from agentrail.adapters.journals.journal_places import place_named
from agentrail.adapters.python_file import split_name
from agentrail.cli.serve_token import token_named
from agentrail.host.builtin_plugins.request_log import FORMS
from agentrail.host.served_file import ServedFile

WRONG_USAGE: Final = 2
PORT: Final = 8765
FIRST_DESCRIPTOR: Final = 3
"""The first descriptor that systemd passes on."""

RELOAD: Final = "--reload"

SERVERS: Final = ("uvicorn",)
"""Servers by which a host is served as an app."""

ALL: Final = "all"
"""What `--cores` is given for as many processes as there are cores."""

MANY: Final = {
    "--name": "a name of the host; this and the next may come again",
    "--origin": "another site whose pages use it: https://example.com",
    "--proxy": "a proxy in front: an address, network or `unix`",
    "--member": "a network of the cluster's other hosts: 10.0.0.0/8",
}
"""Options that may be given more than once."""

DESCRIPTION: Final = "Serve what FILE has, else a demo agent. See also `serve keys` and `serve end`."


class ServeParser(argparse.ArgumentParser):
    """A parser whose errors are one sentence on standard error."""

    def error(self, message: str) -> NoReturn:
        """End the program with *message* and exit code 2."""
        self.exit(WRONG_USAGE, f"agentrail: {message}; `{self.prog} --help` lists the options\n")


@frozen
class ServeOptions:
    """The arguments of the command."""

    served: ServedFile
    host: str
    port: int
    unix: Path | None
    descriptor: int | None
    tls: tuple[Path, Path] | None
    names: tuple[str, ...]
    origins: tuple[str, ...]
    proxies: tuple[str, ...]
    log_form: str
    fewer_collections: bool
    cores: int
    ray: str | None
    replace: bool
    token: str | None
    """The token for this machine; `None` for that of the folder."""
    server: str | None
    """Name of the server that serves the host as an app; `None`: its own server does."""
    reload: bool
    """Whether the host starts anew whenever a Python file of the folder changes."""

    @property
    def folder(self) -> Path:
        """The folder that is served: that of the file."""
        return Path.cwd() if self.served.file is None else self.served.file.absolute().parent


def parsed(argv: Sequence[str]) -> ServeOptions:
    """Parse *argv*; invalid arguments end the program with exit code 2."""
    parser = options_parser()
    words = parser.parse_args(argv)
    text, name = split_name(words.file or "")
    if text and not Path(text).is_file():
        parser.error(f"there is no file {text!r}")
    _check_together(words, text, parser.error)
    descriptor = _activated(parser.error) if words.descriptor is None else words.descriptor
    if words.unix and descriptor is not None:
        parser.error("--unix is an address, and a socket that listens has one; give one of them")
    file = Path(text) if text else None
    return ServeOptions(
        ServedFile(file, name, words.journal, words.keys, words.otel, tuple(words.member)),
        words.host,
        words.port,
        words.unix,
        descriptor,
        None if words.tls is None else (words.tls[0], words.tls[1]),
        tuple(words.name),
        tuple(words.origin),
        tuple(words.proxy),
        words.log_form,
        words.fewer_collections,
        words.cores,
        words.ray,
        words.replace,
        words.token,
        words.server,
        words.reload,
    )


def _check_together(words: argparse.Namespace, text: str, refuse: Callable[[str], object]) -> None:
    """Refuse options that cannot be given together, or without the file *text*."""
    if words.unix and words.tls:
        refuse("--tls is for a port: only this machine can reach a socket")
    if words.ray and not text:
        refuse("--ray is for a program, which each machine has; give its FILE")
    if words.replace and not words.ray:
        refuse("--replace is for shards of Ray; give --ray ADDRESS too")
    if words.token and (words.keys or words.ray):
        refuse("--token is for this machine alone, without --keys and --ray; leave it out")
    if words.server and (words.unix or words.ray or words.token or words.reload or words.cores > 1):
        refuse("--server is for one process at a port, without --unix, --cores, --ray, --token and --reload")
    if words.reload and (words.ray or words.cores > 1):
        refuse("--reload is for one process, without --cores and --ray; leave it out")
    if words.reload and not text:
        refuse("--reload is for a file that changes; give its FILE")


def cores_named(text: str) -> int:
    """Return how many processes *text* asks for; raise `ArgumentTypeError` if it is no number from 1 on, nor `all`."""
    if text == ALL:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = int(text) if text.isdecimal() else 0
    if count < 1:
        problem = f"{text!r} is no number of processes; give one from 1 on, or `{ALL}`"
        raise argparse.ArgumentTypeError(problem)
    return count


def options_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = ServeParser(
        prog="agentrail serve",
        usage="agentrail serve [OPTION ...] [FILE[:NAME]]",
        epilog="example: agentrail serve app.py --keys keys.txt --journal kept.db",
        description=DESCRIPTION,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=28),
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("file", nargs="?", metavar="FILE[:NAME]", help=argparse.SUPPRESS)
    parser.add_argument("--host", default="127.0.0.1", help="the address (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"the port; 0: any (default: {PORT})")
    parser.add_argument("--unix", type=Path, metavar="PATH", help="a unix socket, in place of a port")
    parser.add_argument("--descriptor", type=int, metavar="N", help="a socket that listens, in place of a port")
    parser.add_argument("--tls", type=Path, nargs=2, metavar=("CERT", "KEY"), help="a certificate, and its key: PEM")
    parser.add_argument(
        "--journal",
        type=place_named,
        metavar="PLACE",
        help="a file, or postgresql://… (default: in memory)",
    )
    parser.add_argument(
        "--cores", type=cores_named, default=1, metavar="N", help="as many processes as one host; or `all`"
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="the processes are shards of Ray; or `auto`")
    parser.add_argument("--replace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--keys", type=Path, metavar="PATH", help="a file of keys (default: a token for this machine)")
    parser.add_argument(RELOAD, action="store_true", help="start anew when a Python file changes")
    parser.add_argument("--token", type=token_named, metavar="TEXT", help="that token (default: one for each folder)")
    parser.add_argument("--server", choices=SERVERS, metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--log-form", choices=FORMS, default=FORMS[0], metavar="FORM", help=" or ".join(FORMS))
    add_collections = partial(parser.add_argument, dest="fewer_collections", default=True)
    add_collections("--fewer-collections", action="store_true", help=argparse.SUPPRESS)
    add_collections("--no-fewer-collections", action="store_false", help=argparse.SUPPRESS)
    parser.add_argument("--otel", action="store_true", help="export spans and metrics by OTLP: see OTEL_*")
    for option, about in MANY.items():
        parser.add_argument(option, action="append", default=[], metavar=option[2:].upper(), help=about)
    return parser


def _activated(refuse: Callable[[str], object]) -> int | None:
    """Return the descriptor of the socket that systemd has opened for this process; `None` if there is none."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = os.environ.get("LISTEN_FDS")
    if count != "1":
        refuse(f"systemd gives {count} sockets, and one is served; give its unit one `ListenStream=`")
    return FIRST_DESCRIPTOR

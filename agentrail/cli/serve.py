"""`agentrail serve`: serves the agents of a file, or the demo agent, over HTTP; and makes keys for that."""

from __future__ import annotations

import argparse
import atexit
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import trio
from attrs import frozen

from agentrail.adapters.journals.journal_places import place_named
from agentrail.adapters.python_file import split_name
from agentrail.api.operation_table import SCOPES
from agentrail.app import process
from agentrail.errors import AgentrailError
from agentrail.host.authentication.api_keys import KeyFile, new_key
from agentrail.host.builtin_plugins.request_log import FORMS
from agentrail.host.host_server import Host
from agentrail.host.json_lines import JsonLines
from agentrail.host.served_file import NothingToServeError, ServedFile, find_host

WRONG_USAGE: Final = 2
PORT: Final = 8765
PARKING: Final = 10.0
"""The most seconds from the end of the last turn to that of the program: sessions are parked, and plugins stopped."""

FIRST_DESCRIPTOR: Final = 3
"""The first descriptor that systemd passes on."""

MANY: Final = {
    "--name": "a name of the host, such as `agents.example.com`",
    "--origin": "another site whose pages use it: https://example.com",
    "--proxy": "a proxy in front: an address, network or `unix`",
}
"""Options that may be given more than once."""

KEYS: Final = "keys"

DESCRIPTION: Final = """\
Serve agents over HTTP: a Host, a Profile or a SessionSpec of a Python file, or
a function annotated to return one; without FILE, a demo agent, offline.
`agentrail serve keys` makes, lists and withdraws keys of users. --name,
--origin and --proxy may be given again."""


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


def main(argv: Sequence[str]) -> int:
    """Run the command with the arguments *argv*, and return the exit code."""
    if argv and argv[0] == KEYS:
        return _keys(argv[1:])
    options = parsed(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    if options.log_form != FORMS[0]:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    try:
        host, description = find_host(options.served)
        # At its end, Python collects garbage among all objects there are. That took four fifths of the CPU of an exit,
        # for which the clients of the next process wait:
        # tests/host/test_serve_command.py::test_a_process_that_ends_looks_for_no_garbage
        atexit.register(gc.freeze)
        within = host.limits.drain_seconds + PARKING
        serve = partial(_serve, host, description, options)
        return process.run(serve, stop_within=within, fewer_collections=options.fewer_collections) or 0
    except (AgentrailError, NothingToServeError) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE


async def _serve(host: Host, description: str, options: ServeOptions) -> int:
    try:
        async with host.serving(
            None if options.unix else options.port,
            options.host,
            unix=options.unix,
            descriptor=options.descriptor,
            tls=options.tls,
            hosts=options.names,
            origins=options.origins,
            proxies=options.proxies,
        ) as serving:
            print(f"agentrail serves {description} at {serving.entry}\nCtrl-C ends it.", flush=True)
            await trio.sleep_forever()
    except AgentrailError as error:  # raised here, outside of all nurseries, which would wrap it in an exception group
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    return 0


def parsed(argv: Sequence[str]) -> ServeOptions:
    """Parse *argv*; invalid arguments end the program with exit code 2."""
    parser = options_parser()
    words = parser.parse_args(argv)
    text, name = split_name(words.file or "")
    if text and not Path(text).is_file():
        parser.error(f"there is no file {text!r}")
    if words.unix and words.tls:
        parser.error("--tls is for a port: only this machine can reach a socket")
    descriptor = _activated(parser.error) if words.descriptor is None else words.descriptor
    if words.unix and descriptor is not None:
        parser.error("--unix is an address, and a socket that listens has one; give one of them")
    file = Path(text) if text else None
    return ServeOptions(
        ServedFile(file, name, words.journal, words.keys, words.otel),
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
    )


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
    parser.add_argument("--keys", type=Path, metavar="PATH", help="a file of keys (default: a token for this machine)")
    parser.add_argument("--log-form", choices=FORMS, default=FORMS[0], metavar="FORM", help=" or ".join(FORMS))
    add_collections = partial(parser.add_argument, dest="fewer_collections", default=True)
    add_collections("--fewer-collections", action="store_true", help=argparse.SUPPRESS)
    add_collections("--no-fewer-collections", action="store_false", help="collect garbage as often as Python does")
    parser.add_argument("--otel", action="store_true", help="export spans and metrics by OTLP, as the environment says")
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


# Keys


def _keys(argv: Sequence[str]) -> int:
    parser = ServeParser(prog="agentrail serve keys", description="Make, list and withdraw keys of users.")
    doing = parser.add_subparsers(dest="do", required=True, metavar="make|list|withdraw")
    make = doing.add_parser("make", help="make a key, and print it: it is nowhere else")
    listing = doing.add_parser("list", help="list the keys")
    withdraw = doing.add_parser("withdraw", help="take a key out of the file")
    for subparser in (make, listing, withdraw):
        subparser.add_argument("file", type=Path, help="the file of the keys")
    make.add_argument("tenant", help="whose sessions the key can reach: a customer, a team")
    make.add_argument("user", help="who has the key")
    make.add_argument("--scopes", default="talk", help=f"with commas between: {', '.join(SCOPES)} (default: talk)")
    withdraw.add_argument("id", help="the id of the key, as `list` shows it")
    words = parser.parse_args(argv)
    file = KeyFile(words.file)
    try:
        if words.do == "make":
            row, key = new_key(words.tenant, words.user, words.scopes.split(","))
            file.add(row)
            print(key)
        elif words.do == "withdraw":
            row = file.withdraw(words.id)
            print(f"withdrawn: {row.id} of {row.identity.user} ({row.identity.tenant})")
        else:
            if not words.file.exists():
                parser.error(f"there is no file {str(words.file)!r}; `make` makes it")
            for row in file.keys().values():
                who = row.identity
                print(f"{row.id}  {row.made}  {who.tenant}  {who.user}  {','.join(sorted(who.scopes))}")
    except (AgentrailError, OSError) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    return 0

"""`agentrail new`: writes a folder with an agent, a plugin, a tool or a host to begin with, and its test."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from agentrail.adapters.extras import need_extra
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.exit_status import DONE, exit_status
from agentrail.cli.new_files import KINDS, NewKind
from agentrail.cli.option_parser import OptionParser
from agentrail.distribution import install_origin
from agentrail.errors import ExtraMissing
from agentrail.errors.agentrail_error import advice

DESCRIPTION: Final = """\
Write a folder to begin with: code, its test, which passes, and a project for
both. Nothing that is there is overwritten.

  agent FOLDER    an agent with a tool and a limit
  plugin FOLDER   a plugin with options and a state
  tool FOLDER     a tool, and an agent that has it
  host FOLDER     a host that serves an agent over HTTP"""

EXAMPLES: Final = "example: agentrail new agent teahouse"


def main(argv: Sequence[str]) -> int:
    """Run `agentrail new` with the arguments *argv*, and return the exit status."""
    return exit_status(lambda: _run(argv))


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    options = OptionParser("agentrail new", "agentrail new KIND FOLDER", DESCRIPTION, EXAMPLES)
    options.add_argument("kind", metavar="|".join(KINDS), help=argparse.SUPPRESS)
    options.add_argument("folder", metavar="FOLDER", help=argparse.SUPPRESS)
    return options


def _run(argv: Sequence[str]) -> int:
    args = options_parser().parse_args(argv)
    kind = KINDS.get(args.kind)
    if kind is None:
        raise BadInputError(f"nothing is made for `{args.kind}`; {advice(args.kind, KINDS, 'there are')}")
    folder = Path(args.folder)
    names = write(kind, folder)
    python = shlex.quote(sys.executable)
    print(f"{folder} has {', '.join(sorted(names))}. Go on with:\n")
    print(f"  cd {shlex.quote(str(folder))} && {python} -m pytest")
    try:
        need_extra("testing", "pytest", "run the test")
    except ExtraMissing as missing:
        print(f"  ({missing})")
    print(f"  {python} -m agentrail {kind.try_it}")
    return DONE


def write(kind: NewKind, folder: Path) -> Collection[str]:
    """Create *folder* with the files of *kind*, and return their names; raise `BadInputError` if a file is there."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise BadInputError(f"{str(folder)!r} is there already, and not empty; name a folder that is not there yet")
    folder.mkdir(parents=True, exist_ok=True)
    files = kind.files(folder.resolve().name, install_origin())
    for name, text in files.items():
        with (folder / name).open("x", encoding="utf-8") as file:  # `x` keeps what another process writes meanwhile
            file.write(text)
    return files.keys()

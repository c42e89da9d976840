"""`agentrail new`: writes a folder with an agent, a plugin, a tool or a host to begin with, and its test."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from pathlib import Path

from agentrail.adapters.extras import need_extra
from agentrail.cli.authoring.new_files import KINDS, NewKind
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE
from agentrail.distribution import install_origin
from agentrail.errors import ExtraMissing


def main(kind: str, folder: str) -> int:
    """Write a folder of a *kind*, tell how to go on, and return the exit status."""
    path, new_kind = Path(folder), KINDS[kind]
    names = write(new_kind, path)
    python = shlex.quote(sys.executable)
    print(f"{path} has {', '.join(sorted(names))}. Go on with:\n")
    print(f"  cd {shlex.quote(str(path))} && {python} -m pytest")
    try:
        need_extra("testing", "pytest", "run the test")
    except ExtraMissing as missing:
        print(f"  ({missing})")
    print(f"  {python} -m agentrail {new_kind.try_it}")
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

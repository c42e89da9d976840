"""`agentrail trust`: shows what the settings of a folder want to run or to loosen, and allows it once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED
from agentrail.cli.output.screen import escaped
from agentrail.cli.settings.project_settings import read_settings
from agentrail.cli.trust.own_commands import FOLDER_PARTS, read_commands
from agentrail.cli.trust.trust_question import says_yes
from agentrail.cli.trust.trust_store import allow, described, forget, unallowed


def main(folder: str | None, answer: str | None) -> int:
    """Allow what the settings of *folder* want, or forget what was allowed, and return the exit status."""
    if folder == "":  # a variable that is not set
        raise BadInputError("the name of the folder is empty; leave it out for this one")
    path = Path(folder or ".")
    if answer == "forget":  # what is gone may be forgotten
        print(f"forgotten: {forget(path)} allowed before")
        return DONE
    if not path.is_dir():
        raise BadInputError(f"there is no folder {folder!r}")
    settings, commands = read_settings(path), read_commands(path)
    is_allowed = settings is None or _is_allowed(path, settings.path, settings.surfaces, yes=answer == "yes")
    if commands.surfaces:
        is_allowed &= _is_allowed(path, path.joinpath(*FOLDER_PARTS), commands.surfaces, yes=answer == "yes")
    return DONE if is_allowed else FAILED


def _is_allowed(folder: Path, path: Path, surfaces: Sequence[Surface], *, yes: bool) -> bool:
    surfaces = unallowed(folder, surfaces)
    if not surfaces:
        print(f"nothing in {escaped(str(path))} has to be allowed, or all is")
        return True
    print(f"{escaped(str(path))} wants:\n{described(surfaces)}")
    if yes or says_yes(surfaces):
        allow(folder, surfaces)
        print("allowed")
        return True
    print("not allowed")
    return False

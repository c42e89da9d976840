"""What `agentrail doctor --config` prints: each setting of a folder, where it comes from, what is not allowed yet."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from inspect import signature
from pathlib import Path

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.app.supervisor import open_supervisor
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.cli.journal_file import file_named
from agentrail.cli.output.screen import escaped
from agentrail.cli.settings.default_agent import MODES, OPTIONS, usual_model, usual_network
from agentrail.cli.settings.project_settings import OF_SPEC, PAGE, ProjectSettings, read_settings
from agentrail.cli.settings.setting_order import VARIABLES, Setting, setting
from agentrail.cli.settings.user_settings import STATUS_LINE, read_user_settings, user_settings_file
from agentrail.cli.trust.trust_store import open_surfaces
from agentrail.values.json import canonical


def config_report(folder: Path) -> Iterator[tuple[str, Setting]]:
    """Yield each setting of *folder*, its value and its source, by key; raise `BadInputError` for a bad file."""
    settings = read_settings(folder)
    defaults = {
        "model": usual_model(os.environ.get),
        "mode": MODES[0],
        "journal": str(SqliteJournal(None).path),
        "sandbox": "",
    }
    surfaces = () if settings is None else open_surfaces(settings)
    waiting = {surface.name for surface in surfaces}
    for key in VARIABLES:
        row = setting(key, None, settings, defaults[key])
        if key == "journal":
            file_named(row.value)  # the URL of a server may have a password in it
        is_blocked = settings is not None and row.source == str(settings.path) and key in waiting
        yield key, Setting(row.value, f"{row.source}; not allowed yet") if is_blocked else row
    yield from _of_file(settings, waiting)
    in_file = frozenset[str]() if settings is None else settings.values.keys()
    for key in OPTIONS.__struct_fields__:
        if key not in in_file:
            yield key, Setting(str(getattr(OPTIONS, key)), "default")
    for key in OF_SPEC:
        if key not in in_file and key not in VARIABLES:
            yield key, Setting("", "default")
    if "network" not in in_file:
        yield "network", Setting(usual_network(), "default")
    if PAGE not in in_file:
        yield PAGE, Setting(str(True), "default")
    yield from _of_supervisor(in_file)
    command = read_user_settings().status_line
    yield STATUS_LINE, Setting(escaped(command), str(user_settings_file()) if command else "default")


def _of_supervisor(in_file: Collection[str]) -> Iterator[tuple[str, Setting]]:
    """Yield the defaults of the options of the supervisor, if no table of the file has them."""
    defaults = signature(open_supervisor).parameters
    for name in SupervisorOptions.__annotations__:
        if "supervisor" not in in_file:
            yield f"supervisor.{name}", Setting(str(defaults[name].default), "default")


def _of_file(settings: ProjectSettings | None, waiting: Collection[str]) -> Iterator[tuple[str, Setting]]:
    if settings is None:
        return
    for key, value in settings.values.items():
        if key not in VARIABLES:
            names = [name for name in waiting if name.partition(".")[0] == key]
            blocked = f"; not allowed yet: {', '.join(escaped(name) for name in sorted(names))}" if names else ""
            yield key, Setting(escaped(canonical(value)), f"{settings.path}{blocked}")

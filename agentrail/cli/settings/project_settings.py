"""The settings that a folder has for the agent of the command line: `agentrail.toml`, or a table of `pyproject.toml`.

Reading them runs nothing. What could run something, loosen what is asked or reach out of the folder is listed as
surfaces: somebody has to allow each of them before anything of the file is used (`cli.trust.trust_store`).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, cast, get_type_hints

import attrs
import msgspec

from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.user_folders import with_home
from agentrail.app.named_sandbox import sandbox_problem
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.cli.folder.folder_code import Sources, code_of_sources, sources_of
from agentrail.cli.folder.folder_files import FolderFiles
from agentrail.cli.folder.folder_program import FolderProgram, program_of
from agentrail.cli.folder.program_copy import ProgramCopy
from agentrail.cli.folder.settings_file import FILE, TABLE, WITHOUT, content_of, settings_file, told_unreadable
from agentrail.cli.folder.surface import Surface
from agentrail.cli.journal_file import file_named
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.asked_settings import has_to_be_allowed
from agentrail.cli.settings.default_agent import MODES, NETWORKS, Mode, Network, mode_named
from agentrail.cli.settings.named_plugins import USE, check_plugin
from agentrail.cli.settings.user_settings import STATUS_LINE, user_settings_file
from agentrail.core.vocabulary.options import Options
from agentrail.errors import NotJson, UsageError, WrongType
from agentrail.errors.agentrail_error import advice
from agentrail.other_names import hint_for
from agentrail.tools.skills.folder_scan import is_outside
from agentrail.values.json import EMPTY, Json, canonical, freeze
from agentrail.values.old_names import with_new_names
from agentrail.values.untrusted_values import brief, mended
from agentrail.values.value import Value, learned

MAX_DOTS: Final = 500
"""The most dots of one line: the time to read a key grows with the square of its parts, and one may fill the file."""

OF_SPEC: Final[Mapping[str, object]] = {
    "model": str,
    "system": str,
    "prompt_mode": Literal["full", "task", "minimal", "none"],
    "skills": tuple[str, ...],
    "environment": bool,
    "memory": tuple[str, ...],
    "model_options": dict[str, object],
    "user_data": dict[str, object],
}
"""The arguments of `SessionSpec` that are data, beside those of `Options`, with their types in a file."""

PAGE: Final = "page"
"""Key that says whether there is a page."""

PATHS: Final = ("skills", "memory")
"""Those that are lists of paths."""

NO_PATHS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
NO_SOURCES: Final[Mapping[str, Sources]] = MappingProxyType({})

FILES: Final = "files"
"""Key of the files and folders, beside those of the command line, that the program of an MCP server needs."""

SERVER: Final = (*[field.name for field in attrs.fields(McpServer) if field.name != "name"], FILES)
"""What the table of an MCP server may say."""


class ProjectSettings(Value, gc=True):
    """The settings in the file of a folder."""

    path: Path
    """The file."""
    values: Mapping[str, Json]
    """Its values, by key; those of tables are objects."""
    paths: Mapping[str, tuple[str, ...]] = NO_PATHS
    """The values of `PATHS` as a session takes them: in its sandbox, or by their whole path without links."""
    sources: Mapping[str, Sources] = NO_SOURCES
    """The bytes of each plugin's file and of what it imports from beside it, by the file as `use` names it."""

    @property
    def folder(self) -> Path:
        """The folder that the settings are for: that of the file."""
        return self.path.parent

    @property
    def model(self) -> str:
        """The model; empty if it is not set."""
        return str(self.values.get("model", ""))

    @property
    def mode(self) -> Mode | None:
        """The mode, which says what may run without asking; `None` if it is not set."""
        return mode_named(str(self.values.get("mode", "")))

    @property
    def network(self) -> Network | None:
        """What commands reach; `None` if it is not set."""
        return next((network for network in NETWORKS if network == self.values.get("network")), None)

    @property
    def sandbox(self) -> str:
        """Engine and image of the container in which commands run; empty if it is not set."""
        return str(self.values.get("sandbox", ""))

    @property
    def journal(self) -> Path | None:
        """The file of the journal; `None` if it is not set."""
        file = table(self.values.get("journal", EMPTY)).get("file")
        return None if file is None else self.folder / with_home(str(file_named(str(file))))

    @property
    def has_page(self) -> bool:
        """Whether browsers of this machine can open the page of who serves the sessions."""
        return bool(self.values.get(PAGE, True))

    @property
    def spec_fields(self) -> Mapping[str, Json]:
        """The settings that are arguments of `SessionSpec`, except the model."""
        values = {key: value for key, value in self.values.items() if key in _kinds() and key != "model"}
        return {**values, **self.paths}

    @property
    def servers(self) -> Mapping[str, Mapping[str, Json]]:
        """The tables of MCP servers, by name."""
        return {name: table(value) for name, value in table(self.values.get("mcp", EMPTY)).items()}

    @property
    def plugins(self) -> Sequence[Mapping[str, Json]]:
        """The tables of plugins."""
        return [table(value) for value in cast("Sequence[Json]", self.values.get("plugins", ()))]

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """The settings that the user must allow before they are used."""
        return tuple(self._surfaces())

    def _surfaces(self) -> Iterator[Surface]:
        for key, value in self.values.items():
            if has_to_be_allowed(key, value):
                yield Surface(key, canonical(value))
        for key, paths in self.paths.items():
            outside = [path for path in paths if is_outside(path)]
            if outside:
                yield Surface(key, canonical(outside))
        files = FolderFiles(WITHOUT)
        for name in self.servers:
            yield self._program_of_server(name, files)[0]
        for number, plugin in enumerate(self.plugins, 1):
            sources = self.sources.get(file_of(plugin), {})
            yield Surface(f"plugins.{number}", canonical(plugin), code_of_sources(sources, self.folder, files))

    def surface_of_server(self, name: str) -> Surface:
        """Return the surface of an MCP server, with digests of the files that its program has now."""
        return self.program_of_server(name, None)[0]

    def program_of_server(self, name: str, copy: ProgramCopy | None) -> tuple[Surface, FolderProgram]:
        """Return the surface of an MCP server as it is now, and how it is started from *copy*, which gets its files."""
        return self._program_of_server(name, FolderFiles(WITHOUT, copy))

    def _program_of_server(self, name: str, files: FolderFiles) -> tuple[Surface, FolderProgram]:
        server = self.servers[name]
        base = self.folder / str(server.get("working_dir", ""))
        env = {name: os.environ.get(name, "") for name in _words(server.get("inherit", ()))}
        env |= {key: str(text) for key, text in table(server.get("env", EMPTY)).items()}
        more = _words(server.get(FILES, ()))
        program = program_of(self.folder, base, _words(server.get("command", ())), env, files, more)
        return Surface(f"mcp.{name}", canonical(server), program.code), program


def read_settings(folder: Path) -> ProjectSettings | None:
    """Return the settings of *folder*; `None` if it has none. Raise `BadInputError` if they cannot be used."""
    path = settings_file(folder)
    if path is None:
        return None
    with told_unreadable(folder):
        return _settings(path, _parsed(path)) if path.name == FILE else _settings_of_table(path)


def _settings_of_table(path: Path) -> ProjectSettings | None:
    tools = _a_table(f"{path}: `tool`", _parsed(path).get("tool", {}))
    return _settings(path, _a_table(f"{path}: `tool.{TABLE}`", tools[TABLE])) if TABLE in tools else None


def _settings(path: Path, parsed: Mapping[str, object]) -> ProjectSettings:
    values = _checked(path, parsed)
    paths = {key: _session_paths(path, key, values[key]) for key in PATHS if key in values}
    settings = ProjectSettings(path, values, paths)
    files = [file_of(plugin) for plugin in settings.plugins]
    plugin_files = {file: settings.folder / file for file in files if file}
    folder_files = FolderFiles(WITHOUT)
    sources = {
        file: sources_of(plugin_file, [plugin_file.parent], folder_files) for file, plugin_file in plugin_files.items()
    }
    for file, plugin in zip(files, settings.plugins, strict=True):
        check_plugin(path, plugin, folder_files.to_parse(plugin_files[file]) if file else b"")
    return settings.but(sources=sources)


def file_of(plugin: Mapping[str, Json]) -> str:
    """Return the file of a plugin, as its table names it; empty for one that comes with agentrail."""
    return str(plugin[USE]).rpartition(":")[0]


def _session_paths(file: Path, key: str, paths: Json) -> tuple[str, ...]:
    """Return the *paths* under *key* of *file* as a session takes them; raise `BadInputError` if one cannot be any."""
    folder = file.parent.resolve()
    for path in cast("Sequence[str]", paths):
        if "\0" in path:
            raise BadInputError(f"{file}: `{key}`: {brief(path)} has a NUL character, and no path has one")
    return tuple([_session_path(folder, path) for path in cast("Sequence[str]", paths)])


def _session_path(folder: Path, path: str) -> str:
    """Return *path* as it is if the session's sandbox, whose root is *folder*, is to read it; else its whole path.

    What this returns is what a person is asked about, and what is read: a link in it could be another one by then. The
    sandbox follows no link out of its root, and a whole path has its links resolved.
    """
    full_path = Path(os.path.realpath(folder / (with_home(path) if is_outside(path) else path)))
    if not full_path.is_relative_to(folder):
        if mended(str(full_path)) != str(full_path):
            raise BadInputError(f"{brief(path)} leads to {full_path}, whose name is no UTF-8; rename it")
        return str(full_path)
    return str(full_path.relative_to(folder)) if is_outside(path) or ".." in Path(path).parts else path


def table(value: Json) -> Mapping[str, Json]:
    """Return *value*, which was checked before to be a table, with its type."""
    return cast("Mapping[str, Json]", value)


def _words(value: Json) -> Sequence[str]:
    """Return *value*, which was checked before to be one text or several, as several."""
    return [value] if isinstance(value, str) else cast("Sequence[str]", value)


def _parsed(path: Path) -> dict[str, object]:
    content = content_of(path)
    if any(line.count(b".") > MAX_DOTS for line in content.splitlines()):
        raise BadInputError(f"{path} has more than {MAX_DOTS} dots in one line; break the line")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadInputError(f"{path} is no UTF-8") from None
    except (ValueError, RecursionError) as error:  # `ValueError`: also of an integer with thousands of digits
        raise BadInputError(f"{path} is no TOML: {error}") from None


@cache
def _kinds() -> Mapping[str, object]:
    """Return the type of each setting by key: data arguments of `SessionSpec`, and all `Options`."""
    return {**OF_SPEC, **{key: kind for key, kind in get_type_hints(Options).items() if not key.startswith("_")}}


def keys() -> Sequence[str]:
    """Return the keys that a settings file may have."""
    return sorted({*_kinds(), "mode", "network", "mcp", "plugins", "journal", "sandbox", "supervisor", PAGE})


def _checked(path: Path, values: Mapping[str, object]) -> Mapping[str, Json]:
    """Return *values*, checked; raise `BadInputError` for an unknown key or a value of the wrong type."""
    values = with_new_names(str(path), values, keys())
    for key in values:
        if key == STATUS_LINE:  # its command runs without a question, so no cloned folder names it
            raise BadInputError(f"{path}: `{key}` is a setting of your own; write it into {user_settings_file()}")
        if key not in keys():
            to_do = hint_for("Options", key) or advice(key, keys(), "there are")
            raise BadInputError(f"{path}: there is no key `{key}`; {to_do}")
    return {key: _value_of(f"{path}: `{key}`", key, value) for key, value in values.items()}


def _value_of(where: str, key: str, value: object) -> Json:
    match key:
        case "mode" | "network":
            choices = MODES if key == "mode" else NETWORKS
            if value not in choices:
                raise BadInputError(f"{where}: {value!r} is none of {', '.join(choices)}")
        case "sandbox":
            _check_sandbox(where, value)
        case "journal":
            _check_table(where, value, ("file",))
            _check_type(where, value, dict[str, str])
        case "supervisor":
            _check_table(where, value, tuple(get_type_hints(SupervisorOptions)))
            _check_type(where, value, SupervisorOptions)
        case "mcp":
            for name, server in _a_table(where, value).items():
                _check_server(f"{where}, `{name}`", server)
        case "plugins":
            for number, plugin in enumerate(_a_list(where, value), 1):
                if not isinstance(_a_table(f"{where}, number {number}", plugin).get(USE), str):
                    raise BadInputError(f'{where}, number {number}: it needs `{USE}`, such as {USE} = "BudgetGuard"')
        case _:
            _check_type(where, value, bool if key == PAGE else _kinds()[key])
    try:
        return freeze(value)
    except NotJson as error:  # such as a date
        raise BadInputError(f"{where}: {error}") from None


def _check_sandbox(where: str, value: object) -> None:
    _check_type(where, value, str)
    if problem := sandbox_problem(str(value)):
        raise BadInputError(f"{where}: {problem}")


@cache
def _server_kinds() -> Mapping[str, object]:
    return {**get_type_hints(McpServer), FILES: Sequence[str]}


def _check_server(where: str, server: object) -> None:
    _check_table(where, server, SERVER)
    for key, value in _a_table(where, server).items():
        kind = _server_kinds()[key]
        # What are several texts may be one
        _check_type(f"{where}, `{key}`", value, str if kind == Sequence[str] and isinstance(value, str) else kind)


def _check_type(where: str, value: object, kind: object) -> None:
    try:
        msgspec.convert(value, learned(kind))
    except (msgspec.ValidationError, WrongType, UsageError) as error:
        raise BadInputError(f"{where}: {error}") from None


def _a_table(where: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise BadInputError(f"{where}: it is no table")
    return cast("dict[str, object]", value)


def _a_list(where: str, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise BadInputError(f"{where}: it is no list of tables, as [[plugins]] begins")
    return cast("list[object]", value)


def _check_table(where: str, value: object, allowed: Sequence[str]) -> None:
    for key in _a_table(where, value):
        if key not in allowed:
            raise BadInputError(f"{where}: there is no key `{key}`; {advice(key, allowed, 'there are')}")

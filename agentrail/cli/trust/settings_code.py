"""Makes what the settings of a folder name: an agent with its plugins and MCP servers. Code of the folder is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

import msgspec

from agentrail.adapters.mcp.oauth import OAuth
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.python_file import NothingUsableError, find_member
from agentrail.app.spec import SessionSpec, check_spec
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.default_agent import confined
from agentrail.cli.settings.named_plugins import USE, built_in, make_plugin
from agentrail.cli.settings.project_settings import FILES, ProjectSettings, table
from agentrail.cli.trust.allowed_code import guarded
from agentrail.cli.trust.allowed_server import AllowedServer
from agentrail.errors import AgentrailError, BadSpec
from agentrail.hooks.plugin import AnyPlugin
from agentrail.values.json import EMPTY, Json
from agentrail.values.value import learned


def with_settings(spec: SessionSpec, settings: ProjectSettings, sandbox: str = "") -> SessionSpec:
    """Return *spec* with *settings*, which the user has allowed; raise `BadInputError` if they cannot be used.

    *sandbox* is engine and image of the container that was chosen, by the settings or before them; empty if none was.

    A plugin takes the place of one of the same class.
    """
    plugins = [_plugin(settings, table) for table in settings.plugins]
    others = [plugin for plugin in spec.plugins if type(plugin) not in {type(named) for named in plugins}]
    servers = [_server(settings, name, table) for name, table in settings.servers.items()]
    spec = spec.but(**settings.spec_fields, plugins=(*others, *plugins), tools=(*spec.tools, *servers))
    spec = confined(spec, settings.network, sandbox)
    try:
        check_spec(spec)
    except BadSpec as error:
        raise BadInputError(f"{settings.path}: its `{error.field}` {error.problem}") from error
    code = [file for surface in settings.surfaces for file in surface.code]
    return guarded(spec, settings.folder, code)


def supervisor_options(settings: ProjectSettings | None) -> SupervisorOptions:
    """Return the options of the supervisor in *settings*, which the user has allowed."""
    values = EMPTY if settings is None else settings.values.get("supervisor", EMPTY)
    return cast("SupervisorOptions", msgspec.convert(values, learned(SupervisorOptions)))


def server_in(settings: ProjectSettings, name: str) -> McpServer:
    """Return the MCP server *name* of *settings*, which the user has allowed."""
    return _server(settings, name, settings.servers[name])


def _server(settings: ProjectSettings, name: str, options: Mapping[str, Json]) -> McpServer:
    if "working_dir" in options:
        options = {**options, "working_dir": str(settings.folder / str(options["working_dir"]))}
    read_program = partial(settings.program_of_server, name)
    fields = cast("dict[str, object]", {key: value for key, value in options.items() if key != FILES})
    try:
        if "auth" in options:
            fields["auth"] = OAuth(**table(options["auth"]))  # type: ignore[arg-type]  # it checks them
        return AllowedServer(name=name, **fields, folder=settings.folder, read_program=read_program)  # type: ignore[arg-type]  # it checks them
    except (AgentrailError, TypeError, ValueError) as error:
        raise BadInputError(f"{settings.path}: `mcp.{name}`: {error}") from error


def _plugin(settings: ProjectSettings, table: Mapping[str, Json]) -> AnyPlugin:
    return make_plugin(settings.path, table, _class_of(settings, str(table[USE])))


def _class_of(settings: ProjectSettings, use: str) -> Callable[..., object]:
    file, colon, name = use.rpartition(":")
    if not colon:
        return built_in(settings.path, use)
    try:
        path = settings.folder / file
        return cast("Callable[..., object]", find_member(path, name, (type,), settings.sources[file]).value)
    except NothingUsableError as error:
        raise BadInputError(f"{settings.path}: the plugin `{use}`: {error}") from error

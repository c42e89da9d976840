"""Imports the modules that a session may need before it starts, so that nothing is imported while it runs.

An import blocks the event loop, and a step of a session must be short. So the call that spawns the first session
imports them, once per process, in a worker thread: the codec, the built-in model, which compiles its phrases, the HTTP
client, the published prices, the sandboxes. With a virtual clock (in tests) no thread is used, because the clock would
advance while the thread works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Final

import trio

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.adapters.published_prices import PACKAGE
from agentrail.app.model_chain import chain_of
from agentrail.app.spec import SessionSpec, agents_of
from agentrail.hooks.actions import SwitchModel
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import MATRIX, Plugin, name_and_options
from agentrail.ports.tool import Tool
from agentrail.runtime.diagnosis.pulse import in_real_time
from agentrail.values.json import EMPTY
from agentrail.values.tools import ToolSpec

ALWAYS: Final = (
    "agentrail.app.session_code",
    "agentrail.codec.plugin_states",
    "agentrail.codec.values",
    "agentrail.codec.json_text",
    "agentrail.core.printed_windows",
    "agentrail.api.command_checks",
    "agentrail.runtime.access.code_changes",
    "agentrail.runtime.access.sending",
    "agentrail.runtime.access.status",
    "agentrail.runtime.inbox.command_results",
    "agentrail.runtime.actor.journal_log",
)
"""Modules that any session may need: for states of plugins, windows of models, command ids, restarts and forks."""

HTTP: Final = (
    *("agentrail.adapters.httpx_alone", "httpcore", "h11", "anyio", "certifi"),
    *("importlib.resources", "encodings.idna"),
)
"""The modules of the HTTP client, and those that the client would import at its first request."""

_FORMATS: Final = dict.fromkeys(
    f"agentrail.adapters.models.{name}"
    for provider in PROVIDERS.values()
    for name in (provider.format, *(other for _, other in provider.formats))
)

REMOTE: Final = (
    *(*HTTP, "agentrail.adapters.models.http", "agentrail.adapters.models.remote_model"),
    *("agentrail.adapters.models.clouds.accounts", *_FORMATS, PACKAGE),
)
"""Modules that a model reached by HTTP needs, and the package of published prices, if it is installed."""

BUILT_IN: Final[Mapping[str, tuple[str, ...]]] = {"demo": ("agentrail.adapters.models.demo",)}
"""Modules of the models that need no provider, by the model's name."""

OURS: Final = "agentrail.plugins."
"""The package of the built-in plugins; they switch only to models that they name (`models_named`)."""

CHOOSING: Final = tuple(name for name, actions in MATRIX.items() if SwitchModel in actions)
"""The hooks whose plugins may return `SwitchModel`."""

SANDBOX: Final = ("agentrail.adapters.sandboxes.local",)

FILES: Final = ("agentrail.app.spec_files", *SANDBOX)
"""Modules for skills and memory files."""

SCHEMAS: Final = ("agentrail.tools.json_schema.metered",)
"""Modules that check arguments: needed for schemas that are not plain, and for arguments that do not fit."""

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "files": SANDBOX,
    "shell": SANDBOX,
    "network": (
        *(*HTTP, "agentrail.adapters.models.http"),
        *("agentrail.adapters.web_access", "agentrail.adapters.html_to_markdown"),
    ),
}
"""The modules for each entry of a tool's `requires`; not imported if the specification has its own sandbox or web."""


_brought: Final[set[str]] = set()
"""The names of the modules that were imported by this module before, or are not installed."""


async def bring_beside(spec: SessionSpec) -> None:
    """Import, in a worker thread, the modules that every session needs and those for *spec*'s models and tools."""
    agents = agents_of(spec).values()
    tools = _of_tools(spec, [_spec_of(tool) for agent in agents for tool in agent.tools])
    schemas = SCHEMAS if any(agent.tools or agent.returns for agent in agents) or spec.agents else ()
    modules = dict.fromkeys((*ALWAYS, *schemas, *_of_files(spec), *_of_models(spec), *tools))
    if not _brought.issuperset(modules):
        missing = [name for name in modules if name not in _brought]
        if in_real_time():
            await trio.to_thread.run_sync(bring_modules, missing)
        else:
            bring_modules(missing)


def _of_files(spec: SessionSpec) -> Iterator[str]:
    """Yield the modules for skills and memory files, if *spec* or a sub-agent of it names some."""
    yield from (*FILES, *SCHEMAS) if spec.skills or spec.memory else ()
    for agent in spec.agents.values():
        yield from _of_files(agent)


def _of_models(spec: SessionSpec) -> Iterator[str]:
    """Yield the modules of the models that *spec*, its sub-agents or their plugins may use."""
    plugins = [unkeyed(attached)[1] for attached in spec.plugins]
    chain = [model for agent in agents_of(spec).values() for model, _ in chain_of(agent.model, EMPTY)]
    named = (name_and_options(model)[0] for plugin in plugins for model in plugin.models_named)
    for model in (*chain, *named):
        if isinstance(model, str):
            provider = model.partition(":")[0]
            yield from REMOTE if provider in PROVIDERS else BUILT_IN.get(provider, ())
    if any(_may_choose(type(plugin)) for plugin in plugins):
        yield from REMOTE
    for agent in spec.agents.values():
        yield from _of_models(agent)


def _may_choose(kind: type) -> bool:
    """Whether plugins of class *kind* have a hook that can switch models; built-in plugins do not count."""
    return not kind.__module__.startswith(OURS) and any(
        getattr(kind, name, None) is not getattr(Plugin, name) for name in CHOOSING
    )


def _spec_of(tool: object) -> ToolSpec | None:
    """Return the `spec` of *tool*, an entry of a specification's tools; `None` if it has none."""
    spec: object = getattr(tool, "spec", None)
    return spec if isinstance(spec, ToolSpec) else None


def _of_tools(spec: SessionSpec, tools: Iterable[ToolSpec | None]) -> Iterator[str]:
    """Yield the modules that *tools* need in a session of *spec*."""
    brought = {"files": spec.sandbox, "shell": spec.sandbox, "network": spec.web}
    for tool in tools:
        for need in () if tool is None else sorted(tool.requires):
            yield from NEEDED.get(need, ()) if brought.get(need) is None else ()


def bring(spec: SessionSpec, tools: Iterable[Tool]) -> None:
    """Import the modules that a session of *spec* with these *tools* may need, except those of its models."""
    specs = [tool.spec for tool in tools]
    bring_modules((*ALWAYS, *(SCHEMAS if specs else ()), *_of_tools(spec, specs)))


def bring_modules(names: Iterable[str]) -> None:
    """Import the modules *names*, each once per process; the package of prices is skipped if it is not installed.

    Imported names are kept in `_brought`, because asking the import system at each spawn would take longer.
    """
    names = tuple(names)
    if _brought.issuperset(names):  # the usual case, for speed
        return
    for name in names:
        if name not in _brought:
            try:
                import_module(name)
            except ModuleNotFoundError:
                if name != PACKAGE:
                    raise
            _brought.add(name)

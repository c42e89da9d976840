"""Adds two session plugins, which call the host plugins during turns, and their services, to a specification."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from agentrail.app.spec import SessionSpec
from agentrail.host.plugins.host_context import (
    CONTEXT_SERVICE,
    ContextService,
    HostContext,
    OwnedProvider,
    host_context,
)
from agentrail.host.plugins.host_tools import TOOL_SERVICE, HostTools, ToolService, host_tools
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.host.plugins.plugin_values import RequestContext
from agentrail.values.messages import Message


def reaching(
    spec: SessionSpec,
    row: HostPluginRow,
    providers: Sequence[OwnedProvider],
    context_of: Callable[[str], RequestContext],
    messages_of: Callable[[str], Sequence[Message]],
    keys: Container[str] = (),
) -> SessionSpec:
    """Return *spec* with `HostContext` as first and `HostTools` as last plugin, each only if it has work to do.

    *context_of* returns the context of the turn, and *messages_of* the conversation, of the root session with this id.
    *keys* are the keys of the plugins that a stored session has: without one of them, it could not come back.
    """
    added = host_context(providers, stays=HostContext.__name__ in keys)
    ruling = host_tools(row, stays=HostTools.__name__ in keys)
    services = dict(spec.services)
    if added is not None:
        services[CONTEXT_SERVICE] = ContextService(row, providers, context_of, messages_of).serve
    if ruling is not None:
        services[TOOL_SERVICE] = ToolService(row, context_of).serve
    return spec.but(plugins=(*filter(None, (added,)), *spec.plugins, *filter(None, (ruling,))), services=services)

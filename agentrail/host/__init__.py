"""The host: sessions served to people and programs over HTTP; each name is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.host.access.api_keys import ApiKeys as ApiKeys
    from agentrail.host.access.identity import Authenticator as Authenticator
    from agentrail.host.access.identity import Identity as Identity
    from agentrail.host.access.identity import bearer as bearer
    from agentrail.host.health.readiness import HostCheck as HostCheck
    from agentrail.host.health.readiness import HostChecks as HostChecks
    from agentrail.host.host_server import Host as Host
    from agentrail.host.host_server import Serving as Serving
    from agentrail.host.plugins.host_plugin import HostPlugin as HostPlugin
    from agentrail.host.plugins.host_plugin import PluginHost as PluginHost
    from agentrail.host.plugins.plugin_values import Addition as Addition
    from agentrail.host.plugins.plugin_values import AfterToolCall as AfterToolCall
    from agentrail.host.plugins.plugin_values import Allow as Allow
    from agentrail.host.plugins.plugin_values import Attachment as Attachment
    from agentrail.host.plugins.plugin_values import BeforeToolCall as BeforeToolCall
    from agentrail.host.plugins.plugin_values import ContextProvider as ContextProvider
    from agentrail.host.plugins.plugin_values import Deny as Deny
    from agentrail.host.plugins.plugin_values import HandledResponse as HandledResponse
    from agentrail.host.plugins.plugin_values import Request as Request
    from agentrail.host.plugins.plugin_values import RequestContext as RequestContext
    from agentrail.host.plugins.plugin_values import RequestEnd as RequestEnd
    from agentrail.host.plugins.plugin_values import RequestKind as RequestKind
    from agentrail.host.plugins.rows import OnPluginError as OnPluginError
    from agentrail.host.profiles import Profile as Profile
    from agentrail.host.profiles import ProfileOf as ProfileOf
    from agentrail.host.profiles import Profiles as Profiles
    from agentrail.host.shipped.attachment_hints import AttachmentHints as AttachmentHints
    from agentrail.host.shipped.command_table import Invocation as Invocation
    from agentrail.host.shipped.command_table import SlashCommand as SlashCommand
    from agentrail.host.shipped.request_log import RequestLog as RequestLog
    from agentrail.host.shipped.slash_commands import SlashCommands as SlashCommands
    from agentrail.host.shipped.user_memory import UserMemory as UserMemory
    from agentrail.wire.limits import HostLimits as HostLimits

_HOMES = {
    "Addition": "agentrail.host.plugins.plugin_values",
    "AfterToolCall": "agentrail.host.plugins.plugin_values",
    "Allow": "agentrail.host.plugins.plugin_values",
    "ApiKeys": "agentrail.host.access.api_keys",
    "Attachment": "agentrail.host.plugins.plugin_values",
    "AttachmentHints": "agentrail.host.shipped.attachment_hints",
    "Authenticator": "agentrail.host.access.identity",
    "BeforeToolCall": "agentrail.host.plugins.plugin_values",
    "ContextProvider": "agentrail.host.plugins.plugin_values",
    "Deny": "agentrail.host.plugins.plugin_values",
    "HandledResponse": "agentrail.host.plugins.plugin_values",
    "Host": "agentrail.host.host_server",
    "HostCheck": "agentrail.host.health.readiness",
    "HostChecks": "agentrail.host.health.readiness",
    "HostLimits": "agentrail.wire.limits",
    "HostPlugin": "agentrail.host.plugins.host_plugin",
    "Identity": "agentrail.host.access.identity",
    "RequestKind": "agentrail.host.plugins.plugin_values",
    "OnPluginError": "agentrail.host.plugins.rows",
    "PluginHost": "agentrail.host.plugins.host_plugin",
    "Profile": "agentrail.host.profiles",
    "Profiles": "agentrail.host.profiles",
    "Request": "agentrail.host.plugins.plugin_values",
    "RequestContext": "agentrail.host.plugins.plugin_values",
    "RequestEnd": "agentrail.host.plugins.plugin_values",
    "ProfileOf": "agentrail.host.profiles",
    "RequestLog": "agentrail.host.shipped.request_log",
    "Serving": "agentrail.host.host_server",
    "SlashCommand": "agentrail.host.shipped.command_table",
    "SlashCommands": "agentrail.host.shipped.slash_commands",
    "Invocation": "agentrail.host.shipped.command_table",
    "bearer": "agentrail.host.access.identity",
    "UserMemory": "agentrail.host.shipped.user_memory",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)

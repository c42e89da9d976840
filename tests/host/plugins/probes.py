"""Host plugins for tests: each notes its calls in a list that is shared, and does what the test says."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from agentrail.host import HostPlugin, Identity, Request, RequestContext
from agentrail.host.plugins.host_plugin import DEADLINE
from agentrail.host.plugins.plugin_runner import HostPluginRow

CONTEXT = RequestContext("chat", "acme", "ann", "s1", "helper", "r1")
REQUEST = Request("hello", (), (("x-a", "1"),), "chat", Identity("acme", "ann"), CONTEXT)

Calls = list[tuple[str, str]]
"""Name of the plugin and hook, of each call in order."""


class Broken(Exception):  # noqa: N818
    """What plugins of these tests raise."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Broken)

    def __hash__(self) -> int:
        return 0


def returns(value: object) -> Callable[..., object]:
    return lambda *_: value


def raises(*_: object) -> object:
    raise Broken


async def hangs(*_: object) -> object:
    return await trio.sleep_forever()


async def later(value: object) -> object:
    await trio.sleep(0.5)
    return value


def probe(
    name: str,
    calls: Calls,
    does: Mapping[str, Callable[..., object]],
    priority: int = 0,
    *,
    critical: bool = False,
    deadline: float = DEADLINE,
    providers: Sequence[Callable[..., object]] = (),
) -> HostPlugin:
    """Return a plugin that notes each call of the hooks in *does*, and answers by the function there."""

    def member(hook: str, act: Callable[..., object]) -> Callable[..., object]:
        def called(_: object, *args: object) -> object:
            calls.append((name, hook))
            return act(*args)

        return called

    members = {hook: member(hook, act) for hook, act in does.items()}
    read = {"name": name, "priority": priority, "critical": critical, "deadline": deadline}
    kind = type("Probe", (HostPlugin,), {**members, **read, "context_providers": tuple(providers)})
    host_plugin: HostPlugin = kind()
    return host_plugin


class Reports:
    """An `on_plugin_error` that keeps what it was told."""

    def __init__(self) -> None:
        self.told = list[tuple[str, str, BaseException]]()

    def __call__(self, plugin: str, hook: str, error: BaseException) -> Awaitable[None] | None:
        self.told.append((plugin, hook, error))
        return None


def row(plugins: Sequence[HostPlugin]) -> tuple[HostPluginRow, Reports]:
    reports = Reports()
    return HostPluginRow(plugins, reports), reports

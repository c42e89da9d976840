"""What a class of host plugins may have, and what is refused when it is defined or given to the host."""

from collections.abc import AsyncIterator

import pytest

from agentrail.errors import BadPlugin
from agentrail.host import HostPlugin
from agentrail.host.plugins.host_plugin import HOOKS
from agentrail.host.plugins.plugin_runner import HostPluginRow
from docs.printing.host_plugins_page import CONTRACT

MEMBERS = [
    "name",
    "version",
    "priority",
    "critical",
    "start",
    "stop",
    "intercept",
    "context_providers",
    "attachment_handler",
    "on_request_start",
    "on_request_end",
    "before_tool_call",
    "after_tool_call",
    "on_turn_persisted",
]


def test_the_contract_has_the_members_of_the_page() -> None:
    assert list(CONTRACT) == MEMBERS
    assert [name for name in MEMBERS if callable(getattr(HostPlugin, name))] == list(HOOKS)


@pytest.mark.parametrize(
    ("misspelt", "advice"),
    [
        ("on_request_begin", f"there is no hook `on_request_begin`; the hooks are {', '.join(HOOKS)}"),
        (
            "onRequestStart",
            f"there is no hook `onRequestStart` (did you mean `on_request_start`?); the hooks are {', '.join(HOOKS)}",
        ),
        ("before_tool", f"there is no hook `before_tool`; the hooks are {', '.join(HOOKS)}"),
        ("interceptt", "it has no `interceptt`; if you mean `intercept`, write that, else begin the name with `_`"),
        (
            "attachmentHandler",
            "it has no `attachmentHandler`; if you mean `attachment_handler`, write that, else begin the name with `_`",
        ),
        ("starts", "it has no `starts`; if you mean `start`, write that, else begin the name with `_`"),
    ],
)
def test_a_misspelt_hook_is_refused_when_the_class_is_defined(misspelt: str, advice: str) -> None:
    with pytest.raises(BadPlugin) as error:
        type("Mine", (HostPlugin,), {misspelt: lambda *_: None})
    assert error.value == BadPlugin("Mine", advice)


@pytest.mark.parametrize("misspelt", ["prioritty", "criticall", "contextProviders", "versions"])
def test_a_misspelt_attribute_is_refused_when_the_class_is_defined(misspelt: str) -> None:
    with pytest.raises(BadPlugin, match=f"it has no `{misspelt}`; if you mean"):
        type("Mine", (HostPlugin,), {misspelt: 1})


def test_other_members_are_the_plugins_own() -> None:
    class Mine(HostPlugin):
        table = "t"

        def reload(self) -> None:
            pass

        def _on_something(self) -> None:
            pass

    assert HostPluginRow([Mine()]).plugins[0].name == ""


def test_a_hook_with_other_arguments_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(BadPlugin) as error:

        class Mine(HostPlugin):
            def on_request_start(self) -> None:  # type: ignore[override]
                pass

    assert error.value.args[1].endswith("write `def on_request_start(self, context)`")


def test_a_context_provider_with_other_arguments_is_refused() -> None:
    def stamp(context: object) -> list[str]:
        return [str(context)]

    text = "a function of its `context_providers` does not take its arguments: .*; write `async def NAME"
    with pytest.raises(BadPlugin, match=text):
        type("Mine", (HostPlugin,), {"context_providers": [stamp]})

    class Later(HostPlugin):
        def __init__(self) -> None:
            self.context_providers = [stamp]  # type: ignore[list-item]

    with pytest.raises(BadPlugin, match=text):
        HostPluginRow([Later()])


def test_a_generator_is_no_hook() -> None:
    with pytest.raises(BadPlugin) as error:

        class Mine(HostPlugin):
            async def stop(self) -> AsyncIterator[None]:  # type: ignore[override]
                yield

    assert error.value == BadPlugin("Mine", "its `stop` is a generator; it must answer by `return`")


def test_an_attribute_is_no_method() -> None:
    with pytest.raises(BadPlugin) as error:

        class Mine(HostPlugin):
            def priority(self) -> int:  # type: ignore[override]
                return 3

    problem = "its `priority` is a method, but is read and never called; write `priority = …` in the class"
    assert error.value == BadPlugin("Mine", problem)


def named(name: str) -> HostPlugin:
    host_plugin: HostPlugin = type("Mine", (HostPlugin,), {"name": name})()
    return host_plugin


def test_two_plugins_of_one_name_are_refused() -> None:
    with pytest.raises(BadPlugin) as error:
        HostPluginRow([named("log"), named("other"), named("log")])
    assert error.value == BadPlugin("Mine", "there are two plugins called `log`; give each a `name` of its own")
    with pytest.raises(BadPlugin, match="two plugins called `Mine`"):
        HostPluginRow([named(""), named("Mine")])


def test_a_hook_on_the_object_is_refused_because_it_would_never_be_called() -> None:
    plugin = named("log")
    plugin.stop = lambda: None  # type: ignore[method-assign]
    with pytest.raises(BadPlugin) as error:
        HostPluginRow([plugin])
    assert error.value == BadPlugin("Mine", "its `stop` is set on the object; define it in the class")


def test_what_is_no_host_plugin_is_refused() -> None:
    with pytest.raises(BadPlugin, match="is no `HostPlugin`; give an object of a subclass"):
        HostPluginRow([HostPlugin])  # type: ignore[list-item]

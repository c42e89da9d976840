"""The plugin contract as documents: hooks, actions, the matrix between them, and plugins with their options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Final, cast

from agentrail.hooks import actions as _asks
from agentrail.hooks.actions import (
    ACTIONS,
    Abort,
    Action,
    AddContext,
    Ask,
    BlockTool,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import HOOKS, Hook
from agentrail.hooks.plugin import MATRIX, AnyPlugin, Priority
from agentrail.hooks.plugin_checks import DECLARATIONS
from agentrail.hooks.ruling import WHEN_CRITICAL_BREAKS, Verdict
from docs.printing.fields_page import field_list, fields, item, summary
from docs.printing.markdown import code, codes, joined, section
from docs.printing.source_text import Source

COMBINING: Final[Mapping[type[Action[object]], str]] = MappingProxyType(
    {
        Continue: "The next plugin is asked.",
        AddContext: "Each text is a message of its own at the end of the request, in the order of the plugins; so "
        "are the messages, at the beginning or the end.",
        Intervene: "The texts of all plugins are joined, in the order of the plugins, and added once.",
        Abort: "It ends the hook; new states and events of the plugins asked so far are kept, all else is dropped.",
        Skip: "What earlier ones decided stays in effect.",
        BlockTool: "Later plugins are not asked about it; other calls go on.",
        ReplaceToolArgs: "The next plugin sees them; critical plugins asked before are asked once more.",
        Emit: "Events of all plugins are published in order, with the step that ends the hook, however it ends.",
        SwitchModel: "The last one counts.",
        ReplacePrompt: "The next plugin sees it; the last one counts.",
        ReplaceResponse: "The next plugin sees it; the last one counts.",
        ReplaceMessages: "The next plugin sees them; the last ones count.",
        ReplaceToolResult: "The next plugin sees it; the last one counts.",
        HoldTool: "The hook pauses at this plugin; after an approval, it continues with the next one.",
        SetSection: "All sections are set; of several texts for one section, the last counts.",
        Ask: "The hook pauses at this plugin, which is then asked again with the answer.",
    }
)
"""How each action combines with those of other plugins at the same hook."""

_BROKEN: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        Verdict.PASS: "; a failure is only reported",
        Verdict.ABORT: "",
        Verdict.BLOCK: "; a failure counts as `BlockTool`",
        Verdict.SKIP: "; a failure counts as `Skip`",
    }
)
"""What happens if a critical plugin fails, where it is not what the page says of all hooks."""


def hooks() -> list[str]:
    """Return the list of hooks: when each fires, and what happens if a critical plugin fails there."""
    return [item(hook.hook_name, f"{hook.about}{_BROKEN[WHEN_CRITICAL_BREAKS[hook.hook_name]]}.") for hook in HOOKS]


def hook_records(source: Source) -> list[str]:
    """Return the fields of each hook; those that all hooks have come first."""
    common = ["All of them:", "", *fields(source, Hook)]
    own = (_record(source, hook) for hook in HOOKS)
    return joined((common, *own))


def _record(source: Source, hook: type[Hook]) -> list[str]:
    found = fields(source, hook, inherited=False)
    return section(f"`{hook.hook_name}`: `{hook.__name__}`", found) if found else []


def matrix() -> list[str]:
    """Return which actions each hook accepts; those that all accept come first."""
    everywhere = [action for action in ACTIONS if all(action in MATRIX[hook.hook_name] for hook in HOOKS)]
    own = [
        f"- {code(name)}: {codes(one.__name__ for one in ACTIONS if one in MATRIX[name] - {*everywhere}) or 'none'}."
        for name in [hook.hook_name for hook in HOOKS]
    ]
    return [f"All hooks accept {codes(action.__name__ for action in everywhere)}. Beside these:", "", *own]


def actions(source: Source) -> list[str]:
    """Return the actions: what each takes beside the state, what it does, and how it combines."""
    return [item(_call(source, action), f"{summary(action.__doc__)} {COMBINING[action]}") for action in ACTIONS]


def _call(source: Source, action: type[Action[object]]) -> str:
    taken = [
        one.name if one.default is None or one.name == "state" else f"{one.name}={one.default}"
        for one in source.fields(action, inherited=False)
        if one.name != "emissions"
    ]
    return f"{action.__name__}({', '.join(taken)})"


def asks(source: Source) -> list[str]:
    """Return what a plugin may ask for, and the answers."""
    files = (_asks.ReadFile, _asks.WriteFile, _asks.FindFiles, _asks.FindGitPrograms)
    requests = (_asks.CallModel, _asks.RunTool, *files, _asks.CallService, _asks.ChangeTools)
    answers = (_asks.Answered, _asks.Failed, _asks.TimedOut)
    return joined((_listed(source, requests), ["The answers:"], _listed(source, answers)))


def declarations(source: Source) -> list[str]:
    """Return what a plugin may declare."""
    return _listed(source, DECLARATIONS)


def _listed(source: Source, classes: Iterable[type]) -> list[str]:
    """Return a list of *classes*, each with what it means, and below it its fields."""
    return [line for cls in classes for line in (item(cls.__name__, _meaning(cls)), *_explained(source, cls))]


def _meaning(cls: type) -> str:
    """Return what *cls* means, without the words that all in its list would begin with."""
    about = summary(cls.__doc__).removeprefix("Request for `Ask`: ")
    return about[:1].upper() + about[1:]


def _explained(source: Source, cls: type) -> list[str]:
    return [f"    {item(field.name, ' '.join(field.about.split()))}" for field in source.fields(cls)]


def context(source: Source) -> list[str]:
    """Return the list of `Context`: what a plugin may know about its session."""
    return field_list(one.but(default=None) for one in source.fields(Context))


def bands() -> list[str]:
    """Return the bands of priorities, in one line."""
    starts = [int(band) for band in Priority]
    ends = [*(f"–{start - 1}" for start in starts[1:]), " and up"]
    listed = zip(Priority, starts, ends, strict=True)
    return [", ".join(f"{code(band.name)} {start}{end}" for band, start, end in listed) + "."]


def offered(package: ModuleType) -> list[type[AnyPlugin]]:
    """Return the plugins among the public names of *package* that are defined in it, in the order of their priority."""
    found = [getattr(package, name) for name in cast("list[str]", package.__all__)]
    ours = [cls for cls in found if isinstance(cls, type) and issubclass(cls, AnyPlugin)]
    below = [cls for cls in ours if cls.__module__.startswith(f"{package.__name__}.")]
    return sorted(below, key=lambda cls: cls.priority)


def built_in(source: Source, plugin: type[AnyPlugin]) -> list[str]:
    """Return the options of *plugin*, and at which place it is asked at which hooks."""
    used = [name for name in (*(hook.hook_name for hook in HOOKS), "on_event") if name in vars(plugin)]
    kind = "critical" if plugin.critical else "not critical"
    place = f"Priority {int(plugin.priority)}, {kind}, at {codes(used) or 'no hook'}."
    options = [
        one for one in source.fields(plugin, inherited=False) if not isinstance(vars(plugin).get(one.name), property)
    ]
    return joined((field_list(options), [place]))

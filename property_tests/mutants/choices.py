"""Mutants of data: changed tables of the pipeline and of the core."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from attrs import frozen

from agentrail.core.machine import due_timers, reconfiguring, responses, step, tool_results, tool_runs
from agentrail.core.machine import flow as agenda
from agentrail.core.vocabulary import tool_calls
from agentrail.hooks import actions, live, pipeline, plugin
from agentrail.hooks.actions import Action
from agentrail.hooks.ruling import Ruling, Verdict
from property_tests.mutants.suite import fails, load
from tests.cells import registry

Break: TypeAlias = Callable[[], None]


@frozen
class Mutant:
    """One change of a table that breaks the machine."""

    group: str
    """Kind of the change, for the report."""
    name: str
    """Which part is changed, and how."""
    apply: Break
    """Makes the change in this process."""
    tests: tuple[str, ...] = ()
    """Test modules that are run first, because they are likeliest to fail."""


K = TypeVar("K")
V = TypeVar("V")


def rebind(old: object, new: object) -> Break:
    """Return a function that replaces *old* by *new* in all modules of `core` and `hooks`."""

    def apply() -> None:
        for name, module in list(sys.modules.items()):
            if name.startswith(("agentrail.core", "agentrail.hooks")):
                for known, found in list(vars(module).items()):
                    if found is old:
                        setattr(module, known, new)

    return apply


def nothing(*_: object, **__: object) -> None:
    """No-op, used in place of a handler."""


def without(mapping: Mapping[K, V], key: K, instead: V) -> dict[K, V]:
    """Return *mapping* with *instead* as the value of *key*."""
    return {**mapping, key: instead}


def _named(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


# How answers combine


def _aborts(run: pipeline.Pipeline, entry: pipeline.PluginEntry, _answer: Action[object]) -> Ruling:
    return run.ruling(Verdict.ABORT, entry, "mutant")


def _blocks(run: pipeline.Pipeline, entry: pipeline.PluginEntry, _answer: Action[object]) -> Ruling:
    return run.ruling(Verdict.BLOCK, entry, "mutant")


def _skips(run: pipeline.Pipeline, entry: pipeline.PluginEntry, _answer: Action[object]) -> Ruling:
    return run.ruling(Verdict.SKIP, entry)


def folding() -> Iterator[Mutant]:
    """Yield mutants of how answers combine: an action does nothing, aborts, blocks or skips instead of its own rule."""
    apply = pipeline._APPLY  # noqa: SLF001 - this is what is broken
    others: dict[str, Callable[..., Ruling | None]] = {
        "nothing": nothing,
        "abort": _aborts,
        "block": _blocks,
        "skip": _skips,
    }
    for kind in actions.ACTIONS:
        for name, other in others.items():
            if name == kind.kind.removesuffix("_tool") or (name == "nothing" and kind.kind in ("continue", "emit")):
                continue
            changed = without(apply, kind, other)
            yield Mutant(
                "folding",
                f"{kind.kind} does {name}",
                rebind(apply, changed),
                ("folding", "matrix", "approvals"),
            )
    count = pipeline._COUNT_AT_LAST  # noqa: SLF001 - this is what is broken
    for one in sorted(count - {actions.Continue}, key=_named):
        yield Mutant("folding", f"{_named(one)} does not count at last", rebind(count, count - {one}), ("guards",))
    yield Mutant("folding", "Skip counts at last", rebind(count, count | {actions.Skip}), ("guards",))


def critical() -> Iterator[Mutant]:
    """Yield mutants in which the failure of a critical plugin at a hook has another consequence."""
    table = pipeline.WHEN_CRITICAL_BREAKS
    for hook, verdict in table.items():
        for other in (Verdict.PASS, Verdict.ABORT, Verdict.SKIP, Verdict.BLOCK):
            same = {verdict, other} == {Verdict.ABORT, Verdict.SKIP} and hook == "before_plugin_opts_update"
            if other is verdict or same:
                continue
            yield Mutant(
                "critical",
                f"{hook}: {verdict.value} → {other.value}",
                rebind(table, without(table, hook, other)),
                ("broken_plugins", "matrix"),
            )


def accepted() -> Iterator[tuple[str, str, str | None]]:
    """Reverse for each cell of the matrix whether the action is accepted; yield group, name, and a test that fails."""
    load("tests/cells")
    for hook, kinds in plugin.MATRIX.items():
        for kind in actions.ACTIONS:
            turned = kinds - {kind} if kind in kinds else kinds | {kind}
            changed = without(plugin.MATRIX, hook, turned)
            whole = plugin.MATRIX
            rebind(whole, changed)()
            noticed = [case.name for case in registry.MATRIX[hook, kind.kind] if fails(case.run)]
            rebind(changed, whole)()
            yield "matrix", f"{hook} × {kind.kind}", noticed[0] if noticed else None


# The flow of the core


def flow() -> Iterator[Mutant]:
    """Yield mutants in which a hook, a stage, a handler or a timer is ignored."""
    for hook, (begin, finish) in agenda.FLOW.items():
        for name, pair in (("never asked", (nothing, finish)), ("asked in vain", (begin, nothing))):
            yield Mutant("flow", f"{hook} is {name}", rebind(agenda.FLOW, without(agenda.FLOW, hook, pair)))
    for stage in agenda.STAGES:
        yield Mutant("flow", f"{stage} is left out", rebind(agenda.STAGES, without(agenda.STAGES, stage, nothing)))
    for kind in step.HANDLERS:
        yield Mutant(
            "flow", f"{kind.__name__} is ignored", rebind(step.HANDLERS, without(step.HANDLERS, kind, nothing))
        )
    for timer in due_timers.TIMERS:
        yield Mutant(
            "flow",
            f"the timer {timer} is ignored",
            rebind(due_timers.TIMERS, without(due_timers.TIMERS, timer, nothing)),
        )


def waiting() -> Iterator[Mutant]:
    """Yield mutants of the sets that say what waits for what: one member removed or added."""
    for name in ("OF_ONE_CALL", "WAIT_FOR_NONE"):
        those: frozenset[str] = getattr(agenda, name)
        for hook in sorted(those):
            yield Mutant("waiting", f"{hook} leaves {name}", rebind(those, those - {hook}), ("asks",))
        added = "after_tool_batch"
        yield Mutant("waiting", f"{added} joins {name}", rebind(those, those | {added}), ("asks",))
    for status in (tool_calls.WAITS_FOR_PERSON, tool_calls.TO_START):
        for one in sorted(status, key=str):
            yield Mutant("waiting", f"{one.value} is not among {len(status)}", rebind(status, status - {one}))
    for effect in sorted(tool_runs.CAN_RUN_AGAIN, key=str):
        left = tool_runs.CAN_RUN_AGAIN - {effect}
        yield Mutant("waiting", f"{effect.value} cannot run again", rebind(tool_runs.CAN_RUN_AGAIN, left))
    for effect in sorted(set(tool_results.DOUBT) - tool_runs.CAN_RUN_AGAIN, key=str):
        more = tool_runs.CAN_RUN_AGAIN | {effect}
        yield Mutant("waiting", f"{effect.value} can run again", rebind(tool_runs.CAN_RUN_AGAIN, more))


def words() -> Iterator[Mutant]:
    """Yield mutants of tables that choose a word: one word replaced by another of the same table."""
    for table in (responses.STOPS, tool_results.DOUBT, agenda.STATUS, reconfiguring.REPORTS):
        keys: list[object] = list(table)
        mapping: Mapping[object, object] = table  # type: ignore[assignment]  # of any kind
        for place, key in enumerate(keys):
            other = next((mapping[o] for o in keys[place + 1 :] + keys[:place] if mapping[o] != mapping[key]), None)
            named = getattr(key, "value", _named(key))
            yield Mutant("words", f"{named} is called otherwise", rebind(table, without(mapping, key, other)))


# Figures


def figures() -> Iterator[Mutant]:
    """Yield mutants of figures that are no options, each changed a little; options are changed in their source."""
    for owner, name in ((pipeline, "MAX_ASKS"), (live, "MAX_FAILURES"), (tool_results, "NOTICE_CHARS")):
        figure: int = getattr(owner, name)
        for other in (figure - 1, figure + 1):
            yield Mutant("figures", f"{name} is {other}", _set(owner, name, other))


def _set(owner: object, name: str, to: object) -> Break:
    return lambda: setattr(owner, name, to)


def all_choices() -> list[Mutant]:
    """Return every mutant of data."""
    return [
        *folding(),
        *critical(),
        *flow(),
        *waiting(),
        *words(),
        *figures(),
    ]

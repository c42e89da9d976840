"""All checks of `agentrail check`: each plugin against the laws, combinations of them on invariants, their orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from itertools import combinations
from pathlib import Path
from types import FunctionType, ModuleType
from typing import cast

from agentrail.adapters.python_file import load
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.hooks.attachments import attached_plugin, unkeyed
from agentrail.hooks.plugin import AnyPlugin, Attachable, Keyed
from agentrail.testing.impure_calls import collecting
from agentrail.testing.laws.checking import check_plugin
from agentrail.testing.laws.laws import LAWS, LawBrokenError
from agentrail.testing.turns.conflicts import Conflict, Invariant, find_conflicts
from agentrail.testing.turns.invariants import INVARIANTS
from agentrail.testing.turns.orders import OrderMatters, OrderSearch, share
from agentrail.values.value import Value


class CheckOptions(Value, gc=True):
    """The arguments of the command line."""

    files: tuple[Path, ...]
    """Python files with the plugins."""
    seed: int
    """Seed of the random search."""
    examples: int
    """Number of combinations that are tried; all invariants are checked on each."""
    seconds: float
    """Seconds after which no more combination or order is tried; the laws are tried in any case."""
    orders_may_differ: bool
    """Whether the check of orders passes even if it finds two plugins whose order matters."""


class NothingToCheckError(Exception):
    """A file cannot be checked."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"cannot check {path}: {problem}")


class CheckResult(Value):
    """The result of one check: a row of the printed table."""

    what: str
    """Name of the check."""
    says: str
    """The result in a few words."""
    good: bool = True
    """Whether the check passed."""
    detail: str = ""
    """The full text about a finding."""


class FileContents(Value, gc=True):
    """The plugins and invariants that were found in files."""

    plugins: tuple[Attachable, ...]
    """The plugins."""
    invariants: tuple[FunctionType, ...]
    """The invariants: functions that take a `Trace`."""
    notes: tuple[str, ...]
    """Notes on plugins that could not be checked, and why."""


def run(options: CheckOptions, progress: ProgressBar) -> int:
    """Check the files of *options*, print the findings, and return the exit code: 0 clean, 1 if something was found."""
    checks = Checks(options, merged([contents_of(loaded(path)) for path in options.files]), progress)
    results = checks.run()
    for result in results:
        if result.detail:
            print(f"{'' if result.good else '✗ '}{result.detail}\n")
    print(table(results))
    print(checks.speed)
    for note in checks.contents.notes:
        print(f"note: {note}")
    return 0 if all(result.good for result in results) else 1


def loaded(path: Path) -> ModuleType:
    """Run the Python file at *path*, and return it as a module; raise `NothingToCheckError` if it cannot be run."""
    try:
        return load(path)
    except ImportError as error:
        raise NothingToCheckError(path, str(error)) from error


def contents_of(module: ModuleType) -> FileContents:
    """Return the plugins that *module* makes, those of its classes that need no options, and its invariants."""
    plugins: dict[str, Attachable] = {}
    notes: list[str] = []
    for member in vars(module).values():
        group = cast("Sequence[object]", member) if isinstance(member, list | tuple) else (cast("object", member),)
        for value in group:
            if isinstance(value, AnyPlugin | Keyed):
                plugins.setdefault(unkeyed(value)[0], value)
    plugin_classes = {type(unkeyed(plugin)[1]) for plugin in plugins.values()}
    for name, cls in vars(module).items():
        is_own_class = isinstance(cls, type) and issubclass(cls, AnyPlugin) and cls.__module__ == module.__name__
        if not is_own_class or cls in plugin_classes or name.startswith("_"):
            continue
        try:
            plugins[name] = cls()
        except TypeError as error:
            notes.append(f"`{name}` was not checked: {error}; make one in the file, with its options")
    if not plugins:
        raise NothingToCheckError(Path(str(module.__file__)), "there is no plugin in it")
    own_functions = (function for function in vars(module).values() if isinstance(function, FunctionType))
    invariants = tuple(
        function for function in own_functions if function.__module__ == module.__name__ and _takes_trace(function)
    )
    return FileContents(tuple(plugins.values()), invariants, tuple(notes))


def merged(parts: Sequence[FileContents]) -> FileContents:
    """Return the contents of several files as one, of plugins with one key the last; `BadPlugin` if one is unfit."""
    plugins = {unkeyed(plugin)[0]: plugin for part in parts for plugin in part.plugins}
    for key, plugin in plugins.items():
        attached_plugin(key, unkeyed(plugin)[1])
    return FileContents(
        tuple(plugins.values()),
        tuple(invariant for part in parts for invariant in part.invariants),
        tuple(note for part in parts for note in part.notes),
    )


def _takes_trace(function: FunctionType) -> bool:
    """Whether *function* takes a trace as its only argument, so that it may be an invariant."""
    parameters = list(signature(function).parameters.values())
    return len(parameters) == 1 and str(parameters[0].annotation).rpartition(".")[2].strip("'>") == "Trace"


class Checks:
    """Runs all checks, one after another, and collects their results."""

    def __init__(self, options: CheckOptions, contents: FileContents, progress: ProgressBar) -> None:
        self.options = options
        self.contents = contents
        self.progress = progress
        self.done = 0
        self.tried = 0
        self.speed = ""
        self.invariants: dict[str, Invariant] = {
            **INVARIANTS,
            **{invariant.__name__: cast("Invariant", invariant) for invariant in contents.invariants},
        }
        self.pairs = list(combinations(contents.plugins, 2))
        self.all = len(contents.plugins) + len(self.invariants) + 1
        self._ends = 0.0

    def run(self) -> list[CheckResult]:
        """Run all checks and return their results."""
        self._ends = self.progress.clock() + self.options.seconds
        self.progress.begin(self._plan())
        results = [self._laws(plugin) for plugin in self.contents.plugins]
        with collecting() as impure_calls:
            results.extend(self._together())
            results.append(self._order())
        results.extend(_impure(call) for call in impure_calls if not any(call in result.detail for result in results))
        self.progress.wipe()
        return results

    def _plan(self) -> str:
        """Return the text that says what is checked, and for how long."""
        several, orders = len(self.contents.plugins), len(self.pairs)
        return (
            f"Checking {several} plugin{'s' * (several != 1)}: the laws of each, {self.options.examples:,} examples of "
            f"them together, {orders} pair{'s' * (orders != 1)} in either order; "
            f"after {self.options.seconds:.0f} seconds (--time) nothing but the laws is tried."
        )

    @property
    def _remaining_seconds(self) -> float:
        """Seconds until the time limit of the checks (`--time`); negative if it has passed."""
        return self._ends - self.progress.clock()

    def _begins(self, what: str, checks: int = 1) -> Callable[[int, int], None]:
        """Show that *checks* checks begin; return a callback that shows progress, given the tried and all examples."""
        done_before, self.done = self.done, self.done + checks
        self.progress.show(done_before / self.all, what)

        def show(tried: int, of: int) -> None:
            share = (done_before + checks * tried / max(1, of)) / self.all
            self.progress.show(share, what, f": {tried:,} of {of:,}")

        return show

    def _laws(self, plugin: Attachable) -> CheckResult:
        name = unkeyed(plugin)[0]
        self._begins(f"laws: {name}")
        try:
            check_plugin(plugin, seed=self.options.seed or None)
        except LawBrokenError as broken:
            return CheckResult(f"laws: {name}", f"broken: {broken.law}", good=False, detail=str(broken))
        return CheckResult(f"laws: {name}", f"all {len(LAWS)} hold")

    def _together(self) -> list[CheckResult]:
        """Search for plugins that break an invariant together; note the number of tried examples, and the speed."""
        show = self._begins("together", len(self.invariants))

        def tell(tried: int, of: int) -> None:
            self.tried = tried + 1
            show(tried, of)

        began = self.progress.clock()
        conflicts = find_conflicts(
            self.contents.plugins,
            self.invariants,
            examples=self.options.examples,
            seconds=self._remaining_seconds,
            seed=self.options.seed,
            progress=tell,
        )
        rate = self.tried / max(self.progress.clock() - began, 0.001)
        self.speed = f"{self.tried:,} examples of plugins together, {rate:,.0f} a second"
        return [self._outcome(name, conflicts.get(name)) for name in self.invariants]

    def _outcome(self, name: str, conflict: Conflict | None) -> CheckResult:
        if conflict is None:
            return CheckResult(name, f"holds in {self.tried:,} examples")
        keys = [unkeyed(plugin)[0] for plugin in conflict.plugins]
        return CheckResult(
            name, f"broken by {' and '.join(keys) or 'a session without plugins'}", good=False, detail=str(conflict)
        )

    def _order(self) -> CheckResult:
        show = self._begins("order")
        report: list[OrderMatters] = []
        tried = 0
        search = OrderSearch(self.contents.plugins, (), self.options.seed)
        for pair in self.pairs:
            if self._remaining_seconds <= 0:
                break
            show(tried, len(self.pairs))
            report.extend(search.report(pair, share(self.options.examples, len(self.pairs))))
            tried += 1
        rest = "" if tried == len(self.pairs) else f", in {tried} of {len(self.pairs)} pairs that were tried"
        pairs = [
            f"{unkeyed(order.first)[0]} and {unkeyed(order.second)[0]} at {order.hook}{' (settled)' * order.settled}"
            for order in report
        ]
        if not pairs:
            return CheckResult("order", f"matters for no two plugins{rest}")
        good = self.options.orders_may_differ or all(order.settled for order in report)
        return CheckResult(
            "order", f"matters for {', '.join(pairs)}{rest}", good=good, detail="\n\n".join(map(str, report))
        )


def _impure(call: str) -> CheckResult:
    """Return the finding of an impure *call* that was refused in a hook of plugins together."""
    law = "a pure hook"
    detail = f"A hook breaks a law beside other plugins: {call}\n\n  The law: {law} ({LAWS[law]})."
    return CheckResult("laws: together", f"broken: {law}", good=False, detail=detail)


def table(results: Sequence[CheckResult]) -> str:
    """Return the results as a table."""
    width = max(len(result.what) for result in results)
    rows = [f"  {'✓' if result.good else '✗'} {result.what:<{width}}  {result.says}" for result in results]
    bad = sum(not result.good for result in results)
    last = "nothing was found" if not bad else f"{bad} of {len(results)} checks found something"
    return "\n".join([*rows, "", last])

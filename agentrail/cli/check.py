"""`agentrail check FILE`: checks each plugin of a file against the laws, and combinations of them on invariants."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final, TextIO, cast

from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import AnyPlugin, Attachable, Keyed
from agentrail.testing.laws.checking import check_plugin
from agentrail.testing.laws.laws import LAWS, LawBrokenError
from agentrail.testing.turns.conflicts import EXAMPLES, Conflict, Invariant, find_conflicts
from agentrail.testing.turns.invariants import INVARIANTS
from agentrail.testing.turns.orders import order_report
from agentrail.values.value import Value, value

CLEAN: Final = 0
BROKEN: Final = 1
WRONG_USAGE: Final = 2

BAR: Final = 30
"""Columns of the progress bar."""


class NothingToCheckError(Exception):
    """A file cannot be checked."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"cannot check {path}: {problem}")


@value
class CheckOptions(Value):
    """The parsed arguments of the command line."""

    files: tuple[Path, ...]
    """Python files with the plugins."""
    seed: int = 0
    """Seed of the random search."""
    examples: int = EXAMPLES
    """Number of combinations that are tried; all invariants are checked on each."""
    seconds: float | None = None
    """Seconds that the search for conflicts may take; `None` if there is no limit."""
    orders_may_differ: bool = False
    """Whether to accept that the order of two plugins matters, instead of reporting it."""


@value
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


@value
class Found(Value):
    """The plugins and invariants that were found in files."""

    plugins: tuple[Attachable, ...]
    """The plugins."""
    invariants: tuple[FunctionType, ...]
    """The invariants: functions that take a `Trace`."""
    notes: tuple[str, ...]
    """Notes on plugins that could not be checked, and why."""


def main(argv: Sequence[str]) -> int:
    """Check the files that *argv* names, and return the exit code: 0 clean, 1 something was found, 2 wrong usage."""
    options = parsed(argv)
    try:
        found = merged([contents(load(path)) for path in options.files])
    except NothingToCheckError as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    checks = Checks(options, found, Bar(sys.stderr))
    results = checks.run()
    for result in results:
        if result.detail:
            print(f"{'' if result.good else '✗ '}{result.detail}\n")
    print(table(results))
    print(checks.speed)
    for note in found.notes:
        print(f"note: {note}")
    return CLEAN if all(result.good for result in results) else BROKEN


def parsed(argv: Sequence[str]) -> CheckOptions:
    """Parse *argv*; invalid arguments end the program with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="agentrail check",
        description="Check the plugins of a file: each against the laws, all together against the invariants of "
        "sessions and against the functions in the file whose one parameter is a `Trace`.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a Python file that defines or makes plugins")
    parser.add_argument("--seed", type=int, default=0, help="another one is another search (default: %(default)s)")
    parser.add_argument(
        "--examples",
        type=_count,
        default=EXAMPLES,
        help="combinations of plugins that are tried, each against all invariants (default: %(default)s)",
    )
    parser.add_argument("--time", type=float, metavar="SECONDS", help="how long to search for conflicts, in all")
    parser.add_argument(
        "--orders-may-differ",
        action="store_true",
        help="only report for which two plugins the order matters, instead of counting it as a finding",
    )
    given = parser.parse_args(argv)
    files = tuple(Path(name) for name in given.files)
    for path in files:
        if not path.is_file():
            parser.error(f"there is no file {str(path)!r}")
    return CheckOptions(files, given.seed, given.examples, given.time, given.orders_may_differ)


def _count(written: str) -> int:
    number = int(written)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{written} is not at least 1")  # noqa: EM102, TRY003 - argparse prints it
    return number


def load(path: Path) -> ModuleType:
    """Run the file at *path* as a module of its own name."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NothingToCheckError(path, "it is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise NothingToCheckError(path, f"it raised {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def contents(module: ModuleType) -> Found:
    """Return the plugins that *module* makes, those of its classes that need no options, and its invariants."""
    plugins: dict[str, Attachable] = {}
    notes: list[str] = []
    for found in vars(module).values():
        group = cast("Sequence[object]", found) if isinstance(found, list | tuple) else (cast("object", found),)
        for one in group:
            if isinstance(one, AnyPlugin | Keyed):
                plugins.setdefault(unkeyed(one)[0], one)
    made = {type(unkeyed(plugin)[1]) for plugin in plugins.values()}
    for name, cls in vars(module).items():
        own = isinstance(cls, type) and issubclass(cls, AnyPlugin) and cls.__module__ == module.__name__
        if not own or cls in made or name.startswith("_"):
            continue
        try:
            plugins[name] = cls()
        except TypeError as error:
            notes.append(f"`{name}` was not checked: {error}; make one in the file, with its options")
    if not plugins:
        raise NothingToCheckError(Path(str(module.__file__)), "there is no plugin in it")
    own_functions = (found for found in vars(module).values() if isinstance(found, FunctionType))
    invariants = tuple(found for found in own_functions if found.__module__ == module.__name__ and _takes_trace(found))
    return Found(tuple(plugins.values()), invariants, tuple(notes))


def merged(parts: Sequence[Found]) -> Found:
    """Return the contents of several files as one."""
    return Found(
        tuple({unkeyed(plugin)[0]: plugin for part in parts for plugin in part.plugins}.values()),
        tuple(invariant for part in parts for invariant in part.invariants),
        tuple(note for part in parts for note in part.notes),
    )


def _takes_trace(function: FunctionType) -> bool:
    parameters = list(signature(function).parameters.values())
    return len(parameters) == 1 and str(parameters[0].annotation).rpartition(".")[2].strip("'>") == "Trace"


class Bar:
    """A progress bar; no-op unless the output is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shows = out.isatty()

    def show(self, share: float, what: str) -> None:
        """Show the done *share* of all work, from 0 to 1, and what is being done."""
        if self._shows:
            full = round(BAR * min(1.0, share))
            self._out.write(f"\r\x1b[K[{'#' * full}{' ' * (BAR - full)}] {share:4.0%}  {what:.40}")
            self._out.flush()

    def wipe(self) -> None:
        """Erase the bar."""
        if self._shows:
            self._out.write("\r\x1b[K")
            self._out.flush()


class Checks:
    """Runs all checks, one after the other, and collects the results."""

    def __init__(self, options: CheckOptions, found: Found, bar: Bar) -> None:
        self.options = options
        self.found = found
        self.bar = bar
        self.done = 0
        self.tried = 0
        self.speed = ""
        self.invariants: dict[str, Invariant] = {
            **INVARIANTS,
            **{invariant.__name__: cast("Invariant", invariant) for invariant in found.invariants},
        }
        self.all = len(found.plugins) + len(self.invariants) + 1

    def run(self) -> list[CheckResult]:
        """Run all checks and return their results."""
        results = [self._laws(plugin) for plugin in self.found.plugins]
        results.extend(self._together())
        results.append(self._order())
        self.bar.wipe()
        return results

    def _begins(self, what: str, checks: int = 1) -> Callable[[int, int], None]:
        """Show that *checks* checks begin; return a callback that shows their progress (tried, of)."""
        before, self.done = self.done, self.done + checks
        self.bar.show(before / self.all, what)
        return lambda tried, of: self.bar.show((before + checks * tried / max(1, of)) / self.all, what)

    def _laws(self, plugin: Attachable) -> CheckResult:
        name = unkeyed(plugin)[0]
        self._begins(f"laws: {name}")
        try:
            check_plugin(plugin, seed=self.options.seed or None)
        except LawBrokenError as broken:
            return CheckResult(f"laws: {name}", f"broken: {broken.law}", good=False, detail=str(broken))
        return CheckResult(f"laws: {name}", f"all {len(LAWS)} hold")

    def _together(self) -> list[CheckResult]:
        """Search for conflicts, and note how many examples were tried, and how fast."""
        bar = self._begins("together", len(self.invariants))

        def tell(tried: int, of: int) -> None:
            self.tried = tried + 1
            bar(tried, of)

        began = time.monotonic()
        conflicts = find_conflicts(
            self.found.plugins,
            self.invariants,
            examples=self.options.examples,
            seconds=self.options.seconds,
            seed=self.options.seed,
            progress=tell,
        )
        rate = self.tried / max(time.monotonic() - began, 0.001)
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
        tell = self._begins("order")
        report = order_report(self.found.plugins, seed=self.options.seed, progress=tell)
        pairs = [f"{unkeyed(one.first)[0]} and {unkeyed(one.second)[0]} at {one.hook}" for one in report]
        if not pairs:
            return CheckResult("order", "matters for no two plugins")
        good = self.options.orders_may_differ
        return CheckResult("order", f"matters for {', '.join(pairs)}", good=good, detail="\n\n".join(map(str, report)))


def table(results: Sequence[CheckResult]) -> str:
    """Return the results as a table."""
    width = max(len(result.what) for result in results)
    rows = [f"  {'✓' if result.good else '✗'} {result.what:<{width}}  {result.says}" for result in results]
    bad = sum(not result.good for result in results)
    last = "nothing was found" if not bad else f"{bad} of {len(results)} checks found something"
    return "\n".join([*rows, "", last])

"""`python -m tests.runner.quick`: run the tests that have changed or reach what has, or those of nearly every line.

`make reach` records which tests reach which function, in `build/reach.json`. Without it, the files of tests are run
that import what has changed, the nearest first. Without a change that a test reaches, the tests in `quick.txt` beside
this file are run.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.runner.known_seconds import load_seconds
from tests.runner.long_files import is_wholly_long

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("quick.txt")
REACH: Final = ROOT / "build" / "reach.json"
CHOSEN: Final = ROOT / "build" / "quick.txt"

SECONDS: Final = 20.0
"""CPU seconds of the tests that are chosen, as recorded, at most: the quick ones come first."""

IMPORT_SECONDS: Final = 0.2
"""What it takes to import a file of tests and run those tests of it that are too quick to be recorded."""

IMPORT: Final = re.compile(r"^\s*(?:from|import) ([\w.]+)(?: import (\([^)]*\)|.*))?$", re.MULTILINE)
"""A line that imports."""

HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
"""Where lines were changed: the first line of the new text, and how many; one if it is not said."""


@frozen
class FunctionReach:
    """Which test functions reach which functions of the package."""

    seconds: Mapping[str, float]
    """CPU time of each test function, with all its parameters."""
    tests: Mapping[str, Sequence[str]]
    """The test functions, by the path of a module and the qualified name of a function in it."""


def main(words: Sequence[str]) -> int:
    """Choose the tests for what differs from the commit that is given, else from the last one, and run them."""
    commit = words[0] if words else "HEAD"
    changed, files = changed_functions(commit), changed_tests(commit)
    reaching = choose(changed, load_reach(REACH)) if REACH.exists() else importing_tests(changed_modules(commit))
    chosen = [*files, *(test for test in reaching if test.partition("::")[0] not in files)]
    if chosen:
        CHOSEN.parent.mkdir(exist_ok=True)
        CHOSEN.write_text("".join(f"{test}\n" for test in chosen), "utf-8")
    file = CHOSEN if chosen else LIST
    how = "reach" if REACH.exists() else "import modules (`make reach` would record which ones reach it) with"
    reached = f"{len(files)} files of tests have changed, and others {how} what has changed in {len(changed)} functions"
    why = reached if chosen else "no test has changed, and none that is known reaches a change"
    sys.stdout.write(f"{file.relative_to(ROOT)}: {why}\n")
    sys.stdout.flush()
    listed = dict.fromkeys(test.partition("::")[0] for test in file.read_text("utf-8").splitlines())
    paths = [path for path in listed if (ROOT / path).exists()]
    options = ("-m", "not long", "-p", "tests.runner.plugin", f"--only={file}", "--workers", "4", "-q")
    os.execv(sys.executable, (sys.executable, "-m", "pytest", *paths, *options))  # noqa: S606 - pytest


def load_reach(file: Path) -> FunctionReach:
    """Read what `make reach` has written."""
    stored = json.loads(file.read_text("utf-8"))
    names: list[str] = stored["names"]
    tests = {function: [names[at] for at in places] for function, places in stored["tests"].items()}
    return FunctionReach(dict(zip(names, stored["seconds"], strict=True)), tests)


def store_reach(reach: FunctionReach, file: Path) -> None:
    """Write *reach*: each name of a test once, and its place in the list for each function."""
    places = {name: at for at, name in enumerate(reach.seconds)}
    tests = {function: [places[test] for test in tests] for function, tests in reach.tests.items()}
    stored = {"names": list(places), "seconds": list(reach.seconds.values()), "tests": tests}
    file.write_text(json.dumps(stored), "utf-8")


def choose(changed: Collection[str], reach: FunctionReach) -> list[str]:
    """Return the tests that reach a function in *changed*, the quick ones first, as many as take `SECONDS`."""
    reaching = {test for function in changed for test in reach.tests.get(function, ())}
    chosen: list[str] = []
    left = SECONDS
    for test in sorted(reaching, key=lambda test: (reach.seconds[test], test)):
        left -= reach.seconds[test]
        if left < 0:
            break
        chosen.append(test)
    return sorted(chosen)


def importing_tests(modules: Collection[str]) -> list[str]:
    """Return the files of quick tests that import one of *modules*, the nearest first, as many as take `SECONDS`."""
    seconds: dict[str, float] = {}
    for name, taken in load_seconds().items():
        path = name.partition("::")[0]
        seconds[path] = seconds.get(path, 0.0) + taken
    importers = importers_of(ROOT)
    chosen: list[str] = []
    left = SECONDS
    for path in nearest_first(modules, importers):
        if not Path(path).match("tests/**/test_*.py") or is_wholly_long((ROOT / path).read_text("utf-8")):
            continue
        left -= IMPORT_SECONDS + seconds.get(path, 0.0)
        if left < 0:
            break
        chosen.append(path)
    return chosen


def nearest_first(paths: Collection[str], importers: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield what imports one of *paths*, then what imports that, and so on, each once."""
    seen, nearest = set(paths), sorted(paths)
    while nearest:
        nearest = sorted({importer for path in nearest for importer in importers.get(path, ())} - seen)
        seen.update(nearest)
        yield from nearest


def importers_of(root: Path) -> dict[str, set[str]]:
    """Return the files of the package and of the tests that import each of them, wherever in their text."""
    importers: dict[str, set[str]] = {}
    files = {
        file.relative_to(root).as_posix(): file for top in ("agentrail", "tests") for file in (root / top).rglob("*.py")
    }
    for path, file in files.items():
        for module in imported_modules(file.read_text("utf-8")):
            stem = module.replace(".", "/")
            for imported in (f"{stem}.py", f"{stem}/__init__.py"):
                if imported in files:
                    importers.setdefault(imported, set()).add(path)
    return importers


def imported_modules(text: str) -> Iterator[str]:
    """Yield the name of each module that *text* may import; of `from a import b`, `a` and `a.b`."""
    for found in IMPORT.finditer(text):
        module, names = found[1], found[2]
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names or ""))


def changed_modules(commit: str) -> list[str]:
    """Return the modules of the package that differ from *commit*, and those that git does not know yet."""
    named = _git("diff", "--name-only", "--relative", commit, "--", "agentrail").splitlines()
    named += _git("ls-files", "--others", "--exclude-standard", "--", "agentrail").splitlines()
    return sorted(path for path in named if path.endswith(".py"))


def changed_functions(commit: str) -> set[str]:
    """Return the functions of the package with lines that differ from *commit*, as `functions_of` names them."""
    changed: set[str] = set()
    differing = _git("diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", "agentrail")
    for path, lines in changed_lines(differing).items():
        if path.endswith(".py") and (ROOT / path).exists():
            functions = functions_of((ROOT / path).read_text("utf-8"))
            changed |= {f"{path} {functions[line]}" for line in lines if line in functions}
    return changed


def changed_tests(commit: str) -> list[str]:
    """Return the files of tests that differ from *commit*, and those that git does not know yet, but for long ones."""
    named = _git("diff", "--name-only", "--relative", commit, "--", "tests").splitlines()
    named += _git("ls-files", "--others", "--exclude-standard", "--", "tests").splitlines()
    files = sorted(path for path in named if Path(path).match("test_*.py") and (ROOT / path).exists())
    return [path for path in files if not is_wholly_long((ROOT / path).read_text("utf-8"))]


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603, S607 - git


def changed_lines(differing: str) -> dict[str, set[int]]:
    """Return the lines of each path that *differing*, the output of `git diff --unified=0`, says are new or changed.

    Where lines were only taken away, these are the two around the place.
    """
    files = (part.partition("\n") for part in re.split(r"^\+\+\+ b/", differing, flags=re.MULTILINE)[1:])
    return {path: set(_lines(text)) for path, _, text in files}


def _lines(text: str) -> Iterator[int]:
    for hunk in HUNK.finditer(text):
        first, count = int(hunk[1]), int(hunk[2] or 1)
        yield from range(first, first + count) if count else (first, first + 1)


def functions_of(text: str) -> dict[int, str]:
    """Return the qualified name of the innermost function around each line of *text* that is in one."""
    functions: dict[int, str] = {}

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name else child.name
                if not isinstance(child, ast.ClassDef):
                    functions.update(dict.fromkeys(range(child.lineno, (child.end_lineno or 0) + 1), inner))
            walk(child, inner)

    walk(ast.parse(text), "")
    return functions


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

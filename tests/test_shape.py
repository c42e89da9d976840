import ast
from pathlib import Path

import pytest

import agentrail

PACKAGE = Path(agentrail.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
VAGUE = {"base", "common", "helpers", "manager", "misc", "utils"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def statement_lines(function: Function, lines: list[str]) -> int:
    """Count the lines of the body that hold code: no docstring, no comments, no blank lines."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    code = lines[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in code if line.strip() and not line.strip().startswith("#"))


def read(module: Path) -> str:
    return (PACKAGE / module).read_text(encoding="utf-8")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_is_short_enough_to_read_at_a_sitting(module: Path) -> None:
    assert read(module).count("\n") <= 400, "split this module along a noun"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_says_what_it_is_for(module: Path) -> None:
    tree = ast.parse(read(module))
    assert ast.get_docstring(tree) or (module.name == "__init__.py" and not tree.body)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_function_fits_one_screen(module: Path) -> None:
    source = read(module)
    lines = source.splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    too_long = {f.name: n for f in functions if (n := statement_lines(f, lines)) > 40}
    assert too_long == {}, "split these functions"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_is_named_after_what_it_holds(module: Path) -> None:
    assert VAGUE.isdisjoint(module.with_suffix("").parts), "find the noun"

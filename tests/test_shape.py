import ast
import re

import pytest

from tests.parsed import PACKAGE, ROOT, functions_in, functions_of, module_of, package_nodes, package_trees, texts_below

VAGUE = {"base", "common", "helpers", "manager", "misc", "utils"}

NAMED_TEST = re.compile(r"((?:property_)?tests/[\w/]+\.py)::(\w+)")
SHIELDS = re.compile(r"shield=True|except trio\.Cancelled\b")
SAYS_WHY = re.compile(r"# .*\S")


def statement_lines(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> int:
    """Count the lines of the body that hold code: no docstring, no comments, no blank lines."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    code = lines[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in code if line.strip() and not line.strip().startswith("#"))


@pytest.mark.long
def test_each_module_says_what_it_is_for_and_each_function_fits_one_screen() -> None:
    silent, too_long = list[str](), dict[str, int]()
    for path, text in texts_below("agentrail").items():
        lines, module = text.splitlines(), module_of(ROOT / path)
        tree = package_trees()[module]
        if not ast.get_docstring(tree) and (path.name != "__init__.py" or tree.body):
            silent.append(module)
        functions = functions_in(package_nodes()[module])
        too_long |= {f"{module}: {f.name}": n for f in functions if (n := statement_lines(f, lines)) > 40}
    assert silent == [], "say what these modules are for"
    assert too_long == {}, "split these functions"


def test_each_module_is_named_after_what_it_holds() -> None:
    vague = [path for path in PACKAGE.rglob("*.py") if not VAGUE.isdisjoint(path.with_suffix("").parts)]
    assert vague == [], "find the noun"


@pytest.mark.long
def test_each_test_that_the_code_names_exists() -> None:
    missing = list[str]()
    for module, text in texts_below("agentrail").items():
        for path, name in NAMED_TEST.findall(text):
            if name not in functions_of(ROOT / path):
                missing.append(f"{module}: {path}::{name}")
    assert missing == [], "name the test that shows it as it is called now"


@pytest.mark.long
def test_each_shield_says_in_a_comment_why_it_is_there() -> None:
    silent = list[str]()
    for module, text in texts_below("agentrail").items():
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if SHIELDS.search(line.partition("#")[0]):
                near = lines[max(number - 4, 0) : number + 4]
                if not any(SAYS_WHY.search(other) for other in near):
                    silent.append(f"{module}:{number + 1}")
    assert silent == [], "say what would go wrong without it, and which test shows it"

"""The catalogue leaves nothing out, and has something to say about each thing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import pytest

import agentrail.errors
import agentrail.hooks
import agentrail.models
import agentrail.plugins
from agentrail import Context, Plugin, SessionHandle, SessionSpec
from agentrail.core.machine.table import TABLE
from agentrail.core.vocabulary.effects import EFFECTS
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.errors import AgentrailError, UsageError
from agentrail.errors.agentrail_error import BRANCHES
from agentrail.events import EVENTS
from agentrail.hooks.actions import ACTIONS
from agentrail.hooks.hook_types import HOOKS
from agentrail.journals import Journal
from agentrail.models import Model
from agentrail.plugins import MATRIX, AnyPlugin
from agentrail.sandboxes import Process, Sandbox, Web
from agentrail.tools import Tool, ToolSpec
from docs.printing import calls_page, errors_page, events_page, exports_page, machine_page, plugins_page
from docs.printing.source_text import Described, Source
from tests.docs.sources import ROOT, SOURCE
from tests.each_case import each_case
from tests.kit import Phase
from tests.parsed import PACKAGE

PACKAGES = (
    *(
        "agentrail",
        "agentrail.aio",
        "agentrail.evals",
        "agentrail.host",
        "agentrail.journals",
        "agentrail.mcp",
        "agentrail.models",
    ),
    *("agentrail.plugins", "agentrail.sandboxes", "agentrail.sync", "agentrail.testing", "agentrail.tools"),
)

DOCUMENTED = (*EVENTS, *HOOKS, *ACTIONS, *INPUTS, *EFFECTS, Context, SessionSpec, ToolSpec)


@each_case(DOCUMENTED)
def test_every_field_says_what_it_is(cls: type) -> None:
    assert cls.__doc__
    assert [one.name for one in SOURCE.fields(cls) if not one.about] == []


@each_case(plugins_page.offered(agentrail.plugins))
def test_every_option_of_a_built_in_plugin_says_what_it_is(plugin: type) -> None:
    assert [one.name for one in SOURCE.fields(plugin, inherited=False) if not one.about] == []


def test_every_plugin_that_ships_is_public() -> None:
    defined: set[type] = set()
    for path in (PACKAGE / "plugins").rglob("[a-z]*.py"):
        module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        classes = [cls for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, AnyPlugin)]
        defined |= {cls for cls in classes if cls.__module__ == module.__name__}
    assert set(plugins_page.offered(agentrail.plugins)) == defined


@pytest.mark.long
def test_every_event_is_printed_once() -> None:
    headings = [line for line in events_page.catalogue(SOURCE) if line.startswith("#### ")]
    assert sorted(headings) == sorted(f"#### `{kind.__name__}`" for kind in EVENTS)


def test_every_pair_of_phase_and_input_is_printed() -> None:
    text = "\n".join(machine_page.transitions())
    for phase, section in zip(Phase, text.split("### ")[1:], strict=True):
        assert section.startswith(f"`{phase.value}`")
        for kind in TABLE[phase]:
            assert f"`{kind.__name__}`" in section


def test_every_action_says_how_it_combines() -> None:
    assert set(plugins_page.COMBINING) == set(ACTIONS)
    assert len(plugins_page.actions(SOURCE)) == len(ACTIONS)


def test_the_matrix_that_is_printed_is_the_matrix() -> None:
    first, _, *lines = plugins_page.matrix()
    everywhere = set(re.findall(r"`(\w+)`", first))
    for hook, line in zip(HOOKS, lines, strict=True):
        name, *own = re.findall(r"`(\w+)`", line)
        assert name == hook.hook_name
        assert {*own} | everywhere == {action.__name__ for action in MATRIX[hook.hook_name]}


def test_every_error_is_printed() -> None:
    text = "\n".join(errors_page.by_branch())
    public = [getattr(agentrail.errors, name) for name in import_module("agentrail.errors").__all__]
    for error in public:
        assert issubclass(error, AgentrailError)
        assert error is AgentrailError or f"`{error.__name__}`" in text


def test_every_code_of_an_error_is_printed() -> None:
    text = "\n".join(errors_page.by_branch())
    told_by_their_text = {code for code, branch in BRANCHES.items() if branch is UsageError}
    assert [code for code in told_by_their_text if f"`{code}`" not in text] == []
    assert [code for code in BRANCHES.keys() - told_by_their_text if f"- `{code}`: " not in text] == []


def test_every_call_of_the_handle_is_printed_and_says_what_it_does() -> None:
    found = SOURCE.methods(SessionHandle)
    assert {one.name for one in found} == {name for name in dir(SessionHandle) if not name.startswith("_")}
    assert [one.name for one in found if not one.about] == []
    lines = calls_page.methods(SOURCE, SessionHandle, "session")
    assert [line for line in lines if line.startswith("#")] == [f"### `{one.name}`" for one in found]
    sentences = {word for line in lines for word in line.split()}
    assert [one.name for one in found if not sentences.issuperset(one.about.split())] == []


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_says_what_it_is(package: str) -> None:
    rows = exports_page.names(SOURCE, import_module(package))
    assert [row for row in rows if row.endswith(": ")] == []
    assert [row for row in rows if row.endswith("`.") and "`: A `" in row] == [], "the type of a value"


def test_the_arguments_of_a_function_are_no_alternatives() -> None:
    package = ModuleType("package")
    vars(package).update(__all__=["Either", "Make"], Either=int | str, Make=Callable[[str], int])
    source = Source({"m": 'Make = Callable[[str], int]\n"""Makes a number."""\n'})
    assert exports_page.names(source, package) == ["- `Either`: Any of `int`, `str`.", "- `Make`: Makes a number."]


def test_what_another_package_has_too_stands_in_one_line() -> None:
    first, second = ModuleType("first"), ModuleType("second")
    vars(first).update(__all__=["len", "max"], len=len, max=max)
    vars(second).update(__all__=["len", "max"], len=len, max=min)
    lines = exports_page.names(Source({}), second, first)
    assert lines[:2] == ["- As in `first`: `len`.", ""]
    assert [line.split("`")[1] for line in lines[2:]] == ["max"]


@pytest.mark.parametrize("contract", [Journal, Model, Tool, Sandbox, Process, Web], ids=lambda cls: cls.__name__)
def test_the_contracts_for_parts_of_ones_own_are_printed_with_all_promises(contract: type) -> None:
    page = (ROOT / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    found = SOURCE.methods(contract)
    assert {one.name for one in found} == {name for name in vars(contract) if not name.startswith("_")}
    assert [one.name for one in found if not one.about] == []
    assert "\n".join(calls_page.contract(SOURCE, contract, contract.__name__.lower())) in page


def test_a_text_under_a_name_for_type_checkers_is_found() -> None:
    assert Source({"m": 'if TYPE_CHECKING:\n    A: TypeAlias = "int"\n    """An A."""\n'}).constant("A") == "An A."


def test_of_constants_with_one_name_each_package_tells_its_own() -> None:
    (line,) = (line for line in exports_page.names(SOURCE, agentrail.models) if line.startswith("- `Message`: "))
    assert "ASGI" not in line


def test_texts_come_from_the_source_that_is_passed_in() -> None:
    text = '''
class Example:
    """An example."""

    given: int
    """What must be given."""
    bare: str = "x"
'''
    example = type("Example", (), {"__module__": "example"})
    found = Source({"example": text}).fields(example)
    assert found == (Described("given", "int", None, "What must be given."), Described("bare", "str", "'x'", ""))
    assert Source({}).fields(example) == ()


def test_the_contract_can_be_reached_as_one_package() -> None:
    offered = [getattr(agentrail.plugins, name) for name in import_module("agentrail.plugins").__all__]
    assert [cls for cls in (*ACTIONS, *HOOKS, Plugin) if cls not in offered] == []
    assert agentrail.hooks.MATRIX is MATRIX


@pytest.mark.long
def test_one_plugin_is_imported_without_the_others() -> None:
    code = "import sys, agentrail.plugins as p; p.BudgetGuard; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", code]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603 - our own code
    found = {name for name in loaded if name.startswith("agentrail.plugins.")}
    assert found == {"agentrail.plugins.budget", "agentrail.plugins.options"}

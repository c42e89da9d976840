"""Importing agentrail brings what its first page needs and no more."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distribution

import pytest

FIRST_PAGE = ("open_supervisor", "SessionSpec", "SessionHandle", "Plugin", "tool", "Continue")
NOT_YET = ("httpx", "jsonschema", "cattrs", "sqlite3", "h11", "yaml", "agentrail.adapters")


def _in_a_fresh_interpreter(code: str) -> str:
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own code


@pytest.mark.long
def test_touching_the_first_page_imports_none_of_the_heavy_modules() -> None:
    touch = "".join(f"agentrail.{name}; " for name in FIRST_PAGE)
    loaded = _in_a_fresh_interpreter(f"import sys, agentrail; {touch} print(*sys.modules)").split()
    found = [module for module in loaded if module.startswith(NOT_YET)]
    assert found == []


@pytest.mark.long
def test_touching_the_first_page_makes_fewer_classes_than_the_whole_catalogue_has_events() -> None:
    touch = "".join(f"agentrail.{name}; " for name in FIRST_PAGE)
    loaded = _in_a_fresh_interpreter(f"import sys, agentrail; {touch} print(*sys.modules)").split()
    assert "agentrail.values.events.catalogue" not in loaded
    assert "agentrail.core.machine.step" not in loaded


@pytest.mark.long
def test_a_session_with_the_demo_needs_no_client_for_http() -> None:
    code = """
import sys, trio
from agentrail import SessionSpec, open_supervisor

async def main():
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo"))
        await session.ask("hello")

trio.run(main)
print(*sys.modules)
"""
    loaded = _in_a_fresh_interpreter(code).split()
    assert [module for module in loaded if module in {"httpx", "agentrail.adapters.models.http"}] == []


@pytest.mark.long
@pytest.mark.parametrize("modules", ["REMOTE", "NEEDED['network']"])
def test_the_client_for_http_comes_without_its_command(modules: str) -> None:
    code = f"""
import sys
from agentrail.app.preimport import NEEDED, REMOTE, bring_modules

bring_modules({modules})
print(*sys.modules)
import httpx
httpx.Client().close()
"""
    loaded = _in_a_fresh_interpreter(code).split()
    assert "httpx" in loaded
    assert [module for module in loaded if module.startswith(("rich", "pygments", "click", "httpx._main"))] == []


def test_the_core_needs_at_most_twenty_four_distributions() -> None:
    wanted = {"agentrail-otp"}
    waiting = ["agentrail-otp"]
    while waiting:
        for requirement in distribution(waiting.pop()).requires or ():
            bare, _, marker = requirement.partition(";")
            if "extra ==" in marker or "python_version" in marker or "platform" in marker or "os_name" in marker:
                continue
            name = bare.split("[")[0].split("<")[0].split(">")[0].split("=")[0].split("!")[0].split("~")[0].strip()
            if name.lower() not in wanted:
                wanted.add(name.lower())
                waiting.append(name)
    assert len(wanted) <= 24, sorted(wanted)

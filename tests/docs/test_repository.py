"""What people expect around a repository: the files in `.github/` and `.devcontainer/` say what is so."""

import json
import re
import tomllib
from pathlib import Path
from typing import Final

from tests.docs.sources import ROOT

GITHUB: Final = ROOT / ".github"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_workflow_runs_what_ci_runs_on_each_python_of_the_package() -> None:
    workflow = _read(GITHUB / "workflows" / "checks.yml")
    assert re.findall(r"^ +- run: (.+)$", workflow, re.MULTILINE) == [".ci/run"]
    (listed,) = re.findall(r"^ +python: (\[.+\])$", workflow, re.MULTILINE)
    classifiers = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert json.loads(listed) == classifiers


def test_the_templates_ask_for_what_makes_a_bug_happen_again() -> None:
    assert "the journal" in _read(GITHUB / "ISSUE_TEMPLATE" / "bug.yml").lower()
    assert "--seed N" in _read(GITHUB / "ISSUE_TEMPLATE" / "bug.yml")
    assert "with the seed" in _read(GITHUB / "ISSUE_TEMPLATE" / "plugins.yml")


def test_no_address_is_made_up() -> None:
    files = [path for folder in (GITHUB, ROOT / ".devcontainer") for path in folder.rglob("*") if path.is_file()]
    assert len(files) >= 9
    for path in files:
        assert re.findall(r"https?://|[\w.]+@[\w-]+\.\w", _read(path)) == [], path


def test_the_container_makes_the_environment_by_the_makefile() -> None:
    container = json.loads(_read(ROOT / ".devcontainer" / "devcontainer.json"))
    command, target = container["postCreateCommand"].split()
    assert command == "make"
    assert re.search(rf"^{re.escape(target)}:", _read(ROOT / "Makefile"), re.MULTILINE)
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).exists()
    assert _read(ROOT / ".devcontainer" / "Dockerfile").startswith("FROM python:3.11-")

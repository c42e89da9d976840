import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return found[0].lower()


def test_the_core_needs_only_what_was_agreed() -> None:
    assert sorted(map(name, PROJECT["dependencies"])) == [
        "attrs",
        "cattrs",
        "h11",
        "httpx",
        "trio",
        "trio-websocket",
        "typing-extensions",
    ]


def test_every_requirement_has_a_lower_bound() -> None:
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    assert [one for one in PROJECT["dependencies"] + extras if ">=" not in one] == []


def test_no_extra_needs_another() -> None:
    extras = PROJECT["optional-dependencies"]
    assert [extra for extra, needs in extras.items() if "agentrail" in map(name, needs)] == []

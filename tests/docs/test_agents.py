"""The agents of the examples play their cases, offline, and the guide shows each."""

from pathlib import Path
from typing import Final

import pytest

from agentrail import SessionSpec
from agentrail.adapters.python_file import find_member
from agentrail.cli.evaluating.run_cases import file_scorers
from agentrail.evals import Dataset, contains, experiment
from agentrail.plugins import BudgetGuard

FOLDER: Final = Path(__file__).parents[2] / "docs" / "examples" / "agents"
GUIDE: Final = FOLDER.parents[1] / "guide" / "evals.md"
AGENTS: Final = {"coding": "coder", "researcher": "researcher", "support_desk": "desk"}


def agent_of(name: str) -> SessionSpec:
    spec = find_member(FOLDER / f"{name}.py", AGENTS[name], (SessionSpec,)).value
    assert isinstance(spec, SessionSpec)
    return spec


@pytest.mark.long
@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_passes_its_cases_with_the_model_of_its_file(name: str) -> None:
    spec, scorers = agent_of(name), file_scorers(FOLDER / f"{name}.py")
    dataset = Dataset.read(FOLDER / f"{name}.jsonl")
    results = await experiment(dataset, spec, [contains, *scorers], repeats=2)
    assert list(results.problems()) == []
    assert len(scorers) >= 3
    assert {scorer: results.mean(scorer) for scorer in results.scorers} == dict.fromkeys(results.scorers, 1.0)


def test_they_are_what_the_guide_says() -> None:
    coder, researcher, desk = map(agent_of, AGENTS)
    assert "shell" in {tool.spec.name for tool in coder.tools}  # type: ignore[attr-defined]
    assert researcher.agents
    assert any(isinstance(plugin, BudgetGuard) for plugin in researcher.plugins)
    assert desk.returns
    assert desk.handoffs
    text = GUIDE.read_text()
    files = {path.name for path in FOLDER.iterdir() if path.suffix in {".py", ".jsonl"}}
    assert files == {f"{name}{suffix}" for name in AGENTS for suffix in (".py", ".jsonl")}
    for name, member in AGENTS.items():
        assert f"(../examples/agents/{name}.py)" in text
        assert name == "coding" or f"(../examples/agents/{name}.py)`:{member}`" in text

"""A researcher: it asks sub-agents that read the web, puts together what they found, and keeps to a budget.

Offline it plays scripts; `--model` gives it a real model:

    agentrail evals run researcher.jsonl --agent researcher.py:researcher
    agentrail evals run researcher.jsonl --agent researcher.py:researcher --model anthropic:claude-sonnet-4-5
    agentrail chat researcher.py:researcher --model anthropic:claude-sonnet-4-5
"""

from agentrail import SessionSpec
from agentrail.evals import Run, calls_match, scorer, within
from agentrail.models import ToolCall
from agentrail.plugins import BudgetGuard
from agentrail.testing import ScriptedModel, by_prompt, call, say
from agentrail.tools import standard_tools

SYSTEM = """\
You answer questions by research. Have a `reader` find out each fact: one task a fact, all at once.
Answer in a few sentences, with the address of the source of each fact. Say what nobody found out."""


def find(*questions: str) -> list[ToolCall]:
    """Return the calls that have a reader find out each of *questions*."""
    return [call("task", {"agent": "reader", "description": text, "prompt": text}) for text in questions]


SCRIPTS = {
    "Which is longer, the Rhine or the Elbe?": [
        say(calls=find("How long is the Rhine?", "How long is the Elbe?")),
        say("The Rhine, by 139 km (https://rivers.example/rhine, https://rivers.example/elbe)."),
    ],
    "How long is the Weser?": [
        say("The Weser is 452 km long (https://rivers.example/weser)."),
    ],
    "Tell me the length of the Weser.": [
        say(calls=find("How long is the Weser?")),
        say("It is 452 km long (https://rivers.example/weser)."),
    ],
    "How long is the river of my dreams?": [say("Nobody can find that out; there is no source for it.")],
}

reader = SessionSpec(
    description="Reads the web to find out one fact, and answers with it and its address.",
    system="Find out what you are asked, from pages that you have read. Answer in one sentence, with the address.",
    tools=[tool for tool in standard_tools() if tool.spec.name in {"web_search", "web_fetch"}],
    max_rounds=12,
)

researcher = SessionSpec(
    name="researcher",
    model=ScriptedModel([by_prompt(SCRIPTS)], repeat_last=True),
    system=SYSTEM,
    agents={"reader": reader},
    plugins=[BudgetGuard(max_usd=1.0, unknown_price="allow", max_tokens=500_000, max_calls=40)],
)

asks_readers = calls_match("any")
is_quick = within(rounds=8)


@scorer
def names_sources(run: Run) -> bool | None:
    """Whether each fact has an address."""
    return run.reply.count("https://") >= len(run.case.calls) if run.case.calls else None

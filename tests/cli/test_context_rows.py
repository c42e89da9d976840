"""What a person is told of the context of a session."""

from __future__ import annotations

from agentrail.api.views import ContextLayerView, ContextView
from agentrail.cli.talk.context_rows import MOST_NAMED, context_rows
from agentrail.models import Text, UserMessage

LAYERS = (
    ContextLayerView("system", 1_000),
    ContextLayerView("memory", 500),
    ContextLayerView("tools", 3_000),
    ContextLayerView("history", 5_500),
)
CONTEXT = ContextView(100_000, False, 90_000, 10_000, LAYERS)


def test_each_kind_has_its_tokens_and_the_rest_is_free() -> None:
    assert context_rows(CONTEXT, "demo", (), {"AGENTS.md": 480, "\x1b[2J\n.md": 20}) == [
        "  about 10.0k tokens, of the 100.0k of demo",
        "    system prompt         1.0k    1 %  ▏",
        "    memory files           500  < 1 %  ▏",
        f"      AGENTS.md{' ' * 31}      480",
        f"      \x1b[2J .md{' ' * 32}       20",
        "    tools                 3.0k    3 %  █",
        "    conversation          5.5k    6 %  █",
        "    free                 90.0k   90 %  ██████████████████",
        "  above 90.0k the conversation is made shorter; /compact does it now",
    ]


def test_files_of_prompts_are_told_apart_from_the_conversation() -> None:
    file = "x" * 8_000
    prompt = UserMessage((Text(f"look at @a.txt\n\na.txt:\n\n```\n{file}\n```\n"),))
    rows = [row.split()[:2] for row in context_rows(CONTEXT, "demo", [prompt], {})]
    assert ["files", "2.0k"] in rows
    assert ["conversation", "3.5k"] in rows


def test_of_many_memory_files_the_largest_are_named() -> None:
    rows = context_rows(CONTEXT, "demo", (), {f"{number}.md": number for number in range(MOST_NAMED + 2)})
    assert [row for row in rows if row.endswith("… 2 more")]
    assumed = ContextView(100, True, 90, 200, ())
    assert "which is assumed" in context_rows(assumed, "own", (), {})[0]

"""The fields of the context that a step gives to plugins, each with a value of its own: so that two are not swapped."""

from agentrail import Context, State
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import AttachedTool, Turn, drafted
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.ruling import ENVIRONMENT, MEMORY, Section
from agentrail.models import Usage
from agentrail.tools import Todo, ToolSpec
from tests.kit import Setup, freeze_object

SETUP = Setup(
    working_dir="work",
    user_data=freeze_object({"user": 1}),
    prompt_mode="task",
    path=("root", "c1", "parent", "c2"),
    agents=("helper",),
    returns=freeze_object({"type": "object"}),
)
TURN = Turn(
    ref="p1",
    started_at=1,
    mark=0,
    used=Usage(100, 10),
    model="turns-model",
    options=freeze_object({"top_k": 2}),
    spares=(Spare("spare", freeze_object({})),),
    returns=freeze_object({"type": "string"}),
    worked_ms=3_000,
)
STATE = State("s", SETUP, "own-model").but(
    turn=TURN,
    turn_count=4,
    round=5,
    usage=Usage(700, 70),
    shared_usage=Usage(6, 7),
    worked_ms=11_000,
    shared_worked_ms=12,
    priced_models=frozenset({"turns-model", "spare"}),
    todos=(Todo("write", "pending"),),
    sections=(Section("place", "here", ENVIRONMENT, "E"), Section("notes.md", "noted", MEMORY, "M")),
    tools={"look": AttachedTool(ToolSpec("look", "looks"), 0)},
    last_text="last",
    approved_always=frozenset({("shell", "git push")}),
)


def test_each_field_of_the_context_has_its_own_value() -> None:
    context = StepDraft(drafted(STATE), LiveRunner(lambda _: None), 13, 0.5).context()
    assert context == Context(
        session_id="s",
        working_dir="work",
        model="turns-model",
        model_options=freeze_object({"top_k": 2}),
        prompt_mode="task",
        turn=4,
        round=5,
        usage=Usage(700, 70),
        turn_usage=Usage(600, 60),
        elsewhere=Usage(6, 7),
        worked_ms=11_000,
        turn_worked_ms=8_000,
        worked_elsewhere_ms=12,
        price_known=True,
        budget_left=None,
        todos=(Todo("write", "pending"),),
        sections=(("place", "here"), ("notes.md", "noted")),
        tools=("look",),
        subagents=("helper",),
        user_data=freeze_object({"user": 1}),
        memory_contents=freeze_object({"notes.md": "noted"}),
        last_assistant_reply="last",
        approved_always=frozenset({("shell", "git push")}),
        now_ms=13,
        path=("root", "parent"),
        parent="parent",
        returns=freeze_object({"type": "string"}),
    )

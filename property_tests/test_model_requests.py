"""What the model saw is rendered again from records: over random sessions, in the machine and with real restarts."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from agentrail import (
    Continue,
    Intervene,
    Plugin,
    ReplaceMessages,
    SessionSpec,
    SetSection,
    SwitchModel,
    open_supervisor,
    tool,
)
from agentrail.codec.json_text import from_text
from agentrail.codec.values import decode, write
from agentrail.core.machine.requests import sent_request
from agentrail.core.vocabulary.changes import Change, fold
from agentrail.core.vocabulary.effects import CancelRequest, StartRequest
from agentrail.journals import SqliteJournal, model_requests
from agentrail.models import Message, ModelRequest, Text, UserMessage
from agentrail.plugins import BeforeRequest, Context
from agentrail.testing import Choose, ScriptedModel, call, say, transient
from agentrail.testing.world.random_setups import draw_scene
from property_tests.volume import profile
from tests.machinery.worlds.checked_world import CheckedWorld

SESSIONS: Final = {"ci": 100, "campaign": 5_000}
REAL: Final = {"ci": 4, "campaign": 400}
LENGTH: Final = 40
TURNS: Final = 6


def test_each_request_of_a_random_session_is_rendered_from_what_is_written() -> None:
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    found = replaced = 0
    for seed in range(begin, begin + SESSIONS[profile()]):
        choose = Choose(random.Random(seed).randrange)
        world = CheckedWorld(draw_scene(choose))
        before = world.state
        done = world.open()
        for _ in range(LENGTH):
            change = decode(Change, from_text(write(world.records[-1].change)))
            after = fold(before, change)
            cut = {effect.request_id for effect in done.effects if isinstance(effect, CancelRequest)}
            wanted = [effect.request for effect in done.effects if isinstance(effect, StartRequest)]
            wanted = [request for request in wanted if request.request_id not in cut]
            request = sent_request(before, after)
            assert repr([] if request is None else [request]) == repr(wanted), seed
            found += len(wanted)
            replaced += after.request is not None and after.request.messages is not None
            before = after
            going = world.go(choose)
            if going is None:
                break
            done = going
    assert found > SESSIONS[profile()]
    assert replaced


Answer = Continue[int] | Intervene[int] | ReplaceMessages[int] | SetSection[int] | SwitchModel[int]


class Meddles(Plugin[int]):
    """Changes what the model sees, in another way at each request."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Answer:
        chance = random.Random(state + hook.attempt)
        messages = tuple(hook.messages)
        middle = chance.randrange(len(messages))
        note = UserMessage((Text(f"note {state}"),))
        return chance.choice(
            (
                Continue(state + 1),
                Intervene(f"remark {state}", state + 1),
                ReplaceMessages(_whole(messages[-4:]), state + 1),
                ReplaceMessages((*messages[:middle], note, *messages[middle:]), state + 1),
                ReplaceMessages((note,), state + 1),
                SetSection(f"part {state % 3}", chance.choice(("calm", None)), state + 1),
                SwitchModel("other:one", state + 1),
            )
        )


def _whole(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* from the first one of a user on: a result without its call is no conversation."""
    first = next((index for index, one in enumerate(messages) if isinstance(one, UserMessage)), None)
    return (UserMessage((Text("…"),)),) if first is None else tuple(messages[first:])


def answers(chance: random.Random) -> ScriptedModel:
    """Return a model that answers with texts, calls and failures, in an order of chance."""

    def answer(request: ModelRequest) -> object:
        if request.may_call and chance.random() < 0.4:
            return say(calls=[call("look", {"path": f"file {n}"}) for n in range(chance.randint(1, 3))])
        return transient(retry_after=0.001) if chance.random() < 0.15 else say("word " * chance.randint(1, 80))

    return ScriptedModel([answer], repeat_last=True)  # type: ignore[list-item]  # what it returns is an element


@tool(effect="pure")
async def look(path: str) -> str:
    """Look into a file."""
    return f"all of {path}"


async def lived(path: Path, seed: int) -> tuple[list[ModelRequest], tuple[ModelRequest, ...]]:
    """Run a session that comes back up to twice; return what its models got, and what is rendered of its records."""
    chance = random.Random(seed)
    model, other = answers(chance), answers(chance)
    spec = SessionSpec(
        model=model,
        tools=[look],
        plugins=[Meddles()],
        system="Be brief.",
        context_window=chance.choice((None, 400)),
        max_rounds=3,
        retry_base=0.0,
    )
    for start in range(chance.randint(1, 3)):
        journal = SqliteJournal(path)
        async with open_supervisor(journal=journal, seed=seed, models={"other": lambda _: other}) as supervisor:
            session = await (supervisor.resume("s", spec) if start else supervisor.spawn(spec, "s"))
            for _ in range(chance.randint(1, TURNS)):
                await session.ask(f"prompt {chance.random()}")
                if chance.random() < 0.2:
                    await session.compact()
        await journal.close()
    all_sent = (*model.requests, *other.requests)
    got = [request for request in all_sent if request.request_id]  # a request for a summary has none
    got.sort(key=lambda request: int(request.request_id[1:]))
    journal = SqliteJournal(path)
    rendered = await model_requests(journal, "s")
    await journal.close()
    return got, rendered


def test_what_a_model_got_is_rendered_after_compactions_and_restarts(tmp_path: Path) -> None:
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    for seed in range(begin, begin + REAL[profile()]):
        got, rendered = trio.run(lived, tmp_path / f"{seed}.db", seed)
        assert [as_sent(request) for request in rendered] == [as_sent(request) for request in got], seed
        assert len(got) > 1


def as_sent(request: ModelRequest) -> str:
    return repr(request.but(messages=tuple(request.messages)))

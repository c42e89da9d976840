"""The reference names the errors of `ask` and `prompt`: each that it names is there, and can be raised."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import pytest

from agentrail import Abort, Context, Continue, Plugin, errors
from agentrail.errors import AgentrailError, PermanentModelError
from agentrail.errors.agentrail_error import BRANCHES
from agentrail.models import EmitChunk, Image, Json, ModelRequest, Response
from agentrail.plugins import BeforePrompt
from agentrail.runtime.handle import ask_at_once
from agentrail.testing import call, fail, say, stall
from tests.docs.sources import ROOT
from tests.runtime.tools import quick
from tests.runtime.world import World

PAGE: Final = (ROOT / "docs" / "reference" / "handle.md").read_text(encoding="utf-8")
LIST: Final = PAGE.partition("## What a call may raise")[2].partition("\n## ")[0]
SCHEMA: Final[Mapping[str, Json]] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Refusing(Plugin[None]):
    """Refuses each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Abort[None]:
        return Abort("no")


def named(method: str) -> set[str]:
    """Return the errors that the row of *method* names."""
    (row,) = [line for line in LIST.splitlines() if line.startswith(f"- `{method}`: ")]
    return {name for name in re.findall(r"`([\w-]+)`", row) if name[0].isupper() or name in BRANCHES}


def test_each_error_that_the_table_of_calls_names_is_one() -> None:
    words = set(re.findall(r"`([A-Z]\w+)`", LIST)) - {"StreamError"}  # an event
    assert {word for word in words if not hasattr(errors, word)} == set()
    assert {word for word in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", LIST) if word not in BRANCHES} == set()


class Untaking:
    """A model that takes no images."""

    name = "untaking"

    def why_untaken(self, _: object) -> str:
        return "it takes none"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        raise NotImplementedError


async def error_of(call: Callable[[], Awaitable[object]]) -> str:
    with pytest.raises(AgentrailError) as raised:
        await call()
    return raised.value.code if raised.value.is_coded else type(raised.value).__name__


async def common(world: World, name: str) -> set[str]:
    """Return the errors that `prompt` and `ask` have raised alike."""
    plain, blind = await world.spawn(), await world.spawn(Untaking())
    full = await world.spawn([stall()], max_prompt_queue=1)
    for _ in range(2):
        await full.prompt("go")
    image = [Image("image/png", "AAAA")]
    return {
        await error_of(partial(getattr(plain, name), 5)),
        await error_of(partial(getattr(plain, name), "go", returns=5)),
        await error_of(partial(getattr(blind, name), image)),
        await error_of(partial(getattr(full, name), "go")),
    }


async def test_prompt_raises_what_its_row_names(world: World) -> None:
    # dropped before it is accepted:
    # tests/runtime/test_commands.py::test_a_prompt_that_was_dropped_is_answered_so_whenever_it_is_sent_again
    assert await common(world, "prompt") | {"PromptWasDropped"} == named("prompt")


async def test_ask_raises_what_its_row_names(world: World) -> None:
    raised = await common(world, "ask")
    refusing = await world.spawn(plugins=[Refusing()])
    raised.add(await error_of(partial(refusing.ask, "go")))
    failing = await world.spawn([fail(PermanentModelError("no"))])
    raised.add(await error_of(partial(failing.ask, "go")))
    odd = await world.spawn(["no JSON"], answer_max_retries=0)
    raised.add(await error_of(partial(odd.ask, "go", returns=SCHEMA)))
    silent = await world.spawn([say(calls=[call("quick")])], tools=[quick], max_rounds=1)
    raised.add(await error_of(partial(silent.ask, "go", returns=SCHEMA)))
    busy = await world.spawn([stall()])
    await busy.prompt("go")
    waiting = await ask_at_once(busy, "and on")
    await busy.abort(clear_queue=True)
    raised.add(await error_of(waiting.reply))
    assert raised == named("ask")

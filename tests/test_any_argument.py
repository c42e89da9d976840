"""Each argument of each public method gets a value of every type, on each face: the table says which ones it takes.

All others are refused by an error of the library that is about the argument. Whatever was given, the session answers a
prompt afterwards, and nothing has crashed. Methods and arguments are found by reflection.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import partial
from inspect import Parameter
from itertools import repeat
from pathlib import Path
from typing import Final, TypeAlias, cast

import pytest
import trio
import trio.testing

from agentrail import (
    Options,
    RemoteSession,
    RemoteSupervisor,
    SessionHandle,
    SessionSpec,
    Supervisor,
    aio,
    connect,
    open_supervisor,
    sync,
    tool,
)
from agentrail.errors import AgentrailError, BrokenContractError, UsageError
from agentrail.host import HostLimits
from agentrail.knowledge import Knowledge, KnowledgeFolder, citations_in, knowledge_tools
from agentrail.models import RemoteEmbedder, open_embedder
from agentrail.plugins import BudgetGuard, Cited, HumanApproval
from agentrail.testing import ScriptedModel
from tests.host.hosted import KEYS, open_desk
from tests.kit import PromptSent
from tests.knowledge.hashing import HashEmbedder
from tests.runtime.world import World, open_world

Call: TypeAlias = Callable[[], object]


@tool
def dig() -> str:
    """Dig."""
    return "dug"


class Breaking:
    """An object whose own code raises."""

    def __getattr__(self, name: str) -> object:
        raise ZeroDivisionError(name)


class Lying(str):
    """A text that says that it is ASCII, and is equal to everything."""

    __slots__ = ()

    def isascii(self) -> bool:
        return True

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = str.__hash__


def deep(levels: int) -> list[object]:
    found: list[object] = []
    for _ in range(levels):
        found = [found]
    return found


VALUES: Final[Mapping[str, object]] = {
    "none": None,
    "true": True,
    "0": 0,
    "-1": -1,
    "5": 5,
    "2.5": 2.5,
    "nan": math.nan,
    "inf": math.inf,
    "1e300": 1e300,
    "10**400": 10**400,
    "bytes": b"x",
    "empty": "",
    "x": "x",
    "*": "*",
    "nul": "\0",
    "long": "x" * 2_000,
    "half": "\ud800",
    "lying": Lying("\ud800"),
    "[]": [],
    "[x]": ["x"],
    "[5]": [5],
    "(x, none)": ("x", None),
    "{x}": {"x"},
    "deep": deep(20_000),
    "{}": {},
    "{a: object}": {"a": object()},
    "{5: 5}": {5: 5},
    "endless": repeat("x"),
    "object": object(),
    "int": int,
    "breaking": Breaking(),
    "command": PromptSent(5),  # type: ignore[arg-type]
    "spec": SessionSpec(model="demo"),
    "model": ScriptedModel(["x"]),
}
"""A value of every type, and those of a right type that cannot be kept."""

ODD_TEXTS: Final = frozenset({"half", "lying"})
"""Texts that are refused where they would be kept, and unknown where they are looked up."""

SHORT: Final = ("empty", "x", "*", "nul")
WORDS: Final = (*SHORT, "long")
SEVERAL: Final = ("[]", "[x]", "{x}", "{}", "{a: object}")
COUNTS: Final = ("5", "10**400")
SECONDS: Final = (*COUNTS, "2.5", "1e300")

TAKES: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("kill_tools", "until", "when", "policy", "restart", "recovery", "strategy"), ()),
    **dict.fromkeys(("clear_queue", "always", "auto_resume", "four_eyes", "pin"), ("true",)),
    **dict.fromkeys(
        ("approval_id", "call", "ref", "child", "names", "answer", "children", "by", "name", "tool", "command_family"),
        WORDS,
    ),
    **dict.fromkeys(("reason", "turn", "command", "reply.ref"), ("none", *WORDS)),
    **dict.fromkeys(("who", "request", "owner", "tenant", "title"), SHORT),
    **dict.fromkeys(("add", "remove", "labels"), SEVERAL),
    **dict.fromkeys(("first", "limit", "tenants", "window"), COUNTS),
    **dict.fromkeys(("capacity", "last"), ("none", *COUNTS)),
    **dict.fromkeys(("shutdown", "start_timeout"), ("0", *SECONDS)),
    **dict.fromkeys(("attach_plugin.plugin", "attach_tools.tools", "replace_tools.tools", "service"), ()),
    **dict.fromkeys(("wanted", "after"), ("none",)),
    **dict.fromkeys(("detach_plugin.plugin", "update_plugin.plugin"), (*WORDS, "int")),
    **dict.fromkeys(("message_task.text", "steer.text"), WORDS),
    **dict.fromkeys(("spawn.id", "SessionHandle.fork.id", "Supervisor.fork.id"), ("none", "x")),
    **dict.fromkeys(("open.id", "resume.id"), ("x",)),
    "id": WORDS,
    "result": (),
    "args": ("none", "{}"),
    "text": (*WORDS, "[]"),
    "returns": ("none", "int"),
    "label.title": ("none", *SHORT),
    "stop.reason": WORDS,
    "at": ("none", "0", "-1", "5", *WORDS),
    "since": ("none", "0", "5", "10**400", "[5]"),
    **dict.fromkeys(("preview_rewind.since", "rewind.since"), ("0", "-1", "5", *WORDS)),
    "files": ("none", *(name for name in SEVERAL if name not in ("[]", "{}"))),
    "over_edits": ("true",),
    "types": ("none", "[]", "{}"),
    "model": (*WORDS, "[x]", "(x, none)", "model"),
    "delete.first": ("none", "int"),
    "answered.command": WORDS,
    "as_spec": (),  # without a specification beside it
    "spec": ("none", "spec"),
    "spawn.spec": ("spec",),
    "open.spec": ("spec",),
    "origin": WORDS,
    "take_over": ("true", *WORDS),
    "max_restarts": ("0", *COUNTS),
    "period": SECONDS,
    **dict.fromkeys(("documents.after", "citation", "document", "query"), WORDS),
    **dict.fromkeys(("store.tenant", "stores.tenant"), WORDS),
    **dict.fromkeys(("documents.limit", "read.limit", "search.limit"), ("5",)),
    **dict.fromkeys(("read.first", "start"), ("0", "5")),
    "end": ("none", "0", "5"),
    **dict.fromkeys(("add.name", "store.name"), ("x", "*")),
    "add.text": ("bytes", *WORDS),
    "path": ("empty", "x", "*", "long"),
    "citations_in.text": WORDS,
    "embedder": ("none", *WORDS),
    "convert": ("none", "int"),
    "min_similarity": ("0", "-1"),
    "knowledge": (),
    "open_embedder.options": ("{}",),
    "texts": ("[]", "[x]"),
    "is_query": ("true",),
    "tools": (*WORDS, "[]", "[x]", "{x}"),
    "max_tries": ("0", *COUNTS),
}
"""Which of `VALUES` an argument takes, by its name; the name of a method before it says what is special there."""

NOT_REACHED: Final = frozenset({"provider_options", "update_plugin.options", "every", "seconds", "open.recovery"})
"""Arguments that are looked at only after those that they go with, which are wrong here."""

REFUSALS: Final = frozenset(
    {
        *("argument-raised", "bad-choice", "bad-document-name", "bad-id", "bad-message", "bad-options", "bad-plugin"),
        *("bad-returns", "bad-store-name", "bad-supervisor", "bad-tool", "not-json", "wrong-type"),
    }
)
"""Codes of errors that are about the value of an argument."""

NAMING: Final = frozenset({"argument-raised", "bad-choice", "wrong-type"})
"""Codes of errors that name the argument."""

NEEDED: Final[Mapping[str, object]] = {
    "open_embedder.name": "openai:x",
    "texts": ["x"],
    "spec": SessionSpec(model="demo"),
    "service": trio.sleep_forever,
    "attach_plugin.plugin": BudgetGuard(max_rounds=9),
    "tools": dig,
}
"""What a method needs beside the tried argument, by name; anything else is a text."""

ENDING: Final = frozenset({"drain", "stop", "suspend"})
"""Methods that end what is tried, or park it."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


def spec(**fields: object) -> SessionSpec:
    model = ScriptedModel(["well"], repeat_last=True)
    return SessionSpec(model=model, tools=[dig], plugins=[HumanApproval(tools=["dig"])]).but(**fields)


def methods(owner: type[object]) -> list[str]:
    routines = (name for name in dir(owner) if inspect.isroutine(inspect.getattr_static(owner, name)))
    return sorted(name for name in routines if not name.startswith("_"))


def tried(method: Callable[..., object]) -> list[str]:
    """Return the names of the arguments of *method*."""
    return [name for name in inspect.signature(method).parameters if name != "self"]


def called(method: Callable[..., object], tried: str, value: object) -> object:
    """Call *method* with *value* for the argument *tried*, and what it needs beside."""
    args: list[object] = []
    named: dict[str, object] = {}
    for each in inspect.signature(method).parameters.values():
        needed = NEEDED.get(f"{method.__name__}.{each.name}", NEEDED.get(each.name, "x"))
        actual = value if each.name == tried else needed
        is_needed = each.default is Parameter.empty and each.kind is not Parameter.VAR_KEYWORD
        if each.name == tried or is_needed:
            if each.kind is Parameter.VAR_KEYWORD:
                named["option"] = actual
            elif is_needed and each.kind is not Parameter.KEYWORD_ONLY:
                args.append(actual)
            else:
                named[each.name] = actual
    return method(*args, **named)


async def outcome(call: Call, argument: str = "") -> str:
    """Make a call, enter or await what it returns, and return the code of the error; empty if there is none.

    An error that does not name the *argument* that is tried has no code.
    """
    try:
        returned = call()
        if inspect.iscoroutine(returned):
            await cast("Awaitable[object]", returned)
        elif hasattr(returned, "__aenter__"):
            async with cast("AbstractAsyncContextManager[object]", returned):
                pass
        elif hasattr(returned, "__enter__"):
            with cast("AbstractContextManager[object]", returned):
                pass
    except BrokenContractError:
        raise
    except AgentrailError as error:
        said = str(error)
        named = error.code not in NAMING or f"`{argument}`" in said or f"{argument}=" in said
        return error.code if said and (named or not argument) else f"what does not name it: {said}"
    return ""


async def codes_of(call: Callable[..., object], argument: str) -> dict[str, str]:
    """Return the outcome of each value for an argument of *call*."""
    return {value: await outcome(partial(called, call, argument, VALUES[value]), argument) for value in VALUES}


def takes(owner: type[object], method: str, argument: str) -> Sequence[str] | None:
    """Return which of `VALUES` an argument takes; `None` if that is not asked."""
    names = (f"{owner.__name__}.{method}.{argument}", f"{method}.{argument}", argument)
    if not NOT_REACHED.isdisjoint(names):
        return None
    known = [TAKES[name] for name in names if name in TAKES]
    assert known, f"`TAKES` does not say what `{argument}` takes"
    return known[0]


def wrong(owner: type[object], method: str, argument: str, codes: Mapping[str, str]) -> dict[str, str]:
    """Return which values were taken that should not, or refused that should be taken, with the codes."""
    right = takes(owner, method, argument)
    if right is None:
        return {}
    return {
        name: code for name, code in codes.items() if name not in ODD_TEXTS and (code in REFUSALS) == (name in right)
    }


@pytest.mark.parametrize("name", sorted({*methods(SessionHandle)} - {"suspend"}))
async def test_a_session_takes_what_fits_and_refuses_all_else(world: World, name: str) -> None:
    session = await world.supervisor.spawn(spec(), "mine")
    for argument in tried(getattr(SessionHandle, name)):
        codes: dict[str, str] = {}
        for value in VALUES:
            if session.status().phase == "ended":
                session = await world.supervisor.spawn(spec())
            codes[value] = await outcome(partial(called, getattr(session, name), argument, VALUES[value]), argument)
        assert wrong(SessionHandle, name, argument, codes) == {}, argument
    await session.abort(clear_queue=True)
    assert (await session.ask("well?")).text == "well"
    assert world.supervisor.crashes() == ()


@pytest.mark.parametrize("name", sorted({*methods(Supervisor)} - {"drain"}))
async def test_a_supervisor_takes_what_fits_and_refuses_all_else(world: World, name: str) -> None:
    session = await world.supervisor.spawn(spec(), "x")
    method = getattr(world.supervisor, name)
    for argument in tried(method):
        codes = await codes_of(method, argument)
        assert wrong(Supervisor, name, argument, codes) == {}, argument
    assert (await session.ask("well?")).text == "well"
    assert world.supervisor.crashes() == ()


Outcomes: TypeAlias = Iterable[tuple[type[object], str, str, Mapping[str, str]]]


async def outcomes(
    supervisor: object, owners: Sequence[type[object]], spawn: Callable[[], Awaitable[object]]
) -> list[tuple[type[object], str, str, Mapping[str, str]]]:
    """Return the outcome of each value for each argument of each method of another face, which ends nothing."""
    found: list[tuple[type[object], str, str, Mapping[str, str]]] = []
    for owner in owners:
        for name in sorted({*methods(owner)} - ENDING):
            method = getattr(supervisor if isinstance(supervisor, owner) else await spawn(), name)
            found += [(owner, name, argument, await codes_of(method, argument)) for argument in tried(method)]
    return found


def check_takes(found: Outcomes) -> None:
    told = {
        f"{owner.__name__}.{name}.{argument}": wrong(owner, name, argument, codes)
        for owner, name, argument, codes in found
    }
    assert {place: problems for place, problems in told.items() if problems} == {}


@pytest.mark.long
def test_so_do_those_on_asyncio() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(spec(), "x")
            owners = (aio.SessionHandle, aio.Supervisor)
            check_takes(await outcomes(supervisor, owners, lambda: supervisor.spawn(spec())))
            assert (await session.ask("well?")).text == "well"
            assert supervisor.crashes() == ()

    asyncio.run(main())


@pytest.mark.long
def test_so_do_those_that_block() -> None:
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(spec(), "x")

        async def spawn() -> object:  # noqa: ASYNC124 - as on the other faces
            return supervisor.spawn(spec())

        check_takes(trio.run(outcomes, supervisor, (sync.SessionHandle, sync.Supervisor), spawn))
        assert session.ask("well?").text == "well"
        assert supervisor.crashes() == ()


NO_JSON: Final = ("nan", "inf", "bytes", "half", "endless", "object", "breaking")


@pytest.mark.long
async def test_a_host_gets_nothing_that_no_json_holds_and_refuses_what_does_not_fit() -> None:
    limits = HostLimits(requests_per_second=10_000.0, burst=10_000, sessions=10_000)
    async with open_desk(spec(), limits=limits) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk")
        found = await outcomes(supervisor, (RemoteSession, RemoteSupervisor), lambda: supervisor.spawn("desk"))
        taken = {(name, argument): [each for each in NO_JSON if not codes[each]] for _, name, argument, codes in found}
        assert {place: values for place, values in taken.items() if values} == {}
        assert (await session.ask("well?")).text == "well"


# What sessions and supervisors are made of


@pytest.mark.parametrize("field", Options.__struct_fields__)
def test_an_option_is_of_the_type_of_its_default_or_refused_by_its_name(field: str) -> None:
    default: object = getattr(Options(), field)
    types = (float, int) if type(default) is float else (type(default),)
    for name, value in VALUES.items():
        refusal = ""
        try:
            SessionSpec(model="demo").but(**{field: value}).check()
        except UsageError as error:
            refusal = str(error)
        fits = default is None or type(value) in types
        assert f"`{field}`" in refusal or f"{field}=" in refusal or (fits and not refusal), name


@pytest.mark.parametrize("argument", inspect.signature(open_supervisor).parameters)
def test_what_opens_a_supervisor_is_right_or_refused(argument: str) -> None:
    async def answered(value: object) -> None:
        opening = cast("Callable[..., AbstractAsyncContextManager[Supervisor]]", open_supervisor)
        async with opening(**{argument: value}) as supervisor:
            assert (await (await supervisor.spawn(spec())).ask("hi")).text == "well"

    for value in VALUES.values():
        with suppress(AgentrailError):
            trio.run(answered, value, clock=trio.testing.MockClock(autojump_threshold=0))


# What sessions search in and cite


@pytest.mark.parametrize("name", methods(Knowledge))
async def test_a_store_of_documents_takes_what_fits_and_refuses_all_else(tmp_path: Path, name: str) -> None:
    async with Knowledge(tmp_path / "k.sqlite", embedder=HashEmbedder()) as knowledge:
        await knowledge.add("kept.md", "well")
        await knowledge.add("x", "text")
        method = getattr(knowledge, name)
        for argument in tried(method):
            codes = {
                value: await outcome(partial(called, method, argument, VALUES[value]), argument) for value in VALUES
            }
            assert wrong(Knowledge, name, argument, codes) == {}, argument
        assert "kept.md#0" in [passage.citation for passage in await knowledge.search("well")]


@pytest.mark.parametrize("name", methods(KnowledgeFolder))
async def test_so_does_a_folder_of_stores(tmp_path: Path, name: str) -> None:
    async with KnowledgeFolder(tmp_path) as folder:
        await folder.store("x").add("kept.md", "well")
        method = getattr(folder, name)
        for argument in tried(method):
            codes = {
                value: await outcome(partial(called, method, argument, VALUES[value]), argument) for value in VALUES
            }
            assert wrong(KnowledgeFolder, name, argument, codes) == {}, argument
        assert await folder.store("x").count() == 1


@pytest.mark.parametrize("make", [Knowledge, KnowledgeFolder, knowledge_tools, Cited, open_embedder, citations_in])
async def test_so_does_what_makes_them_and_reads_citations(make: Callable[..., object]) -> None:
    for argument in tried(make):
        codes = await codes_of(make, argument)
        assert wrong(cast("type[object]", make), make.__name__, argument, codes) == {}, argument


async def test_so_does_an_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # what fits fails for the lack of a key
    embedder = open_embedder("openai:x")
    for argument in tried(embedder.embed):
        codes = await codes_of(embedder.embed, argument)
        assert wrong(RemoteEmbedder, "embed", argument, codes) == {}, argument

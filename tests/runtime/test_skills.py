"""Skills and memory files of a session: what its prompt shows, what the tool reads, and what is left out."""

from __future__ import annotations

import logging

import pytest
import trio

from agentrail import Context, Continue, Plugin, SessionSpec, SetSection, open_supervisor
from agentrail.errors import BadSpec, ToolExists
from agentrail.hooks.ruling import Section
from agentrail.models import JsonObject, ToolMessage
from agentrail.plugins import AfterResponse, BeforePrompt
from agentrail.sandboxes import Content, Listing, MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from agentrail.tools.skills.skill import MAX_SKILL
from agentrail.values.content import MAX_MEMORY
from tests.runtime.families import agent, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake, quick
from tests.runtime.world import World

HEAD = (
    "Skills are instructions for kinds of tasks. If a task is of one of these kinds, first read its skill with the "
    "tool `read_skill`, and follow it. If a message of the user begins with `/` and the name of a skill, as "
    "`/name rest`, read that skill with `read_skill` first, also one that is not listed here, and follow it; the rest "
    "of the message is its arguments.\n\n"
)


def skill(name: str, description: str = "Sews.", text: str = "Use a needle.") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n{text}\n".encode()


def files(**skills: bytes) -> MemorySandbox:
    """Return a sandbox with skills, each in a folder of its own below `skills`."""
    return MemorySandbox({f"skills/{name}/SKILL.md": data for name, data in skills.items()})


async def skill_result(world: World, name: str, **given: object) -> str:
    """Return what the model gets that calls `read_skill` in a session with *given*."""
    model = ScriptedModel([say(calls=[call("read_skill", {"name": name})]), "done"])
    session = await world.spawn(model, None, skills=["skills"], **given)
    await session.ask("sew")
    (result,) = [message for message in session.messages() if isinstance(message, ToolMessage)]
    return result.text


async def test_only_name_and_description_are_in_the_prompt_and_the_text_is_read_on_demand(world: World) -> None:
    sandbox = files(sewing=skill("sewing"), knots=skill("knots", "Ties\n  ropes."))
    model = ScriptedModel([say(calls=[call("read_skill", {"name": "sewing"})]), "done"])
    session = await world.spawn(model, sandbox=sandbox, skills=["skills"])
    await session.ask("sew")
    listed = ("skills", f"{HEAD}- knots: Ties ropes.\n- sewing: Sews.")
    assert [request.background for request in model.requests] == [(listed,)] * 2
    (result,) = [message for message in session.messages() if isinstance(message, ToolMessage)]
    assert result.text == "---\nname: sewing\ndescription: Sews.\n---\nUse a needle.\n\n[its folder: skills/sewing]"


async def test_the_tool_names_the_files_of_a_skill_and_reads_them(world: World) -> None:
    sandbox = MemorySandbox({
        "skills/sewing/SKILL.md": skill("sewing"),
        "skills/sewing/references/knots.md": b"Over, under.\n",
        "skills/sewing/scripts/cut.py": b"print()\n",
        "skills/other/SKILL.md": skill("other"),
    })  # fmt: skip
    calls = [
        call("read_skill", {"name": "sewing"}),
        call("read_skill", {"name": "sewing", "path": "references/knots.md"}),
        call("read_skill", {"name": "sewing", "path": "../other/SKILL.md"}),
        call("read_skill", {"name": "sewing", "path": "missing.md"}),
        call("read_skill", {"name": "sewing", "offset": 9}),
        call("read_skill", {"name": "../skills/sewing"}),
        call("read_skill", {}),
    ]
    session = await world.spawn([say(calls=calls), "done"], sandbox=sandbox, skills=["skills"])
    await session.ask("sew")
    first, *others = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    assert first.endswith(
        "[its files, to be read with `path`: references/knots.md, scripts/cut.py]\n\n[its folder: skills/sewing]"
    )
    text = "the skills are:\n- other: Sews.\n- sewing: Sews."
    assert others == [
        "Over, under.",
        "'../other/SKILL.md' leads out of the skill; give a path relative to its folder",
        "cannot read `skills/sewing/missing.md`: there is no such file or folder; list the folder to see what there is",
        "'SKILL.md' has 5 lines, so there is no line 9; use a smaller `offset`",
        f"there is no skill '../skills/sewing'; {text}",
        text,
    ]


async def test_a_long_skill_is_read_in_pieces(world: World) -> None:
    text = "\n".join(f"step {number}: {'x' * 90}" for number in range(500))
    calls = [call("read_skill", {"name": "long"}), call("read_skill", {"name": "long", "offset": 300})]
    session = await world.spawn(
        [say(calls=calls), "done"], sandbox=files(long=skill("long", text=text)), skills=["skills"]
    )
    await session.ask("go")
    first, second = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    visible, _, note = first.partition("\n\n[there is more: go on with `offset` ")
    last = int(note.partition("]")[0]) - 1
    assert visible.splitlines() == ["---", "name: long", "description: Sews.", "---", *text.splitlines()][:last]
    assert second.splitlines()[0].startswith("step 295:")


async def read_by_word(world: World, prompt: str, data: bytes, name: str = "sewing") -> str:
    """Return what the model gets that calls `read_skill` after the user has sent *prompt*."""
    model = ScriptedModel([say(calls=[call("read_skill", {"name": name})]), "done"])
    session = await world.spawn(model, None, sandbox=files(**{name: data}), skills=["skills"])
    await session.ask(prompt)
    return next(message.text for message in session.messages() if isinstance(message, ToolMessage))


FOR_USER = skill("sewing", "Sews.\ndisable-model-invocation: true", "Sew $ARGUMENTS, twice $ARGUMENTS.")


async def test_the_word_of_the_user_begins_a_skill_that_the_model_may_not_choose(world: World) -> None:
    assert "Sew red socks, twice red socks." in await read_by_word(world, "/sewing red socks ", FOR_USER)
    assert "Sew , twice ." in await read_by_word(world, "/sewing", FOR_USER)
    for prompt in ("sew red socks", "please /sewing socks", "/sewingx socks", "/ sewing", "//sewing"):
        refusal = await read_by_word(world, prompt, FOR_USER)
        assert refusal.startswith("the skill `sewing` is for the user's word alone"), prompt
    plain = skill("sewing", text="Use a needle.")
    assert (await read_by_word(world, "/sewing socks", plain)).endswith(
        "Use a needle.\n\n[its folder: skills/sewing]\n\n[its arguments: socks]"
    )
    assert "$ARGUMENTS" in await read_by_word(world, "sew", skill("sewing", text="Sew $ARGUMENTS."))


async def test_steering_is_the_word_of_the_user_too(world: World) -> None:
    model = ScriptedModel([say(calls=[call("wait")]), say(calls=[call("read_skill", {"name": "sewing"})]), "done"])

    async def steer(_: JsonObject, __: ToolContext) -> ToolResult:
        await session.steer("/sewing socks")
        return ok("waited")

    session = await world.spawn(model, tools=[fake("wait", steer)], sandbox=files(sewing=FOR_USER), skills=["skills"])
    await session.ask("go")
    assert "Sew socks, twice socks." in session.messages()[-2].text


async def test_a_skill_for_the_user_alone_is_in_no_list_of_the_model(world: World) -> None:
    sandbox = files(sewing=FOR_USER, knots=skill("knots", "Ties.\nuser-invocable: false"))
    model = ScriptedModel([say(calls=[call("read_skill", {})]), "done"])
    session = await world.spawn(model, None, sandbox=sandbox, skills=["skills"])
    await session.ask("which?")
    assert dict(model.requests[0].background)["skills"] == f"{HEAD}- knots: Ties."
    assert "sewing" not in session.messages()[-2].text
    alone = ScriptedModel(["done"])
    session = await world.spawn(alone, None, sandbox=files(sewing=FOR_USER), skills=["skills"])
    await session.ask("which?")
    section = dict(alone.requests[0].background)["skills"]
    assert section.startswith("If a message of the user begins with `/`")
    assert "sewing" not in section


async def test_the_skill_of_a_later_folder_counts_and_the_other_one_is_listed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = MemorySandbox({
        "all/sewing/SKILL.md": skill("sewing", "Sews by hand."),
        "all/knots/SKILL.md": skill("knots", "Ties."),
        "own/sewing/SKILL.md": skill("sewing", "Sews by machine.", "Plug it in."),
    })  # fmt: skip
    model = ScriptedModel([say(calls=[call("read_skill", {"name": "sewing"})]), "done"])
    with caplog.at_level(logging.INFO, "agentrail.skills"):
        session = await world.spawn(model, sandbox=sandbox, skills=["all", "own"])
        await session.ask("sew")
    assert dict(model.requests[0].background) == {"skills": f"{HEAD}- knots: Ties.\n- sewing: Sews by machine."}
    assert "Plug it in." in session.messages()[2].text
    assert caplog.messages == [
        f"session {session.id}: skills hidden by others of their name: 'all/sewing': a later folder has one"
    ]


async def test_what_is_invalid_is_named_once_at_spawn_and_harms_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = files(
        Upper=skill("Upper"),
        knots=skill("sewing"),
        empty=b"",
        bytes=b"---\nname: bytes\n\xff\n---\n",
        large=skill("large", text="x" * MAX_SKILL),
        silent=b"---\nname: silent\n---\n",
        twisted=b"---\nname: twisted\ndescription: &a b\n---\n",
        wordy=skill("wordy", "x" * 1025),
        sewing=skill("sewing"),
    )
    session = await world.spawn(["one", "two"], sandbox=sandbox, skills=["skills"])
    assert caplog.messages == [
        (
            f"session {session.id}: left out of its prompt: 'skills/Upper': its name is 'Upper'; a name has 1 to 64 "
            "letters a-z, digits and single hyphens between them; "
            "'skills/bytes': its SKILL.md is no text in UTF-8: byte 17 does not fit; "
            "'skills/empty': it does not begin with a line `---`, as front matter must; "
            "'skills/knots': its name is `sewing`, and its folder 'knots'; give both the same name; "
            "'skills/large': its SKILL.md has 1048616 bytes, and may have 1048576; "
            "move parts of it to files beside it; "
            "'skills/silent': it has no description, by which the model chooses it; write `description: …`; "
            "'skills/twisted': line 3 of its front matter has a value that begins with `&`; put the text in quotes; "
            "'skills/wordy': its description has 1025 characters, and may have 1024"
        )
    ]
    caplog.clear()
    await session.ask("one")
    await session.ask("two")
    assert session.inspect().sections == (Section("skills", f"{HEAD}- sewing: Sews.", "skills"),)
    assert caplog.messages == []


async def test_without_a_folder_or_a_file_there_is_no_section_and_no_line_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    session = await world.spawn(["hi"], sandbox=MemorySandbox({}), skills=["skills"], memory=["AGENTS.md"])
    await session.ask("hi")
    assert session.inspect().sections == ()
    assert caplog.messages == []
    assert (
        await skill_result(world, "sewing", sandbox=MemorySandbox({}))
        == "there is no skill 'sewing'; there are no skills"
    )


async def test_a_skill_that_the_agent_has_just_written_can_be_read(world: World) -> None:
    sandbox = MemorySandbox({})
    session = await world.spawn(
        [say(calls=[call("read_skill", {"name": "new"})]), "done"], sandbox=sandbox, skills=["skills"]
    )
    await sandbox.write("skills/new/SKILL.md", skill("new", text="Fresh."))
    await session.ask("go")
    assert "Fresh." in session.messages()[2].text


class Broken(MemorySandbox):
    """A sandbox whose connection is lost."""

    async def read(self, path: str, offset: int = 0, limit: int = 1) -> Content:
        await trio.lowlevel.checkpoint()
        raise ConnectionResetError(path)

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        await trio.lowlevel.checkpoint()
        raise ConnectionResetError(path)


async def test_a_sandbox_that_fails_does_not_keep_the_session_from_starting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    session = await world.spawn(["hi"], sandbox=Broken({}), skills=["skills"], memory=["AGENTS.md"])
    assert (await session.ask("hi")).text == "hi"
    assert caplog.messages == [
        (
            f"session {session.id}: left out of its prompt: 'skills': ConnectionResetError: skills; "
            "'AGENTS.md': ConnectionResetError: AGENTS.md"
        )
    ]


async def test_more_skills_than_a_prompt_takes_are_left_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = files(**{f"s{number:03}": skill(f"s{number:03}") for number in range(203)})
    session = await world.spawn(["hi"], sandbox=sandbox, skills=["skills"])
    (section,) = session.inspect().sections
    assert section.text == HEAD + "\n".join(f"- s{number:03}: Sews." for number in range(200))
    assert caplog.messages == [
        f"session {session.id}: left out of its prompt: "
        + "; ".join(f"'skills/s{n}': there are 200 skills already, and no more are taken" for n in (200, 201, 202))
    ]


async def test_of_much_that_is_invalid_the_log_names_some(world: World, caplog: pytest.LogCaptureFixture) -> None:
    session = await world.spawn(["hi"], sandbox=files(**{f"s{number}": b"" for number in range(25)}), skills=["skills"])
    (line,) = caplog.messages
    assert line.count("does not begin") == 20
    assert line.endswith("; and 5 more")
    assert session.inspect().sections == ()


async def test_a_folder_with_too_many_entries_is_read_in_part(world: World, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = MemorySandbox(
        {f"skills/f{number:04}/x": b"" for number in range(1001)} | {"lone/SKILL.md": skill("lone")}
    )
    session = await world.spawn(["hi"], sandbox=sandbox, skills=["skills", "lone"])
    assert caplog.messages == [
        (
            f"session {session.id}: left out of its prompt: 'skills': it has more than 1000 entries; the others are "
            "not looked at; 'lone': it is a skill itself; give the folder around it"
        )
    ]


# Memory files


SEEN: list[Context] = []


class Looks(Plugin[None]):
    def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
        SEEN.append(ctx)
        return Continue()


async def test_memory_files_are_in_the_prompt_and_in_what_plugins_and_tools_get(world: World) -> None:
    large = b"x" * 99 + b"\n"
    sandbox = MemorySandbox(
        {"AGENTS.md": b"Use metres.\n", "docs/large.md": large * 700, "void.md": b" \n", "pic": b"\0"}
    )
    json_objects: list[JsonObject] = []

    async def look(_: JsonObject, ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        json_objects.append(ctx.memory_contents)
        return ok("seen")

    SEEN.clear()
    model = ScriptedModel([say(calls=[call("look")]), "done"])
    paths = ("AGENTS.md", "docs/large.md", "void.md", "pic", "AGENTS.md")
    session = await world.spawn(model, sandbox=sandbox, memory=paths, tools=[fake("look", look)], plugins=[Looks()])
    await session.ask("look")
    cut = (large * 654).decode()[:-1]
    mark = f"\n\n[cut here: the file has 70000 bytes, and at most {MAX_MEMORY} of it are shown]"
    read = {"AGENTS.md": "Use metres.\n", "docs/large.md": cut + mark}
    assert dict(model.requests[0].background) == read
    assert json_objects == [read]
    assert [ctx.memory_contents for ctx in SEEN] == [read] * 2


async def test_a_plugin_may_replace_the_text_of_a_memory_file(world: World) -> None:
    class Loads(Plugin[None]):
        def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> SetSection[None]:
            return SetSection("AGENTS.md", "Use feet.", layer="memory")

    model = ScriptedModel(["hi"])
    sandbox = MemorySandbox({"AGENTS.md": b"Use metres.", "OTHER.md": b"Be kind."})
    session = await world.spawn(model, sandbox=sandbox, memory=["AGENTS.md", "OTHER.md"], plugins=[Loads()])
    await session.ask("hi")
    assert dict(model.requests[0].background) == {"OTHER.md": "Be kind.", "AGENTS.md": "Use feet."}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"skills": "skills"}, "`skills` is a `str`"),
        ({"skills": ["sk"], "memory": ["skills"]}, "`memory` has a file `skills`"),
        ({"memory": [1]}, "`memory` has 1: a path is a text"),
        ({"memory": [""]}, "`memory` has '': a path has characters, and none of them is NUL"),
        ({"skills": ["a\0b"]}, "`skills` has 'a.x00b': a path has characters, and none of them is NUL"),
        ({"skills": ["../skills"]}, "`skills` has '../skills': it leads out of the sandbox; give a path that begins"),
    ],
)
async def test_paths_that_are_none_are_refused(world: World, values: dict[str, object], why: str) -> None:
    with pytest.raises(BadSpec, match=why):
        await world.spawn(["hi"], None, **values)


async def test_a_tool_of_the_name_of_that_for_skills_is_refused(world: World) -> None:
    with pytest.raises(ToolExists):
        await world.spawn(["hi"], skills=["skills"], tools=[quick("read_skill")])


# Sub-agents, and sessions that come back


async def test_a_sub_agent_has_its_own_skills_and_memory_and_none_of_its_parent(world: World) -> None:
    sandbox = MemorySandbox({"skills/sewing/SKILL.md": skill("sewing"), "AGENTS.md": b"Use metres."})
    models = [ScriptedModel(["done"], name=name) for name in ("a", "b")]
    agents = {"with": agent(models[0], skills=["skills"], memory=["AGENTS.md"]), "without": agent(models[1])}
    await (
        await world.spawn(
            [tasks("with", "without"), "ok"],
            agents=agents,
            sandbox=sandbox,
            skills=["skills"],
            memory=["AGENTS.md"],
        )
    ).ask("hi")
    assert [dict(model.requests[0].background) for model in models] == [
        {"skills": f"{HEAD}- sewing: Sews.", "AGENTS.md": "Use metres."},
        {},
    ]


async def test_a_session_that_comes_back_shows_its_files_as_they_are_now(caplog: pytest.LogCaptureFixture) -> None:
    journal = TestJournal()
    sandbox = MemorySandbox({
        "skills/sewing/SKILL.md": skill("sewing"),
        "AGENTS.md": b"Use metres.",
        "GONE.md": b"Be quick.",
        "SAME.md": b"Be kind.",
    })  # fmt: skip
    model = ScriptedModel(["one", say(calls=[call("read_skill", {"name": "sewing"})]), "two"])
    spec = SessionSpec(
        model=model, sandbox=sandbox, skills=["skills"], memory=["AGENTS.md", "GONE.md", "SAME.md", "NEW.md"]
    )
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hi")
    await sandbox.remove("skills/sewing")
    await sandbox.remove("GONE.md")
    await sandbox.write("skills/knots/SKILL.md", skill("knots", "Ties."))
    await sandbox.write("skills/bad/SKILL.md", b"")
    await sandbox.write("AGENTS.md", b"Use feet.")
    await sandbox.write("NEW.md", b"Be brief.")
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", spec)
        await session.ask("hi")
        texts = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    assert [dict(request.background) for request in model.requests[:2]] == [
        {"skills": f"{HEAD}- sewing: Sews.", "AGENTS.md": "Use metres.", "GONE.md": "Be quick.", "SAME.md": "Be kind."},
        {"skills": f"{HEAD}- knots: Ties.", "SAME.md": "Be kind.", "AGENTS.md": "Use feet.", "NEW.md": "Be brief."},
    ]
    assert texts == ["there is no skill 'sewing'; the skills are:\n- knots: Ties."]
    assert caplog.messages == []


async def test_a_session_that_comes_back_without_its_options_shows_no_files() -> None:
    journal = TestJournal()
    sandbox = MemorySandbox({"skills/sewing/SKILL.md": skill("sewing"), "AGENTS.md": b"Use metres."})
    spec = SessionSpec(
        model=(model := ScriptedModel(["one", "two"])), sandbox=sandbox, skills=["skills"], memory=["AGENTS.md"]
    )
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", spec.but(skills=(), memory=()))
        await session.ask("hi")
        assert session.inspect().sections == ()
    assert ([tool.name for tool in model.requests[0].tools], model.requests[1].tools) == (["read_skill"], ())


async def test_a_section_that_a_plugin_has_set_stays_as_it_is_when_the_session_comes_back() -> None:
    class Loads(Plugin[None]):
        def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> SetSection[None] | Continue[None]:
            return SetSection("AGENTS.md", "Use feet.", layer="memory") if ctx.turn == 0 else Continue()

    journal = TestJournal()
    sandbox = MemorySandbox({"AGENTS.md": b"Use metres."})
    spec = SessionSpec(
        model=(model := ScriptedModel(["one", "two"])), sandbox=sandbox, memory=["AGENTS.md"], plugins=[Loads()]
    )
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        await (await supervisor.resume("s", spec)).ask("hi")
    assert [dict(request.background) for request in model.requests] == [{"AGENTS.md": "Use feet."}] * 2


async def test_a_fork_shows_what_its_origin_showed() -> None:
    sandbox = MemorySandbox({"AGENTS.md": b"Use metres."})
    spec = SessionSpec(model=(model := ScriptedModel(["one", "two"])), sandbox=sandbox, memory=["AGENTS.md"])
    async with open_supervisor(journal=TestJournal(), seed=1) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
        await sandbox.write("AGENTS.md", b"Use feet.")
        await (await supervisor.fork("s", spec, id="t")).ask("hi")
    assert [dict(request.background) for request in model.requests] == [{"AGENTS.md": "Use metres."}] * 2

"""What a reader has broken of the plugins that recall files, facts and runs, and the searches that find it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import trio

from agentrail import Action, Ask, Context, Continue, ReplaceToolResult, SetSection
from agentrail.host import RequestContext, UserMemory
from agentrail.models import AssistantMessage, Message, Origin, Text, ToolCall, ToolMessage, UserMessage
from agentrail.plugins import (
    AfterTool,
    AfterTurn,
    Answered,
    AnyPlugin,
    AskAnswer,
    AskRequest,
    BeforeCompaction,
    BeforePrompt,
    BeforeRequest,
    EpisodicMemory,
    Failed,
    Hook,
    LargeResultOffload,
    MemoryFlush,
    MemoryLoader,
    ReadFile,
    SessionStart,
    TimedOut,
    WriteFile,
)
from agentrail.plugins.memory import episodic_memory, memory_loader
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import Choose
from agentrail.tools import ok
from agentrail.values.content import text_of
from property_tests.planted.change import Change
from tests.kit import EMPTY, NOTHING_USED, freeze_object

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "result_replaced_without_its_file",
        "a result is replaced although nobody knows whether its file is there",
        LargeResultOffload.after_tool,
        "if not isinstance(hook.answer, Answered):",
        "if isinstance(hook.answer, Failed):",
        "offload",
    ),
    Change(
        "file_of_a_result_is_cut",
        "the file of a large result lacks its end",
        LargeResultOffload.after_tool,
        '"\\n".join(lines))',
        '"\\n".join(lines[:9]))',
        "offload",
    ),
    Change(
        "other_memory_files_not_read",
        "of several memory files, only the first that has changed is read",
        memory_loader._load,
        "due = tuple(path for path in due if path != request.path)",
        "due = ()",
        "loader",
    ),
    Change(
        "memory_not_read_after_compactions",
        "what is written at a compaction does not come into the prompt",
        MemoryLoader.before_compact,
        'if self.reload == "never"',
        'if self.reload != "prompts"',
        "loader",
    ),
    Change(
        "deleted_memory_stays",
        "a memory file that is gone stays in the prompt",
        memory_loader._load,
        "if content and content.strip() else None",
        "if content and content.strip() else old",
        "loader",
    ),
    Change(
        "facts_of_nobody_saved",
        "facts are taken from texts that no person has written",
        MemoryFlush._find,
        "if isinstance(message, UserMessage) and message.origin in _PEOPLE",
        "if isinstance(message, UserMessage)",
        "flush",
    ),
    Change(
        "runs_of_others_shown",
        "runs are taken from a file that names another user",
        episodic_memory.episodes_in,
        'stored.get("user") != user',
        'not stored.get("user")',
        "episodes",
    ),
    Change(
        "memory_of_users_written_anew",
        "what a user has told before is lost",
        UserMemory.on_turn_persisted,
        "with_facts(before, facts)",
        "with_facts(None, facts)",
        "user_memory",
    ),
    Change(
        "unreadable_memory_replaced",
        "a memory file that cannot be read is taken for an empty one",
        UserMemory.on_turn_persisted,
        "data.decode()",
        "data.decode(errors='ignore')",
        "user_memory",
    ),
)


class Folder:
    """Plays a session's folder and system prompt to one plugin."""

    def __init__(self, plugin: AnyPlugin, ctx: Context) -> None:
        self.plugin = plugin
        self.ctx = ctx
        self.files: dict[str, str] = {}
        self.sections: dict[str, str] = {}
        self.state: object = plugin.init(ctx) if isinstance(plugin, MemoryFlush | MemoryLoader) else None
        self.answering: Callable[[AskRequest], AskAnswer] = self.carried_out

    def carried_out(self, request: AskRequest) -> AskAnswer:
        """Read or write a file, as the runtime does."""
        match request:
            case ReadFile(path=path):
                return Answered(self.files.get(path))
            case WriteFile(path=path, text=text, replaces=before) if self.files.get(path) in (before, text):
                self.files[path] = text
                return Answered(None)
            case _:
                return Failed("it holds another text")

    def run(self, hook: Hook) -> Action[object]:
        """Run one hook to its end, with all that the plugin asks for; return its last action."""
        while True:
            ctx = self.ctx.but(memory_contents=freeze_object(self.sections), sections=tuple(self.sections.items()))
            action: Action[object] = getattr(self.plugin, hook.moment)(hook, self.state, ctx)
            state: object = getattr(action, "state", None)
            if type(state) is type(self.state):
                self.state = state
            if isinstance(action, SetSection):
                self.sections.pop(action.key, None)
                self.sections |= {} if action.text is None else {action.key: action.text}
            if not isinstance(action, Ask):
                return action
            hook = hook.but(asked=action.request, answer=self.answering(action.request))


def _offload(number: int) -> str | None:
    """Run calls with results around the limit; files that cannot be written, or only perhaps, leave them."""
    choose = Choose(Random(number).randrange)
    folder = Folder(LargeResultOffload(max_tokens=25, head=20, tail=10), Context())
    text = "".join(choose.pick(("row\n", "x" * 30, "\n", "ü")) for _ in range(choose.number(1, 60)))
    fails = choose.pick((None, None, Failed("no"), TimedOut(1.0)))
    folder.answering = folder.carried_out if fails is None else lambda _: fails
    action = folder.run(AfterTool(name="t", call_id="c", result=ok(text)))
    if len(text) <= 100 or fails is not None:
        return None if isinstance(action, Continue) else "stays"
    if not isinstance(action, ReplaceToolResult):
        return "replaced"
    shown = text_of(action.result.content)
    if not (shown.startswith(text[:20]) and shown.endswith(text[-10:])):
        return "preview"
    return None if list(folder.files.values()) == [text] else "file"


def _loader(number: int) -> str | None:
    """Change files by tools and at compactions; compare the sections with the files at each request."""
    choose = Choose(Random(number).randrange)
    names = ("AGENTS.md", "MEMORY.md", "c/NOTES.md")
    folder = Folder(MemoryLoader(names), Context(working_dir="/w"))
    for name in names:
        folder.files |= {name: f"first {name}"} if choose.below(2) else {}
    folder.run(SessionStart())
    folder.run(BeforePrompt(text="go"))
    for round_ in range(choose.number(1, 5)):
        folder.run(BeforeRequest(()))
        if folder.sections != folder.files:
            return "sections"
        name = choose.pick(names)
        if choose.below(3):
            folder.files[name] = f"{round_}"
        else:
            folder.files.pop(name, None)
        if choose.below(2):
            folder.run(AfterTool(name="write_file", call_id="c", result=ok("done"), args=freeze_object({"path": name})))
        else:
            folder.run(BeforeCompaction(()))
    return None


def _flush(number: int) -> str | None:
    """Compact what people and others have said; compare the file with the facts that people told."""
    choose = Choose(Random(number).randrange)
    folder = Folder(MemoryFlush(), Context())
    told: dict[str, None] = {}
    for _ in range(choose.number(1, 4)):
        messages: list[Message] = []
        for _ in range(choose.number(1, 4)):
            origin, fact = choose.pick(tuple(Origin)), f"I like dish {choose.below(5)}."
            messages.append(UserMessage((Text(f"Hello. {fact} Is it good?"),), origin))
            told |= {fact: None} if origin in (Origin.PROMPT, Origin.STEERING) else {}
        folder.run(BeforeCompaction(messages))
    lines = folder.files.get("MEMORY.md", "").splitlines()[2:]
    return None if sorted(lines) == sorted(f"- {fact}" for fact in told) else "facts"


def _turn(query: str, *, failed: bool) -> AfterTurn:
    messages = (
        UserMessage((Text(query),)),
        AssistantMessage((), (ToolCall("c", "look", EMPTY),)),
        ToolMessage("c", "look", (Text("found"),), is_error=failed),
        AssistantMessage((Text("It is done."),)),
    )
    return AfterTurn("finished", None, None, messages, NOTHING_USED, 0, 1)


def _episodes(number: int) -> str | None:
    """Let users run and ask, and swap their files now and then; look whose runs are shown to whom."""
    choose = Choose(Random(number).randrange)
    good: dict[str, set[str]] = {"ann": set(), "bob": set()}
    folders = {
        user: Folder(EpisodicMemory(top_k=99), Context(user_data=freeze_object({"user_id": user}))) for user in good
    }
    for index in range(choose.number(1, 6)):
        user, failed = choose.pick(("ann", "bob")), not choose.below(3)
        query = f"plan trip {index} of {user}"
        folders[user].run(_turn(query, failed=failed))
        good[user] |= set() if failed else {query}
    written = {user: dict(folder.files) for user, folder in folders.items()}
    for user, folder in folders.items():
        other = written["bob" if user == "ann" else "ann"]
        swapped = not choose.below(3)
        if swapped:
            mine, theirs = (
                f"episodes/{episodic_memory.file_name(who)}" for who in sorted(good, key=lambda who: who != user)
            )
            folder.files = {mine: other[theirs]} if theirs in other else {}
        folder.run(BeforePrompt(text="plan trip"))
        shown = folder.sections.get("episodes", "")
        found = {query for queries in good.values() for query in queries if f"asked: {query}\n" in shown}
        if found != (set[str]() if swapped else good[user]) or shown.count("- asked:") != len(found):
            return "runs"
    return None


def _user_memory(number: int) -> str | None:
    """Let a user tell facts, turn by turn; compare the file with all of them, or see that it stays."""
    return trio.run(partial(_told, Choose(Random(number).randrange)))


async def _told(choose: Choose) -> str | None:
    is_text = choose.below(2)
    sandbox = MemorySandbox({} if is_text else {"MEMORY.md": b"\xff"})
    plugin = UserMemory(lambda _: sandbox)
    known: dict[str, None] = {}
    for _ in range(choose.number(1, 4)):
        fact = f"I like dish {choose.below(3)}."
        known[fact] = None
        context = RequestContext("chat", "acme", "ann", "s", "", "r", {UserMemory: fact})
        try:
            await plugin.on_turn_persisted(context)
        except ValueError:
            if is_text:
                return "raised"
    found = (await sandbox.read("MEMORY.md")).data
    wanted = "".join(["# Memory\n\n", *(f"- {fact}\n" for fact in known)]).encode() if is_text else b"\xff"
    return None if found == wanted else "file"


RECALL: Final = {
    "offload": _offload,
    "loader": _loader,
    "flush": _flush,
    "episodes": _episodes,
    "user_memory": _user_memory,
}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""

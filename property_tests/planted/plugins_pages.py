"""One bug for each plugin that its reader chose from the page of the plugin alone, and the searches that find them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import trio

from agentrail import (
    Abort,
    Ask,
    BlockTool,
    Context,
    HoldTool,
    ReplaceMessages,
    ReplaceResponse,
    ReplaceToolResult,
    SetSection,
    SwitchModel,
)
from agentrail.hooks.actions import Emission
from agentrail.host import RequestContext, UserMemory
from agentrail.models import (
    AssistantMessage,
    FrozenObject,
    Image,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from agentrail.plugins import (
    AfterResponse,
    AfterTool,
    Answered,
    BeforeCompaction,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    BudgetGuard,
    ContentPolicy,
    HumanApproval,
    LargeResultOffload,
    MemoryFlush,
    MemoryLoader,
    ModelRouter,
    OutputFilter,
    PatchToolCalls,
    PermissionPolicy,
    PromptCache,
    Recovery,
    TimedOut,
)
from agentrail.plugins.budget import Spent
from agentrail.plugins.guards import content_policy, permission_rules
from agentrail.plugins.guards.content_policy import Judged
from agentrail.plugins.memory import episodic_memory, facts, memory_loader
from agentrail.plugins.memory.memory_flush import Flush
from agentrail.plugins.memory.memory_loader import Unread
from agentrail.plugins.requests import model_router
from agentrail.plugins.requests.model_router import Chosen
from agentrail.plugins.requests.recovery import EXHAUSTED, Fallen
from agentrail.plugins.shell.command_line import Commands
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import Choose
from agentrail.tools import ok
from property_tests.planted.change import Change
from tests.kit import EMPTY, freeze_object

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "words_hide_behind_invisible_letters",
        "a forbidden word with an invisible character in it passes",
        content_policy.plain_words,
        "visible(text)",
        "text",
        "page_policy",
    ),
    Change(
        "what_plugins_say_is_not_filtered",
        "what another plugin puts into a response stays in it",
        OutputFilter.after_response,
        "return Continue() if screened == text else ReplaceResponse(screened)",
        "return Continue() if screened else ReplaceResponse(screened)",
        "page_filter",
    ),
    Change(
        "warned_at_each_request",
        "the warning of a limit is emitted again and again",
        BudgetGuard._warned,
        " and name not in state.warned",
        "",
        "page_budget",
    ),
    Change(
        "tools_of_a_denied_server_run",
        "a rule that denies a server does not deny its tools",
        permission_rules.means_tool,
        " or tool.startswith(rule_tool + _SERVER)",
        "",
        "page_permissions",
    ),
    Change(
        "always_for_several_families",
        "an approval for always of one command of a line is offered for the whole line",
        Commands.family,
        "len(families) != 1 or",
        "not families or",
        "page_approval",
    ),
    Change(
        "slow_memory_is_lost",
        "a memory file that takes too long loses the section that it had",
        memory_loader._load,
        'problem = f"it took more than {seconds:g} s"',
        'new, problem = None, f"it took more than {seconds:g} s"',
        "page_loader",
    ),
    Change(
        "secrets_are_remembered",
        "a fact that tells a secret is saved",
        facts.fact_of,
        "None if _tells_secret(line) or _tells_secret(visible(text)) else line",
        "line",
        "page_flush",
    ),
    Change(
        "newest_runs_make_room",
        "of too many runs, the newest are left out",
        episodic_memory.render_episodes,
        "list(episodes)[-most:]",
        "list(episodes)[:most]",
        "page_episodes",
    ),
    Change(
        "images_of_large_results_are_lost",
        "the images of a result that is replaced are lost",
        LargeResultOffload.after_tool,
        "(Text(preview), *rest)",
        "(Text(preview),)",
        "page_offload",
    ),
    Change(
        "exhausted_over_and_over",
        "the end of the chain is told after each failure",
        Recovery._next,
        "if state.is_told:",
        "if state.is_told is None:",
        "page_recovery",
    ),
    Change(
        "one_fact_of_a_user_is_enough",
        "a rule holds if one of the values in `user_data` is right",
        model_router._is_users,
        "return all(",
        "return any(",
        "page_router",
    ),
    Change(
        "empty_messages_stay",
        "a message of the model with nothing in it is sent to providers",
        PatchToolCalls.repaired,
        "if not message.parts and not message.calls:",
        "if message.parts and not message.parts:",
        "page_patch",
    ),
    Change(
        "marks_replace_other_options",
        "a model with cache marks loses its other options",
        PromptCache.before_request,
        "{**ctx.model_options, ",
        "{",
        "page_cache",
    ),
    Change(
        "any_number_of_facts_of_a_message",
        "more facts of a message are saved than may be",
        UserMemory.on_turn_persisted,
        "self._most",
        "99",
        "page_user_memory",
    ),
)

Search = Callable[[Choose], str | None]


def _policy(choose: Choose) -> str | None:
    """Write a forbidden word in other ways: letters of two widths and cases, with what nobody sees in between."""
    policy = ContentPolicy(prohibited_keywords=("bad word",))
    hidden, letter, blank = (
        choose.pick(("", "\u200b", "\u2060")),
        choose.pick("aA\uff41"),
        choose.pick((" ", "  ", "\n")),
    )
    action = policy.before_prompt(BeforePrompt(f"a b{hidden}{letter}d{blank}word"), Judged(), Context())
    return None if isinstance(action, Abort) else "word"


def _filter(choose: Choose) -> str | None:
    """Have a plugin put a word into a response after it was screened."""
    guard = OutputFilter(kinds=(), keywords=("zeta",), action=choose.pick(("replace", "abort")))
    said = AfterResponse(AssistantMessage((Text(f"{choose.pick(('', 'so '))}zeta"),)))
    action = guard.after_response(said, None, Context())
    wanted: type[object] = Abort if guard.action == "abort" else ReplaceResponse
    return None if isinstance(action, wanted) else "response"


def _budget(choose: Choose) -> str | None:
    """Make requests under limits until one is refused; count the warnings of each limit."""
    guard = BudgetGuard(max_rounds=choose.number(3, 9), max_tokens=choose.number(100, 900), warn_at=0.5)
    state, used = guard.init(Context()), 0
    warned: list[object] = []
    while True:
        action = guard.before_request(BeforeRequest(()), state, Context(usage=Usage(used, 0)))
        if isinstance(action, Abort):
            return "warnings" if len(warned) != len(set(warned)) else None
        state = action.state if isinstance(action.state, Spent) else state
        told = [one.payload for one in action.emits if isinstance(one, Emission)]
        warned += [each["limit"] for each in told if isinstance(each, FrozenObject)]
        used += choose.number(1, 90)


def _permissions(choose: Choose) -> str | None:
    """Call tools of servers of which some are denied by name."""
    denied = choose.some(("github", "mail", "files"), 50)
    server = choose.pick(("github", "GitHub", "mail", "files"))
    policy = PermissionPolicy(deny=tuple(denied))
    action = policy.before_tool(BeforeTool(f"{server}__delete", EMPTY, "c"), None, Context())
    return None if isinstance(action, BlockTool) is (server.lower() in denied) else "server"


def _approval(choose: Choose) -> str | None:
    """Hold lines of some commands; look for which an approval for always is offered."""
    commands = [choose.pick(("make", "git push", "npm publish")) for _ in range(choose.number(1, 3))]
    hook = BeforeTool("shell", freeze_object({"command": "; ".join(commands)}), "c")
    action = HumanApproval().before_tool(hook, None, Context())
    if not isinstance(action, HoldTool):
        return "held"
    return None if (action.family is None) is (len(set(commands)) > 1) else "family"


def _loader(choose: Choose) -> str | None:
    """Read a file that takes too long, with or without a text that is known of it."""
    known = choose.pick(({}, {"AGENTS.md": "Use tabs."}))
    plugin, ctx = MemoryLoader(("AGENTS.md",)), Context(memory_contents=freeze_object(known))
    hook = BeforeRequest(())
    asks = plugin.before_request(hook, Unread(("AGENTS.md",)), ctx)
    if not isinstance(asks, Ask):
        return "asked"
    again = plugin.before_request(hook.but(asked=asks.request, answer=TimedOut(10.0)), Unread(("AGENTS.md",)), ctx)
    return "section" if isinstance(again, SetSection) else None


def _flush(choose: Choose) -> str | None:
    """Compact a conversation in which a person tells things, a secret perhaps."""
    secret = choose.pick(("my password is tulip", "I use the card 4111 1111 1111 1111", "my API key is here"))
    told = choose.some(("I like tea.", f"Remember that {secret}.", "We always meet on Monday."), 60)
    plugin = MemoryFlush()
    said = UserMessage((Text(" ".join(told)),))
    asks = plugin.before_compact(BeforeCompaction((said,)), Flush(), Context())
    kept = asks.state.facts if isinstance(asks.state, Flush) else ()
    return None if len(kept) == sum(secret not in one for one in told) else "facts"


def _episodes(choose: Choose) -> str | None:
    """Write more runs of a user than may be kept; see which are left."""
    count, most = choose.number(1, 9), choose.number(1, 9)
    runs = [episodic_memory.Episode(f"ask {at}", "done", (), at) for at in range(count)]
    left = json.loads(episodic_memory.render_episodes("ann", runs, most))["episodes"]
    return None if [one["at_ms"] for one in left] == list(range(count))[-most:] else "oldest"


def _offload(choose: Choose) -> str | None:
    """Replace a large result with images in it; count what is left beside the preview."""
    images = tuple(Image("image/png", "AA==") for _ in range(choose.below(3)))
    result = ok("x" * 500).but(content=(Text("x" * 500), *images))
    plugin, hook = LargeResultOffload(max_tokens=25, head=20, tail=10), AfterTool("t", "c", result)
    asks = plugin.after_tool(hook, None, Context())
    if not isinstance(asks, Ask):
        return "asked"
    action = plugin.after_tool(hook.but(asked=asks.request, answer=Answered(None)), None, Context())
    if not isinstance(action, ReplaceToolResult):
        return "replaced"
    return None if action.result.content[1:] == images else "images"


def _recovery(choose: Choose) -> str | None:
    """Let a request fail with all models of a chain, and go on failing; count how often its end is told."""
    plugin = Recovery(["spare"], after_attempts=1)
    state, model, told = Fallen(), "own", 0
    for attempt in range(2, choose.number(4, 9)):
        action = plugin.before_request(BeforeRequest((), attempt, "busy"), state, Context(model=model))
        state = action.state if isinstance(action.state, Fallen) else state
        model = action.model if isinstance(action, SwitchModel) else model
        told += sum(getattr(one, "name", "") == EXHAUSTED for one in action.emits)
    return None if told == 1 else "told"


def _router(choose: Choose) -> str | None:
    """Route the request of a user by two facts about them."""
    tier, seats = choose.pick(("pro", "free")), choose.number(1, 5)
    router = ModelRouter([{"model": "large", "user_data": {"tier": "pro", "seats": {"gt": 3}}}], "small")
    ctx = Context(user_data=freeze_object({"tier": tier, "seats": seats}))
    action = router.before_request(BeforeRequest(()), Chosen(), ctx)
    wanted = "large" if tier == "pro" and seats > 3 else "small"
    return None if isinstance(action, SwitchModel) and action.model == wanted else "choice"


def _patch(choose: Choose) -> str | None:
    """Repair messages among which are empty ones of the model."""
    messages: list[Message] = [UserMessage((Text("go on"),)), AssistantMessage((), (ToolCall("a", "read", EMPTY),))]
    messages += [AssistantMessage(()) for _ in range(choose.below(3))]
    messages += [ToolMessage("b", "read", (Text("found"),))]
    action = PatchToolCalls().before_request(BeforeRequest(tuple(messages)), "", Context())
    if not isinstance(action, ReplaceMessages):
        return "repaired"
    return "empty" if AssistantMessage(()) in action.messages else None


def _cache(choose: Choose) -> str | None:
    """Mark the requests to a model with other options."""
    own = choose.pick((EMPTY, FrozenObject(temperature=1), FrozenObject(max_tokens=9, top_p=0.5)))
    action = PromptCache().before_request(BeforeRequest(()), None, Context(model="anthropic:x", model_options=own))
    kept = isinstance(action, SwitchModel) and all(action.provider_options.get(name) == own[name] for name in own)
    return None if kept else "options"


def _user_memory(choose: Choose) -> str | None:
    """Let a user tell some facts in one message; count those that are saved."""
    return trio.run(partial(_saved, choose.number(1, 5), choose.number(1, 3)))


async def _saved(told: int, most: int) -> str | None:
    sandbox = MemorySandbox({})
    message = " ".join(f"I like dish {number}." for number in range(told))
    context = RequestContext("chat", "acme", "ann", "s", "", "r", {UserMemory: message})
    await UserMemory(lambda _: sandbox, max_facts=most).on_turn_persisted(context)
    saved = (await sandbox.read("MEMORY.md")).data.count(b"- ")
    return None if saved == min(told, most) else "facts"


def _seeded(search: Search, number: int) -> str | None:
    return search(Choose(Random(number).randrange))


PAGES: Final[dict[str, Callable[[int], str | None]]] = {
    name: partial(_seeded, search)
    for name, search in {
        "page_policy": _policy,
        "page_filter": _filter,
        "page_budget": _budget,
        "page_permissions": _permissions,
        "page_approval": _approval,
        "page_loader": _loader,
        "page_flush": _flush,
        "page_episodes": _episodes,
        "page_offload": _offload,
        "page_recovery": _recovery,
        "page_router": _router,
        "page_patch": _patch,
        "page_cache": _cache,
        "page_user_memory": _user_memory,
    }.items()
}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""

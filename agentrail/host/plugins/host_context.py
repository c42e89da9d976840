"""`HostContext` adds the texts of context providers to the requests of a turn; `ContextService` asks the providers.

Adds two session plugins, which call the host plugins during turns, and their services, to a specification.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Final

from attrs import asdict, frozen

from agentrail.app.spec import SessionSpec
from agentrail.codec.json_text import to_text
from agentrail.errors import BrokenPlugin
from agentrail.hooks.actions import AddContext, Answered, Ask, CallService, Continue
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterTurn, BeforeRequest
from agentrail.hooks.plugin import AnyPlugin, Plugin
from agentrail.hooks.plugin_checks import MAX_SAID
from agentrail.host.plugins.host_plugin import DEADLINE, name_of
from agentrail.host.plugins.host_tools import BROKEN, ON_THE_WAY, TOOL_SERVICE, HostTools, ToolService, host_tools
from agentrail.host.plugins.plugin_runner import HookValue, HostPluginRow
from agentrail.host.plugins.plugin_values import ContextProvider, RequestContext, UnfitAnswerError, additions_to
from agentrail.runtime.shared.code_loops import bind_function
from agentrail.values.content import Text
from agentrail.values.json import FrozenObject, Json, freeze, freeze_object
from agentrail.values.messages import AssistantMessage, Message, Origin, UserMessage
from agentrail.values.value import Value

CONTEXT_SERVICE: Final = "agentrail.host.context"
"""Name of the service that `HostContext` calls."""
HOOK: Final = "context_providers"
MAX_BYTES: Final = 32 * 1024
"""The most bytes, as JSON, of what all providers add to one turn: it is part of the plugin's state."""


@frozen
class AddedText:
    """One text that providers add."""

    text: str
    """The text."""
    front: bool = False
    """Whether it stands before the messages of the request; else it stands after them."""
    is_models: bool = False
    """Whether it is a message of the model; else it is the program's."""


@frozen
class TurnContext:
    """The state of `HostContext`: what it adds to the requests of the open turn."""

    turn: int = 0
    """Number of the turn that it is for."""
    text: str = ""
    """The texts of all providers, in order, if all stand after the messages; empty between turns."""
    added: tuple[AddedText, ...] = ()
    """What providers add, in order, if something of it is the model's or stands before the messages."""

    @property
    def adds(self) -> bool:
        """Whether there is any text to add."""
        return bool(self.text or self.added)

    def side(self, *, front: bool) -> tuple[Message, ...]:
        """Return the messages before those of the request, or after them."""
        return tuple([_message(addition) for addition in self.added if addition.front is front])


@frozen
class HostContext(Plugin[TurnContext]):
    """Ask the context providers of the host once in each turn, and add what they give to each of its requests."""

    seconds: float | None = DEADLINE
    """Seconds that all providers may take together; `None` if there are none any more."""

    priority = -MAX_SAID  # before all plugins of the session, so that they see the added texts

    def init(self, ctx: Context) -> TurnContext:  # noqa: ARG002 - a hook
        """Return the state before the first turn."""
        return TurnContext()

    def inherited(self, state: TurnContext, ctx: Context) -> AnyPlugin | None:  # noqa: ARG002 - a hook
        """Return `None`: what is added is for the request of a person, not for the task of a sub-agent."""
        return None

    def before_request(
        self, hook: BeforeRequest, state: TurnContext, ctx: Context
    ) -> Continue[TurnContext] | AddContext[TurnContext] | Ask[TurnContext]:
        """Add what the providers give; ask them at the first request of a turn."""
        if state.turn != ctx.turn:
            if self.seconds is None:
                return Continue()
            if hook.answer is None:
                payload = freeze_object({"hook": HOOK, "session": ctx.session_id})
                return Ask(CallService(CONTEXT_SERVICE, payload), deadline=self.seconds + ON_THE_WAY)
            if not isinstance(hook.answer, Answered) and not _is_fault_reported(hook):
                return Ask(CallService(CONTEXT_SERVICE, freeze_object({"hook": BROKEN, "in": HOOK})), deadline=DEADLINE)
            answer = hook.answer.value if isinstance(hook.answer, Answered) else None
            state = _context(ctx.turn, _texts(answer))
        if not state.adds:
            return Continue(state)
        return AddContext(state.text, state, front=state.side(front=True), behind=state.side(front=False))

    def after_turn(self, hook: AfterTurn, state: TurnContext, ctx: Context) -> Continue[TurnContext]:  # noqa: ARG002 - a hook
        """Forget the texts: the next turn has its own."""
        return Continue(TurnContext(state.turn)) if state.adds else Continue()


def _is_fault_reported(hook: BeforeRequest) -> bool:
    request = hook.asked
    payload = request.payload if isinstance(request, CallService) else None
    return isinstance(payload, FrozenObject) and payload.get("hook") == BROKEN


def _texts(answer: Json) -> list[AddedText]:
    items = answer if isinstance(answer, tuple) else ()
    return [
        AddedText(str(item["text"]), item.get("front") is True, item.get("is_models") is True)
        for item in items
        if isinstance(item, FrozenObject)
    ]


def _context(turn: int, texts: Iterable[AddedText]) -> TurnContext:
    """Return *texts* as a state; neighbouring texts of the program are joined by a blank line."""
    sides: tuple[list[AddedText], list[AddedText]] = ([], [])
    for addition in texts:
        side = sides[0 if addition.front else 1]
        if side and not (addition.is_models or side[-1].is_models):
            side[-1] = AddedText(f"{side[-1].text}\n\n{addition.text}", addition.front)
        else:
            side.append(addition)
    front, back = sides
    if not front and all(not addition.is_models for addition in back):
        return TurnContext(turn, "".join([addition.text for addition in back]))
    return TurnContext(turn, added=(*front, *back))


def _message(added: AddedText) -> Message:
    parts = (Text(added.text),)
    return AssistantMessage(parts) if added.is_models else UserMessage(parts, Origin.INTERVENTION)


class OwnedProvider(Value, gc=True):
    """A context provider, with the name of its owner."""

    origin: str
    """Name of the plugin, or who else has it, such as `host`."""
    seconds: float
    """Seconds that it may take."""
    call: ContextProvider
    """The function."""


def providers_of(
    row: HostPluginRow, host: Sequence[ContextProvider] = (), profile: Sequence[ContextProvider] = (), named: str = ""
) -> tuple[OwnedProvider, ...]:
    """Return all providers in order: the host's own, those of the profile called *named*, those of plugins."""
    return (
        *(OwnedProvider("host", DEADLINE, bind_function(call)) for call in host),
        *(OwnedProvider(named, DEADLINE, bind_function(call)) for call in profile),
        *(
            OwnedProvider(name_of(plugin), plugin.deadline, bind_function(call))
            for plugin in row.plugins
            for call in plugin.context_providers
        ),
    )


def host_context(providers: Sequence[OwnedProvider], *, stays: bool = False) -> HostContext | None:
    """Return the plugin for sessions with *providers*.

    `None` if there are none, unless the plugin *stays* in the row of a session that had some: it adds nothing then.
    """
    if not providers:
        return HostContext(None) if stays else None
    return HostContext(sum(provider.seconds for provider in providers))


class ContextService:
    """The service behind `HostContext`: asks *providers*, and returns what each adds, with its origin."""

    __slots__ = ("_context_of", "_messages_of", "_providers", "_row")

    def __init__(
        self,
        row: HostPluginRow,
        providers: Sequence[OwnedProvider],
        context_of: Callable[[str], RequestContext],
        messages_of: Callable[[str], Sequence[Message]],
    ) -> None:
        self._row = row
        self._providers = tuple(providers)
        self._context_of = context_of
        self._messages_of = messages_of

    async def serve(self, payload: Json) -> Json:
        """Return the texts for a turn, each with the name of its origin."""
        request = freeze_object(payload)
        if request["hook"] == BROKEN:
            name = HostContext.__name__
            await self._row.report(name, HOOK, BrokenPlugin(name, HOOK, "the providers could not be asked"))
            return None
        session = str(request["session"])
        context, messages = self._context_of(session), tuple(self._messages_of(session))
        texts = list[Json]()
        room = MAX_BYTES
        for provider in self._providers:
            reader = partial(_fitting, messages, room)
            call = partial(provider.call, context, messages)
            answer = await self._row.ask_for(provider.origin, provider.seconds, HOOK, call, reader)
            if isinstance(answer, HookValue):
                room -= sum(map(_size, answer.value))
                texts += [freeze_object({"by": provider.origin, **_text_json(addition)}) for addition in answer.value]
        return freeze(texts)


def _fitting(messages: Sequence[Message], room: int, answer: object) -> tuple[AddedText, ...]:
    front, back = additions_to(messages)(answer)
    texts = (*_without_blanks(front, front=True), *_without_blanks(back, front=False))
    if sum(map(_size, texts)) > room:
        raise UnfitAnswerError(answer, f"less text: {MAX_BYTES} bytes are the limit of a turn, and {room} are left")
    return texts


def _without_blanks(additions: Iterable[str | AssistantMessage], *, front: bool) -> list[AddedText]:
    """Return the *additions* that are not blank."""
    texts = [
        AddedText(addition, front) if isinstance(addition, str) else AddedText(addition.text, front, is_models=True)
        for addition in additions
    ]
    return [addition for addition in texts if addition.text.strip()]


def _text_json(added: AddedText) -> dict[str, Json]:
    """Return *added* as JSON; fields at their defaults are left out."""
    return {name: value for name, value in asdict(added).items() if value is not False}


def _size(added: AddedText) -> int:
    if added.front or added.is_models:
        return len(to_text(freeze_object(asdict(added))).encode()) + 1
    return len(to_text(added.text).encode()) + 4  # plus the blank line before the next text


def reaching(
    spec: SessionSpec,
    row: HostPluginRow,
    providers: Sequence[OwnedProvider],
    context_of: Callable[[str], RequestContext],
    messages_of: Callable[[str], Sequence[Message]],
    keys: Container[str] = (),
) -> SessionSpec:
    """Return *spec* with `HostContext` as first and `HostTools` as last plugin, each only if it has work to do.

    *context_of* returns the context of the turn, and *messages_of* the conversation, of the root session with this id.
    *keys* are the keys of the plugins that a stored session has: without one of them, it could not come back.
    """
    added = host_context(providers, stays=HostContext.__name__ in keys)
    ruling = host_tools(row, stays=HostTools.__name__ in keys)
    services = dict(spec.services)
    if added is not None:
        services[CONTEXT_SERVICE] = ContextService(row, providers, context_of, messages_of).serve
    if ruling is not None:
        services[TOOL_SERVICE] = ToolService(row, context_of).serve
    return spec.but(plugins=(*filter(None, (added,)), *spec.plugins, *filter(None, (ruling,))), services=services)

"""What the calls of `handle_calls` give back."""

from __future__ import annotations

from agentrail.values.content import Part
from agentrail.values.json import JsonObject
from agentrail.values.messages import Message
from agentrail.values.tools import Err, Ok
from agentrail.wire.views import ReplyView, TaskView, View


class WholeReplyView(ReplyView, kw_only=True):
    """How a turn ended, with all that was said in it."""

    messages: tuple[Message, ...]
    """Messages that the turn added to the conversation, oldest first."""
    fits: bool
    """Whether the text is a JSON object that fits the schema which was asked for."""


class PromptView(View):
    """A queued prompt."""

    ref: str
    """Id of the prompt in events."""
    parts: tuple[Part, ...]
    """What is said."""
    returns: JsonObject
    """JSON Schema of an object that the answer must fit; empty if none was asked for."""


class QueueView(View):
    """The queue of a session."""

    items: tuple[PromptView, ...]
    """The prompts, in the order of their turns."""
    next: None = None
    """There is one page."""


class TasksView(View):
    """The sub-agents of a session."""

    items: tuple[TaskView, ...]
    """Those that run, and the last ones in the background that have ended."""
    next: None = None
    """There is one page."""


class TaskResultView(View):
    """The answer of a sub-agent."""

    child: str
    """Id of the sub-agent's session."""
    result: Ok | Err
    """Its answer, or what went wrong."""


class TaskResultsView(View):
    """The answers of sub-agents."""

    items: tuple[TaskResultView, ...]
    """The answers of those that have ended."""
    next: None = None
    """There is one page."""


class OfferedView(View):
    """What the profile of a session offers by name."""

    models: tuple[str, ...]
    """Names of models."""
    tools: tuple[str, ...]
    """Names of tools."""
    plugins: tuple[str, ...]
    """Keys of plugins."""


class AgentsView(View):
    """The agents that the host has."""

    items: tuple[str, ...]
    """Names of the profiles; empty if the host decides for each request."""
    next: None = None
    """There is one page."""

"""A call that an MCP server has answered by questions to a person: which are open, and what the person has said so far.

Each question is one `AskPerson` of the session, whose `resume` holds this state. So it survives a restart: a server of
2026-07-28 gets the answers with its own `request_state` in a new request. A server of an older protocol asks while its
call runs; that call goes on when it is answered, and is lost with its connection.
"""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel, ConfigDict, ValidationError

from agentrail.adapters.mcp.form_fields import MAX_LABEL, FieldValue, FormAnswerError, FormField, fields_of
from agentrail.errors import NotJson, ToolError
from agentrail.values.json import JsonObject, freeze_object, weight
from agentrail.values.tools import AskPerson, Effect

Elicitation = ElicitRequestURLParams | ElicitRequestFormParams

ACCEPT: Final = "accept"
DECLINE: Final = "decline"
CANCEL: Final = "cancel"
ANSWER: Final = "answer"
DONE: Final = "done"

MAX_MESSAGE: Final = 2_000
"""The most characters of a server's question that are shown; the rest is cut."""

MAX_REQUESTS: Final = 20
"""The most questions that a server may ask at once."""

MAX_STATE: Final = 256 * 1024
"""The most bytes of a question with the server's own state; they are stored with the session."""

UNREADABLE: Final = "the stored question of the MCP server cannot be read; call the tool again"
NO_SECRETS: Final = "Give it no password, key or other secret."


class AskedBack(BaseModel):
    """Questions of a server about one call, in order; the first one is being asked."""

    model_config = ConfigDict(frozen=True)

    requests: dict[str, Elicitation]
    """The open questions, by the server's keys."""
    responses: dict[str, ElicitResult] = {}
    """The answers for the server, by its keys."""
    request_state: str | None = None
    """The server's own state, which it gets back unread; `None` if it has sent none."""
    how: Literal["retry", "runs", "pages", "sign_in"] = "retry"
    """How the call goes on: sent with the answers, running on, or sent anew after the pages or the sign-in."""
    url: str = ""
    """URL of the server at which the person is to sign in; empty if `how` is another."""
    agreed: bool = False
    """Whether the person wants to fill in the form of the first question."""
    values: dict[str, FieldValue | None] = {}
    """Fields of the first question that are filled in; `None` for one that is left out."""
    problem: str = ""
    """Why the last answer did not fit; empty if it did."""

    @classmethod
    def stored(cls, state: JsonObject) -> AskedBack:
        """Return the questions from a stored *state*; raise `ToolError` if they cannot be read."""
        try:
            return cls.model_validate(state)
        except ValidationError as error:
            raise ToolError(UNREADABLE) from error

    @classmethod
    def by(cls, required: InputRequiredResult) -> AskedBack:
        """Return the questions of a server's result; raise `ToolError` if one is not to a person."""
        requests: dict[str, Elicitation] = {}
        for key, request in (required.input_requests or {}).items():
            if not isinstance(request, ElicitRequest):
                problem = f"the MCP server asks for `{request.method}`, which it cannot have; only a person answers it"
                raise ToolError(problem)
            requests[key] = request.params
        return cls(requests=requests, request_state=required.request_state)

    @classmethod
    def sign_in(cls, url: str) -> AskedBack:
        """Return the question whether a person has signed in at the server with *url*."""
        return cls(requests={}, how="sign_in", url=url)

    @property
    def is_open(self) -> bool:
        """Whether a person has to answer something still."""
        return bool(self.requests) or (self.how == "sign_in" and not self.agreed)

    def effect(self, server: str, tool: str) -> Effect:
        """Return the effect that asks a person the first question; raise `ToolError` if it cannot be asked."""
        if len(self.requests) > MAX_REQUESTS:
            problem = f"the MCP server asks {len(self.requests)} questions at once, and {MAX_REQUESTS} are the most"
            raise ToolError(problem)
        who = f"The MCP server `{server}` asks, for its tool `{tool}`"
        question, options = self._sign_in_question(server) if self.how == "sign_in" else self._question(who)
        try:
            state = freeze_object(self.model_dump(mode="json", by_alias=True, exclude_none=False))
        except NotJson as error:
            problem = f"the question of the MCP server cannot be stored: {error}"
            raise ToolError(problem) from error
        if weight(state) > MAX_STATE:
            problem = f"the question of the MCP server has more than {MAX_STATE} bytes"
            raise ToolError(problem)
        return Effect(AskPerson(question, options, state))

    def answered(self, answer: str) -> AskedBack:
        """Return the questions that are left after a person's *answer* to the first one."""
        request = next(iter(self.requests.values()), None)
        word = answer.strip()
        if request is None:
            return self._signed_in(word) if self.how == "sign_in" else self
        if not self.agreed and word in {DECLINE, CANCEL}:
            return self._settled(ElicitResult(action=DECLINE if word == DECLINE else CANCEL))
        if isinstance(request, ElicitRequestURLParams):
            agrees = word == ACCEPT
            return self._settled(ElicitResult(action=ACCEPT)) if agrees else self._again(f"{word[:MAX_LABEL]!r}?")
        fields = fields_of(request.requested_schema)
        lone = _lone_choice(fields)
        if not self.agreed and lone is None:
            if word not in {ACCEPT, ANSWER}:
                return self._again(f"{word[:MAX_LABEL]!r}?")
            agreed = self.model_copy(update={"agreed": True, "problem": ""})
            return agreed if fields else agreed._settled(ElicitResult(action=ACCEPT, content={}))  # noqa: SLF001
        return self._filled(fields, answer)

    def _signed_in(self, word: str) -> AskedBack:
        if word in {DECLINE, CANCEL}:
            problem = "the person did not sign in at the MCP server"
            raise ToolError(problem)
        if word != DONE:
            return self._again(f"{word[:MAX_LABEL]!r}?")
        return self.model_copy(update={"agreed": True, "problem": ""})

    def _filled(self, fields: tuple[FormField, ...], answer: str) -> AskedBack:
        field = self._open_field(fields)
        try:
            values = {**self.values, field.name: field.value_of(answer)}
        except FormAnswerError as misfit:
            return self._again(str(misfit))
        if len(values) < len(fields):
            return self.model_copy(update={"values": values, "problem": ""})
        content: dict[str, FieldValue | None] = {name: value for name, value in values.items() if value is not None}
        return self._settled(ElicitResult(action=ACCEPT, content=content))

    def _open_field(self, fields: tuple[FormField, ...]) -> FormField:
        """Return the next field that is not filled in; raise `ToolError` if a stored state has none left."""
        field = next((field for field in fields if field.name not in self.values), None)
        if field is None:
            raise ToolError(UNREADABLE)
        return field

    def _again(self, problem: str) -> AskedBack:
        return self.model_copy(update={"problem": problem})

    def _settled(self, result: ElicitResult) -> AskedBack:
        key = next(iter(self.requests))
        return self.model_copy(
            update={
                "requests": {other: request for other, request in self.requests.items() if other != key},
                "responses": {**self.responses, key: result},
                "agreed": False,
                "values": {},
                "problem": "",
            }
        )

    def _sign_in_question(self, server: str) -> tuple[str, tuple[str, ...]]:
        misfit = f"That does not fit: {self.problem}.\n" if self.problem else ""
        question = (
            f"{misfit}The MCP server `{server}` at {_host_of(self.url)} wants you to sign in. Run "
            f"`agentrail mcp login {server}` in a terminal, or with its URL, and then answer `{DONE}`."
        )
        return question, (DONE, DECLINE)

    def _question(self, who: str) -> tuple[str, tuple[str, ...]]:
        """Return the text of the first question, which *who* asks, and the answers to choose from."""
        request = next(iter(self.requests.values()))
        misfit = (f"That does not fit: {self.problem}.",) if self.problem else ()
        if isinstance(request, ElicitRequestURLParams):
            return _url_question(who, request, misfit), (ACCEPT, DECLINE, CANCEL)
        heading = f"{who}: {request.message[:MAX_MESSAGE]}"
        fields = fields_of(request.requested_schema)
        lone = _lone_choice(fields)
        if lone is not None:
            return "\n".join((*misfit, heading, f"{lone.label}")), (*lone.options, DECLINE, CANCEL)
        if not self.agreed:
            rows = ("It wants:", *(f"- {field.label}" for field in fields), NO_SECRETS) if fields else ()
            return "\n".join((*misfit, heading, *rows)), (ANSWER if fields else ACCEPT, DECLINE, CANCEL)
        field = self._open_field(fields)
        rows = (*misfit, f"{who.partition(' asks')[0]} wants: {field.label}", *([field.how] if field.how else []))
        return "\n".join(rows), field.options


def _lone_choice(fields: tuple[FormField, ...]) -> FormField | None:
    """Return the only field of a form if one of its choices is the whole answer; else `None`."""
    lone = fields[0] if len(fields) == 1 and fields[0].options else None
    return None if lone is None or {DECLINE, CANCEL} & lone.choices.keys() else lone


def _url_question(who: str, request: ElicitRequestURLParams, misfit: tuple[str, ...]) -> str:
    host = _host_of(request.url)
    rows = (
        *misfit,
        f"{who.removesuffix(' asks')}, that you open a page of the host {host}: {request.message[:MAX_MESSAGE]}",
        request.url,
        f"Nothing is opened for you. Check the host, open the page, and then answer `{ACCEPT}`.",
    )
    return "\n".join(rows)


def _host_of(url: str) -> str:
    """Return the host of *url* in ASCII, so that no letter stands for another; raise `ToolError` if it is no page."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = parts.port
    except ValueError:
        host, parts, port = "", urlsplit(""), None
    is_here = host in {"localhost", "127.0.0.1", "::1"}
    is_page = parts.scheme in ({"http", "https"} if is_here else {"https"}) and "@" not in parts.netloc
    if not host or not is_page or not url.isprintable() or " " in url or len(url) > MAX_MESSAGE:
        beginning = url[:MAX_LABEL]
        problem = f"the MCP server wants a person to open {beginning!r}, which is no https address; nobody was asked"
        raise ToolError(problem)
    return host if port is None else f"{host}:{port}"

"""The class of all models that are reached by HTTP; the wire format of the provider does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from agentrail.adapters.models.model_access import Access, access_to, check_cloud_options
from agentrail.adapters.models.provider_errors import error_of_body
from agentrail.adapters.models.provider_requests import address, ask_by_tool, encoded, merge_headers, with_demanded
from agentrail.adapters.models.providers import Provider, format_of
from agentrail.adapters.models.redaction import LookUp, Redactor, redacted_error
from agentrail.adapters.models.settings import Settings, read_settings, with_extra
from agentrail.core.answers import without_answer_tool
from agentrail.errors import (
    KeyRefused,
    ModelError,
    ModelMissing,
    NoNextByte,
    RequestRefused,
    StreamEndedEarly,
    WrongEndpoint,
)
from agentrail.ports.model import EmitChunk
from agentrail.reprs import in_brackets
from agentrail.values.content import File, Image
from agentrail.values.json import JsonObject, canonical
from agentrail.values.stream import PING, Chunk, ModelRequest, Response, estimate_usage

if TYPE_CHECKING:
    from agentrail.adapters.models.clouds.accounts import Accounts
    from agentrail.adapters.models.clouds.cloud import CloudAccount
    from agentrail.adapters.models.http import Http
    from agentrail.adapters.models.wire_format import WireFormat

MAX_REFUSED: Final = 64
"""How many schemas that the provider has refused a model remembers."""


def with_refused_schema(refused: tuple[str, ...], schema: str) -> tuple[str, ...]:
    """Return *refused*, schemas that the provider has refused, and *schema*; of too many, the oldest is dropped."""
    return (*refused, schema)[-MAX_REFUSED:]


@final
class RemoteModel:
    """One model of one provider, reached by HTTP. A call of `stream` is one attempt; the session retries."""

    __slots__ = (
        "_accounts",
        "_format",
        "_http",
        "_look_up",
        "_model",
        "_provider",
        "_provider_name",
        "_refused",
        "name",
    )

    def __init__(self, name: str, provider: Provider, http: Http, look_up: LookUp, accounts: Accounts) -> None:
        self.name = name
        self._provider_name, _, self._model = name.partition(":")
        self._provider = provider
        self._format = format_of(provider, self._model)
        self._http = http
        self._look_up = look_up
        self._accounts = accounts
        self._refused: tuple[str, ...] = ()

    @in_brackets
    def __repr__(self) -> str:
        return repr(self.name)

    def check(self, options: JsonObject) -> None:
        """Raise `BadModelOptions` if *options* are invalid, or cannot be used with this model."""
        settings = read_settings(options)
        check_cloud_options(self._provider_name, self._provider, options)
        rendered = self._format.render(ModelRequest(self.name, ()), self._provider_name, self._model, settings)
        with_extra(rendered.body, settings.extra)

    @property
    def times_beginning(self) -> bool:
        """Always true: `stream` has its own limit for the first byte, the option `first_byte_timeout`."""
        return True

    @property
    def forms_answers(self) -> bool:
        """Always true: `stream` heeds `returns` of the request, by the provider's own form if there is one."""
        return True

    def why_untaken(self, part: File | Image) -> str | None:
        """Return why the model does not take *part*; `None` if it does, or nothing is known."""
        return self._format.takes(self._provider_name, self._model).why_not(part, self._provider_name)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Send *request* once, pass the chunks of the answer to *emit*, and return the whole answer.

        Secrets are removed from the answer, and from the `ModelError` that is raised if the attempt fails. If the
        provider refuses a request with the schema of its answer, it is sent once more, with a tool for the answer. If
        that is answered, later requests with the schema have the tool at once.
        """
        settings = read_settings(request.options)
        request = with_demanded(request, settings)
        emitter = ChunkEmitter(emit)
        if not request.returns:
            return await self._answer(request, settings, emitter)
        schema = canonical(request.returns)
        is_refused = schema in self._refused
        form = None if is_refused else self._format.form(request, self._provider_name, self._model)
        if form is not None:
            try:
                return await self._answer(request, settings.but(response_format=form), emitter)
            except RequestRefused:
                if emitter.has_begun:
                    raise
                # the schema may be the reason: if it is not, the request without it is refused, too
        request, settings, tool = ask_by_tool(self._format, self._provider_name, self._model, request, settings)
        response = await self._answer(request, settings, emitter, tool)
        if form is not None:  # the request without the schema was answered: the schema was the reason
            self._refused = with_refused_schema(self._refused, schema)
        return response

    async def _answer(
        self, request: ModelRequest, settings: Settings, emitter: ChunkEmitter, answer_tool: str = ""
    ) -> Response:
        access = await self._access(settings)
        try:
            return await self._hear(request, settings, access, emitter, answer_tool)
        except KeyRefused:
            if access.account is None or emitter.has_begun:
                raise
            refused = access.account
        # The files with the credentials may have been written anew since they were read.
        access = await self._access(settings, refused)
        return await self._hear(request, settings, access, emitter, answer_tool)

    async def _access(self, settings: Settings, refused: CloudAccount | None = None) -> Access:
        return await access_to(
            self._provider, self._format, self._model, settings, self._look_up, self._accounts, refused=refused
        )

    async def _hear(
        self, request: ModelRequest, settings: Settings, access: Access, emit: EmitChunk, answer_tool: str
    ) -> Response:
        redactor = access.redactor
        hearing = Hearing(self._format, redactor, emit, answer_tool)
        try:
            return estimate_usage(await self._attempt(request, settings, access, hearing), request)
        except ModelError as error:
            redacted = redacted_error(error, redactor)
            if redacted is error:
                raise
        # Raised outside the `except`: else the error with the secret would be its context, shown in tracebacks.
        raise redacted

    async def _attempt(self, request: ModelRequest, settings: Settings, access: Access, hearing: Hearing) -> Response:
        from agentrail.adapters.models.http import OK, Patience, Post  # noqa: PLC0415 - it brings httpx

        patience = Patience(settings.connect_timeout, settings.first_byte_timeout, settings.next_byte_timeout)
        url, own_headers, fields = address(self._format, access.base_url, self.name, request, settings)
        body = encoded(fields)
        headers = {**access.headers, **access.signed(url, body)}
        post = Post(url, merge_headers(own_headers, headers), body, patience)
        try:
            answer = await self._http.post(post, hearing.feed)
        except (StreamEndedEarly, NoNextByte):
            if (response := hearing.whole()) is None:
                raise
            return response
        if answer.body or answer.status not in OK:
            error = error_of_body(self._format.faults, answer.status, answer.headers, answer.body)
            if isinstance(error, ModelMissing | WrongEndpoint):
                problem = f"{post.url} answers {error.args[0]}"
                raise type(error)(problem, error.retry_after)
            raise error
        return hearing.response()


class ChunkEmitter:
    """Passes the chunks of an answer on, and knows whether there was one.

    An answer that has begun is not asked for again within the same attempt: its beginning would be heard twice.
    """

    __slots__ = ("_emit", "has_begun")

    def __init__(self, emit: EmitChunk) -> None:
        self._emit = emit
        self.has_begun = False
        """Whether a chunk was passed on, other than `PING`."""

    def __call__(self, chunk: Chunk) -> None:
        """Pass *chunk* on."""
        self.has_begun = self.has_begun or chunk is not PING
        self._emit(chunk)


class Hearing:
    """Decodes the stream of one answer, removes secrets, and passes the chunks to `emit`."""

    __slots__ = ("_answer_tool", "_decoder", "_emit", "_reader", "_redactor")

    def __init__(self, wire: WireFormat, redactor: Redactor, emit: EmitChunk, answer_tool: str = "") -> None:
        self._decoder = wire.decoder()
        self._redactor = redactor
        self._emit = emit
        # The name of the tool by which the model answers; empty if there is none. Its call becomes a text before
        # secrets are removed, because those stay in calls.
        self._answer_tool = answer_tool
        self._reader = wire.reader()

    def feed(self, piece: bytes) -> bool:
        """Take the next piece of the stream; return whether the answer is complete.

        A piece that gives no chunk, such as a comment, passes `PING` to `emit`: the provider is still there.
        """
        spoke = False
        for event in self._reader.feed(piece):
            for chunk in self._decoder.feed(event):
                spoke = self._pass_on(chunk) or spoke
            if self._decoder.complete:
                return True
        if not spoke:
            self._emit(PING)
        return False

    def _pass_on(self, chunk: Chunk) -> bool:
        fit = self._redactor.chunks(chunk)
        for part in fit:
            self._emit(part)
        return bool(fit)

    def whole(self) -> Response | None:
        """Return the whole answer, or `None` if it is incomplete.

        Used after a broken connection: some servers send the stop reason but do not end the stream properly.
        """
        try:
            return self.response()
        except ModelError:
            return None

    def response(self) -> Response:
        """Finish the stream and return the whole answer; raise a `ModelError` if it is incomplete."""
        if not self._decoder.complete:
            for event in self._reader.end():
                for chunk in self._decoder.feed(event):
                    self._pass_on(chunk)
        response = self._decoder.response()
        if self._answer_tool:
            response = without_answer_tool(response, self._answer_tool)
        response = self._redactor.response(response)
        for chunk in self._redactor.rest():
            self._emit(chunk)
        return response

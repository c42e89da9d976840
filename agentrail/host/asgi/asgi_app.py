"""`AsgiApp`: a host as an ASGI 3 app, which a server runs alone, or an app around it mounts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.app.supervisor import Supervisor
from agentrail.errors import AgentrailError, UsageError, WrongType
from agentrail.host.asgi.asgi_messages import AsgiMessage, ReceiveMessage, SendMessage
from agentrail.host.asgi.asgi_service import AsgiService
from agentrail.host.asgi.ending_signals import noted_end
from agentrail.lazy import LazyModule

if TYPE_CHECKING:
    from agentrail import aio
    from agentrail.host.asgi import asgi_bridge
else:  # imported at the first use: a host on Trio loads nothing of asyncio
    aio = LazyModule("agentrail.aio")
    asgi_bridge = LazyModule("agentrail.host.asgi.asgi_bridge")

OpenService: TypeAlias = Callable[[Supervisor | None], AbstractAsyncContextManager[AsgiService]]
"""Opens the host, with a supervisor of its own or with the one that is given."""

ON_TRIO: Final = "one of `agentrail.open_supervisor`, as the server runs on Trio"
ON_ASYNCIO: Final = "one of `agentrail.aio.open_supervisor`, as the server runs on asyncio"
LIFESPAN: Final = "lifespan"


class AsgiApp:
    """Answers the requests of an ASGI server while it is open.

    A server opens it in its lifespan. A mounted app gets no lifespan, so the app around it opens this one in its own,
    by `async with`.
    """

    def __init__(
        self, open_service: OpenService, limits: HostLimits, supervisor: Supervisor | aio.Supervisor | None
    ) -> None:
        self._open_service = open_service
        self._limits = limits
        self._shared_supervisor = supervisor
        """The supervisor in which the sessions run; `None` if the app opens one."""
        self._service: AsgiService | asgi_bridge.AsgiBridge | None = None
        """Answers the requests: on Trio the host itself, on asyncio by way of its thread; `None` if it is closed."""
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<AsgiApp {'closed' if self._service is None else f'with {len(self._service)} requests'}>"

    async def __aenter__(self) -> Self:
        """Open the host: start its plugins and its supervisor."""
        self._service = service = await self._stack.enter_async_context(self._opening())
        self._stack.enter_context(noted_end(service.end_soon))
        return self

    def _opening(self) -> AbstractAsyncContextManager[AsgiService | asgi_bridge.AsgiBridge]:
        """Return what opens the host for the event loop that runs here."""
        supervisor, is_trio = self._shared_supervisor, trio.lowlevel.in_trio_run()
        if supervisor is None:
            opening = self._open_service(None)
            return opening if is_trio else asgi_bridge.AsgiBridge.alone(opening, self._limits)
        if isinstance(supervisor, Supervisor) is not is_trio:
            raise WrongType.of("supervisor", supervisor, ON_TRIO if is_trio else ON_ASYNCIO)
        if isinstance(supervisor, Supervisor):
            return self._open_service(supervisor)
        # The host runs in the thread of the supervisor, whose parts are not for users.
        thread, inside = supervisor._thread, supervisor._supervisor  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return asgi_bridge.AsgiBridge.beside(thread, self._open_service(inside), self._limits)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._stack.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it shields itself what must be
        finally:
            self._service = None

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor of the sessions, for code in its run of Trio; raise `UsageError` if the app is closed."""
        return self._opened.supervisor

    @property
    def _opened(self) -> AsgiService | asgi_bridge.AsgiBridge:
        if self._service is None:
            raise UsageError("app-not-opened")
        return self._service

    async def __call__(self, scope: AsgiMessage, receive: ReceiveMessage, send: SendMessage) -> None:
        """Answer one request, or open the host for the time of a server's lifespan."""
        if scope["type"] == LIFESPAN:
            await self._live(receive, send)
        else:
            await self._opened.serve(scope, receive, send)

    async def _live(self, receive: ReceiveMessage, send: SendMessage) -> None:
        await receive()  # `lifespan.startup`
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self)
            except AgentrailError as error:  # others the server logs, with their tracebacks
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()  # `lifespan.shutdown`
        await send({"type": "lifespan.shutdown.complete"})

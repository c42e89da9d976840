"""`Accounts`: the machine's accounts at clouds, for all models of a supervisor."""

from __future__ import annotations

from typing import Final, NamedTuple

import trio

from agentrail.adapters.models.clouds.cloud import CloudAccount, OpenAccount
from agentrail.adapters.models.settings import Settings
from agentrail.errors import ProviderNotReached


class _Opened(NamedTuple):
    account: CloudAccount
    thread: trio.CapacityLimiter
    """One thread at a time: what is cancelled while it blocks leaves one thread behind, and not one more each time."""


class Accounts:
    """Opens each account at its first use, keeps it, and renews its credentials before they end, in a thread."""

    __slots__ = ("_opened",)

    def __init__(self) -> None:
        self._opened: Final[dict[tuple[str, str, str], _Opened]] = {}

    async def fresh(
        self, name: str, open_account: OpenAccount, settings: Settings, refused: CloudAccount | None
    ) -> CloudAccount:
        """Return the account at the cloud called *name* with credentials that hold; *open_account* opens it.

        *refused* is one whose credentials were refused: it is opened anew, in case its files have changed.
        """
        key = name, settings.profile, settings.region
        opened = self._opened.get(key)
        if opened is None or opened.account is refused:
            opened = _Opened(open_account(settings), trio.CapacityLimiter(1) if opened is None else opened.thread)
            self._opened[key] = opened
        if not opened.account.is_fresh:
            await self._refresh(opened, settings.first_byte_timeout)
        return opened.account

    @staticmethod
    async def _refresh(opened: _Opened, seconds: float) -> None:
        def refresh() -> None:
            if not opened.account.is_fresh:  # whoever had the thread before may have done it
                opened.account.refresh()

        with trio.move_on_after(seconds) as scope:
            await trio.to_thread.run_sync(refresh, abandon_on_cancel=True, limiter=opened.thread)
        if scope.cancelled_caught:
            problem = (
                f"no credentials of the cloud came for {seconds:g} seconds, from a server or a program that was asked"
            )
            raise ProviderNotReached(problem)

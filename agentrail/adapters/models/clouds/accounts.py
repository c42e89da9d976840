"""`Accounts`: the machine's accounts at clouds, for all models of a supervisor."""

from __future__ import annotations

from typing import Final

import trio
from attrs import define

from agentrail.adapters.models.clouds.cloud import CloudAccount, OpenAccount
from agentrail.adapters.models.settings import Settings
from agentrail.errors import CredentialsMissing, ModelError, ProviderNotReached
from agentrail.errors.agentrail_error import fresh
from agentrail.values.newest import Newest

TOKEN_THREADS: Final = 8
"""The most threads that look up one token at once.

Those whose requests are cancelled go on while the function blocks. They may not be all threads of the process: names of
hosts are looked up in these, too.
"""

MAX_TOKENS: Final = 1_000
"""The names of tokens whose threads are counted; of more, the oldest is forgotten."""

MAX_OPENED: Final = 100
"""The most accounts that are kept: names of profiles may come from users, and one of AWS takes 100 kB.

Of more, the oldest is forgotten, and opened anew at its next use.
"""

UNFIT: Final = "what came from a file, a server or a program is empty, or has characters that no header can hold"


@define
class OpenedAccount:
    """An account, and how its renewals went."""

    account: CloudAccount
    """The account."""
    thread: trio.CapacityLimiter
    """One thread at a time: what is cancelled while it blocks leaves one thread behind, and not one more each time."""
    renewals: int = 0
    """How many renewals have ended."""
    failure: ModelError | None = None
    """The error of the last renewal; `None` if it went well."""

    def renew(self, before: int) -> None:
        """Renew the credentials, unless a renewal has ended since there were *before* of them: it counts for all."""
        if self.renewals == before:
            self.failure = None
            try:
                self.account.refresh()
                if not _can_be_sent(self.account):
                    raise CredentialsMissing(UNFIT)
            except ModelError as error:
                self.failure = error
            self.renewals += 1
        if self.failure is not None:
            raise fresh(self.failure)


def _can_be_sent(account: CloudAccount) -> bool:
    """Whether a header can hold the secrets of *account*."""
    return all(secret and secret.isascii() and secret.isprintable() for secret in account.secrets)


class Accounts:
    """Opens each account at its first use, and renews its credentials before they end, in a thread.

    The last `MAX_OPENED` are kept.
    """

    __slots__ = ("_opened", "_threads")

    def __init__(self) -> None:
        self._opened: Final = Newest[tuple[str, str], OpenedAccount](MAX_OPENED)
        self._threads: Final = Newest[str, trio.CapacityLimiter](MAX_TOKENS)

    def threads_for(self, token: str) -> trio.CapacityLimiter:
        """Return the limit of the threads that look up the secret called *token*."""
        limiter = self._threads.get(token)
        if limiter is None:
            limiter = self._threads[token] = trio.CapacityLimiter(TOKEN_THREADS)
        return limiter

    async def fresh(
        self, name: str, open_account: OpenAccount, settings: Settings, refused: CloudAccount | None
    ) -> CloudAccount:
        """Return the account at the cloud called *name* with credentials that hold; *open_account* opens it.

        *refused* is one whose credentials were refused: it is opened anew, in case its files have changed.
        """
        key = name, settings.profile
        opened = self._opened.get(key)
        if opened is None or opened.account is refused:
            opened = OpenedAccount(
                open_account(settings.profile), trio.CapacityLimiter(1) if opened is None else opened.thread
            )
            self._opened[key] = opened
        if not (opened.account.is_fresh and _can_be_sent(opened.account)):
            await self._refresh(opened, settings.first_byte_timeout)
        return opened.account

    @staticmethod
    async def _refresh(opened: OpenedAccount, seconds: float) -> None:
        with trio.move_on_after(seconds) as scope:
            await trio.to_thread.run_sync(opened.renew, opened.renewals, abandon_on_cancel=True, limiter=opened.thread)
        if scope.cancelled_caught:
            problem = (
                f"no credentials of the cloud came for {seconds:g} seconds, from a server or a program that was asked"
            )
            raise ProviderNotReached(problem)

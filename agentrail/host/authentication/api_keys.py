"""`ApiKeys`: keys for the users of a host, of which only digests are kept, in a file or in the environment.

A line of the file is one key: its id, the digest of the whole key, tenant, user, scopes, and the day on which it was
made. Tenant and user are percent-encoded, so no field has a space. A key reads `ak_ID_SECRET`. The secret has 256
random bits, so a plain digest of it tells nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import math
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

import trio

from agentrail.errors import BadChoice, BadKeys, NotAuthenticated, UnknownKey
from agentrail.host.authentication.identity import Identity, bearer
from agentrail.values.value import Value
from agentrail.wire.operation_table import SCOPES
from agentrail.wire.public_ids import check_owner

log = logging.getLogger("agentrail.host")

PREFIX: Final = "ak"
ENVIRONMENT: Final = "AGENTRAIL_KEYS"
"""The variable with the lines of the keys, if they are in no file."""

FRESH: Final = 0.4
"""Seconds after which the file is looked at again: so long a key that was withdrawn is still taken.

An open stream ends within a second: such a look may be over when its turn comes, and the next one is that much later.
"""

MAKE_ONE: Final = "`agentrail serve keys make {} TENANT USER` makes one"

NO_SUCH_KEY: Final = "the key is not, or no longer, one of this host"

OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

_FIELDS: Final = 6
_NOBODY: Final = hashlib.sha256(b"").hexdigest()


Owner: TypeAlias = tuple[str, str]
"""Tenant and user."""


class ApiKey(Value):
    """One key, without its secret."""

    id: str
    """Id of the key: it stands in the key, in logs and in lists."""
    digest: str
    """Digest of the key, in hexadecimal."""
    identity: Identity
    """Whose key it is, and what it allows."""
    made: str
    """The day on which it was made."""

    @property
    def owner(self) -> Owner:
        """Whose key it is."""
        return self.identity.tenant, self.identity.user


def read_keys(text: str, source: str) -> dict[str, ApiKey]:
    """Return the keys in *text*, by id; raise `BadKeys` for a line that is none."""
    found: dict[str, ApiKey] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) != _FIELDS:
            raise BadKeys(source, f"line {number}", f"has {len(fields)} fields, and must have {_FIELDS}")
        name, digest, tenant, user, scopes, made = fields
        given = frozenset(scopes.split(","))
        if len(digest) != len(_NOBODY) or not set(digest) <= set("0123456789abcdef"):
            raise BadKeys(source, f"line {number}", "has no digest in its second field")
        if not given <= {*SCOPES}:
            raise BadKeys(source, f"line {number}", f"has the scopes `{scopes}`; there are {', '.join(SCOPES)}")
        if name in found:
            raise BadKeys(source, f"line {number}", f"has the id `{name}` of an earlier line")
        found[name] = ApiKey(name, digest, Identity(unquote(tenant), unquote(user), given), made)
    return found


def written(keys: Iterable[ApiKey]) -> str:
    """Return *keys* as lines, from which `read_keys` makes them again."""
    return "".join([f"{_line(key)}\n" for key in keys])


def _line(key: ApiKey) -> str:
    who = key.identity
    scopes = ",".join([scope for scope in SCOPES if scope in who.scopes])
    return " ".join([key.id, key.digest, quote(who.tenant, safe=""), quote(who.user, safe=""), scopes, key.made])


def new_key(tenant: str, user: str, scopes: Iterable[str]) -> tuple[ApiKey, str]:
    """Return a new key of a *user* of *tenant*, and the key itself, which cannot be told again.

    Raise `BadName` if no session could be theirs.
    """
    check_owner(tenant, user)
    given = frozenset(scopes)
    for scope in sorted(given - {*SCOPES}):
        raise BadChoice.among("scope", scope, SCOPES)
    name = secrets.token_hex(6)
    key = f"{PREFIX}_{name}_{secrets.token_urlsafe(32)}"
    made = time.strftime("%Y-%m-%d", time.gmtime())
    return ApiKey(name, _digest(key), Identity(tenant, user, given), made), key


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


class KeyFile:
    """The file with the keys of a host."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def keys(self) -> dict[str, ApiKey]:
        """Return the keys by id; none if there is no file. Raise `BadKeys` if they cannot be read."""
        try:
            with self.path.open(encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & OTHERS_WRITE:
                    raise BadKeys(str(self.path), "it", "may be written by others; run `chmod go-w` on it")
                return read_keys(file.read(), str(self.path))
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise BadKeys(str(self.path), "it", f"cannot be read: {error}") from error

    def add(self, key: ApiKey) -> None:
        """Add *key* to the file, which is made if it is not there, for its owner alone."""
        with self._alone():
            self.keys()
            lines = self._lines()
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            self._write([*lines, written([key])])

    def withdraw(self, name: str) -> ApiKey:
        """Take the key with the id *name* out of the file, and return it; raise `UnknownKey` if there is none."""
        if not self.path.exists():
            raise UnknownKey(name, str(self.path))
        with self._alone():
            keys = self.keys()
            if name not in keys:
                raise UnknownKey(name, str(self.path))
            self._write([line for line in self._lines() if line.split()[:1] != [name]])
            return keys[name]

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Let no other process change the file meanwhile: of two that read it at once, one would undo the other."""
        while True:
            opened = os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(opened), self.path.stat()):  # else another process has replaced it
                    yield
                    return
            finally:
                os.close(opened)  # which also takes the lock away

    def _lines(self) -> list[str]:
        """Return the lines of the file as they are, comments included."""
        return self.path.read_text(encoding="utf-8").splitlines(keepends=True)

    def _write(self, lines: Iterable[str]) -> None:
        """Replace the file at once, with the same mode: a reader finds the old keys or the new ones."""
        with tempfile.NamedTemporaryFile(
            "w", dir=self.path.parent, prefix=f".{self.path.name}.", delete=False, encoding="utf-8"
        ) as file:
            try:
                file.write("".join(lines))
                file.flush()
                os.fchmod(file.fileno(), stat.S_IMODE(self.path.stat().st_mode))
                os.fsync(file.fileno())
                Path(file.name).replace(self.path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


OnChange: TypeAlias = Callable[[frozenset[Owner]], object]
"""Is told the owners of keys that have gone, or are no longer what they were."""


class ApiKeys:
    """Authenticator: each user has keys, which requests bear in the header `Authorization`."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, lines: str | None = None) -> None:
        """Take the keys of the file at *path*, or of *lines*, or else of the variable `AGENTRAIL_KEYS`.

        The file is read again when it has changed. Raise `BadKeys` if the keys cannot be read.
        """
        self._file = None if path is None else KeyFile(path)
        self._seen: tuple[int, int] | None = None  # when the keys were read; `None` if they could not be
        self._told = ""
        self._looked = -FRESH
        self._looking: trio.Event | None = None
        self._listeners: list[OnChange] = []
        self._keys: Mapping[str, ApiKey] = {}
        if self._file is None:
            text = os.environ.get(ENVIRONMENT, "") if lines is None else lines
            self._keys = read_keys(text, f"`{ENVIRONMENT}`" if lines is None else "lines")
        else:
            self._keys = self._file.keys()

    def __repr__(self) -> str:
        return f"<ApiKeys, {len(self._keys)} keys>"

    def check_there(self) -> None:
        """Raise `BadKeys` if nobody can have a key: there is no file of keys, or no line of one."""
        if self._file is not None and not self._file.path.exists():
            raise BadKeys(str(self._file.path), "there", f"is no such file; {MAKE_ONE.format(self._file.path)}")
        if self._file is None and not self._keys:
            problem = f"has none; {MAKE_ONE.format('PATH')}, and a line for the variable"
            raise BadKeys("`AGENTRAIL_KEYS`", "it", problem)

    def read_anew(self) -> None:
        """Have the file read at the next request, even if it does not look changed."""
        self._seen, self._looked = None, -math.inf

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return whose key the request bears; raise `NotAuthenticated` if it bears no valid one."""
        given = bearer(headers)
        await self.refresh()
        _, _, rest = given.partition("_")
        found = self._keys.get(rest.partition("_")[0])
        fits = hmac.compare_digest(_digest(given), _NOBODY if found is None else found.digest)
        if found is None or not fits:
            raise NotAuthenticated(NO_SUCH_KEY)
        return found.identity.but(key=found.id)

    @property
    def may_change(self) -> bool:
        """Whether the keys are in a file, which is read again."""
        return self._file is not None

    @contextmanager
    def telling(self, listener: OnChange) -> Generator[None]:
        """Call *listener* at each change of keys, until the `with` is left."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def refresh(self) -> None:
        """Read the file again if it has changed; a file that cannot be read has no keys.

        Requests that come meanwhile wait for an event, which wakes all at once. A lock would wake one in each pass of
        the event loop, and after a deployment as many wait as there are clients.
        """
        while self._file is not None and trio.current_time() - self._looked >= FRESH:
            if self._looking is not None:
                await self._looking.wait()
                continue
            self._looking = trio.Event()
            try:
                before, self._keys = self._keys, await trio.to_thread.run_sync(self._reread, self._file)
                self._looked = trio.current_time()
                self._tell(before)
            finally:
                self._looking.set()
                self._looking = None

    def _tell(self, before: Mapping[str, ApiKey]) -> None:
        if before is self._keys:
            return
        changed = frozenset(key.owner for key in before.values() if self._keys.get(key.id) != key)
        for listener in tuple(self._listeners):
            listener(changed)

    def _reread(self, file: KeyFile) -> Mapping[str, ApiKey]:
        try:
            found = file.path.stat()
        except OSError:
            seen = None
        else:
            seen = (found.st_mtime_ns, found.st_ino)
        if seen is not None and seen == self._seen:
            return self._keys
        try:
            self.check_there()
            found_keys = file.keys()
        except BadKeys as problem:
            # What it was may pass without another file: permissions are given, or the process may open files again.
            self._seen = None
            if str(problem) != self._told:
                log.error("no key is taken: %s", problem)
            self._told = str(problem)
            return {}
        self._seen, self._told = seen, ""
        return found_keys

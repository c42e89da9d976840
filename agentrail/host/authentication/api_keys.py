"""`ApiKeys`: keys for the users of a host, of which only digests are kept, in a file or in the environment.

A line of the file is one key: its id, the digest of the whole key, tenant, user, scopes, and the day on which it was
made. Tenant and user are percent-encoded, so no field has a space. A key reads `ak_ID_SECRET`. The secret has 256
random bits, so a plain digest of it tells nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

import trio
from attrs import frozen

from agentrail.adapters.file_lock import lock_file
from agentrail.adapters.system import HAS_FLOCK
from agentrail.api.operation_table import SCOPES
from agentrail.api.public_ids import check_owner
from agentrail.errors import BadChoice, BadKeys, KeyWithdrawn, NotAuthenticated, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.authentication.identity import Identity, bearer
from agentrail.values.value import Value

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

OTHERS_WRITE: Final = 0 if sys.platform == "win32" else stat.S_IWGRP | stat.S_IWOTH
"""The bits of a file's mode that let others write it; Windows has access lists instead, and sets all bits alike."""

_FIELDS: Final = 6
_NOBODY: Final = hashlib.sha256(b"").hexdigest()
_A_KEY: Final = re.compile(rf"{PREFIX}_\S*")


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
    made_on: str
    """The day on which it was made."""

    @property
    def owner(self) -> Owner:
        """The tenant and user to whom the key belongs."""
        return self.identity.tenant, self.identity.user


def read_keys(text: str, source: str) -> dict[str, ApiKey]:
    """Return the keys in *text*, by id; raise `BadKeys`, which names the line, if a line is no valid key."""
    keys: dict[str, ApiKey] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) != _FIELDS:
            raise BadKeys(source, f"line {number}", f"has {len(fields)} fields, and must have {_FIELDS}")
        name, digest, tenant, user, scopes, date = fields
        granted = frozenset(scopes.split(","))
        if len(digest) != len(_NOBODY) or not set(digest) <= set("0123456789abcdef"):
            raise BadKeys(source, f"line {number}", "has no digest in its second field")
        if not granted <= {*SCOPES}:
            problem = f"has the scopes `{_without_key(scopes)}`; there are {', '.join(SCOPES)}"
            raise BadKeys(source, f"line {number}", problem)
        if name in keys:
            raise BadKeys(source, f"line {number}", f"has the id `{_without_key(name)}` of an earlier line")
        keys[name] = ApiKey(name, digest, Identity(unquote(tenant), unquote(user), granted), date)
    return keys


def _without_key(field: str) -> str:
    """Return *field* as it may be logged: a whole key, put there by mistake, is replaced."""
    return _A_KEY.sub(f"{PREFIX}_…", field)


def render_keys(keys: Iterable[ApiKey]) -> str:
    """Return *keys* as lines, from which `read_keys` makes them again."""
    return "".join([f"{_line(key)}\n" for key in keys])


def _line(key: ApiKey) -> str:
    who = key.identity
    scopes = ",".join([scope for scope in SCOPES if scope in who.scopes])
    return " ".join([key.id, key.digest, quote(who.tenant, safe=""), quote(who.user, safe=""), scopes, key.made_on])


def new_key(tenant: str, user: str, scopes: Iterable[str]) -> tuple[ApiKey, str]:
    """Make a key for *user* of *tenant*; return its record, and its text, which is stored nowhere.

    Raise `BadName` if session ids cannot contain these names.
    """
    check_owner(tenant, user)
    granted = frozenset(scopes)
    for scope in sorted(granted - {*SCOPES}):
        raise BadChoice.among("scope", scope, SCOPES)
    name = secrets.token_hex(6)
    key = f"{PREFIX}_{name}_{secrets.token_urlsafe(32)}"
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return ApiKey(name, _digest(key), Identity(tenant, user, granted), date), key


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


Stamp: TypeAlias = tuple[int, ...]
"""What tells whether a file has changed: device, inode, size, and the times of its content and of its inode.

The time of the content alone may be set back by a program that changes a file in place, as `rsync --times` does.
"""


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class KeyFile:
    """The file with the keys of a host."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def keys(self) -> dict[str, ApiKey]:
        """Return the keys by id; none if there is no file. Raise `BadKeys` if they cannot be read."""
        try:
            content, _ = self.content()
        except FileNotFoundError:
            return {}
        return self.parsed(content)

    def has_changed(self, since: Stamp) -> bool:
        """Return whether the file has changed since it had the stamp *since*, or cannot be examined."""
        try:
            return _stamp(self.path.stat()) != since
        except OSError:
            return True

    def content(self) -> tuple[bytes, Stamp]:
        """Return the content of the file, and the stamp it had before the content was read.

        Raise `FileNotFoundError` if there is no file, and `BadKeys` if it cannot be read or others may write it.
        """
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise BadKeys(str(self.path), "it", f"cannot be read: {error}") from error
        if status.st_mode & OTHERS_WRITE:
            raise BadKeys(str(self.path), "it", "may be written by others; run `chmod go-w` on it")
        return content, _stamp(status)

    def parsed(self, content: bytes) -> dict[str, ApiKey]:
        """Return the keys in *content*, by id; raise `BadKeys`, which names the line, if a line is no valid key."""
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            number = len(f"{content[: error.start].decode()}?".splitlines())
            raise BadKeys(str(self.path), f"line {number}", "is not UTF-8") from error
        return read_keys(text, str(self.path))

    def add(self, key: ApiKey) -> None:
        """Add *key* to the file; a missing file is created, readable by its owner alone."""
        with self._locked():
            self.keys()
            lines = self._lines()
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            self._write([*lines, render_keys([key])])

    def withdraw(self, name: str) -> ApiKey:
        """Take the key with the id *name* out of the file, and return it; raise `UsageError` if there is none."""
        if not self.path.exists():
            raise UsageError("unknown-key", cut(name), str(self.path))
        with self._locked():
            keys = self.keys()
            if name not in keys:
                raise UsageError("unknown-key", cut(name), str(self.path))
            self._write([line for line in self._lines() if line.split()[:1] != [name]])
            return keys[name]

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Lock the file for the `with` block: of two processes that change it at once, one would undo the other."""
        while True:
            opened = os.open(self.path, os.O_RDONLY | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
            try:
                lock_file(opened, self.path)
                # the path still names the locked file: no other process has replaced it
                if os.path.samestat(os.fstat(opened), self.path.stat()):
                    yield
                    return
            finally:
                os.close(opened)  # closing the file also releases the lock

    def _lines(self) -> list[str]:
        """Return the lines of the file as they are, comments included."""
        return self.path.read_text(encoding="utf-8").splitlines(keepends=True)

    def _write(self, lines: Iterable[str]) -> None:
        """Replace the file atomically, with the same mode: a reader finds the old keys or the new ones.

        If root runs this, the file keeps its owner: a host that runs as another user could not read a file of root.
        Windows replaces no file that is open, as this one is, so it is written in place there.
        """
        if sys.platform == "win32" or not HAS_FLOCK:
            self.path.write_text("".join(lines), encoding="utf-8")
            return
        with tempfile.NamedTemporaryFile(
            "w", dir=self.path.parent, prefix=f".{self.path.name}.", delete=False, encoding="utf-8"
        ) as file:
            try:
                file.write("".join(lines))
                file.flush()
                replaced = self.path.stat()
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), replaced.st_uid, replaced.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(replaced.st_mode))
                os.fsync(file.fileno())
                Path(file.name).replace(self.path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


@frozen
class _Look:
    """The result of reading the key file once."""

    keys: Mapping[str, ApiKey] | None
    """The keys from now on; `None` if those in use stay."""
    stamp: Stamp | None
    """That of the file; `None` if the next look has to read it again."""
    problem: str = ""
    """What is wrong with the file; empty if nothing is."""


class ApiKeys:
    """Authenticator: each user has keys, which requests bear in the header `Authorization`."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, lines: str | None = None) -> None:
        """Take the keys of the file at *path*, or of *lines*, or else of the variable `AGENTRAIL_KEYS`.

        The file is read again when it has changed. If a line of it is not valid then, the earlier keys stay in use;
        if there is no file any more, or it cannot be read, no key is taken. Raise `BadKeys` if the keys cannot be read
        now.
        """
        self._file = None if path is None else KeyFile(path)
        self._stamp: Stamp | None = None
        self._looked = -FRESH
        # how often `read_anew` was called: if it is called while the file is read, the file is read once more
        self._reread_count = 0
        self._looking: trio.Event | None = None
        self._keys: Mapping[str, ApiKey] = {}
        self.changes = 0
        """How often other keys were read than before."""
        self.problem = ""
        """What was wrong with the file when it was read last; empty if nothing was."""
        if self._file is None:
            text = os.environ.get(ENVIRONMENT, "") if lines is None else lines
            self._keys = read_keys(text, f"`{ENVIRONMENT}`" if lines is None else "lines")
        else:
            self._keys = self._file.keys()

    def __repr__(self) -> str:
        return f"<ApiKeys, {len(self._keys)} keys>"

    def check_there(self) -> None:
        """Raise `BadKeys` if the key file cannot be read or, without a file, no key was given."""
        if self._file is not None:
            _content(self._file)
        elif not self._keys:
            problem = f"has none; {MAKE_ONE.format('PATH')}, and a line for the variable"
            raise BadKeys("`AGENTRAIL_KEYS`", "it", problem)

    def read_anew(self) -> None:
        """Have the next `refresh` read the key file even if its stamp is unchanged, and log any error in it."""
        self._reread_count += 1
        self._stamp, self._looked, self.problem = None, -math.inf, ""

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return the identity of the key in *headers*; raise `NotAuthenticated` if they have no valid key."""
        key = bearer(headers)
        await self.refresh()
        _, _, rest = key.partition("_")
        known_key = self._keys.get(rest.partition("_")[0])
        fits = hmac.compare_digest(_digest(key), _NOBODY if known_key is None else known_key.digest)
        if known_key is None or not fits:
            raise NotAuthenticated(NO_SUCH_KEY)
        return known_key.identity.but(key=known_key.id)

    async def check_key(self, who: Identity) -> None:
        """Raise `KeyWithdrawn` if the key of *who*, by its id, is not here, or is somebody else's, or allows less.

        Another host has identified its user by the key itself.
        """
        await self.refresh()
        known_key = self._keys.get(who.key)
        is_theirs = known_key is not None and known_key.owner == (who.tenant, who.user)
        if known_key is None or not is_theirs or not who.scopes <= known_key.identity.scopes:
            raise KeyWithdrawn(NO_SUCH_KEY)

    @property
    def may_change(self) -> bool:
        """Whether the keys can change while the host runs: they come from a file, which is read again."""
        return self._file is not None

    async def refresh(self) -> None:
        """Read the key file again if it has changed, and log any error in it.

        Requests that arrive during the reading wait for an event, which wakes all of them at once. A lock would wake
        one in each pass of the event loop, and after a deployment as many wait as there are clients.
        """
        while self._file is not None and trio.current_time() - self._looked >= FRESH:
            if self._looking is not None:
                await self._looking.wait()
                continue
            self._looking = trio.Event()
            reread_count = self._reread_count
            try:
                look = await trio.to_thread.run_sync(_read_if_changed, self._file, self._stamp)
                if reread_count == self._reread_count:
                    self._looked = trio.current_time()
                if look is not None:
                    self._take(look, is_last=reread_count == self._reread_count)
            finally:
                self._looking.set()
                self._looking = None

    def _take(self, look: _Look, *, is_last: bool) -> None:
        """Replace the keys in use by those that *look* has read; if it found none that are valid, those in use stay."""
        self._stamp = look.stamp if is_last else None
        if look.problem and look.problem != self.problem:
            stay = look.keys is None and self._keys
            log.error("%s: %s", "the earlier keys stay in use" if stay else "no key is taken", look.problem)
        self.problem = look.problem
        if look.keys is not None and look.keys != self._keys:
            self._keys = look.keys
            self.changes += 1


def _content(file: KeyFile) -> tuple[bytes, Stamp]:
    """Return content and stamp of *file*; raise `BadKeys` if it is not there, or cannot be read."""
    try:
        return file.content()
    except FileNotFoundError as error:
        raise BadKeys(str(file.path), "there", f"is no such file; {MAKE_ONE.format(file.path)}") from error


def _read_if_changed(file: KeyFile, stamp: Stamp | None) -> _Look | None:
    """Read *file*; return `None` if it has not changed since it had *stamp*."""
    if stamp is not None and not file.has_changed(stamp):
        return None
    try:
        content, stamp = _content(file)
    except BadKeys as problem:
        # No stamp is kept, so that the file is read again: the cause may end without a change of the file, for example
        # when the process may open files again.
        return _Look({}, None, str(problem))
    try:
        return _Look(file.parsed(content), stamp)
    except BadKeys as problem:  # a typing error, or a file read while half written, must not lock out any user
        return _Look(None, stamp, str(problem))

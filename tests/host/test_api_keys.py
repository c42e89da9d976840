"""Keys of a host: made, written, read, taken, and withdrawn."""

from __future__ import annotations

import errno
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from agentrail.adapters import file_lock
from agentrail.api.operation_table import SCOPES
from agentrail.errors import BadChoice, BadKeys, FileFailed, NotAuthenticated, UsageError
from agentrail.host import ApiKeys, Authenticator, Identity
from agentrail.host.authentication.api_keys import ApiKey, KeyFile, new_key, read_keys, render_keys
from agentrail.host.authentication.authenticators import LOCAL, LocalToken
from tests.coded import coded
from tests.passes import Passes

UNREADABLE = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors of the system that root meets too."""


def make_unreadable(path: Path, code: int) -> None:
    """Have the system refuse *path*, at which there is nothing, in its folder, in which there is nothing either."""
    if code == errno.EISDIR:
        path.mkdir()
    elif code == errno.ELOOP:
        path.symlink_to(path)
    elif code == errno.ENAMETOOLONG:
        path.symlink_to("x" * 300)
    else:
        assert code == errno.ENOTDIR
        path.parent.rmdir()
        path.parent.touch()


def make_readable(path: Path) -> None:
    """Undo `make_unreadable`."""
    if path.parent.is_file():
        path.parent.unlink()
        path.parent.mkdir()
    elif path.is_symlink():
        path.unlink()
    else:
        path.rmdir()


def bearing(key: str) -> list[tuple[str, str]]:
    return [("host", "example.com"), ("authorization", f"Bearer {key}")]


@pytest.mark.long
@given(
    st.lists(
        st.tuples(st.text(min_size=1), st.text(min_size=1), st.sets(st.sampled_from(sorted(SCOPES)), min_size=1)),
        max_size=4,
    )
)
def test_keys_are_read_as_they_were_written(whose: list[tuple[str, str, set[str]]]) -> None:
    keys = [
        new_key("acme", "ann", scopes)[0].but(identity=Identity(tenant, user, frozenset(scopes)))
        for tenant, user, scopes in whose
        if _is_sendable(tenant + user)
    ]
    assert list(read_keys(render_keys(keys), "here").values()) == keys


def _is_sendable(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


async def test_a_key_is_taken_as_whose_it_is_and_no_other_is() -> None:
    ours, key = new_key("acme", "ann", ["talk", "decide"])
    other, _ = new_key("acme", "bob", ["admin"])
    keys: Authenticator = ApiKeys(lines=render_keys([ours, other]))
    assert await keys.identify(bearing(key)) == Identity("acme", "ann", frozenset({"talk", "decide"}), ours.id)
    changed = key[:-1] + ("A" if key[-1] != "A" else "B")
    for wrong in (
        key[:-1],
        key[1:],
        changed,
        key.upper(),
        key + "x",
        f"ak_{other.id}_{key.split('_', 2)[2]}",
        ours.digest,
    ):
        with pytest.raises(NotAuthenticated, match="not, or no longer, one of this host"):
            await keys.identify(bearing(wrong))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "Basic x")],
        [("authorization", "Bearer")],
        [*bearing("a"), *bearing("a")],
        [("cookie", "x")],
    ],
)
async def test_what_is_no_bearer_is_refused(headers: list[tuple[str, str]]) -> None:
    for item in (ApiKeys(lines=""), LocalToken()):
        with pytest.raises(NotAuthenticated, match="`Authorization`"):
            await item.identify(headers)


async def test_a_key_is_withdrawn_while_the_host_runs(tmp_path: Path, autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    file = KeyFile(tmp_path / "keys")
    (item, key), (two, second) = new_key("acme", "ann", ["talk"]), new_key("acme", "bob", ["talk"])
    file.add(item)
    keys = ApiKeys(tmp_path / "keys")
    assert (await keys.identify(bearing(key))).user == "ann"
    file.add(two)
    assert file.withdraw(item.id) == item
    await trio.sleep(2)
    assert (await keys.identify(bearing(second))).user == "bob"
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(key))
    with pytest.raises(UsageError, check=coded("unknown-key"), match=item.id):
        file.withdraw(item.id)


def with_one_key(path: Path) -> tuple[ApiKey, str, ApiKeys]:
    """Return a key of ann in a new file at *path*, its text, and the keys of that file."""
    item, key = new_key("acme", "ann", ["talk"])
    KeyFile(path).add(item)
    return item, key, ApiKeys(path)


@pytest.mark.parametrize("code", UNREADABLE)
async def test_a_file_that_becomes_unreadable_has_no_keys(
    code: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    path = tmp_path / "folder" / "keys"
    path.parent.mkdir()
    _, key, keys = with_one_key(path)
    path.rename(tmp_path / "kept")
    make_unreadable(path, code)
    for _ in range(3):
        with caplog.at_level(logging.ERROR), pytest.raises(NotAuthenticated):
            await keys.identify(bearing(key))
        await trio.sleep(2)
    (record,) = caplog.records
    text = f"no key is taken: cannot take the keys of {path}: it cannot be read: [Errno {code}] {os.strerror(code)}"
    assert record.getMessage().startswith(text)
    with pytest.raises(BadKeys, match=os.strerror(code)):
        keys.check_there()
    make_readable(path)
    (tmp_path / "kept").rename(path)
    await trio.sleep(2)
    assert (await keys.identify(bearing(key))).user == "ann"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"ak acme ann\n", "line 1 has 3 fields, and must have 6"),
        (b"# Ann\n\nab\xffcd\n", "line 3 is not UTF-8"),
    ],
)
async def test_a_line_that_is_no_key_leaves_the_earlier_keys_in_use(
    content: bytes, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    path = tmp_path / "keys"
    _, key, keys = with_one_key(path)
    path.write_bytes(content)
    for _ in range(3):
        assert (await keys.identify(bearing(key))).user == "ann"
        await trio.sleep(2)
    other, later = new_key("acme", "bob", ["talk"])
    path.write_text(render_keys([other]), encoding="utf-8")
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(key))
    assert (await keys.identify(bearing(later))).user == "bob"
    path.unlink()
    await trio.sleep(2)
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(later))
    path.write_bytes(content)
    await trio.sleep(2)
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(later))
    path.chmod(0o600)
    first, missing, last = [record.getMessage() for record in caplog.records]
    assert first == f"the earlier keys stay in use: cannot take the keys of {path}: {problem}"
    assert missing.startswith(f"no key is taken: cannot take the keys of {path}: there is no such file")
    assert last == f"no key is taken: cannot take the keys of {path}: {problem}"


async def test_what_is_wrong_is_logged_again_when_the_file_is_read_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    _, _, keys = with_one_key(path)
    path.write_text("ak acme ann\n", encoding="utf-8")
    for _ in range(2):
        keys.read_anew()
        await keys.refresh()
        await keys.refresh()
    assert [record.getMessage() for record in caplog.records] == [
        f"the earlier keys stay in use: cannot take the keys of {path}: line 1 has 3 fields, and must have 6"
    ] * 2


async def test_a_file_is_read_again_if_it_was_to_be_while_it_was_read(tmp_path: Path) -> None:
    """The file is one that waits for whoever writes it, so that the look lasts until the test ends it."""
    path, pipe = tmp_path / "keys", tmp_path / "pipe"
    old, withdrawn = new_key("acme", "ann", ["talk"])
    new, key = new_key("acme", "bob", ["talk"])
    KeyFile(path).add(old)
    keys = ApiKeys(path)
    os.mkfifo(pipe, 0o600)
    path.rename(tmp_path / "later")
    path.symlink_to(pipe)
    keys.read_anew()

    def write_slowly() -> None:
        with pipe.open("w", encoding="utf-8") as file:  # the reader has opened it too
            trio.from_thread.run_sync(keys.read_anew)
            path.unlink()
            KeyFile(path).add(new)
            file.write(render_keys([old]))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keys.refresh)
            await trio.to_thread.run_sync(write_slowly)
        assert (await keys.identify(bearing(key))).user == "bob"
        with pytest.raises(NotAuthenticated):
            await keys.identify(bearing(withdrawn))


async def test_a_file_that_is_changed_in_place_and_has_its_time_back_has_changed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    path = tmp_path / "keys"
    _, key, keys = with_one_key(path)
    await keys.refresh()
    old = path.stat()
    new, later = new_key("acme", "bob", ["talk"])
    path.write_text(f"{render_keys([new])}# {'x' * old.st_size}\n", encoding="utf-8")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    await trio.sleep(2)
    assert (await keys.identify(bearing(later))).user == "bob"
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(key))


async def test_a_file_that_is_mended_as_the_log_advises_has_its_keys_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    path = tmp_path / "keys"
    item, key, keys = with_one_key(path)
    path.write_text(render_keys([item]), encoding="utf-8")
    path.chmod(0o660)
    await trio.sleep(2)
    with pytest.raises(NotAuthenticated):
        await keys.identify(bearing(key))
    assert [record.getMessage() for record in caplog.records] == [
        f"no key is taken: cannot take the keys of {path}: it may be written by others; run `chmod go-w` on it"
    ]
    path.chmod(0o640)
    await trio.sleep(2)
    assert (await keys.identify(bearing(key))).user == "ann"


def test_the_file_is_its_owners_alone_and_has_no_key_in_it(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    created, key = new_key("acme & sons", "ann", ["talk"])
    item = created.but(identity=created.identity.but(user="ann\n"))
    KeyFile(path).add(item)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR
    text = path.read_text(encoding="utf-8")
    assert key not in text
    assert key.split("_", 2)[2] not in text
    assert KeyFile(path).keys() == {item.id: item}
    assert [element.name for element in tmp_path.iterdir()] == ["keys"]
    path.chmod(0o620)
    with pytest.raises(BadKeys, match=r"may be written by others; run `chmod go-w` on it"):
        KeyFile(path).keys()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT PROVED, because only root gives files to others")
def test_root_keeps_the_owner_of_the_file(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.add(new_key("acme", "ann", {"talk"})[0])
    os.chown(file.path, 10001, 10002)
    bob = new_key("acme", "bob", {"talk"})[0]
    file.add(bob)
    assert (file.path.stat().st_uid, file.path.stat().st_gid) == (10001, 10002)
    file.withdraw(bob.id)
    assert (file.path.stat().st_uid, file.path.stat().st_gid) == (10001, 10002)


def test_a_file_that_another_process_keeps_locked_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "LOCK_WITHIN", 0.1)
    file = KeyFile(tmp_path / "keys")
    row, _ = new_key("acme", "ada", ["talk"])
    file.add(row)
    holder = os.open(file.path, os.O_RDONLY)
    try:
        assert file_lock.try_lock_file(holder)
        who = f"process {os.getpid()} of user .*|a process that the system does not name"
        with pytest.raises(FileFailed, match=f"({who}) has locked it; end that process"):
            file.withdraw(row.id)
    finally:
        os.close(holder)
    assert file.withdraw(row.id) == row


@pytest.mark.long
def test_keys_that_are_made_at_once_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    stored, _ = new_key("acme", "kept", ["talk"])
    path.write_text(f"# who has which key is in the book\n{render_keys([stored])}# end", encoding="utf-8")
    path.chmod(0o640)
    created = [new_key("acme", f"user{number}", ["talk"])[0] for number in range(40)]
    missing = created[::2]

    def change(key: ApiKey) -> None:
        KeyFile(path).add(key)
        if key in missing:
            KeyFile(path).withdraw(key.id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, created))
    assert KeyFile(path).keys().keys() == {stored.id} | {key.id for key in created if key not in missing}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    lines = path.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[2]) == ("# who has which key is in the book", "# end")


async def test_a_file_that_is_gone_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    path = tmp_path / "keys"
    _, key, keys = with_one_key(path)
    path.unlink()
    for _ in range(3):
        await trio.sleep(2)
        with pytest.raises(NotAuthenticated):
            await keys.identify(bearing(key))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"no key is taken: cannot take the keys of {path}: there is no such file")


LINES = {
    "fields": ("a b c", "line 1 has 3 fields, and must have 6"),
    "digest": ("# a comment\n\na b c d talk 2026-01-01", "line 3 has no digest in its second field"),
    "scope": (f"a {'0' * 64} c d talk,fly 2026-01-01", "line 1 has the scopes `talk,fly`; there are talk, decide"),
    "a key as a scope": (
        f"a {'0' * 64} c d talk,ak_a1_very-secret 2026-01-01",
        "line 1 has the scopes `talk,ak_…`; there are talk, decide",
    ),
    "a key as an id": (
        f"ak_a1_very-secret {'0' * 64} c d talk 2026-01-01\n" * 2,
        "line 2 has the id `ak_…` of an earlier line",
    ),
    "twice": (f"a {'0' * 64} c d talk 2026-01-01\n" * 2, "line 2 has the id `a` of an earlier line"),
}


@pytest.mark.parametrize(("lines", "report"), LINES.values(), ids=LINES)
def test_a_line_that_is_no_key_is_named(lines: str, report: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadKeys, match=report):
        ApiKeys(lines=lines)
    monkeypatch.setenv("AGENTRAIL_KEYS", lines)
    with pytest.raises(BadKeys, match=f"`AGENTRAIL_KEYS`: {report}"):
        ApiKeys()


def test_keys_that_nobody_can_have_are_told_when_the_host_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    with pytest.raises(BadKeys, match=f"`agentrail serve keys make {path} TENANT USER` makes one"):
        ApiKeys(path).check_there()
    KeyFile(path).add(new_key("acme", "ann", ["talk"])[0])
    ApiKeys(path).check_there()
    monkeypatch.delenv("AGENTRAIL_KEYS", raising=False)
    with pytest.raises(BadKeys, match="cannot take the keys of `AGENTRAIL_KEYS`: it has none; `agentrail serve keys"):
        ApiKeys().check_there()


def test_a_scope_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadChoice, match="scope='fly' is not a choice; use one of `talk`"):
        new_key("acme", "ann", ["fly"])


def test_what_a_debugger_shows_has_no_secret() -> None:
    key = ApiKey("a1", "0" * 64, Identity("acme", "ann", frozenset({"talk"})), "2026-01-01")
    assert repr(ApiKeys(lines=render_keys([key]))) == "<ApiKeys, 1 keys>"
    assert repr(LocalToken()) == "<LocalToken>"


async def test_the_local_token_is_new_at_each_start_and_allows_everything() -> None:
    local_token, two = LocalToken(), LocalToken()
    token = local_token.fragment.removeprefix("#token=")
    assert await local_token.identify(bearing(token)) == LOCAL
    with pytest.raises(NotAuthenticated, match="printed at the start"):
        await two.identify(bearing(token))


async def test_requests_that_come_while_the_file_is_read_do_not_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    ours, key = new_key("acme", "ann", ["talk"])
    KeyFile(path).add(ours)
    keys, passes = ApiKeys(path), Passes()
    ended: list[int] = []

    async def ask() -> None:
        await keys.identify(bearing(key))
        ended.append(passes.count)

    async with trio.open_nursery() as nursery:
        trio.lowlevel.add_instrument(passes)
        for _ in range(200):
            nursery.start_soon(ask)
    trio.lowlevel.remove_instrument(passes)
    assert len(ended) == 200
    assert ended[-1] - ended[0] <= 2


async def test_a_request_that_leaves_while_it_reads_the_file_leaves_it_to_another(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    ours, key = new_key("acme", "ann", ["talk"])
    KeyFile(path).add(ours)
    keys = ApiKeys(path)
    with trio.CancelScope() as scope:
        scope.cancel()
        await keys.identify(bearing(key))
    assert scope.cancelled_caught
    with trio.fail_after(30):
        assert (await keys.identify(bearing(key))).user == "ann"

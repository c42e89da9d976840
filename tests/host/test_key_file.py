"""The file with the keys of a host: how it changes, what is noticed of that, and whose sessions a key is for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrail.api.operation_table import CALLS
from agentrail.api.public_ids import SessionName
from agentrail.errors import UnknownSession
from agentrail.host import Identity
from agentrail.host.authentication.api_keys import KeyFile, new_key
from agentrail.host.hosted_sessions import check_owner


def key_of(user: str, name: str) -> object:
    key, _ = new_key("acme", user, ["talk"])
    return key.but(id=name)


def test_a_key_is_added_on_a_line_of_its_own_and_one_is_withdrawn_and_no_comment(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    for name in ("abcd1", "abcd2"):
        file.path.write_bytes((file.path.read_bytes() if file.path.exists() else b"") + f"# {name}".encode())
        file.path.chmod(0o600)
        file.add(key_of("ann", name))  # type: ignore[arg-type]  # it is one
    assert sorted(file.keys()) == ["abcd1", "abcd2"]
    assert file.withdraw("abcd1").id == "abcd1"
    assert sorted(file.keys()) == ["abcd2"]
    assert [line for line in file.path.read_text("utf-8").splitlines() if line[0] == "#"] == ["# abcd1", "# abcd2"]


def test_a_file_has_changed_that_is_gone_or_whose_time_was_set_back(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.add(key_of("ann", "one"))  # type: ignore[arg-type]  # it is one
    content, stamp = file.content()
    assert not file.has_changed(stamp)
    before = file.path.stat()
    with file.path.open("r+b") as opened:  # in place, with as many bytes
        opened.write(content.replace(b"one", b"two"))
    os.utime(file.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.has_changed(stamp)
    _, stamp = file.content()
    file.path.unlink()
    assert file.has_changed(stamp)


def test_a_session_of_another_user_is_not_there_without_the_scope_for_it() -> None:
    call = CALLS["show_session"]
    others = SessionName("acme", "bob", "trip")
    check_owner(call, Identity("acme", "ann", frozenset()), SessionName("acme", "ann", "trip"))
    check_owner(call, Identity("acme", "ann", frozenset({"admin"})), others)
    with pytest.raises(UnknownSession):
        check_owner(call, Identity("acme", "ann", frozenset({"talk", "sessions"})), others)

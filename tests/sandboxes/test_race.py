"""Somebody else turns folders and files into links, and back, while they are read and written."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from agentrail.sandboxes import LocalSandbox, Search
from tests.patience import PATIENCE
from tests.profiles import CAMPAIGN
from tests.sandboxes.corpus import SECRET, outcome, reading, snapshot, writing
from tests.sandboxes.kinds import needs_openat2, without_openat2

pytestmark = pytest.mark.long

CALLS = 6_000 if CAMPAIGN else 500

FLIPPER = """
import ctypes, os, sys
os.chdir(sys.argv[1])
os.symlink("../outside", "link")
os.symlink("../outside/secret.txt", "file-link")
exchange = ctypes.CDLL(None).renameat2
print(flush=True)
while True:
    exchange(-100, b"flip", -100, b"link", 2)
    exchange(-100, b"file", -100, b"file-link", 2)
    if not os.path.islink("file") and not os.path.islink("file-link"):  # a write has replaced the link
        os.unlink("file-link")
        os.symlink("../outside/secret.txt", "file-link")
"""


@contextmanager
def flipping(root: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", FLIPPER, str(root)], stdout=subprocess.PIPE) as flipper:  # noqa: S603 - our own
        try:
            assert flipper.stdout is not None
            flipper.stdout.readline()
            yield
            assert flipper.poll() is None, "it has not flipped to the end"
        finally:
            flipper.kill()


def make_world(folder: Path) -> Path:
    root = folder / "root"
    for place in (root / "flip", folder / "outside", folder / "root-beside"):
        place.mkdir(parents=True)
    (folder / "outside" / "secret.txt").write_bytes(SECRET)
    (folder / "outside" / "only-outside").write_bytes(SECRET)
    (root / "flip" / "secret.txt").write_bytes(b"harmless")
    (root / "file").write_bytes(b"harmless")
    return root


def has_met_both(said: set[str]) -> bool:
    """Whether the folder, or the file, was met where it is and as a link."""
    return any("harmless" in one or "written" in one for one in said) and any("it leads" in one for one in said)


@pytest.mark.parametrize("part_by_part", [pytest.param(False, marks=needs_openat2), True])
async def test_a_link_that_is_flipped_never_leads_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_by_part: bool
) -> None:
    if part_by_part:
        without_openat2(monkeypatch)
    root = make_world(tmp_path)
    before = snapshot(tmp_path)
    sandbox = LocalSandbox(root)
    said: set[str] = set()
    calls = 0
    with flipping(root), trio.fail_after(PATIENCE):
        while calls < CALLS or not has_met_both(said):
            for path in ("flip/secret.txt", "flip", "file", "flip/new.txt", "flip/made/new.txt"):
                answers = reading(sandbox, path, search=False) | writing(sandbox, path)
                answers["walk"] = lambda: sandbox.glob("**", ignored=True)
                for answer in answers.values():
                    said.add(await outcome(answer))
                    calls += 1
            if calls % 300 == 0:
                said.add(await outcome(lambda: sandbox.grep(Search("secret", "."))))
    assert [one for one in said if SECRET.decode() in one or "only-outside" in one or "CRASHED" in one] == []
    assert snapshot(tmp_path) == before

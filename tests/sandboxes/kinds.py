from collections.abc import Callable
from pathlib import Path

import pytest

from agentrail.adapters.sandboxes import confined_open
from agentrail.adapters.sandboxes.bubblewrap import check_bwrap, check_outward, find_bwrap
from agentrail.errors import SandboxMissing
from agentrail.sandboxes import BubblewrapSandbox, LocalSandbox


def without_openat2(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confined_open, "has_openat2", lambda: False)


def no_bubblewrap() -> str:
    try:
        check_bwrap(find_bwrap())
    except SandboxMissing as error:
        return str(error)
    return ""


def no_connector() -> str:
    try:
        check_outward(find_bwrap())
    except SandboxMissing as error:
        return str(error)
    return ""


def outward(root: Path) -> BubblewrapSandbox:
    return BubblewrapSandbox(root, network="outward")


WHY_NOT = no_bubblewrap()
needs_bubblewrap = pytest.mark.skipif(bool(WHY_NOT), reason=f"run `make sandbox-tools` first: {WHY_NOT}")
WHY_NOT_OUTWARD = no_connector()
needs_connector = pytest.mark.skipif(
    bool(WHY_NOT_OUTWARD), reason=f"run `make sandbox-tools` first, no network of its own was tried: {WHY_NOT_OUTWARD}"
)
needs_openat2 = pytest.mark.skipif(not confined_open.has_openat2(), reason="this kernel has no openat2")

Opened = Callable[[Path], LocalSandbox]

WITH_COMMANDS = [
    pytest.param(LocalSandbox, id="local"),
    pytest.param(BubblewrapSandbox, id="bubblewrap", marks=needs_bubblewrap),
    pytest.param(outward, id="own network", marks=needs_connector),
]

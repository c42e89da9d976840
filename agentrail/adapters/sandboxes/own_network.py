"""Runs `bwrap` with a network namespace of its own that reaches outward; a script, never imported.

`bwrap` takes the place of this process, so that a signal and its end are the command's. A forked process waits until
`bwrap` has made the namespaces, lets `slirp4netns` or `pasta` connect the one of the network with what is outside, and
then lets the command begin. Neither of the two leads to loopback addresses of the host, and an abstract socket of the
host is in another namespace. `slirp4netns` ends when the command has ended, by a pipe that `bwrap` keeps open. `pasta`
stays, in some versions, as long as the network has a path in `/proc`: the launcher ends it.

Usage: PROGRAM BWRAP ARGUMENT…, where PROGRAM is the path of `slirp4netns` or `pasta`. If the network cannot be
connected, the command has none, and a line of its standard error says so.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import time
from contextlib import suppress

GATEWAY = "10.0.2.2"
ADDRESS = "10.0.2.100"
RESOLVER = "10.0.2.3"
"""Where both answer questions for names; the file `resolv.conf` beside this one has it."""

NS_GET_USERNS = 0xB701
"""The number by which Linux returns the user namespace to which another namespace belongs."""

PATIENCE = 5.0
"""Seconds within which `bwrap` sets up a loopback device."""

CHILD = re.compile(rb'"child-pid": *(\d+)')


def slirp4netns(program: str, network: str, user: str, running: int) -> str:
    """Connect the namespace *network* of *user*; return why not, or nothing. *running* ends with the command."""
    ready, told_ready = os.pipe()
    options = ["--configure", "--mtu=65520", "--disable-host-loopback"]
    descriptors = [f"--ready-fd={told_ready}", f"--exit-fd={running}"]
    subprocess.Popen(  # noqa: S603 - a program of the system
        [program, *options, *descriptors, "--netns-type=path", f"--userns-path={user}", network, "tap0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(told_ready, running),
    )
    os.close(told_ready)
    return "" if os.read(ready, 1) else "slirp4netns has ended"


def pasta(program: str, network: str, user: str, _running: int) -> str:
    """Connect the namespace *network* of *user*; return why not, or nothing. It goes on in the background."""
    ports = ["-t", "none", "-u", "none", "-T", "none", "-U", "none"]
    addresses = ["-4", "-a", ADDRESS, "-n", "24", "-g", GATEWAY, "--dns-forward", RESOLVER]
    result = subprocess.run(  # noqa: S603 - a program of the system
        [program, "-q", "--config-net", "--no-map-gw", *ports, *addresses, "--userns", user, "--netns", network],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return result.stderr.decode(errors="replace").strip() if result.returncode else ""


CONNECTORS = {"slirp4netns": slirp4netns, "pasta": pasta}


def await_loopback(child: str) -> None:
    """Wait until `bwrap` has set up the loopback device of the process *child*; it fails if another program does."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(OSError), open(f"/proc/{child}/net/fib_trie", "rb") as file:  # noqa: PTH123 - nothing else is imported
            if b"127.0.0.1\n" in file.read():
                return
        time.sleep(0.001)


def connect(program: str, info: int, blocked: int, running: int) -> None:
    """Connect the namespace that `bwrap` tells of by *info*, and let the command begin by *blocked*."""
    status = b""
    while not (match := CHILD.search(status)):
        piece = os.read(info, 4096)
        if not piece:  # it has made no namespace, and says why itself
            return
        status += piece
    child = match[1].decode()
    await_loopback(child)
    # The process goes on to a user namespace within the one to which its network belongs, and only that one lets
    # another program in.
    network = f"/proc/{child}/ns/net"
    user = fcntl.ioctl(os.open(network, os.O_RDONLY), NS_GET_USERNS)
    connector = CONNECTORS[os.path.basename(program)]  # noqa: PTH119 - nothing else is imported
    problem = connector(program, network, f"/proc/{os.getpid()}/fd/{user}", running)
    if problem:
        os.write(2, f"the command has no network: {problem}\n".encode())
    os.write(blocked, b"+")


def main() -> None:
    """Fork the process that connects the network, and become `bwrap`."""
    program, bwrap, *words = sys.argv[1:]
    info, told_info = os.pipe()
    blocked, unblock = os.pipe()
    running, kept_running = os.pipe()
    if os.fork() == 0:
        for number in (told_info, blocked, kept_running):
            os.close(number)
        try:
            connect(program, info, unblock, running)
        finally:
            os._exit(0)
    for number in (info, unblock, running):
        os.close(number)
    for number in (told_info, blocked, kept_running):
        os.set_inheritable(number, True)
    options = ["--info-fd", str(told_info), "--block-fd", str(blocked), "--sync-fd", str(kept_running)]
    os.execv(bwrap, [bwrap, *options, *words])  # noqa: S606 - running it is the purpose of this script


if __name__ == "__main__":
    main()

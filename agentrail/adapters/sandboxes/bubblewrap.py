"""A sandbox with files as in `LocalSandbox`, whose commands run in their own Linux namespaces, made by `bwrap`.

A command sees a read-only system (`/usr` and the few files of `/etc` that programs need), the sandbox's root, where it
may write, an empty `/tmp` and home, and its own processes. It sees nothing else of the machine, and has no network
unless that is allowed: outward traffic alone (`own_network`), or all that this machine has.

The limits are those of `setrlimit`. Each counts per process, except the number of processes, which counts per user and
is not enforced for root. The timeout bounds the whole command: all its processes end with their namespace.

`Guards` keeps commands from creating protected names, such as `.git`, in the root. `Covers` keeps from them the files
of agentrail itself, where an agent works in a folder that has some, and the paths that are hidden (`HiddenPaths`).
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import stat
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final, Literal

from agentrail.adapters.processes import SAFE_PATH, Launch, ProcessTree, Ready, argv_of, check_environment
from agentrail.adapters.sandboxes.confined_open import Root, identity_of
from agentrail.adapters.sandboxes.hidden_paths import NOTHING_HIDDEN
from agentrail.adapters.sandboxes.local import LocalSandbox, shell
from agentrail.adapters.sandboxes.outward_network import RESOLVER, connected, find_connector
from agentrail.adapters.sandboxes.paths import PROTECTED, parts_of
from agentrail.adapters.user_folders import hidden_files, hidden_folders, is_in
from agentrail.errors import CommandRefused, SandboxMissing
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.ports.sandbox import Command, OnOutput, Process
from agentrail.values.argument_checks import checked
from agentrail.values.value import Authored

_GUARDING: Final = threading.Lock()
_HOLDERS: Final = Counter[str]()
"""How many commands and containers of this process hold each protected path."""
_CREATED: Final[set[str]] = set()
"""Those of the paths that were created."""


class Guards:
    """Creates an empty folder for each protected name that does not exist, while commands run.

    Such a folder can be mounted read-only, so a command cannot create the name. Git ignores empty folders. What one
    sandbox has created, another one of the same folder may still need: it is removed when nobody of this process does.
    """

    __slots__ = ("_free", "_names", "_root")

    def __init__(self, root: str, names: Iterable[str], free: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._free = free  # no folder is created for these names
        self._names = tuple(names)

    def hold(self) -> list[str]:
        """Create the missing folders, and return the names to mount read-only. Links are left out."""
        names: list[str] = []
        with _GUARDING, Root(self._root, NOTHING_HIDDEN) as root:
            for name in self._names:
                if name not in self._free:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=root.fd)
                        _CREATED.add(f"{self._root}/{name}")
                with suppress(FileNotFoundError):
                    if not stat.S_ISLNK(os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mode):
                        names.append(name)
            _HOLDERS.update(self._paths)
        return names

    @property
    def _paths(self) -> Iterator[str]:
        return (f"{self._root}/{name}" for name in self._names)

    @property
    def created(self) -> tuple[str, ...]:
        """The paths of the folders that were created."""
        with _GUARDING:
            return tuple(path for path in self._paths if path in _CREATED)

    def release(self) -> None:
        """Remove the created folders after the last command has ended; folders that are not empty any more stay."""
        with _GUARDING:
            _HOLDERS.subtract(self._paths)
            unused = [path for path in self._paths if _HOLDERS[path] <= 0]
            for path in unused:
                del _HOLDERS[path]
            self._remove([path for path in unused if path in _CREATED])
            _CREATED.difference_update(unused)

    def _remove(self, paths: Iterable[str]) -> None:
        # the root folder itself may have been deleted
        with suppress(FileNotFoundError), Root(self._root, NOTHING_HIDDEN) as root:
            for path in paths:
                with suppress(OSError):
                    os.rmdir(path.removeprefix(f"{self._root}/"), dir_fd=root.fd)


class Covers:
    """Covers the hidden files and folders that commands would see; covers cannot be read, written or moved.

    A missing folder of agentrail is created first, so that a command cannot create one in its place. The same holds for
    the rollback journal, which SQLite would obey; it is empty, and removed when the last command has ended.
    Each folder above a cover is mounted too: a mounted folder cannot be renamed, which would take the cover with it.
    """

    __slots__ = ("_lock", "_made", "_users")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0  # number of commands that run
        self._made: set[str] = set()  # paths of the files that were created

    def hold(self, root: str, readable: Iterable[str], paths: Iterable[str] = ()) -> list[str]:
        """Return what agentrail hides of itself in the folders *readable*, *root* among them, and the *paths* in them.

        What a command could create is created first. Paths inside another one are left out; not all of them exist.
        """
        folders = hidden_folders()
        own = {*folders, *hidden_files()}
        with self._lock:
            covered = _outermost((*own, *paths), readable)
            for path in covered:
                if path in own and is_in(path, root):
                    self._make(path, is_folder=path in folders)
            self._users += 1
        return covered

    def _make(self, path: str, *, is_folder: bool) -> None:
        """Create *path*, if it is missing and a command could create it."""
        if is_folder:
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        elif path.endswith("-journal"):
            with suppress(FileExistsError, FileNotFoundError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                self._made.add(path)

    def release(self) -> None:
        """Remove the created files after the last command has ended, unless something was written to them."""
        with self._lock:
            self._users -= 1
            if not self._users:
                for path in self._made:
                    with suppress(OSError):
                        if not Path(path).stat().st_size:
                            Path(path).unlink()
                self._made.clear()


def _mounted(covered: Iterable[str], root: str, read_only: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments of `bwrap` that cover paths, and the folders above them with identities (`_identity`).

    *read_only* are the names in *root* that are mounted read-only, so that nothing in them can be renamed.
    """
    words: dict[tuple[str, ...], None] = {}  # a dictionary, as several covers have the same folders above them
    above: dict[str, str] = {}
    for path in covered:
        for folder in Path(path).relative_to(root).parents[-2::-1] if is_in(path, root) else ():
            if folder.parts[0] not in read_only:
                words["--bind", f"{root}/{folder}", f"{root}/{folder}"] = None
                above[f"{root}/{folder}"] = _identity(root, folder)
        if Path(path).is_dir():
            words["--tmpfs", path] = words["--remount-ro", path] = None
        elif Path(path).exists():
            words["--ro-bind", os.devnull, path] = None
    return [word for group in words for word in group], above


COVERS: Final = Covers()
"""The covers of all sandboxes of this process: what one has made, another may still need."""


def _outermost(paths: Iterable[str], outer_paths: Iterable[str]) -> list[str]:
    """Return those of *paths* that are in one of *outer_paths*, in order, without those inside another one of them."""
    inside = {path for path in paths for outer in outer_paths if is_in(path, outer)}
    return sorted(path for path in inside if inside.isdisjoint(map(str, Path(path).parents)))


def _identity(root: str, folder: PurePath) -> str:
    """Return device and inode of a *folder* in *root*, as `stat` prints them; raise `CommandRefused` if it is gone."""
    try:
        device, inode = identity_of(root, folder.parts)
    except OSError as error:
        raise CommandRefused(f"the folder `{folder}` was moved while it was searched; run it again") from error
    return f"{device}:{inode}"


HOME: Final = "/home/agent"
USER: Final = "1000"

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""The folders of the system, mounted read-only; where one of them is a link, the same link is created."""

SETTINGS: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl",
)
"""Files and folders of `/etc` that programs read, mounted read-only; none of them is secret."""

OUTWARD: Final = "outward"
"""The network of a command that reaches other machines, and nothing of this one."""

RESOLV_CONF: Final = "/etc/resolv.conf"

NETWORK_SETTINGS: Final = ("/etc/hosts", RESOLV_CONF, "/etc/gai.conf")
"""Files of `/etc` that are mounted only if commands have a network."""

_MOVED: Final = "echo 'not run: a folder was moved while the command was started; run it again' >&2; exit 126"

AT_HOME: Final = frozenset(PROTECTED) - {".git", ".hg", ".agentrail", ".mcp.json", ".vscode", ".idea", ".envrc"}
"""Protected names that programs read only in a home directory.

If the root is no home directory, no folder is created for those that are missing.
"""


class Limits(Authored):
    """Resource limits of one command."""

    processes: int = 256
    """The most processes of the command, threads included; not enforced if agentrail runs as root."""
    memory: int = 4 * 1024**3
    """The most bytes of private memory of each process."""
    cpu_seconds: int = 600
    """The most seconds of CPU time of each process."""
    file_size: int = 2 * 1024**3
    """The most bytes of each file that is written."""
    open_files: int = 1024
    """The most files that each process may have open."""
    scratch: int = 512 * 1024**2
    """The size of `/tmp` in bytes, and that of the home directory."""


class BubblewrapSandbox(LocalSandbox):
    """Files below *root*; commands see only the root, the system, and the paths in *readable*.

    Names in *protected* that exist in the root are read-only for commands too. For most of those that do not exist, an
    empty folder is there while a command runs, so that commands cannot create them.

    Commands have no network, or with *network* that of this machine, its loopback ports and abstract sockets included;
    with `"outward"` they have one of their own, from which only addresses elsewhere can be reached.

    Commands see nothing of the paths in *hidden* either: a file that such a pattern covers cannot be opened, and a
    folder is empty, also if an exception is in it. Folders `.git` are left as they are.
    """

    __slots__ = ("_guards", "_limits", "_network", "_readable")

    @checked
    def __init__(  # noqa: PLR0913 - each is a setting of its own
        self,
        root: str | Path,
        *,
        network: bool | Literal["outward"] = False,
        limits: Limits | None = None,
        readable: Iterable[str] = (),
        hard_links: bool = False,
        protected: Iterable[str] = PROTECTED,
        env: Iterable[tuple[str, str]] = (),
        hidden: Iterable[str] = BLOCKED_PATHS,
        snapshots: bool = False,
    ) -> None:
        protected = tuple(protected)
        super().__init__(root, hard_links=hard_links, protected=protected, env=env, hidden=hidden, snapshots=snapshots)
        self._guards = Guards(self.root, protected, frozenset() if self.root == str(Path.home()) else AT_HOME)
        self._network = network
        self._limits = Limits() if limits is None else limits
        self._readable = tuple(os.path.realpath(path) for path in readable)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The patterns of the paths that commands do not see."""
        return self._hidden_paths.patterns

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """Return *command* as a process that is not started; the caller starts it by `run`, in its own nursery."""
        parts = parts_of(command.folder)
        check_root(self.root)
        bwrap = find_bwrap()
        argv = argv_of(command, shell())
        env = {"HOME": HOME, "USER": "agent", "LOGNAME": "agent", "PATH": SAFE_PATH, "LANG": "C.UTF-8", "TERM": "dumb"}
        env |= self._env | check_environment(command.env)
        folder = "/".join((self.root, *parts))

        def enter() -> Ready:
            check_bwrap(bwrap)
            connector = check_outward(bwrap) if self._network == OUTWARD else None
            fd = self._files.open_folder(command.folder)
            try:
                guarded, covers, above = self._hold()
            except BaseException:
                os.close(fd)
                raise
            words = (
                *_namespaces(network=self._network is True),
                *self._view(),
                *_read_only(self.root, guarded),
                *covers,
            )
            confined = (bwrap, *words, "--chdir", folder, "--", *self._within(argv, above))
            return Ready(confined if connector is None else connected(connector, confined), fd)

        # `bwrap` passes its environment on: as `--setenv`, other users of the machine would see the values.
        launch = Launch(argv[0], env, enter, self._release, self._rlimits(), wraps=True)
        return ProcessTree(command, launch, on_output)

    def _hold(self) -> tuple[list[str], list[str], dict[str, str]]:
        """Guard the protected names and cover what is hidden; return the names, and what `_mounted` returns."""
        guarded = self._guards.hold()
        try:
            readable = (self.root, *self._readable, *SETTINGS)
            paths = self._hidden_paths.find(self.root, readable[1:])
            covered = COVERS.hold(self.root, readable, paths)
        except BaseException:
            self._guards.release()
            raise
        try:
            return (guarded, *_mounted(covered, self.root, guarded))
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        self._guards.release()
        COVERS.release()

    def _view(self) -> Iterator[str]:
        """Yield the arguments of `bwrap` that mount what a command sees; later mounts may cover earlier ones."""
        for path in map(Path, SYSTEM):
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            else:
                yield from ("--ro-bind-try", str(path), str(path))
        for name in (*SETTINGS, *(NETWORK_SETTINGS if self._network else ())):
            is_resolver = name == RESOLV_CONF and self._network == OUTWARD
            yield from ("--ro-bind-try", RESOLVER if is_resolver else name, name)
        # mounted read-only: if agentrail runs as root, commands could change it otherwise
        yield from ("--proc", "/proc", "--remount-ro", "/proc")
        yield from ("--dev", "/dev")
        for name in ("/tmp", HOME):  # noqa: S108 - its own
            yield from ("--size", str(self._limits.scratch), "--tmpfs", name)
        for name in self._readable:
            yield from ("--ro-bind", name, name)
        yield from ("--bind", self.root, self.root)

    def _within(self, argv: tuple[str, ...], above: Mapping[str, str]) -> tuple[str, ...]:
        """Return a command line for a shell that sets the limit of processes and then runs *argv*.

        The shell runs inside the namespace, where only the command's own processes count. Another command that runs
        may move a folder while `bwrap` mounts by paths. So the shell ends if a folder in *above* is not the same.
        """
        most = self._limits.processes
        script = f'ulimit -u {most} 2>/dev/null || ulimit -p {most}; exec "$@"'
        if above:
            folders, identities = shlex.join(above), shlex.quote("\n".join(above.values()))
            script = f'[ "$(PATH={SAFE_PATH} stat -c %d:%i -- {folders})" = {identities} ] || {{ {_MOVED}; }}; {script}'
        return ("/bin/sh", "-c", script, "sh", *argv)

    def _rlimits(self) -> tuple[tuple[str, int], ...]:
        return (
            ("RLIMIT_DATA", self._limits.memory),
            ("RLIMIT_CPU", self._limits.cpu_seconds),
            ("RLIMIT_FSIZE", self._limits.file_size),
            ("RLIMIT_NOFILE", self._limits.open_files),
        )


def check_root(root: str) -> None:
    """Refuse a root with folders of the system, which commands could write to, or that is a folder of agentrail."""
    if any(Path(path).is_relative_to(root) for path in (*SYSTEM, "/dev", "/etc", "/proc")):
        raise CommandRefused(f"its root `{root}` holds the system, so nothing would be confined; take another")
    if root in hidden_folders():
        raise CommandRefused(f"its root `{root}` is where agentrail keeps files of its own; take another")


def _namespaces(*, network: bool) -> tuple[str, ...]:
    return (
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", USER, "--gid", USER),
        *(("--share-net",) if network else ()),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    )


def _read_only(root: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from ("--ro-bind", f"{root}/{name}", f"{root}/{name}")


def find_bwrap() -> str:
    """Return the path of `bwrap`; raise `SandboxMissing` if it is not installed."""
    path = shutil.which("bwrap", path=SAFE_PATH)
    if path is None:
        raise SandboxMissing("bwrap", f"not found in {SAFE_PATH}")
    return path


def check_outward(bwrap: str) -> str:
    """Return the program that gives commands a network of their own; raise `SandboxMissing` if none works here."""
    return find_connector((bwrap, *_namespaces(network=False)))


@functools.cache
def check_bwrap(bwrap: str) -> None:
    """Raise `SandboxMissing` if this machine does not let `bwrap` make namespaces. A success is remembered."""
    trial = (bwrap, *_namespaces(network=False), "--ro-bind", "/", "/", "--", "/bin/sh", "-c", ":")
    try:
        result = subprocess.run(trial, capture_output=True, check=False, timeout=10, stdin=subprocess.DEVNULL, env={})  # noqa: S603 - constants
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxMissing("bwrap", str(error)) from error
    if result.returncode:
        problem = result.stderr.decode(errors="replace").strip()
        raise SandboxMissing("bwrap", problem)

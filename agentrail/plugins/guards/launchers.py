"""Launchers: programs that run some of their arguments, such as `npx` and `valgrind`; finds what they may run.

Not all options of a launcher are known here. So each word at which the command may begin counts, and what is found is
only possible. `runners` has the programs of which it is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agentrail.plugins.guards.runners import run_by
from agentrail.plugins.shell.command_line import Commands, lex, lex_words
from agentrail.plugins.shell.lexer_words import SimpleCommand, Unlexable, Word
from agentrail.values.value import Value

MOST_FOUND: Final = 64
"""The most commands that launchers of one call may run; if there are more, it is unclear what they run."""
MOST_WORDS: Final = 4_000
"""The most words of all those commands."""


class Launcher(Value):
    """How a program says what it runs."""

    operands: int = 0
    """The most operands before the command, such as a container."""
    every: bool = False
    """Whether each word may be a command, or have one in it."""
    after: frozenset[str] = frozenset()
    """The options, without dashes, that have a command as their value; if there are any, nothing else is run."""


_ONE: Final = Launcher(operands=1)
_EVERY: Final = Launcher(every=True)


def _after(options: str) -> Launcher:
    return Launcher(after=frozenset(options.split()))


_TABLE: Final[Mapping[str, Launcher]] = {
    # packages and versions
    "bun x, bun exec, bunx, npm exec, npm x, npx, pnpm dlx, pnpm exec, pnpx, yarn dlx, yarn exec, yarn run": Launcher(),
    "asdf exec, fnm exec, goenv exec, hatch run, jenv exec, lerna exec, mamba run, micromamba run": Launcher(),
    "nodenv exec, nx exec, pipx run, pixi run, pyenv exec, rbenv exec, rye run, tox exec, uv tool run": Launcher(),
    "uvx, volta run, devbox run, guix environment, guix shell, meson devenv, cmake -e": Launcher(),
    "hatch -e, nvm exec, nvm run": _ONE,
    "nix develop, nix shell": _after("c command"),
    "nix-shell": _after("run command"),
    "go build, go install, go run, go test, go vet": _after("exec toolexec vettool"),
    # environments, secrets and locks
    "cross-env, cross-env-shell, dockerize, dotenv, dotenvx run, env-cmd, envconsul, foreman run": Launcher(),
    "forego run, honcho run, infisical run, railway run, teller run, wait-for-it, wait-for-it.sh": Launcher(),
    "borg with-lock, chamber exec, consul lock, envchain, envdir, lckdo, setlock, sops exec-env, sops exec-file": _ONE,
    # users, limits and namespaces
    "cgexec, chpst, cpulimit, dzdo, gsudo, numactl, pfexec, prlimit, run0, softlimit, timelimit": Launcher(),
    "i386, linux32, linux64, uname26, x86_64, arch, caffeinate, catchsegv, coreutils, winpty": Launcher(),
    "envuidgid, ip netns exec, ip vrf exec, s6-setuidgid, setuidgid, sg": _ONE,
    "launchctl submit, sandbox-exec, systemd-cat, systemd-inhibit, systemd-nspawn, schroot, xinit, dbus-launch": _ONE,
    # what watches, measures and traces
    "bear, eatmydata, heaptrack, ifne, nocache, perf c2c, perf ftrace, perf kmem, perf kvm, perf lock": Launcher(),
    "perf mem, perf record, perf sched, perf stat, perf timechart, perf trace, rlwrap, scan-build": Launcher(),
    "torify, torsocks, tsocks, valgrind, vglrun, optirun, primusrun, prime-run, gamemoderun": Launcher(),
    "datefudge, gpg-agent, mangohud, rr, ssh-agent, trace-cmd record, uftrace": _ONE,
    "bpftrace": _after("c"),
    "fd, fdfind": _after("x X exec exec-batch"),
    "tcpdump": _after("z postrotate-command"),
    "just": _after("c command"),
    "mvn, mvnw": _after("Dexec.executable"),
    "cargo watch, concurrently, hyperfine, mispipe, nodemon, pee, reflex, watchexec": _EVERY,
    # containers and virtual machines
    "apptainer exec, buildah run, crictl exec, crun exec, distrobox enter, distrobox-enter, flatpak enter": _ONE,
    "incus exec, limactl shell, lxc exec, machinectl shell, multipass exec, oc rsh, podman machine ssh": _ONE,
    "runc exec, singularity exec, toolbox run": _ONE,
    "ctr": Launcher(operands=5),
    "buildah unshare, colima ssh, flatpak-spawn, k3s, lima, lxc-attach, lxc-execute, microk8s": Launcher(),
    "minikube kubectl, podman unshare, rootlesskit, wsl": Launcher(),
    "flatpak run": _after("command"),
    "vagrant ssh, minikube ssh, multipass shell": _EVERY,
    # other machines
    "ansible, aws ssm, autossh, az vm, clush, cssh, dsh, heroku run, mosh, parallel-ssh, pdsh, plink": _EVERY,
    "prsh, pssh, remsh, rsh, salt, salt-call, salt-ssh, sshpass, slogin": _EVERY,
    "cf ssh, eb ssh, fly ssh, flyctl ssh, gcloud compute": _after("c C command"),
    "mpiexec, mpirun, orterun, salloc, srun": Launcher(),
    "bsub, qsub, sbatch": _EVERY,
    # terminals
    "abduco, dtach, kitty, zellij run": Launcher(),
    "wezterm": _ONE,
    "alacritty, foot, gnome-terminal, konsole, urxvt, x-terminal-emulator, xfce4-terminal, xterm": _EVERY,
}
LAUNCHERS: Final[Mapping[str, Launcher]] = {
    words: launcher for listed, launcher in _TABLE.items() for words in listed.split(", ")
}

_PROGRAMS: Final = frozenset(words.partition(" ")[0] for words in LAUNCHERS)
_NAMES: Final = re.compile(r"[\w.+-]+")
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_ABOUT: Final = frozenset({"--help", "--version"})


def may_run(lines: Sequence[Commands | Unlexable]) -> Iterator[Commands | Unlexable]:
    """Yield what the launchers among *lines* may run, at any depth."""
    todo = list(lines)
    number = words = 0
    while todo:
        line = todo.pop()
        for command in line if isinstance(line, Commands) else ():
            for found in _found(command):
                number += 1
                words += sum(len(each.argv) for each in found) if isinstance(found, Commands) else 0
                if number > MOST_FOUND or words > MOST_WORDS:
                    yield Unlexable("too many commands that other programs may run", 0)
                    return
                yield found
                todo.append(found)
                inner = [run_by(each) for each in found] if isinstance(found, Commands) else []
                todo += (run for run in inner if run is not None)
                yield from (run for run in inner if run is not None)


def _found(command: SimpleCommand) -> Iterator[Commands | Unlexable]:
    program = command.program.removesuffix(".exe")
    if program not in _PROGRAMS or any(word.text in _ABOUT for word in command.args[:1]):
        return
    for words, launcher in LAUNCHERS.items():
        name, *verbs = words.split(" ")
        start = _behind(verbs, command.args) if name == program else None
        if start is not None:
            yield from _begins(launcher, command.args[start:])


def _behind(verbs: Sequence[str], args: Sequence[Word]) -> int | None:
    """Return the index behind *verbs*, which stand in this order among *args*; `None` if they do not."""
    at = 0
    for verb in verbs:
        place = next((n for n in range(at, len(args)) if args[n].text.lower() == verb or args[n].is_unknown), None)
        if place is None:
            return None
        at = place + 1
    return at


def _begins(launcher: Launcher, args: Sequence[Word]) -> Iterator[Commands | Unlexable]:
    """Yield the commands that begin at the words of *args* at which one may begin."""
    if launcher.every:
        yield from _anywhere(args)
        return
    operands = 0
    options = launcher.after
    takes = False
    for place, word in enumerate(args):
        text = word.text
        is_option = text.startswith("-") and text != "-"
        if options:
            if takes:
                yield from _command(args[place:])
            takes = is_option and not options.isdisjoint(_given(text))
            yield from _attached(text, options) if is_option else ()
        elif is_option:
            takes = "=" not in text and text != "--"
            value = text.partition("=")[2]
            yield from (lex(value),) if value.strip() else ()
        elif not _ASSIGNS.fullmatch(text):
            yield from _command(args[place:])
            if not takes and operands == launcher.operands:
                return
            operands += not takes
            takes = False


def _given(text: str) -> Iterator[str]:
    """Yield the names of the options that the word *text* may give: one long option, or a cluster of letters."""
    yield text.lstrip("-").partition("=")[0]
    yield from text[1:] if not text.startswith("--") else ()


def _attached(text: str, options: frozenset[str]) -> Iterator[Commands | Unlexable]:
    """Yield the command that is the value of one of *options* in the same word."""
    name, equals, value = text.lstrip("-").partition("=")
    if equals and name in options:
        yield lex(value)
    for place, letter in enumerate(text[1:], 2):
        if not text.startswith("--") and letter in options and text[place:]:
            yield lex(text[place:].removeprefix("="))


def _command(argv: Sequence[Word]) -> Iterator[Commands | Unlexable]:
    """Yield *argv* as a command, and its first word as a script if it has blanks."""
    if any(map(str.isspace, argv[0].text)):
        yield lex(argv[0].text)
    else:
        yield lex_words(argv)


def _anywhere(args: Sequence[Word]) -> Iterator[Commands | Unlexable]:
    """Yield what *args* run if each word may be a command, or a script, or have the name of a program in it."""
    for place, word in enumerate(args):
        if word.is_unknown:
            yield Unlexable("a word that the shell expands, and another program may run", 0)
        elif any(map(str.isspace, word.text)):
            yield lex(word.text)
            yield from (lex_words([Word(name)]) for name in _NAMES.findall(word.text))
        elif not word.text.startswith("-"):
            yield lex_words(args[place:])
        else:
            yield from (lex_words([Word(name)]) for name in _NAMES.findall(word.text.partition("=")[2]))

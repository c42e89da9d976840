"""Runners: programs with a sub-command that runs another command, such as `docker exec` and `uv run`; finds it.

Rules that deny or ask look for what a runner runs. For all else, the runner is a command as any other.

Launchers: programs that run some of their arguments, such as `npx` and `valgrind`; finds what they may run.

Not all options of a launcher are known here. So each word at which the command may begin counts, and what is found is
only possible. Runners are the programs of which it is known.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from agentrail.plugins.shell.command_line import Commands, lex_words, parse_commands
from agentrail.plugins.shell.lexer_words import SimpleCommand, StuckError, Unlexable, Word, stop
from agentrail.plugins.shell.wrappers import Wrapper, read_options
from agentrail.values.value import Value

MAX_RUN: Final = 64
"""The most commands that runners of one call run; if there are more, it is unclear what they run."""


class Runner(Value):
    """How a runner is called: the options and operands before the command that it runs."""

    options: Wrapper
    """Its options."""
    operands: int = 0
    """Number of operands before the command, such as a container."""
    dashes: bool = False
    """Whether the command begins after `--`, among whatever options and operands."""
    entry: str = ""
    """The option whose value is the program, in place of the first word of the command."""
    joins: bool = False
    """Whether the words of the command are joined to a script for a shell."""


def _long(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


_PLAIN: Final = Runner(Wrapper())
_AFTER_DASHES: Final = Runner(Wrapper(), dashes=True)

_RUN: Final = Runner(
    Wrapper(
        flags="diPqt",
        valued="acehlmpuvw",
        long=_long(
            "detach disable-content-trust env-host http-proxy init interactive no-healthcheck no-hosts oom-kill-disable"
            " privileged publish-all quiet read-only replace rm sig-proxy tls-verify tty"
        ),
        long_valued=_long(
            "add-host annotation arch attach authfile blkio-weight cap-add cap-drop cgroup-parent cgroupns cgroups"
            " cidfile cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems"
            " detach-keys device device-cgroup-rule dns dns-option dns-search domainname entrypoint env env-file expose"
            " gidmap gpus group-add hostname init-path ip ip6 ipc isolation kernel-memory label label-file link"
            " link-local-ip log-driver log-opt mac-address memory memory-reservation memory-swap memory-swappiness"
            " mount name net net-alias network network-alias oom-score-adj os pid pids-limit platform pod publish pull"
            " restart runtime secret security-opt shm-size stop-signal stop-timeout storage-opt sysctl systemd timeout"
            " tmpfs tz uidmap ulimit umask user userns uts volume volume-driver volumes-from workdir"
        ),
    ),
    operands=1,
    entry="entrypoint",
)
_EXEC: Final = Runner(
    Wrapper(
        flags="dilt",
        valued="euw",
        long=_long("detach interactive latest privileged tty"),
        long_valued=_long("detach-keys env env-file preserve-fds user workdir"),
    ),
    operands=1,
)
_ENGINE: Final = Runner(
    Wrapper(
        flags="Dr",
        valued="cHln",
        long=_long("debug remote tls tlsverify"),
        long_valued=_long(
            "address config connection context host log-level namespace root runroot storage-driver tlscacert tlscert"
            " tlskey url"
        ),
    )
)
_COMPOSE: Final = Runner(
    Wrapper(
        flags="D",
        valued="fHp",
        long=_long("all-resources compatibility debug dry-run verbose"),
        long_valued=_long("ansi context env-file file host parallel profile progress project-directory project-name"),
    )
)
_COMPOSE_EXEC: Final = Runner(
    Wrapper(
        flags="dTit",
        valued="euw",
        long=_long("detach interactive no-TTY no-tty privileged tty"),
        long_valued=_long("env index user workdir"),
    ),
    operands=1,
)
_COMPOSE_RUN: Final = Runner(
    Wrapper(
        flags="dTitPq",
        valued="elpuvw",
        long=_long(
            "build detach interactive no-TTY no-deps no-tty quiet quiet-build quiet-pull remove-orphans rm"
            " service-ports tty use-aliases"
        ),
        long_valued=_long("cap-add cap-drop entrypoint env env-from-file label name publish pull user volume workdir"),
    ),
    operands=1,
    entry="entrypoint",
)
_UV: Final = Runner(
    Wrapper(
        flags="nqv",
        long=_long("native-tls no-cache no-config no-progress offline quiet verbose"),
        long_valued=_long("cache-dir color config-file directory project"),
    )
)
_UV_RUN: Final = Runner(
    Wrapper(
        flags="qsv",
        valued="Ppw",
        long=_long(
            "active all-extras all-groups all-packages dev exact frozen gui-script isolated locked no-dev no-editable"
            " no-env-file no-project no-sync offline only-dev quiet refresh script verbose"
        ),
        long_valued=_long(
            "directory env-file extra group index no-extra no-group only-group package project python with"
            " with-editable with-requirements"
        ),
    )
)
_KUBE: Final = Runner(
    Wrapper(
        valued="nsv",
        long=_long("insecure-skip-tls-verify"),
        long_valued=_long("as as-group certificate-authority cluster context kubeconfig namespace server token user"),
    )
)

_CONTAINERS: Final[Mapping[str, Runner]] = {
    "": _ENGINE,
    " create": _RUN,
    " exec": _EXEC,
    " run": _RUN,
    " container": _PLAIN,
    " container create": _RUN,
    " container exec": _EXEC,
    " container run": _RUN,
}
_COMPOSED: Final[Mapping[str, Runner]] = {"": _COMPOSE, " exec": _COMPOSE_EXEC, " run": _COMPOSE_RUN}
_CLUSTER: Final[Mapping[str, Runner]] = {
    "": _KUBE,
    " debug": _AFTER_DASHES,
    " exec": _AFTER_DASHES,
    " run": _AFTER_DASHES,
}
_ENGINES: Final = ("docker", "nerdctl", "podman")

RUNNERS: Final[Mapping[str, Runner]] = {
    **{engine + verb: runner for engine in _ENGINES for verb, runner in _CONTAINERS.items()},
    **{f"{engine} compose{verb}": runner for engine in _ENGINES for verb, runner in _COMPOSED.items()},
    **{
        program + verb: runner for program in ("docker-compose", "podman-compose") for verb, runner in _COMPOSED.items()
    },
    **{program + verb: runner for program in ("kubectl", "oc") for verb, runner in _CLUSTER.items()},
    "adb": Runner(Wrapper(flags="ade", valued="HLPst")),
    "adb shell": Runner(Wrapper(flags="nTtx", valued="e"), joins=True),
    "aws-vault": _PLAIN,
    "aws-vault exec": _AFTER_DASHES,
    "bundle": _PLAIN,
    "bundle exec": Runner(Wrapper(long=_long("keep-file-descriptors"), long_valued=_long("gemfile"))),
    "chronic": Runner(Wrapper(flags="ev")),
    "conda": _PLAIN,
    "conda run": Runner(
        Wrapper(
            flags="v",
            valued="np",
            long=_long("live-stream no-capture-output verbose"),
            long_valued=_long("cwd name prefix"),
        )
    ),
    "direnv": _PLAIN,
    "direnv exec": Runner(Wrapper(), operands=1),
    "doppler": _PLAIN,
    "doppler run": _AFTER_DASHES,
    "dumb-init": Runner(Wrapper(flags="cv", valued="r", long=_long("single-child verbose"))),
    "gosu": Runner(Wrapper(), operands=1),
    "mise": _PLAIN,
    "mise exec": _AFTER_DASHES,
    "mise x": _AFTER_DASHES,
    "op": _PLAIN,
    "op run": _AFTER_DASHES,
    "pdm": _PLAIN,
    "pdm run": Runner(Wrapper(flags="s", valued="p", long=_long("site-packages"))),
    "pipenv": _PLAIN,
    "pipenv run": Runner(Wrapper()),
    "poetry": Runner(
        Wrapper(
            flags="nqv",
            valued="CP",
            long=_long("no-interaction quiet verbose"),
            long_valued=_long("directory project"),
        )
    ),
    "poetry run": Runner(Wrapper()),
    "proxychains": Runner(Wrapper(flags="q", valued="f")),
    "proxychains4": Runner(Wrapper(flags="q", valued="f")),
    "su-exec": Runner(Wrapper(), operands=1),
    "tini": Runner(Wrapper(flags="gsvw", valued="ep")),
    "unbuffer": Runner(Wrapper(flags="p")),
    "uv": _UV,
    "uv run": _UV_RUN,
    "xvfb-run": Runner(
        Wrapper(
            flags="al",
            valued="efnpsw",
            long=_long("auto-servernum listen-tcp"),
            long_valued=_long("auth-file error-file server-num server-args wait"),
        )
    ),
}

_ABOUT: Final = frozenset({"--help", "--version", "-h", "-v"})
_GROUPS: Final = frozenset(words.rpartition(" ")[0] for words in RUNNERS)
"""Runners that have sub-commands, some of which run a command."""


def run_by(command: SimpleCommand) -> Commands | Unlexable | None:
    """Return the commands that *command*, a runner, runs; `Unlexable` if they are unclear; `None` if it is no runner.

    Variables and files that the command sets or writes are left out: they may be those of another machine.
    """
    if command.program not in RUNNERS or any(word.text in _ABOUT for word in command.args[:1]):
        return None
    try:
        return _wrapped(command.program, command.args)
    except StuckError as stuck:
        return Unlexable(stuck.reason, stuck.at)


def _wrapped(words: str, args: Sequence[Word]) -> Commands | Unlexable | None:
    runner = RUNNERS[words]
    if runner.dashes:
        return _after_dashes(words, args)
    options, start = read_options(words, runner.options, args, expands=True)
    rest = args[start:]
    if words in _GROUPS:
        if rest and rest[0].expands:
            stop(f"a sub-command of `{words}` that the shell expands")
        below = f"{words} {rest[0].text}" if rest else ""
        return _wrapped(below, rest[1:]) if below in RUNNERS else None
    if any(word.splits for word in rest[: runner.operands]):
        stop(f"`{words}` with a word that the shell may split")
    argv = list(rest[runner.operands :])
    if argv[:1] == [Word("--")]:
        del argv[0]
    entries = [value for option, value in options if option == runner.entry]
    if entries:
        if "$" in entries[-1]:
            stop(f"`{words}` with a program that the shell expands")
        argv.insert(0, Word(entries[-1]))
    if not argv or (argv[0].text.startswith("-") and not entries):
        return None  # the program is then the default of the image, or an interactive shell
    if runner.joins:
        if any(word.expands for word in argv):
            stop(f"`{words}` with a script that the shell expands")
        return parse_commands(" ".join(word.text for word in argv))
    return lex_words(argv)


def _after_dashes(words: str, args: Sequence[Word]) -> Commands | Unlexable | None:
    place = next((place for place, word in enumerate(args) if word.text == "--"), None)
    if any(word.splits for word in args[:place]) or (place is None and args and _may_run(args)):
        stop(f"`{words}` whose command does not follow `--`")
    return None if place is None or not args[place + 1 :] else lex_words(args[place + 1 :])


def _may_run(args: Sequence[Word]) -> bool:
    """Whether *args*, which have no `--`, may contain a command: they have more than one operand."""
    return sum(not word.text.startswith("-") for word in args) > 1


def within(lines: Sequence[Commands | Unlexable]) -> Iterator[Commands | Unlexable]:
    """Yield the commands that the runners in *lines* run, at any depth. After `MAX_RUN`, yield `Unlexable` and stop."""
    todo = deque(lines)
    number = 0
    while todo:
        line = todo.popleft()
        for command in line if isinstance(line, Commands) else ():
            inner = run_by(command)
            if inner is None:
                continue
            number += 1
            if number > MAX_RUN:
                yield Unlexable(f"more than {MAX_RUN} commands that other programs run", 0)
                return
            yield inner
            todo.append(inner)


MAX_FOUND: Final = 64
"""The most commands that launchers of one call may run; if there are more, it is unclear what they run."""
MAX_WORDS: Final = 4_000
"""The most words of all those commands."""


class Launcher(Value):
    """How a launcher is called: where its arguments name the command that it runs."""

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
    # programs that watch, measure or trace another one
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
_ASKS_ABOUT: Final = frozenset({"--help", "--version"})


def may_run(lines: Sequence[Commands | Unlexable]) -> Iterator[Commands | Unlexable]:
    """Yield the commands that the launchers in *lines* may run, at any depth.

    If they are too many, yield `Unlexable`.
    """
    todo = list(lines)
    number = words = 0
    while todo:
        line = todo.pop()
        for command in line if isinstance(line, Commands) else ():
            for launched in _launched(command):
                number += 1
                words += (
                    sum(len(inner_command.argv) for inner_command in launched) if isinstance(launched, Commands) else 0
                )
                if number > MAX_FOUND or words > MAX_WORDS:
                    yield Unlexable("too many commands that other programs may run", 0)
                    return
                yield launched
                todo.append(launched)
                inner = [run_by(inner_command) for inner_command in launched] if isinstance(launched, Commands) else []
                todo += (run for run in inner if run is not None)
                yield from (run for run in inner if run is not None)


def _launched(command: SimpleCommand) -> Iterator[Commands | Unlexable]:
    program = command.program.removesuffix(".exe")
    if program not in _PROGRAMS or any(word.text in _ASKS_ABOUT for word in command.args[:1]):
        return
    for words, launcher in LAUNCHERS.items():
        name, *verbs = words.split(" ")
        start = _behind(verbs, command.args) if name == program else None
        if start is not None:
            yield from _begins(launcher, command.args[start:])


def _behind(verbs: Sequence[str], args: Sequence[Word]) -> int | None:
    """Return the index after the last of *verbs*, which stand in this order among *args*; `None` if one is missing."""
    at = 0
    for verb in verbs:
        place = next((n for n in range(at, len(args)) if args[n].text.lower() == verb or args[n].is_unknown), None)
        if place is None:
            return None
        at = place + 1
    return at


def _begins(launcher: Launcher, args: Sequence[Word]) -> Iterator[Commands | Unlexable]:
    """Yield the commands in *args*, the arguments of *launcher*, one for each word at which one may begin."""
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
            takes = is_option and not options.isdisjoint(_option_names(text))
            yield from _attached(text, options) if is_option else ()
        elif is_option:
            takes = "=" not in text and text != "--"
            value = text.partition("=")[2]
            yield from (parse_commands(value),) if value.strip() else ()
        elif not _ASSIGNS.fullmatch(text):
            yield from _command(args[place:])
            if not takes and operands == launcher.operands:
                return
            operands += not takes
            takes = False


def _option_names(text: str) -> Iterator[str]:
    """Yield the names of the options that the word *text* may give: a long option, or each letter of a cluster."""
    yield text.lstrip("-").partition("=")[0]
    yield from text[1:] if not text.startswith("--") else ()


def _attached(text: str, options: frozenset[str]) -> Iterator[Commands | Unlexable]:
    """Yield the command in *text*, if it is one of *options* with a value in the same word."""
    name, equals, value = text.lstrip("-").partition("=")
    if equals and name in options:
        yield parse_commands(value)
    for place, letter in enumerate(text[1:], 2):
        if not text.startswith("--") and letter in options and text[place:]:
            yield parse_commands(text[place:].removeprefix("="))


def _command(argv: Sequence[Word]) -> Iterator[Commands | Unlexable]:
    """Yield the command *argv*; if its first word has blanks, yield the commands of this word as a script."""
    if any(map(str.isspace, argv[0].text)):
        yield parse_commands(argv[0].text)
    else:
        yield lex_words(argv)


def _anywhere(args: Sequence[Word]) -> Iterator[Commands | Unlexable]:
    """Yield commands in *args* if each word may be a command, a script, or contain the name of a program."""
    for place, word in enumerate(args):
        if word.is_unknown:
            yield Unlexable("a word that the shell expands, and another program may run", 0)
        elif any(map(str.isspace, word.text)):
            yield parse_commands(word.text)
            yield from (lex_words([Word(name)]) for name in _NAMES.findall(word.text))
        elif not word.text.startswith("-"):
            yield lex_words(args[place:])
        else:
            yield from (lex_words([Word(name)]) for name in _NAMES.findall(word.text.partition("=")[2]))

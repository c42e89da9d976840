"""Launchers: programs that run some of their arguments, such as `npx` and `docker exec`; finds what they may run.

Rules that deny or ask look for it. Options of launchers are not known here, since they would be wrong with the next
version: each word may begin a command, and what is found is only possible. For all else, such a program is a command as
any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agentrail.plugins.shell.command_line import Commands, lex_words, parse_commands
from agentrail.plugins.shell.lexer_words import SimpleCommand, Unlexable, Word

MAX_FOUND: Final = 64
"""The most commands that launchers of one call may run; if there are more, it is unclear what they run."""
MAX_WORDS: Final = 4_000
"""The most words of all those commands."""

LAUNCHERS: Final = (
    # packages and versions
    "bun x, bun exec, bunx, npm exec, npm x, npx, pnpm dlx, pnpm exec, pnpx, yarn dlx, yarn exec, yarn run",
    "asdf exec, fnm exec, goenv exec, hatch run, hatch -e, jenv exec, lerna exec, mamba run, micromamba run, mise exec",
    "mise x, nodenv exec, nvm exec, nvm run, nx exec, pipx run, pixi run, pyenv exec, rbenv exec, rye run, tox exec",
    "bundle exec, conda run, pdm run, pipenv run, poetry run, uv run, uv tool run, uvx, volta run, devbox run",
    "guix environment, guix shell, meson devenv, cmake -e, nix develop, nix shell, nix-shell, just --command, just -c",
    "corepack, go build, go install, go run, go test, go vet, mvn, mvnw",
    # environments, secrets and locks
    "aws-vault exec, cross-env, cross-env-shell, direnv exec, dockerize, doppler run, dotenv, dotenvx run, env-cmd",
    "envconsul, foreman run, forego run, honcho run, infisical run, op run, railway run, teller run, wait-for-it",
    "wait-for-it.sh, borg with-lock, chamber exec, consul lock, envchain, envdir, lckdo, setlock, sops exec-env",
    "sops exec-file",
    # users, limits and namespaces
    "cgexec, chpst, cpulimit, dumb-init, dzdo, gosu, gsudo, numactl, pfexec, prlimit, run0, softlimit, su-exec, tini",
    "timelimit, i386, linux32, linux64, uname26, x86_64, arch, caffeinate, catchsegv, coreutils, winpty, envuidgid",
    "ip netns exec, ip vrf exec, s6-setuidgid, setuidgid, sg, launchctl submit, sandbox-exec, systemd-cat",
    "systemd-inhibit, systemd-nspawn, schroot, xinit, xvfb-run, dbus-launch",
    # programs that watch, measure or trace another one
    "bear, chronic, eatmydata, heaptrack, ifne, nocache, perf c2c, perf ftrace, perf kmem, perf kvm, perf lock",
    "perf mem, perf record, perf sched, perf stat, perf timechart, perf trace, rlwrap, scan-build, proxychains",
    "proxychains4, torify, torsocks, tsocks, unbuffer, valgrind, vglrun, optirun, primusrun, prime-run, gamemoderun",
    "bpftrace, datefudge, gpg-agent, mangohud, rr, ssh-agent, tcpdump, trace-cmd record, uftrace, fd, fdfind",
    "cargo watch, concurrently, hyperfine, mispipe, nodemon, pee, reflex, watchexec",
    # containers and virtual machines
    "docker create, docker exec, docker run, docker-compose exec, docker-compose run, nerdctl create, nerdctl exec",
    "nerdctl run, podman create, podman exec, podman run, podman-compose exec, podman-compose run, podman machine ssh",
    "podman unshare, kubectl debug, kubectl exec, kubectl run, oc debug, oc exec, oc rsh, oc run, minikube kubectl",
    "apptainer exec, buildah run, buildah unshare, crictl exec, crun exec, distrobox enter, distrobox-enter",
    "flatpak enter, flatpak run, flatpak-spawn, incus exec, limactl shell, lxc exec, machinectl shell, multipass exec",
    "runc exec, singularity exec, toolbox run, ctr, colima ssh, k3s, lima, lxc-attach, lxc-execute, microk8s",
    "rootlesskit, wsl, vagrant ssh, minikube ssh, multipass shell, adb shell",
    # other machines
    "ansible, aws ssm, autossh, az vm, clush, cssh, dsh, heroku run, mosh, parallel-ssh, pdsh, plink, prsh, pssh",
    "remsh, rsh, salt, salt-call, salt-ssh, sshpass, slogin, cf ssh, eb ssh, fly ssh, flyctl ssh, gcloud compute",
    "mpiexec, mpirun, orterun, salloc, srun, bsub, qsub, sbatch",
    # terminals
    "abduco, dtach, kitty, zellij run, wezterm, alacritty, foot, gnome-terminal, konsole, urxvt, x-terminal-emulator",
    "xfce4-terminal, xterm",
)
"""The programs, with the sub-command that runs another one, if they have such."""


def _by_program() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return by program the sub-commands that run another one."""
    verbs_of: dict[str, tuple[tuple[str, ...], ...]] = {}
    for name, *verbs in (words.split() for listed in LAUNCHERS for words in listed.split(", ")):
        verbs_of[name] = (*verbs_of.get(name, ()), tuple(verbs))
    return verbs_of


_VERBS: Final = _by_program()
_NAMES: Final = re.compile(r"[\w.+-]+")
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\{\w+\}|\(\))")
_ASKS_ABOUT: Final = frozenset({"--help", "--version"})


def may_run(lines: Sequence[Commands | Unlexable]) -> Iterator[Commands | Unlexable]:
    """Yield the commands that the launchers in *lines* may run, at any depth; `Unlexable` if they are too many."""
    todo = list(lines)
    number = words = 0
    while todo:
        line = todo.pop()
        for command in line if isinstance(line, Commands) else ():
            for launched in _launched(command):
                number += 1
                words += sum(len(inner.argv) for inner in launched) if isinstance(launched, Commands) else 0
                if number > MAX_FOUND or words > MAX_WORDS:
                    yield Unlexable("too many commands that other programs may run", 0)
                    return
                yield launched
                todo.append(launched)


def _launched(command: SimpleCommand) -> Iterator[Commands | Unlexable]:
    args = command.args
    launching = _VERBS.get(command.program.removesuffix(".exe"), ())
    if not launching or any(word.text in _ASKS_ABOUT for word in args[:1]):
        return
    texts = [None if word.is_unknown else word.text.lower() for word in args]
    starts = [_index_after(verbs, texts) for verbs in launching]
    start = min((start for start in starts if start is not None), default=len(args))
    has_begun = False
    for index in range(start, len(args)):
        word = args[index]
        if word.splits or (_VARIABLE.fullmatch(word.text) and word.is_unknown and not has_begun):
            yield Unlexable("a word that the shell expands, and another program may run", 0)
        elif any(map(str.isspace, word.text)):
            yield parse_commands(word.text)
            yield from (lex_words([Word(name)]) for name in _NAMES.findall(word.text))
        elif word.text.startswith("-"):
            yield from (lex_words([Word(name)]) for name in _NAMES.findall(word.text.partition("=")[2]))
        elif not _ASSIGNS.fullmatch(word.text) and not word.is_unknown:
            has_begun = True
            yield lex_words(args[index:])


def _index_after(verbs: Sequence[str], texts: Sequence[str | None]) -> int | None:
    """Return the index after the last of *verbs*, which stand in this order among *texts*; `None` if one is missing.

    An unknown text, `None`, may be any of them.
    """
    start = 0
    for verb in verbs:
        index = min(_next(verb, texts, start), _next(None, texts, start))
        if index == len(texts):
            return None
        start = index + 1
    return start


def _next(text: str | None, texts: Sequence[str | None], start: int) -> int:
    """Return the index of *text* from *start* on, or the number of *texts*."""
    try:
        return texts.index(text, start)
    except ValueError:
        return len(texts)

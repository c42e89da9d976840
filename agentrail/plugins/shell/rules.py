"""The rules of `SecurityGuard` for commands: a table of names, reasons and functions that judge one command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, TypeAlias

from agentrail.plugins.shell.code_arguments import MAKEFILES, holds_program, scripts
from agentrail.plugins.shell.git_command import looks_up, reads_commits
from agentrail.plugins.shell.lexer_words import SimpleCommand, Word, names
from agentrail.plugins.shell.paths import LOST, Aim, ResolvedPath, fold, is_everything, is_unsure, meets
from agentrail.plugins.shell.rule_context import (
    CHANGES_DIRECTORY,
    MAYBE,
    NO,
    TALKERS,
    YES,
    Certainty,
    CommandScene,
    FolderSearch,
    assigned,
    parse_args,
    vital,
    worst,
    written_words,
    yes,
)
from agentrail.plugins.shell.search_commands import fed_by_find, finds_others
from agentrail.plugins.shell.wrappers import OTHER_SHELLS, SHELLS, reads_program
from agentrail.values.value import Value

RuleFunction: TypeAlias = Callable[[SimpleCommand, CommandScene], Certainty]


def _nowhere(_command: SimpleCommand, _scene: CommandScene) -> Iterable[FolderSearch]:
    return ()


class CommandRule(Value, gc=True):
    """One rule for commands."""

    name: str
    """Name of the rule, used in the option `rules`."""
    reason: str
    """What a command that breaks the rule would do, in words."""
    asks: RuleFunction
    """Function that judges whether a command breaks the rule."""
    looks: Callable[[SimpleCommand, CommandScene], Iterable[FolderSearch]] = _nowhere
    """Function that returns the folders on whose contents it depends whether a command breaks the rule."""


_FETCHERS: Final = names("aria2c curl fetch ftp http https lynx nc ncat netcat scp sftp ssh tftp wget xh")
_DECODERS: Final = names("base32 base64 openssl uudecode xxd")
_REMOVERS: Final = names("rm shred srm unlink")
_FILTERS: Final = names(
    "-atime -cmin -ctime -empty -iname -inum -ipath -iregex -mmin -mtime -name -newer -path -regex -size -user"
)
_DISKS: Final = names("disk* dm-* hd[a-z]* kmem loop* mapper md* mem mmcblk* nvme* port rdisk* sd[a-z]* vd[a-z]* xvd*")
_HISTORIES: Final = names(".ash_history .bash_history .histfile .sh_history .zsh_history fish_history")
_HISTORY_NAMES: Final = names("HISTCONTROL HISTFILE HISTFILESIZE HISTIGNORE HISTSIZE SAVEHIST")
_STOPS: Final = names("emergency halt hibernate isolate kexec poweroff reboot rescue soft-reboot suspend")
RUN_BY_OTHERS: Final = names(
    "BASH_ENV DYLD_INSERT_LIBRARIES ENV GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_SSH GIT_SSH_COMMAND IFS LD_AUDIT"
    " BASHOPTS BROWSER CDPATH EDITOR EXINIT GIT_ASKPASS GIT_EDITOR GIT_EXEC_PATH GIT_PAGER GIT_SEQUENCE_EDITOR"
    " GIT_TEMPLATE_DIR GLOBIGNORE GNUMAKEFLAGS JAVA_TOOL_OPTIONS LD_LIBRARY_PATH LESSCLOSE LESSOPEN MAKEFILES MAKEFLAGS"
    " MANPAGER NODE_OPTIONS PAGER PATH PERL5DB PERL5LIB PYTHONINSPECT RSYNC_RSH RUBYLIB SSH_ASKPASS TAR_OPTIONS VIMINIT"
    " VISUAL LD_PRELOAD PERL5OPT PROMPT_COMMAND PS4 PYTHONSTARTUP RUBYOPT SHELLOPTS"
)
"""Environment variables that make programs run something, or load code."""
_SHOWS: Final = re.compile(r"(?:GIT_|MAN|GIT_SEQUENCE_)?(?:EDITOR|PAGER)|VISUAL")
"""Variables that name a pager or editor; assigning one is allowed if the value is harmless, such as `cat`."""
_GIT_RUNS: Final = re.compile(
    r"(?:alias|difftool|filter|mergetool|pager|uploadpack)\..*|core\.(?:askpass|editor|fsmonitor|gitproxy|hookspath|pager"
    r"|sshcommand)|credential\.(?:.*\.)?helper|diff\.(?:external|.*\.(?:command|textconv))|gpg\.(?:.*\.)?program"
    r"|include(?:if\..*)?\.path|merge\..*\.driver|remote\..*\.(?:receivepack|uploadpack)|sequence\.editor",
    re.IGNORECASE,
)
_HARMLESS: Final = names("cat false less true")
_OCTAL: Final = re.compile(r"[+=]?[0-7]*[2367]")
_SYMBOLIC: Final = re.compile(r"([ugoa]*)((?:[-+=][rwxXstugo]*)+)")
_GIVES_WRITE: Final = re.compile(r"[+=][rxXst]*[wug]")
_SETUID: Final = re.compile(r"[+=]?0*[2-7][0-7]{3}|[ugoa]*(?:[-+=][rwxXstugo]*)*?[+=][rwxXt]*s.*")


def _removes(command: SimpleCommand, scene: CommandScene) -> Certainty:
    if command.program == "find":
        return _find_removes(command, scene)
    if command.program == "rsync":
        options = parse_args(command.args)
        deletes = any(name.startswith("del") for name in options.long)
        return worst(vital(scene.aim(word), scene, MAYBE) for word in options.operands[-1:] if deletes)
    if command.program not in {"rm", "srm"}:
        return NO
    options = parse_args(command.args)
    if any(name.startswith("no-p") for name in options.long):
        return YES
    if not options.has("rR", "recursive"):
        return MAYBE if any(word.splits for word in command.args) else NO
    return worst(vital(scene.aim(word), scene, MAYBE) for word in options.operands)


def _find_removes(command: SimpleCommand, scene: CommandScene) -> Certainty:
    args = command.args
    while args and args[0].text in {"-H", "-L", "-P"}:
        args = args[1:]
    texts = [word.text for word in args]
    start = next((n for n, text in enumerate(texts) if text[:1] in {"-", "(", "!"}), len(texts))
    execs = any(inner.program in _REMOVERS and inner.via[-1:] == (command.argv[0].text,) for inner in scene.commands)
    if not execs and "-delete" not in texts:
        return NO
    aims = [scene.aim(word) for word in args[:start] or (Word("."),)]
    certainty = worst(vital(aimed, scene, MAYBE) for aimed in aims)
    if _FILTERS.isdisjoint(texts):
        return certainty
    return MAYBE if certainty is YES or any(aimed.unknown for aimed in aims) else NO


def _changes_all(*programs: str) -> RuleFunction:
    def asks(command: SimpleCommand, scene: CommandScene) -> Certainty:
        options = parse_args(command.args)
        if command.program not in programs or not options.has("R", "recursive"):
            return NO
        return worst(vital(scene.aim(word), scene) for word in options.operands)

    return asks


def _opens(mode: str) -> bool:
    """Whether the *mode* of `chmod` lets everybody write; all of its clauses are read."""
    for clause in mode.split(","):
        symbolic = _SYMBOLIC.fullmatch(clause)
        of_all = symbolic and (not symbolic[1] or not {"o", "a"}.isdisjoint(symbolic[1]))
        if _OCTAL.fullmatch(clause) or (symbolic and of_all and _GIVES_WRITE.search(symbolic[2])):
            return True
    return False


def _opens_system(command: SimpleCommand, scene: CommandScene) -> Certainty:
    words = [word for word in command.args if not _opens(word.text)]
    if command.program != "chmod" or len(words) == len(command.args):
        return NO
    certainty = worst(vital(scene.aim(word), scene) for word in parse_args(words).operands)
    return yes(certainty is YES)


def _moves(command: SimpleCommand, scene: CommandScene) -> Certainty:
    if command.program != "mv":
        return NO
    certainty = worst(vital(scene.aim(word), scene) for word in parse_args(command.args).operands[:-1])
    return yes(certainty is YES)


def _moves_blocked(command: SimpleCommand, scene: CommandScene) -> Certainty:
    options = parse_args(command.args)
    recurses = command.program in {"chgrp", "chmod", "chown", "rm", "srm"} and options.has("rR", "recursive")
    deletes = command.program == "find" and "-delete" in [word.text for word in command.args]
    words = options.operands if recurses or deletes or command.program in {"ln", "mv"} else ()
    if command.program in {"ln", "mv"} and not options.has("t", "target-directory") and len(words) > 1:
        words = words[:-1]
    return MAYBE if any(_holds_blocked(scene.aim(word), scene) for word in words) else NO


def _holds_blocked(aimed: Aim, scene: CommandScene) -> bool:
    """Whether a blocked path may be below *aimed*, as far as its name tells."""
    for path in aimed.paths:
        is_all = aimed.globs and path.parts and is_everything(path.parts[-1])
        folder = path.but(parts=path.parts[:-1]) if is_all else path
        if scene.blocked.is_beneath(folder) and scene.allowed.find(folder) is None:
            return True
    return False


def _runs(listed: str) -> RuleFunction:
    """Return a function that tells whether the program is one of *listed*."""
    programs = names(listed)
    return lambda command, _: yes(command.program in programs)


def _has(program: str, *words: str) -> RuleFunction:
    """Return a function that tells whether *program* runs with one of *words* among its arguments."""
    return lambda command, _: yes(command.program == program and any(word.text in words for word in command.args))


def _any(*questions: RuleFunction) -> RuleFunction:
    return lambda command, scene: worst(asks(command, scene) for asks in questions)


def _erases_disk(command: SimpleCommand, _: CommandScene) -> Certainty:
    if command.program.startswith(("mkfs.", "newfs_")):
        return YES
    verbs = ("erase", "partition", "zero", "secureerase", "reformat")
    return yes(command.program == "diskutil" and any(word.text.lower().startswith(verbs) for word in command.args))


def _writes_disk(command: SimpleCommand, scene: CommandScene) -> Certainty:
    paths = (path for word in written_words(command) for aimed in scene.pieces(word) for path in aimed.paths)
    return yes(any(map(_is_disk, paths)))


def _is_disk(path: ResolvedPath) -> bool:
    if not path.absolute or path.folded[:1] != ("dev",):
        return False
    return any(meets(pattern, part) or meets(part, pattern) for part in path.folded[1:2] for pattern in _DISKS)


def _writes_system(command: SimpleCommand, scene: CommandScene) -> Certainty:
    return worst(scene.fenced(word, scene.protected)[0] for word in written_words(command))


def _pipes_to_shell(command: SimpleCommand, scene: CommandScene) -> Certainty:
    if not command.argv or not reads_program(command.program, command.args):
        return NO
    programs = {other.program for other in scene.commands}
    if programs & _FETCHERS:
        return YES
    is_shell = command.program in SHELLS | OTHER_SHELLS | {".", "source"}
    return MAYBE if is_shell or programs & _DECODERS else NO


def _forgets(command: SimpleCommand, _: CommandScene) -> Certainty:
    if assigned((command,)) & _HISTORY_NAMES:
        return YES
    if command.program == "history":
        return yes(parse_args(command.args).has("cdw"))
    if command.program == "set":
        return yes([word.text for word in command.args] == ["+o", "history"])
    return yes(any(fold(word.text.rpartition("/")[2]) in _HISTORIES for word in written_words(command)))


def _firewall(command: SimpleCommand, _: CommandScene) -> Certainty:
    texts = {word.text for word in command.args}
    if command.program in {"iptables", "ip6tables", "iptables-legacy", "iptables-nft", "ebtables", "arptables"}:
        return yes(texts & names("-F --flush -X --delete-chain -P --policy -Z"))
    if command.program == "nft":
        return yes(texts & {"flush", "delete"})
    return yes(command.program == "ufw" and texts & {"disable", "reset"})


def _kills_all(command: SimpleCommand, _: CommandScene) -> Certainty:
    texts = [word.text for word in command.args]
    if command.program == "kill":
        return yes("1" in texts or "-1" in texts[1:])
    return yes(command.program == "killall5")


def _setuid(command: SimpleCommand, _: CommandScene) -> Certainty:
    modes = parse_args(command.args).operands[:1]
    return yes(
        command.program == "chmod"
        and any(_SETUID.fullmatch(clause) for word in modes for clause in word.text.split(","))
    )


def _reverse_shell(command: SimpleCommand, _: CommandScene) -> Certainty:
    if command.program in {"nc", "ncat", "netcat"}:
        return yes(parse_args(command.args).has("ec", "exec", "sh-exec"))
    return yes(
        command.program == "socat" and any(word.text.lower().startswith(("exec", "system")) for word in command.args)
    )


def _telinit(command: SimpleCommand, _: CommandScene) -> Certainty:
    levels = {"0", "1", "6", "s", "S"}
    return yes(command.program in {"init", "telinit"} and any(word.text in levels for word in command.args))


def _run_by_others(command: SimpleCommand, _: CommandScene) -> Certainty:
    quiet = {
        assignment.name
        for assignment in command.assignments
        if assignment.assigned.text in _HARMLESS and _SHOWS.fullmatch(assignment.name)
    }
    loud = assigned((command,)) - quiet
    return MAYBE if loud & RUN_BY_OTHERS or any(name.startswith("GIT_CONFIG") for name in loud) else NO


def _fed(command: SimpleCommand, scene: CommandScene) -> Certainty:
    if fed_by_find(command, scene):
        return NO
    inside = any(name.rpartition("/")[2].lower() == "xargs" for name in command.via)
    return MAYBE if inside or command.program == "xargs" else NO


def _program(command: SimpleCommand, scene: CommandScene) -> Certainty:
    """Return whether an argument is code, or a command such as `make` runs a file that the line has written."""
    if holds_program(command) and not finds_others(command, scene):
        return MAYBE
    if command.program in {"gmake", "make"} and any(path.folded[-1:] in _MADE for path in scene.written):
        return MAYBE
    runs = (path for word in scripts(command) for path in scene.aim(word).paths)
    return MAYBE if not scene.written.isdisjoint(runs) else NO


_MADE: Final = frozenset((name,) for name in MAKEFILES)
_TELLS: Final = frozenset({"-m", "--message", "-t", "--title", "-b", "--body"})


def unsure(command: SimpleCommand, names_assigned: frozenset[str]) -> bool:
    """Whether *command* has a word whose value only the shell knows, and does more with it than print it."""
    if any(
        is_unsure(redirection.target, names_assigned) for redirection in command.redirections if redirection.names_file
    ):
        return True
    if not command.argv or (command.program in TALKERS and "-v" not in [word.text for word in command.args[:1]]):
        return False
    if any(is_unsure(assignment.assigned, names_assigned) for assignment in command.assignments):
        return True
    return any(is_unsure(word, names_assigned) for word in (*without_messages(command), *command.around))


def without_messages(command: SimpleCommand) -> tuple[Word, ...]:
    """Return the arguments of *command* except messages for people, such as that of `git commit -m`."""
    if command.program not in {"gh", "git", "glab", "hub"}:
        return command.args
    pairs = zip(command.argv, command.args, strict=False)
    return tuple(word for previous, word in pairs if previous.text not in _TELLS)


def _unknown(command: SimpleCommand, scene: CommandScene) -> Certainty:
    lost = command.program in CHANGES_DIRECTORY and LOST in scene.after(command).bases
    shortened = command.but(argv=command.argv[:-1]) if fed_by_find(command, scene) else command
    return MAYBE if lost or unsure(shortened, scene.assigned) else NO


def _git_runs(command: SimpleCommand, _: CommandScene) -> Certainty:
    texts = [word.text for word in command.args] if command.program == "git" else []
    for previous, text in pairwise(texts):
        key, _equals, given_value = text.partition("=")
        if previous in {"-c", "--config-env"} and _GIT_RUNS.fullmatch(key) and given_value not in _HARMLESS:
            return MAYBE
    if "config" in texts and not set(texts) & names("--get --get-all --get-regexp --list --unset -l get list unset"):
        keys = [n for n, text in enumerate(texts) if _GIT_RUNS.fullmatch(text)]
        return MAYBE if any(set(texts[n + 1 :]) - _HARMLESS for n in keys) else NO
    return NO


RULES: Final = (
    CommandRule(
        "remove-root", "it removes the root, a system directory, a home, or the session's own directory", _removes
    ),
    CommandRule("move-root", "it moves the root, a system directory or a home away", _moves),
    CommandRule(
        "chmod-root", "it changes the permissions of all of a system directory or a home", _changes_all("chmod")
    ),
    CommandRule("open-root", "it lets everybody write to a system directory or a home", _opens_system),
    CommandRule(
        "chown-root", "it changes the owner of all of a system directory or a home", _changes_all("chown", "chgrp")
    ),
    CommandRule(
        "format-disk",
        "it formats or partitions a disk",
        _any(
            _runs("blkdiscard cfdisk fdisk gdisk mke2fs mkfs mkswap newfs parted sfdisk sgdisk wipefs"),
            _erases_disk,
        ),
    ),
    CommandRule("write-disk", "it writes to a disk or to the memory of the machine", _writes_disk),
    CommandRule(
        "write-system", "it writes to files of the system, or to what a shell runs at its start", _writes_system
    ),
    CommandRule(
        "power-off",
        "it stops or restarts the machine",
        _any(_runs("halt kexec poweroff reboot shutdown"), _has("systemctl", *_STOPS), _telinit),
    ),
    CommandRule("pipe-to-shell", "it runs a program that is fetched, decoded or computed on the way", _pipes_to_shell),
    CommandRule("erase-history", "it erases or switches off the history of commands", _forgets),
    CommandRule(
        "drop-firewall", "it drops rules of the firewall", _any(_firewall, _has("setenforce", "0", "Permissive"))
    ),
    CommandRule("kill-all", "it ends every process, or the first", _kills_all),
    CommandRule(
        "load-kernel-module",
        "it changes the running kernel",
        _any(_runs("insmod kextload modprobe rmmod"), _has("sysctl", "-w", "--write")),
    ),
    CommandRule(
        "change-accounts",
        "it changes who may log in or become root",
        _runs("adduser chpasswd deluser groupmod passwd useradd userdel usermod visudo vipw"),
    ),
    CommandRule("set-user-id", "it lets whoever runs a program become its owner", _setuid),
    CommandRule("reverse-shell", "it connects a shell to the network", _reverse_shell),
    CommandRule("run-by-others", "it assigns a variable that makes other programs run something", _run_by_others),
    CommandRule("unknown-word", "it gets a word of which only the shell knows the value", _unknown),
    CommandRule(
        "argument-program", "an argument of it is a program, or says where a program or names are read from", _program
    ),
    CommandRule("fed-by-xargs", "it gets its arguments from what `xargs` reads", _fed),
    CommandRule("moves-blocked", "it removes, moves or changes a folder that may hold what is blocked", _moves_blocked),
    CommandRule(
        "reads-commits", "it shows what git keeps of files, among which may be what is blocked", reads_commits, looks_up
    ),
    CommandRule("git-runs", "it sets an option of git that makes git run something", _git_runs),
)

ALL_RULES: Final = frozenset(rule.name for rule in RULES)
"""The names of all rules for commands."""

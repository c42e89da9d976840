"""Wrappers: programs that run another command, such as `sudo`, `env` and `xargs`; finds the inner command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from agentrail.plugins.shell.lexer_words import Assignment, Expansion, Word, names, stop
from agentrail.plugins.shell.parser import RESERVED
from agentrail.plugins.shell.paths import HERE, join
from agentrail.values.value import Value

SHELLS: Final = frozenset({"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"})
OTHER_SHELLS: Final = names(
    "bosh csh elvish es fish ion lksh murex nu oksh osh pdksh posh powershell pwsh rc tcsh xonsh yash ysh"
)
_POWER_SHELLS: Final = frozenset({"powershell", "powershell.exe", "pwsh", "pwsh.exe"})
"""Shells that run their arguments, also without an option."""

OPAQUE: Final = names(
    "alias at batch bind bwrap capsh chroot chrt cmd cmd.exe compgen complete crontab dbus-run-session enable entr"
    " expect fakeroot faketime firejail flock hash let ltrace mapfile nsenter parallel pkexec proot readarray runcon"
    " runuser screen script setarch setpriv shopt start-stop-daemon strace su systemd-run taskset tmux unshare watch"
)
"""Programs that run their arguments, or change the meaning of later words; they are not analysed but refused."""


class Wrapper(Value):
    """The options of a wrapper, to find where its inner command begins."""

    flags: str = ""
    """Short options without a value."""
    valued: str = ""
    """Short options with a value."""
    long: tuple[str, ...] = ()
    """Long options without a value."""
    long_valued: tuple[str, ...] = ()
    """Long options with a value."""
    plain: str = ""
    """Short options with which the wrapper runs no command."""
    operands: int = 0
    """Number of operands before the inner command."""
    assigns: bool = False
    """Whether `NAME=value` may come before the command."""
    alone: bool = False
    """Whether the wrapper may be used without a command."""
    attaches: bool = True
    """Whether the value of a short option may stand in the same word."""
    dashes: tuple[str, ...] = ("--",)
    """Words that end the options."""
    dash_is_option: bool = False
    """Whether a lone dash is an option."""
    marks: str = "-"
    """The characters with which options begin."""


class Inside(Value, gc=True):
    """The commands and scripts that a wrapper runs."""

    argvs: tuple[tuple[Word, ...], ...] = ()
    """The commands, each as a program with its arguments."""
    scripts: tuple[str, ...] = ()
    """The scripts, as texts for a shell."""
    assignments: tuple[Assignment, ...] = ()
    """The variables that the wrapper sets for the commands."""
    keeps: bool = False
    """Whether the wrapper itself also has an effect, so that it is listed as a command too."""
    others: tuple[Word, ...] = ()
    """The other words of the wrapper, such as its options."""


WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "builtin": Wrapper(alone=True),
    "busybox": Wrapper(alone=True),
    "command": Wrapper(flags="p", plain="vV", alone=True),
    "doas": Wrapper(flags="ns", valued="uC", plain="L"),
    "env": Wrapper(
        flags="i0v",
        valued="u",
        long=("ignore-environment", "null", "debug"),
        long_valued=("unset",),
        dash_is_option=True,
        assigns=True,
        alone=True,
    ),
    "exec": Wrapper(flags="cl", valued="a", alone=True),
    "ionice": Wrapper(flags="t", valued="cn", long=("ignore",), long_valued=("class", "classdata"), alone=True),
    "nice": Wrapper(flags="0123456789", valued="n", long_valued=("adjustment",), alone=True),
    "nohup": Wrapper(),
    "setsid": Wrapper(flags="cfw", long=("ctty", "fork", "wait")),
    "stdbuf": Wrapper(valued="ioe", long_valued=("input", "output", "error")),
    "sudo": Wrapper(
        flags="AbBEHknPSNis",
        valued="CgpTuhRrt",
        long=("askpass", "background", "preserve-env", "set-home", "non-interactive", "stdin", "login", "shell"),
        long_valued=("user", "group", "prompt", "host", "close-from", "command-timeout"),
        plain="lKvV",
        assigns=True,
    ),
    "time": Wrapper(flags="pv", alone=True, dashes=()),
    "timeout": Wrapper(
        flags="v",
        valued="ks",
        long=("foreground", "preserve-status", "verbose"),
        long_valued=("kill-after", "signal"),
        operands=1,
    ),
    "toybox": Wrapper(alone=True),
    "xargs": Wrapper(
        flags="0rtpxo",
        valued="adEILnPs",
        long=("exit", "interactive", "no-run-if-empty", "null", "open-tty", "replace", "verbose"),
        long_valued=("arg-file", "delimiter", "max-args", "max-chars", "max-procs"),
        alone=True,
    ),
}

_SHELL: Final = Wrapper(
    flags="abefhiklmnprstuvxcBCEHPT",
    valued="oO",
    long=("login", "noediting", "noprofile", "norc", "posix", "restricted", "verbose"),
    attaches=False,
    dashes=("--", "-"),
    marks="-+",
)
_ABOUT: Final = frozenset({"--help", "--version"})
_EXECS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_INTERPRETERS: Final = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|osascript)[0-9.]*")
_QUIET_FLAGS: Final = re.compile(r"-[uBEsSIOqvwW]*")
_TAKES_VALUE: Final = frozenset({"-I", "-W", "-X"})
_OPEN_FILES: Final = (("dev", "fd"), ("proc", "self", "fd"))
_END: Final = Word("--")
_CODE_FLAGS: Final = frozenset({"-c", "-e", "-E", "-r", "--eval"})
_COMPUTED: Final = Expansion.COMMAND | Expansion.PROCESS
_GIVEN: Final = Word("${stdin}", Expansion.PARAMETER | Expansion.SPLITS)


def inside(name: str, argv: Sequence[Word]) -> Inside | None:
    """Return the commands that *argv*, a call of the wrapper *name*, runs; `None` if *name* is no wrapper."""
    args = argv[1:]
    if name in OPAQUE:
        stop(f"`{name}`, which runs something or changes what words mean")
    if args and args[0].text in _ABOUT:
        return None
    if name in SHELLS:
        return _shell(name, args)
    if name in _POWER_SHELLS and args:
        stop(f"a script or file for `{name}`, which is no POSIX shell")
    if name in OTHER_SHELLS and any("c" in word.text for word in args if word.text.startswith("-")):
        stop(f"a script for `{name}`, which is no POSIX shell")
    if name == "eval":
        return Inside(scripts=(" ".join(_literal(name, word) for word in args[args[:1] == (_END,) :]),))
    if name == "trap":
        return _trap(args)
    if name == "find":
        return _find(args)
    if name in WRAPPERS:
        return _wrapped(name, WRAPPERS[name], args)
    return None


def reads_program(name: str, args: Sequence[Word]) -> bool:
    """Whether the program *name* with *args* runs code from its input, or code that the shell computes."""
    if args and args[0].text in _ABOUT:
        return False
    if name in {"source", "."}:
        first = args[args[:1] == (_END,) :][:1]
        return bool(first) and (is_input(first[0].text) or first[0].is_unknown)
    if name in OTHER_SHELLS:
        return all(word.text.startswith("-") or is_input(word.text) or word.is_unknown for word in args)
    if name in SHELLS:
        options, start = _read_options(name, _SHELL, args)
        first = args[start : start + 1]
        return "s" in _letters(options) or not first or is_input(first[0].text) or first[0].is_unknown
    if is_interpreter(name):
        if any(flag.text in _CODE_FLAGS and code.expansions & _COMPUTED for flag, code in pairwise(args)):
            return True
        return all(_QUIET_FLAGS.fullmatch(word.text) for word in args) or _reads_script(args)
    return False


def is_input(text: str) -> bool:
    """Whether *text* names standard input, an open descriptor (`/dev/fd/…`), or the output of another process."""
    if text == "-" or "<()" in text:
        return True
    parts = join(HERE, text).parts if text.startswith("/") else ()
    return parts == ("dev", "stdin") or parts[:-1] in _OPEN_FILES


def _reads_script(args: Sequence[Word]) -> bool:
    """Whether an interpreter with *args* reads its script from its input."""
    for previous, word in zip((_END, *args), args, strict=False):
        if is_input(word.text):
            return True
        if not word.text.startswith("-") and previous.text not in _TAKES_VALUE:
            return False
    return False


def is_interpreter(name: str) -> bool:
    """Whether *name* is the interpreter of a programming language, such as `python3`; shells do not count."""
    return _INTERPRETERS.fullmatch(name) is not None


def _literal(name: str, word: Word) -> str:
    if word.expands:
        stop(f"`{name}` with a word that the shell expands")
    return word.text


def _letters(options: Sequence[tuple[str, str]]) -> frozenset[str]:
    return frozenset(option for option, _ in options if len(option) == 1)


def _read_options(name: str, spec: Wrapper, args: Sequence[Word]) -> tuple[list[tuple[str, str]], int]:
    """Return the options among *args* with their values, and the index of the first operand."""
    options: list[tuple[str, str]] = []
    index = 0
    while index < len(args):
        text = args[index].text
        if text in spec.dashes:
            return options, index + 1
        if text == "-" and spec.dash_is_option:
            index += 1
            continue
        if text == "-" or not (text.startswith(tuple(spec.marks)) or args[index].may_be_option):
            return options, index
        if len(_literal(name, args[index])) == 1:
            stop(f"a lone `{text}` behind `{name}`")
        pairs = _long(name, spec, text) if text.startswith("--") else _cluster(name, spec, text)
        for word in args[index : index + 1 + (pairs[-1][1] is None)]:
            _literal(name, word)
        index += 1
        if pairs[-1][1] is None:
            if index >= len(args):
                stop(f"the option `{text}` of `{name}` without its value")
            pairs[-1] = (pairs[-1][0], args[index].text)
            index += 1
        options += [(option, value or "") for option, value in pairs]
    return options, index


def _long(name: str, spec: Wrapper, text: str) -> list[tuple[str, str | None]]:
    """Return the name and the value of a long option; the value is `None` if the next word is the value."""
    key, equals, value = text[2:].partition("=")
    if key in spec.long_valued:
        return [(key, value if equals else None)]
    if key not in spec.long:
        stop(f"the option `{text}` of `{name}`")
    return [(key, value)]


def _cluster(name: str, spec: Wrapper, text: str) -> list[tuple[str, str | None]]:
    """Return the short options in a word; the value of the last one is `None` if the next word is the value."""
    pairs: list[tuple[str, str | None]] = []
    for end, letter in enumerate(text[1:], 2):
        if letter in spec.valued:
            rest = text[end:]
            if rest and not spec.attaches:
                stop(f"the option `{text}` of `{name}`")
            return [*pairs, (letter, rest or None)]
        if letter not in spec.flags and letter not in spec.plain:
            stop(f"the option `{text}` of `{name}`")
        pairs.append((letter, ""))
    return pairs


def _wrapped(name: str, spec: Wrapper, args: Sequence[Word]) -> Inside | None:
    options, start = _read_options(name, spec, args)
    if _letters(options) & set(spec.plain):
        return None
    for word in args[start : start + spec.operands]:
        _literal(name, word)
    start += spec.operands
    assignments: list[Assignment] = []
    while spec.assigns and start < len(args) and "=" in args[start].text:
        if args[start].splits:
            stop(f"`{name}` with a word that the shell may split")
        assigned, _, text = args[start].text.partition("=")
        assignments.append(Assignment(assigned, args[start].but(text=text)))
        start += 1
    argv = tuple(args[start:])
    others = tuple(args[: start - len(assignments)])
    if not argv:
        if spec.alone:
            return None
        stop(f"`{name}` without a command")
    if name == "time" and (len(options) > 1 or argv[0].text in RESERVED or "=" in argv[0].text):
        stop("what shells and programs called `time` read differently")
    if name == "xargs":
        argv = _xargs_command(options, argv)
    return Inside((argv,), assignments=tuple(assignments), others=others)


def _xargs_command(options: Sequence[tuple[str, str]], argv: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command that `xargs` runs; a word of unknown value ends it, or replaces the mark of `-I`."""
    marks = [value or "{}" for option, value in options if option in {"I", "replace"}]
    if not marks:
        return (*argv, _GIVEN)
    return tuple(_marked(word, marks[-1]) if marks[-1] in word.text else word for word in argv)


def _marked(word: Word, mark: str) -> Word:
    return Word(word.text.replace(mark, _GIVEN.text), word.expansions | Expansion.PARAMETER)


def _shell(name: str, args: Sequence[Word]) -> Inside | None:
    options, start = _read_options(name, _SHELL, args)
    if "O" in _letters(options):
        stop(f"an option of `{name}` that changes what words mean")
    if "c" not in _letters(options):
        return None
    if start >= len(args):
        stop(f"`{name} -c` without a script")
    return Inside(scripts=(_literal(name, args[start]),), others=tuple(args[start + 1 :]))


def _trap(args: Sequence[Word]) -> Inside | None:
    operands = [word for word in args if word.text != "--"]
    if not operands or operands[0].text in {"", "-", "-l", "-p"}:
        return None
    return Inside(scripts=(_literal("trap", operands[0]),))


def _find(args: Sequence[Word]) -> Inside | None:
    argvs: list[tuple[Word, ...]] = []
    start = 0
    while start < len(args):
        start += 1
        if args[start - 1].text not in _EXECS:
            continue
        end = next((n for n in range(start, len(args)) if _ends(args[n - 1].text, args[n].text)), len(args))
        if end in {start, len(args)} or "{}" in args[start].text:
            stop(f"`find {args[start - 1].text}` without a command, or without its end")
        argvs.append(tuple(args[start:end]))
        start = end + 1
    return Inside(tuple(argvs), keeps=True) if argvs else None


def _ends(previous: str, word: str) -> bool:
    return word == ";" or (word == "+" and previous == "{}")

"""Tables that recognise arguments that are code (`python -c`, `awk`, …), or from which names of files are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from agentrail.plugins.shell.lexer_words import SimpleCommand, Word, names
from agentrail.plugins.shell.wrappers import SHELLS, is_input, is_interpreter, reads_program

Question = Callable[[Sequence[str]], bool]
"""A function from a program's arguments to whether they contain code, or name a source of further names or code."""

_BROWSING: Final = names("--help --version -V")


def _options(letters: str = "", *long: str) -> Question:
    """Return a function that tells whether a short option in *letters* or a *long* one, even shortened, is given."""

    def asks(texts: Sequence[str]) -> bool:
        for text in texts:
            if text.startswith("--"):
                option = text[2:].partition("=")[0]
                if option and any(name.startswith(option) for name in long):
                    return True
            elif text.startswith("-") and not set(letters).isdisjoint(text[1:]):
                return True
        return False

    return asks


def _words(listed: str) -> Question:
    """Return a function that tells whether one of the words *listed* is given, alone or followed by `=` and a value."""
    listed_names = names(listed)
    return lambda texts: any(text.partition("=")[0] in listed_names for text in texts)


def _pattern(pattern: str) -> Question:
    """Return a function that tells whether an argument matches *pattern*."""
    fits = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return lambda texts: any(fits.fullmatch(text) for text in texts)


_SUBSCRIPT: Final = re.compile(r"\[.*(?:\$\((?!\))|`)", re.DOTALL)  # `$()` stands for the result of a substitution


def _reads_input(texts: Sequence[str]) -> bool:
    """Whether no file is named; the program, which runs code, then reads it from its input."""
    return all(text.startswith("-") for text in texts) and _BROWSING.isdisjoint(texts)


def has_subscript(texts: Sequence[str]) -> bool:
    """Whether one of *texts* has a subscript with a command in it: a shell runs it, as in `test -v 'a[$(rm x)]'`.

    Bash does so for `-v`; Korn shells do it also where they count, such as for `-eq` and `%d`.
    """
    return any(_SUBSCRIPT.search(text) for text in texts)


def _always(_: Sequence[str]) -> bool:
    return True


def _any(*questions: Question) -> Question:
    return lambda texts: any(asks(texts) for asks in questions)


# Small languages (`sed`, `awk`): recognise programs that only read their input and write their output.

_ADDRESS: Final = r"(?:[0-9]+(?:~[0-9]+)?|\$|\+[0-9]+|/(?:\\.|[^/\\\n])*/I?)"
_SED_TEXT: Final = r"(?:\\[^\n]|[^\\\n])*"
_SED_COMMAND: Final = re.compile(
    rf"\s*(?:{_ADDRESS}(?:,{_ADDRESS})?\s*!?\s*)?"
    rf"(?:s([^\w\s\\])(?:\\.|(?!\1)[^\\\n])*\1(?:\\.|(?!\1)[^\\\n])*\1[gpiI0-9]*"
    rf"|y([^\w\s\\])(?:\\.|(?!\2)[^\\\n])*\2(?:\\.|(?!\2)[^\\\n])*\2"
    rf"|[dDgGhHnNpPqQxz=]|[aic]\\?\s*{_SED_TEXT})?\s*(?:;|\n|$)"
)
_SED_OPTION: Final = re.compile(r"-[nErsuzi]+|-i.*|--(?:quiet|silent|regexp-extended|separate|in-place(?:=.*)?|posix)")
_AWK_DOES_MORE: Final = re.compile(r"system|getline|[|@]|ARG[VC]|>(?!=?\s*[0-9])|<\s*\(|ENVIRON")
_AWK_OPTION: Final = re.compile(r"-F.*|-v.*|--(?:field-separator|assign)=.*")


def _sed(texts: Sequence[str]) -> bool:
    """Whether the program for `sed` may run a command or use another file, or is not understood."""
    programs: list[str] = []
    operands: list[str] = []
    rest = list(texts)
    while rest:
        text = rest.pop(0)
        if text in {"-e", "--expression", "-ne", "-Ee", "-re", "-nEe", "-ie"} and rest:
            programs.append(rest.pop(0))
        elif text.startswith("--expression="):
            programs.append(text.partition("=")[2])
        elif text in {"-f", "--file"} and rest:
            if is_input(rest.pop(0)):
                return True
            programs.append("")
        elif text.startswith("-") and text != "-" and text not in _BROWSING:
            if not _SED_OPTION.fullmatch(text):
                return True
        else:
            operands.append(text)
    return not all(map(_sed_only_edits, programs or operands[:1]))


def _sed_only_edits(program: str) -> bool:
    end = 0
    while end < len(program):
        match = _SED_COMMAND.match(program, end)
        if match is None or match.end() == end:
            return False
        end = match.end()
    return True


def _awk(texts: Sequence[str]) -> bool:
    """Whether the program for `awk` may run a command or use a file that is no operand, or is not understood."""
    rest = list(texts)
    from_file = False
    while rest and rest[0].startswith("-") and rest[0] != "-":
        text = rest.pop(0)
        if text == "-f" and rest:
            if is_input(rest.pop(0)):
                return True
            from_file = True
        elif text in {"-F", "-v"} and rest:
            rest.pop(0)
        elif text == "--":
            break
        elif text not in _BROWSING and not _AWK_OPTION.fullmatch(text):
            return True
    return not from_file and any(_AWK_DOES_MORE.search(text) for text in rest[:1])


_MAKE_RUNS: Final = names(".SHELLFLAGS GNUMAKEFLAGS MAKEFILES MAKEFLAGS SHELL")
_MAKE_ASSIGNS: Final = re.compile(r"([\w.-]+)\s*(?:[:+?!]{0,3}=)(.*)", re.DOTALL)


def _make(texts: Sequence[str]) -> bool:
    """Whether `make` gets rules by `--eval` or from its input, or variables that contain more than plain text."""
    if _options("E", "eval")(texts):
        return True
    for text in texts:
        attached = text.partition("=" if text.startswith("--") else "f")[2] if text.startswith("-") else ""
        if is_input(text) or is_input(attached):
            return True
        match = _MAKE_ASSIGNS.fullmatch(text)
        if match and not text.startswith("-") and (match[1] in _MAKE_RUNS or set(match[2]) & {"$", "`"}):
            return True
    return False


_SQLITE_DOES_MORE: Final = re.compile(
    r"readfile|writefile|load_extension|edit\s*\(|fts3_tokenizer|attach"
    r"|^\s*\.(?!dump|header|headers|indexes|mode|schema|tables|width)",
    re.IGNORECASE | re.MULTILINE,
)


def _sqlite(texts: Sequence[str]) -> bool:
    operands = [text for text in texts if not text.startswith("-")]
    return len(operands) < 2 or any(map(_SQLITE_DOES_MORE.search, texts))  # noqa: PLR2004 - a database and a question


_GIT_READS_NAMES: Final = "batch batch-check batch-command pathspec-from-file stdin stdin-paths"
_GIT_PROGRAMS: Final = (
    "exec exec-path ext-diff extcmd open-files-in-pager receive-pack sendmail-cmd tool upload-pack textconv"
    f" template {_GIT_READS_NAMES}"
).split()
_GIT_LETTERS: Final[Mapping[str, str]] = MappingProxyType(
    {"clone": "uc", "difftool": "x", "grep": "O", "mergetool": "t", "rebase": "x"}
)
_GIT_QUIET: Final = re.compile(
    r"(?:user|color|advice|log|init|column|commit|push|pull|rebase|merge|fetch|i18n|safe|gc)\.[\w-]+"
    r"|core\.(?:quotepath|autocrlf|eol|pager=(?:|cat|less)|editor=(?:true|:)|longpaths|filemode|abbrev|ignorecase)"
    r"|sequence\.editor=(?:true|:)|http\.(?:version|postbuffer)|diff\.(?:algorithm|renames|renamelimit|context)",
    re.IGNORECASE,
)


def git_verb(texts: Sequence[str]) -> int:
    """Return the index of the sub-command in the arguments of `git`; the number of arguments if there is none."""
    index = 0
    while index < len(texts) and texts[index].startswith("-"):
        index += 2 if texts[index] in {"-c", "-C", "--git-dir", "--work-tree", "--namespace"} else 1
    return min(index, len(texts))


def _git(texts: Sequence[str]) -> bool:
    """Whether `git` is told to run a command: by an option, by a setting (`-c`), or by a sub-command that runs one."""
    verb_index = git_verb(texts)
    for text, value in pairwise((*texts[:verb_index], "")):
        if text == "-c":
            key, equals, setting = value.partition("=")
            quiet = _GIT_QUIET.fullmatch(key) or _GIT_QUIET.fullmatch(key + equals + setting)
            if not quiet:
                return True
        if text.startswith(("--config-env", "--exec-path=")):
            return True
    rest = texts[verb_index + 1 :]
    verb = texts[verb_index] if verb_index < len(texts) else ""
    if verb in {"bisect", "submodule"} and rest[:1] in (["run"], ["foreach"]):
        return True
    if verb in {"filter-branch", "instaweb", "merge-index", "send-email"} or any(
        text.startswith("ext::") for text in rest
    ):
        return True
    if verb == "difftool" and not rest:
        return False
    if verb == "clone" and _options("", "config")(rest):
        return True
    return _options(_GIT_LETTERS.get(verb, ""), *_GIT_PROGRAMS)(
        [text for text in rest if text not in {"--exclude", "--template=", "--stat", "--text", "--tags"}]
    )


def _ssh(texts: Sequence[str]) -> bool:
    """Whether `ssh` runs a command, on this machine or the other, or reads settings that may name one."""
    is_told = _pattern(r"(?:-o)?\s*(?:proxycommand|localcommand|knownhostscommand|include|match)\b.*")(texts)
    operands = [text for previous, text in zip(("", *texts), texts, strict=False) if not _is_option(previous, text)]
    return is_told or _options("F")(texts) or len(operands) > 1


def _is_option(previous: str, text: str) -> bool:
    return text.startswith("-") or previous in {"-i", "-J", "-l", "-L", "-o", "-p", "-R", "-D", "-W"}


_TAR: Final = _any(
    _options(
        "FIT",
        "checkpoint-action",
        "files-from",
        "info-script",
        "new-volume-script",
        "rmt-command",
        "rsh-command",
        "to-command",
        "use-compress-program",
    ),
    lambda texts: not {"F", "I", "T"}.isdisjoint("".join(texts[:1]) if not "".join(texts[:1]).startswith("-") else ""),
)
_COMPILER: Final = _any(_words("-wrapper -fplugin -B -specs -"), _pattern("@.*"))

_TABLE: Final[Mapping[str, Question]] = MappingProxyType(
    {
        "awk gawk mawk nawk original-awk": _awk,
        "c++ cc clang clang++ cpp g++ gcc": _COMPILER,
        "ack ag": _options("", "pager"),
        "[ getopts printf read test unset wait": has_subscript,
        "apt apt-get aptitude": _pattern(r".*(?:invoke|dir::bin).*"),
        "ar ld": _pattern("@.*"),
        "aria2c": _pattern("--on-.*"),
        "borg": _options("", "remote-path", "rsh"),
        "cargo": _options("", "config"),
        "cpio": _options("opF", "create", "pass-through", "rsh-command"),
        "curl": _options("K", "config"),
        "declare export local readonly typeset": _pattern(r".*(?:\$\((?!\))|`).*"),
        "dc": _any(_pattern(".*!.*"), _reads_input),
        "dpkg": _options("", "post-invoke", "pre-invoke", "status-logger"),
        "ed ex red": _always,
        "emacs gvim nvim rvim vi view vim vimdiff": _pattern(r"[-+].*"),
        "emacsclient": _options("e", "eval"),
        "find": _words("-exec -execdir -ok -okdir -files0-from"),
        "fzf": _pattern("--(?:bind|preview)(?:=.*)?"),
        "gdb lldb": _pattern("-.*"),
        "git": _git,
        "gmake make": _make,
        "hg": _options("", "config"),
        "less man more": _any(_pattern(r"\+.*"), _options("PH", "pager", "html")),
        "m4": _any(_pattern(".*syscmd.*"), _reads_input),
        "mongo mongosh": _options("", "eval"),
        "nc ncat netcat": _options("ce", "exec", "lua-exec", "sh-exec"),
        "npm npx pnpm yarn": _any(_words("-c"), _options("", "call")),
        "psql": _pattern(r".*(?:\\!|\\i|\\o|\bprogram\b|pg_read_|lo_import).*"),
        "mariadb mysql": _pattern(r".*(?:\\!|\bsystem\b|load_file|load\s+data|\bsource\b).*"),
        "restic": _any(_options("", "password-command"), _pattern(r".*sftp\.(?:args|command).*")),
        "rg": _options("", "hostname-bin", "pre"),
        "rsync": _options("e", "files-from", "rsh", "rsync-path"),
        "scp sftp": _any(
            _options("SFD"), _pattern(r"(?:-o)?\s*(?:proxycommand|localcommand|knownhostscommand|include)\b.*")
        ),
        "gsed sed": _sed,
        "du sort wc": _options("", "compress-program", "files0-from"),
        "split": _options("", "filter"),
        "socat": _pattern("(?:exec|shell|system)[:,-].*"),
        "sqlite3": _sqlite,
        "ssh": _ssh,
        "svn": _options("", "config-option", "diff-cmd", "diff3-cmd", "editor-cmd"),
        "bsdtar gtar tar": _TAR,
        "wget": _options("ie", "execute", "input-file", "use-askpass"),
        "youtube-dl yt-dlp": _pattern("--(?:exec|downloader|external-downloader).*"),
        "zip": _any(_words("-TT -@"), _options("", "unzip-command", "names-stdin")),
    }
)
_BY_PROGRAM: Final[Mapping[str, Question]] = MappingProxyType(
    {name: asks for listed, asks in _TABLE.items() for name in listed.split()}
)

_CODE: Final = (
    (re.compile(r"(?:python|pypy)[0-9.]*"), re.compile(r"-[bBdEiIOPqsSuvxh]*c.*", re.DOTALL)),
    (re.compile(r"perl[0-9.]*"), re.compile(r"-[wWtTcvV]*[^-wWtTcvV].*", re.DOTALL)),
    (re.compile(r"ruby[0-9.]*"), re.compile(r"-[wWv0-9a]*[enpriIxdCS].*", re.DOTALL)),
    (
        re.compile(r"(?:node|nodejs|bun|deno)[0-9.]*"),
        re.compile(
            r"-(?:e|p|pe|r|i).*|--(?:eval|print|require|import|loader|experimental-loader).*|eval|repl", re.DOTALL
        ),
    ),
    (re.compile(r"php[0-9.]*"), re.compile(r"-[rRBEFad].*|--(?:run|process-).*", re.DOTALL)),
    (re.compile(r"lua(?:jit)?[0-9.]*"), re.compile(r"-[eli].*", re.DOTALL)),
    (re.compile(r"osascript"), re.compile(r"-e.*", re.DOTALL)),
    (re.compile(r"gnuplot|groovy|r|racket|raku|rscript|scala"), re.compile(r"-e")),
    (re.compile(r"julia|ts-node|tsx"), re.compile(r"-[eEpL].*|--(?:eval|print|load|require).*", re.DOTALL)),
    (re.compile(r"elixir|iex|erl"), re.compile(r"-e|--(?:eval|rpc-eval)|-(?:eval|s|run)", re.DOTALL)),
    (re.compile(r"clj|clojure|ghc|guile|ipython3?|ocaml"), re.compile(r"-[ce].*", re.DOTALL)),
    (re.compile(r"octave|sbcl"), re.compile(r"--(?:eval|load).*", re.DOTALL)),
)
"""For each interpreter, the options that contain its program, or name code that it loads first."""
_SHELL_CODE: Final = re.compile(r"-[a-z]*c[a-z]*")
_MODULES: Final = names("cProfile code http.server pdb profile runpy tarfile timeit trace zipapp zipfile")
"""Modules of Python that, run by `-m`, run their argument as code, or read a whole folder."""


READ_BY_RULES: Final = names("ack ag awk egrep fgrep gawk grep gsed jq mawk nawk rg rgrep sed tr zgrep")
"""Programs with a pattern or code as an argument that is examined here; text in it that looks like a path is none."""


def holds_program(command: SimpleCommand) -> bool:
    """Whether an argument of *command* is code, or names a source from which code or names of files are read."""
    texts = [word.text for word in command.args]
    asks = _BY_PROGRAM.get(command.program)
    if asks is not None and asks(texts):
        return True
    if reads_program(command.program, command.args):
        return True
    return _is_code(command.program, texts) or _nested(command.args)


def _nested(args: Sequence[Word]) -> bool:
    """Whether *args* contain the name of a shell or an interpreter, followed by code for it."""
    texts = [word.text for word in args]
    last = max((index for index, text in enumerate(texts) if _SHELL_CODE.fullmatch(text)), default=-1)
    for index, text in enumerate(texts):
        name = text.rpartition("/")[2].lower()
        if (name in SHELLS and index < last) or (is_interpreter(name) and _is_code(name, texts[index + 1 :])):
            return True
    return False


def _is_code(name: str, texts: Sequence[str]) -> bool:
    pattern = next((code for interpreter, code in _CODE if interpreter.fullmatch(name)), None)
    if pattern is None:
        return False
    previous = ""
    for text in texts:
        if previous == "-m":
            return text in _MODULES
        if pattern.fullmatch(text):
            return True
        if not text.startswith("-") and previous not in {"-W", "-X"}:
            return False
        previous = text
    return False


def scripts(command: SimpleCommand) -> Iterable[Word]:
    """Return the words of *command* that may name a file which it runs as a program."""
    args = command.args
    if command.program in {*SHELLS, ".", "source"} or is_interpreter(command.program):
        return tuple(word for word in args if not word.text.startswith("-"))
    if command.program in {"awk", "gawk", "gmake", "make", "mawk", "sed"}:
        return tuple(word for previous, word in pairwise(args) if previous.text in {"-f", "--file"})
    return command.argv[:1] if "/" in "".join(word.text for word in command.argv[:1]) else ()


MAKEFILES: Final = names("gnumakefile makefile")
"""Names of files that `make` reads by default, in lower case."""

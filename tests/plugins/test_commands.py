import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.plugins.shell.command_line import Commands, lex_argv, parse_commands
from agentrail.plugins.shell.lexer_words import Assignment, Expansion, Redirection, SimpleCommand, Unlexable, Word
from tests.each_case import each_case


def argvs(text: str) -> list[list[str]]:
    found = parse_commands(text)
    assert isinstance(found, Commands), found
    return [[word.text for word in command.argv] for command in found]


LINES: list[tuple[str, list[list[str]]]] = [
    ("", []),
    ("  # nothing", []),
    ("ls", [["ls"]]),
    ("ls -la  /scratch", [["ls", "-la", "/scratch"]]),
    ("ls\t-l", [["ls", "-l"]]),
    ("a; b", [["a"], ["b"]]),
    ("a && b || c", [["a"], ["b"], ["c"]]),
    ("a | b |& c", [["a"], ["b"], ["c"]]),
    ("a & b &", [["a"], ["b"]]),
    ("a\nb\n\nc", [["a"], ["b"], ["c"]]),
    ("a &&\n\n  b", [["a"], ["b"]]),
    ("(a; b)", [["a"], ["b"]]),
    ("{ a; b; }", [["a"], ["b"]]),
    ("(a) && { b; }", [["a"], ["b"]]),
    ("((a); b)".replace("((", "( ("), [["a"], ["b"]]),
    ("! a", [["a"]]),
    ("a # b; c", [["a"]]),
    ("a#b", [["a#b"]]),
    ("a '#' b", [["a", "#", "b"]]),
    ("a 'b c' d", [["a", "b c", "d"]]),
    ('a "b c" d', [["a", "b c", "d"]]),
    ("a b\\ c", [["a", "b c"]]),
    ("a ''", [["a", ""]]),
    ("r''m x", [["rm", "x"]]),
    ('r""m x', [["rm", "x"]]),
    ("'rm' x", [["rm", "x"]]),
    ("\\rm x", [["rm", "x"]]),
    ("r\\m x", [["rm", "x"]]),
    ("r\\\nm x", [["rm", "x"]]),
    ("a \\\n b", [["a", "b"]]),
    ('a "\\$x \\n \\" \\\\"', [["a", '$x \\n " \\']]),
    ("a '\\'", [["a", "\\"]]),
    ("a $HOME", [["a", "${HOME}"]]),
    ("a ${HOME}/x", [["a", "${HOME}/x"]]),
    ("a ${X:-y}", [["a", "${X}"]]),
    ("a '$HOME'", [["a", "$HOME"]]),
    ("a $", [["a", "$"]]),
    ("a $(b c)", [["b", "c"], ["a", "$()"]]),
    ('a "$(b "c d")"', [["b", "c d"], ["a", "$()"]]),
    ("a `b c`", [["b", "c"], ["a", "$()"]]),
    ("a <(b) >(c)", [["b"], ["c"], ["a", "<()", "<()"]]),
    ("a $(b $(c))", [["c"], ["b", "$()"], ["a", "$()"]]),
    ("[ -f x ]", [["[", "-f", "x", "]"]]),
    ("X=1", [[]]),
    ("X=''", [[]]),
    ("''X=1 a", [["X=1", "a"]]),
    ('""X=1 a', [["X=1", "a"]]),
    ("X''=1 a", [["X=1", "a"]]),
    ("''if a", [["if", "a"]]),
    ("X\\\n=1 a", [["a"]]),
    ("a \\\n>f b", [["a", "b"]]),
    ("X=$(a) b", [["a"], ["b"]]),
    ("cat <<'E'\n$(a)\nE\nb", [["cat"], ["b"]]),
    ("cat <<E\nplain\nE", [["cat"]]),
    ("cat <<-E\n\ta\n\tE\nb", [["cat"], ["b"]]),
    ("a <<A <<B\n1\nA\n2\nB\nc", [["a"], ["c"]]),
    ("sudo a b", [["a", "b"]]),
    ("sudo -u root -n -- a b", [["a", "b"]]),
    ("sudo X=1 a", [["a"]]),
    ("sudo -v", [["sudo", "-v"]]),
    ("env", [["env"]]),
    ("env -i X=1 a", [["a"]]),
    ("env - a", [["a"]]),
    ("env -u X a", [["a"]]),
    ("nohup a &", [["a"]]),
    ("time -p a", [["a"]]),
    ("nice -n 5 a", [["a"]]),
    ("nice -19 a", [["a"]]),
    ("timeout -k 5 -s KILL 10 a b", [["a", "b"]]),
    ("stdbuf -oL a", [["a"]]),
    ("command a", [["a"]]),
    ("command -v a", [["command", "-v", "a"]]),
    ("exec a", [["a"]]),
    ("busybox rm x", [["rm", "x"]]),
    ("/usr/bin/env a", [["a"]]),
    ("sudo env nice timeout 5 a", [["a"]]),
    ("sh -c 'a; b'", [["a"], ["b"]]),
    ("bash -lc 'a'", [["a"]]),
    ("bash -euo pipefail -c 'a'", [["a"]]),
    ("bash -c -- 'a' x", [["a"]]),
    ("bash -c - 'a'", [["a"]]),
    ("sudo sh -c \"sh -c 'a b'\"", [["a", "b"]]),
    ("sh -c 'a' > f", [[], ["a"]]),
    ("bash x.sh", [["bash", "x.sh"]]),
    ("bash --version", [["bash", "--version"]]),
    ("eval 'a b' c", [["a", "b", "c"]]),
    ("eval -- a", [["a"]]),
    ("env 1=2 =3 a.b=4 a", [["a"]]),
    ("a <<< b", [["a"]]),
    ("a &> f; b", [["a"], ["b"]]),
    ("trap 'a' EXIT", [["a"]]),
    ("xargs a b", [["a", "b", "${stdin}"]]),
    ("xargs -0 -n 1 a", [["a", "${stdin}"]]),
    ("xargs -I {} a {}/b", [["a", "${stdin}/b"]]),
    ("find . -exec a {} \\;", [["find", ".", "-exec", "a", "{}", ";"], ["a", "{}"]]),
    (
        "find . -exec a {} + -exec b + c ';'",
        [["find", ".", "-exec", "a", "{}", "+", "-exec", "b", "+", "c", ";"], ["a", "{}"], ["b", "+", "c"]],
    ),
    ("git show HEAD@{1}", [["git", "show", "HEAD@{1}"]]),
    ("echo \u00e9\u4e2d", [["echo", "\u00e9\u4e2d"]]),
]


@each_case(LINES)
def test_a_line_is_its_commands(text: str, expected: list[list[str]]) -> None:
    assert argvs(text) == expected


UNLEXABLE = [
    "'a",
    '"a',
    "a \\",
    "`a",
    "a $(b",
    "(a",
    "{ a;",
    "a )",
    "}",
    "()",
    "a &&",
    "&& a",
    "| a",
    "; a",
    "a ;; b",
    "a & & b",
    "a >",
    "a > > b",
    "(a) b",
    "if a; then b; fi",
    "for x in a; do b; done",
    "while a; do b; done",
    "until a; do b; done",
    "case a in b) c;; esac",
    "select x in a; do b; done",
    "function f { a; }",
    "f() { a; }",
    ":(){ :|:& };:",
    "[[ a ]]",
    "((a))",
    "coproc a",
    "X=(a b)",
    "a $((1+1))",
    "a $[1+1]",
    "a $'b'",
    'a $"b"',
    "a ${X/b/c}",
    "a ${!X}",
    "a ${X@P}",
    "a ${X:-$(b)}",
    "a ${X:=b}",
    "a ${X:1}",
    "a ${X[0]}",
    "a $IFS",
    "rm${IFS}-rf${IFS}/",
    "a {b,c}",
    "a {1..9}",
    "a {fd}>x",
    "a >&$X",
    "a >&'$(b)'",
    "a >&-b",
    "a >&\u0663",
    "a &>f b",
    "a &>f >g b",
    "a 12>b",
    "1\\\n>f a",
    "1\\\n\\\n>f a",
    "{x}\\\n>f a",
    "time ! a",
    "time -- a",
    "time X=1 a",
    "time -p -p a",
    "time >f -p a",
    "time { a\n}",
    "a <<E\n$(b)\nE",
    "a <<E\nb",
    "a <<E",
    "a <<$X\n$X\n",
    "a <<E $(b)\nE",
    "a `b \\`c\\``",
    'a "`b "c"`"',
    "$X",
    "$(echo rm) x",
    "`echo rm` x",
    "r$X x",
    "~/a",
    "./a*",
    "''",
    "'rm -rf /'",
    "r\u043c x",
    "\uff52\uff4d x",
    "a\u00a0b",
    "a \u200bb",
    "a\u202eb",
    "a\rb",
    "a\x1bb",
    "a\0b",
    "'a\0b'",
    "sudo",
    "sudo -i",
    "sudo --unheard a",
    "sudo $X",
    "sudo -u $X a",
    "env -S 'a b'",
    "env X=$Y a",
    "timeout 5",
    "timeout $X a",
    "sh -c",
    "sh -c $X",
    'sh -c "$X"',
    'sh -c "$(a)"',
    "sh -c 'if a'",
    "sh -c '\"$@\"' x rm -rf /",
    "bash -oc pipefail a",
    "bash --rcfile x -c a",
    "bash $X",
    "fish -c a",
    "eval $X",
    "eval 'a",
    'trap "$X" EXIT',
    "xargs -I{} {}",
    "xargs sh -c",
    "xargs -i a",
    "find . -exec a",
    "find . -exec ';'",
    "find . -exec {} ';'",
    "find . -exec $X ';'",
    "alias ls='rm -rf /'",
    "watch 'a'",
    "su -c a",
    "script -c a",
    "parallel a",
    "chroot /x a",
    "unshare a",
    "flock f a",
    "nsenter a",
    "compgen -W '$(a)'",
    " ".join(["sudo"] * 20) + " a",
    "(" * 40 + "a" + ")" * 40,
    "$(" * 40 + "a" + ")" * 40,
    "a;" * 300,
    "a " * 5_000,
    "a" * 70_000,
]


@each_case(UNLEXABLE)
def test_what_is_not_understood_is_unlexable(text: str) -> None:
    found = parse_commands(text)
    assert isinstance(found, Unlexable), found
    assert found.reason
    assert 0 <= found.at <= len(text)


def test_a_command_has_words_assignments_redirections_and_the_wrappers_around_it() -> None:
    found = parse_commands('sudo env A="$B" git log ~/x *.py "$C"d >> out 2>&1 < in')
    assert found == Commands(
        (
            SimpleCommand(
                (
                    Word("git"),
                    Word("log"),
                    Word("~/x", Expansion.TILDE),
                    Word("*.py", Expansion.GLOB),
                    Word("${C}d", Expansion.PARAMETER),
                ),
                (Assignment("A", Word("${B}", Expansion.PARAMETER)),),
                (
                    Redirection(">>", Word("out")),
                    Redirection("2>&", Word("1")),
                    Redirection("<", Word("in")),
                ),
                ("sudo", "env"),
            ),
        )
    )


@each_case(
    [
        ("a $X", Expansion.PARAMETER | Expansion.SPLITS),
        ('a "$X"', Expansion.PARAMETER),
        ('a "$@"', Expansion.PARAMETER | Expansion.SPLITS),
        ("a $(b)", Expansion.COMMAND | Expansion.SPLITS),
        ('a "`b`"', Expansion.COMMAND),
        ("a <(b)", Expansion.PROCESS),
        ("a x*", Expansion.GLOB),
        ("a '*'", Expansion(0)),
        ("a \\~", Expansion(0)),
        ("a x~", Expansion(0)),
        ("a ~", Expansion.TILDE),
        ("a k=~", Expansion.TILDE),
    ]
)
def test_a_word_knows_what_would_be_expanded_in_it(text: str, expected: Expansion) -> None:
    found = parse_commands(text)
    assert isinstance(found, Commands)
    assert found.commands[-1].argv[1].expansions == expected


@each_case(
    [
        ("a > f", True, True),
        ("a >> f", True, True),
        ("a >| f", True, True),
        ("a <> f", True, True),
        ("a &> f", True, True),
        ("a >& f", True, True),
        ("a > -", True, True),
        ("a < f", True, False),
        ("a 2>&1", False, False),
        ("a 2>&-", False, False),
        ("a &>> f", True, True),
        ("a >&f", True, True),
        ("a <<< f", False, False),
        ("a <&3", False, False),
    ]
)
def test_a_redirection_knows_whether_it_writes_a_file(text: str, names_file: bool, writes: bool) -> None:
    found = parse_commands(text)
    assert isinstance(found, Commands)
    redirection = found.commands[0].redirections[0]
    assert (redirection.names_file, redirection.writes) == (names_file, writes)


FAMILIES = [
    ("ls -la", "ls"),
    ("/bin/ls", "ls"),
    ("./ls", "./ls"),
    ("/scratch/git push", "/scratch/git"),
    ("git push origin", "git push"),
    ("git push && git push --tags", "git push"),
    ("git add . && git push", None),
    ("git -c a.b=c push", None),
    ("git $X", None),
    ("git", None),
    ("pip install x", "pip install"),
    ("npm run build", "npm run"),
    ("docker compose up", "docker compose"),
    ("cargo test", "cargo test"),
    ("apt-get install x", "apt-get install"),
    ("make test", "make"),
    ("python -m pytest -q", "python -m pytest"),
    ("python3 x.py", "python3 x.py"),
    ("python3 -c 'x'", None),
    ("python3 -", None),
    ("bash x.sh", "bash x.sh"),
    ("bash", None),
    ("curl x | sh", None),
    ("sudo git push", "sudo git push"),
    ("timeout 5 git push", "git push"),
    ("./timeout 5 git push", None),
    ("sh -c 'git push'", "git push"),
    ("xargs rm", "xargs rm"),
    ("A=1 git push", None),
    ("A=1; git push", None),
    ("echo x > f", None),
    ("echo x > /dev/null", "echo"),
    ("(git push) > f", None),
    ("(git push) < f", "git push"),
    ("git push 2>&1", "git push"),
    ("echo $(rm x)", None),
    ("", None),
]


@each_case(FAMILIES)
def test_a_line_has_a_family_only_if_all_of_it_is_of_one(text: str, expected: str | None) -> None:
    found = parse_commands(text)
    assert isinstance(found, Commands), found
    assert found.family() == expected


def test_an_argument_list_is_not_read_by_a_shell_but_its_wrappers_are_looked_through() -> None:
    assert lex_argv(["echo", "$(a)", "b;c"]) == Commands((SimpleCommand((Word("echo"), Word("$(a)"), Word("b;c"))),))
    assert lex_argv(["sh", "-c", "a b"]) == Commands((SimpleCommand((Word("a"), Word("b")), via=("sh",)),))
    assert isinstance(lex_argv(["sh", "-c", "$X"]), Unlexable)
    assert isinstance(lex_argv(["rm -rf /"]), Unlexable)
    assert isinstance(lex_argv(["a", "\0"]), Unlexable)
    assert lex_argv([]) == Commands((SimpleCommand(()),))


WORDS = (
    "a rm / ~ $ $X ${X} ${ $( ` ' \" \\ ; & | ( ) < > << >> { } * ? [ ] # ! = X= - -c sh sudo env xargs find -exec -I{}"
    " eval EOF , .. 2 \0 \u202e \u00e9 bash -lc trap timeout 5 +"
)
PIECES = st.sampled_from(WORDS.split())
SHELLISH = st.lists(st.one_of(PIECES, st.sampled_from([" ", " ", "\n", "\t"])), max_size=30).map("".join)


@pytest.mark.long
@given(st.one_of(st.text(), SHELLISH))
def test_lex_never_raises(text: str) -> None:
    found = parse_commands(text)
    assert isinstance(found, Commands | Unlexable)
    if isinstance(found, Commands):
        found.family()


@pytest.mark.long
@given(st.lists(st.one_of(PIECES, st.text(), st.just("sh"), st.just("-c")), max_size=6))
def test_lex_argv_never_raises(argv: list[str]) -> None:
    assert isinstance(lex_argv(argv), Commands | Unlexable)


SAFE_WORDS = st.from_regex(r"[A-Za-z0-9_./:,@%+-]+", fullmatch=True)
QUOTED = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10)


@pytest.mark.long
@given(st.lists(st.one_of(SAFE_WORDS, QUOTED.map(shlex.quote), QUOTED.map(lambda text: "x" + shlex.quote(text)))))
def test_words_are_those_that_the_standard_library_finds(words: list[str]) -> None:
    text = " ".join(["program", *words])
    assert argvs(text) == [shlex.split(text)]

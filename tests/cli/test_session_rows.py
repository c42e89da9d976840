from agentrail.cli.stored.session_rows import age, session_rows
from agentrail.journals import About, StoredSession

MINUTE = 60_000


def test_an_age_is_told_in_its_longest_unit() -> None:
    ages = {
        -5: "now",
        MINUTE - 1: "now",
        MINUTE: "1 min",
        60 * MINUTE - 1: "59 min",
        60 * MINUTE: "1 h",
        24 * 60 * MINUTE - 1: "23 h",
        24 * 60 * MINUTE: "1 d",
        1000 * 24 * 60 * MINUTE: "1000 d",
    }
    assert {milliseconds: age(milliseconds) for milliseconds in ages} == ages


def test_each_session_has_a_row_that_commands_no_terminal() -> None:
    sessions = [
        StoredSession("you.aa", 3, at_work=True, about=About(title="\x1b[2J\u202etea\n for two"), active=9 * MINUTE),
        StoredSession("h.local.you.b", 3, due=1, active=0),
    ]
    assert session_rows(sessions, 10 * MINUTE, 60, "b") == [
        "1. aa   working  1 min   \ufffd[2J\ufffdtea for two",
        "2. b *  waiting  10 min  (nothing was said)",
    ]
    assert session_rows(sessions, 10 * MINUTE, 20)[0] == "1. aa  working  1 m…"

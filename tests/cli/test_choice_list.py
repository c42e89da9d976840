import pytest
from prompt_toolkit.keys import Keys

from agentrail.cli.output.screen import TerminalStyle
from agentrail.cli.talk.live import choice_list
from agentrail.cli.talk.live.choice_list import ChoiceList

ROWS = [f"{number}. row" for number in range(1, 21)]
SMALL = TerminalStyle(rewrites=True, width=20, height=9)


def choices(rows: "list[str]") -> "tuple[ChoiceList, list[int | None]]":
    answers = list[int | None]()
    return ChoiceList("Which?", rows, answers.append), answers


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each look at the clock is a second after the one before, until a test sets the time."""
    times = [0.0]

    def tick() -> float:
        times[0] += len(times) == 1
        return times[0]

    monkeypatch.setattr(choice_list, "monotonic", tick)
    return times


def test_enter_chooses_nothing_that_was_not_seen_and_ends_no_line(now: list[float]) -> None:
    now.append(0.0)  # from here on the time stands still
    choice, answers = choices(ROWS)
    assert not choice.press(Keys.Enter)
    now[0] += 0.3
    assert not choice.press(Keys.Enter), "nothing is taken until there was a pause"
    now[0] += 0.3
    assert not choice.press(Keys.Enter)
    now[0] += 0.6
    assert not any(choice.press(key) for key in ("1", "o", "k", Keys.Enter)), "it was the end of a line"
    now[0] += 0.6
    assert choice.press(Keys.Enter)
    assert answers == [0]


def test_arrows_and_numbers_choose_and_enter_takes() -> None:
    cases: list[tuple[list[str], int | None]] = [
        ([Keys.Enter], 0),
        ([Keys.Down, Keys.Down, Keys.Up, Keys.Enter], 1),
        ([Keys.Up, Keys.Enter], 19),
        (["1", "2", Keys.Enter], 11),
        (["2", "5", Keys.Enter], 4),
        (["0", "x", Keys.BracketedPaste, "3", Keys.Down, "1", Keys.Enter], 0),
        (["3", Keys.Escape], None),
        ([Keys.ControlC], None),
        ([Keys.ControlD], None),
    ]
    for keys, index in cases:
        choice, answers = choices(ROWS)
        assert [choice.press(key) for key in keys] == [*[False] * (len(keys) - 1), True]
        assert answers == [index], keys


def test_the_rows_around_the_chosen_one_are_drawn_as_far_as_there_is_room() -> None:
    choice, _ = choices(ROWS)
    assert choice.drawn(SMALL) == ["Which?", "▸ 1. row", "  2. row", "  3. row", "  4. row", "  5. row"]
    choice.press(Keys.Up)
    assert choice.drawn(SMALL)[1:] == ["  16. row", "  17. row", "  18. row", "  19. row", "▸ 20. row"]
    choice.press("9")
    assert choice.drawn(SMALL)[1:] == ["  7. row", "  8. row", "▸ 9. row", "  10. row", "  11. row"]


def test_a_row_commands_no_terminal_and_fits() -> None:
    choice, _ = choices(["a\x1b]0;title\x07b", "x" * 40])
    assert choice.drawn(SMALL) == ["Which?", "▸ a\ufffd]0;title\ufffdb", f"  {'x' * 16}…"]


def test_a_text_without_rows_goes_with_a_key() -> None:
    choice, answers = choices([])
    assert choice.drawn(SMALL) == ["Which?"]
    assert not choice.press(Keys.Down)
    assert not choice.press("1")
    assert choice.press(Keys.Enter)
    assert answers == [None]


def test_below_the_rows_stands_what_is_said_of_the_one_pointed_at() -> None:
    rows, previews = ["1. a", "2. b"], [("of a",), ("of b", "more\x1b[2J" * 9)]
    choice = ChoiceList("Which?", rows, lambda _: None, previews, start=1)
    assert choice.drawn(SMALL) == ["Which?", "  1. a", "▸ 2. b", "of b", "more�[2Jmore�[2Jmo…"]
    choice.press(Keys.Up)
    assert choice.drawn(SMALL) == ["Which?", "▸ 1. a", "  2. b", "of a"]
    many = ChoiceList("Which?", ROWS, lambda _: None, [("1", "2", "3")] * len(ROWS), start=len(ROWS) - 1)
    assert len(many.drawn(SMALL)) == SMALL.height - 3

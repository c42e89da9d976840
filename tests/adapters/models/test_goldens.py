import pytest

from tests.adapters.models.goldens import GOLDEN, OWN, SEARCHING, rendered, written
from tests.adapters.models.histories import SETTINGS, histories

NAMES = (*histories("", ""), *(f"options_{name}" for name in SETTINGS))


def names(provider: str) -> tuple[str, ...]:
    return (*NAMES, "options_tool_search") if provider in SEARCHING else NAMES


@pytest.mark.parametrize(("provider", "name"), [(provider, name) for provider in OWN for name in names(provider)])
def test_a_history_is_rendered_as_it_was_before(provider: str, name: str) -> None:
    golden = (GOLDEN / provider / f"{name}.json").read_text(encoding="utf-8")
    assert written(rendered(provider)[name]) == golden


@pytest.mark.parametrize("provider", OWN)
def test_there_is_no_golden_that_nothing_makes(provider: str) -> None:
    assert sorted(path.stem for path in (GOLDEN / provider).iterdir()) == sorted(names(provider))

import pytest

from agentrail.adapters.models.providers import format_of
from agentrail.models import PROVIDERS
from tests.adapters.models.goldens import GOLDEN, GOLDENS, options_of, rendered, written
from tests.adapters.models.histories import SETTINGS, histories

NAMES = (*histories("", ""), *(f"options_{name}" for name in SETTINGS))


def names(folder: str) -> tuple[str, ...]:
    return (*NAMES, *(f"options_{name}" for name in options_of(folder)))


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder in GOLDENS for name in names(folder)])
def test_a_history_is_rendered_as_it_was_before(folder: str, name: str) -> None:
    golden = (GOLDEN / folder / f"{name}.json").read_text(encoding="utf-8")
    assert written(rendered(folder)[name]) == golden


@pytest.mark.parametrize("folder", GOLDENS)
def test_there_is_no_golden_that_nothing_makes(folder: str) -> None:
    assert sorted(path.stem for path in (GOLDEN / folder).iterdir()) == sorted(names(folder))


def test_each_wire_format_has_goldens() -> None:
    golden = [(PROVIDERS[name], model) for name, _, model in (own.partition(":") for own in GOLDENS.values())]
    known = [(provider, prefix) for provider in PROVIDERS.values() for prefix in ("", *dict(provider.formats))]
    assert {format_of(*model).render for model in golden} == {format_of(*model).render for model in known}

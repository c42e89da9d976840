"""The description of the package: the README, with links that lead somewhere from wherever it is read."""

import ast
import re
from collections.abc import Callable
from typing import cast

from tests.docs.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCE = "https://example.org/somebody/agentrail"
RELATIVE = re.compile(r"\]\((?!https?://|#)")


def _described() -> Callable[[str, str | None], str]:
    """Return the function of the build; hatchling, which the file imports, is only there while a package is built."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text(encoding="utf-8"))
    statements = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.Assign)]
    names: dict[str, object] = {"re": re}
    exec(compile(ast.Module([*statements], []), "hatch_build.py", "exec"), names)  # noqa: S102 - our own
    return cast("Callable[[str, str | None], str]", names["described"])


def test_links_lead_into_the_repository_whose_address_the_package_has() -> None:
    text = _described()(README, SOURCE)
    assert RELATIVE.findall(text) == []
    paths = re.findall(rf"\]\({SOURCE}/(?:blob|raw)/HEAD/([^)#]+)", text)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert f"]({SOURCE}/raw/HEAD/docs/pictures/chat.svg)" in text


def test_without_an_address_the_words_of_links_stay() -> None:
    text = _described()(README, None)
    assert RELATIVE.findall(text) == []
    assert "![" not in text
    assert "other providers" in text
    assert _described()("[a](https://b.c/d) [e](#f)", None) == "[a](https://b.c/d) [e](#f)"

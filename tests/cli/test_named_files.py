from base64 import b64encode
from pathlib import Path

import pytest

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.named_files import MAX_PICTURE, parts_of, paths_behind
from agentrail.values.content import File, Image, Text

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
PDF = b"%PDF-1.7\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "my plan.md").write_text("1. Tea.\n```\n")
    (tmp_path / "pic.png").write_bytes(PNG)
    (tmp_path / "paper.pdf").write_bytes(PDF)
    (tmp_path / ".hidden").write_text("x")
    return tmp_path


async def test_a_text_is_added_and_pictures_go_with_it(folder: Path) -> None:
    said = await parts_of(r"see @docs/my\ plan.md @pic.png and @paper.pdf, @pic.png; ask @ann or a@pic.png", folder)
    text = "see @docs/my\\ plan.md @pic.png and @paper.pdf, @pic.png; ask @ann or a@pic.png"
    assert said == (
        Text(f"{text}\n\ndocs/my plan.md:\n\n````\n1. Tea.\n```\n````"),
        Image("image/png", b64encode(PNG).decode()),
    )
    assert await parts_of("@paper.pdf", folder) == (
        Text("@paper.pdf"),
        File("application/pdf", b64encode(PDF).decode(), name="paper.pdf"),
    )


@pytest.mark.parametrize("text", ["nothing", "@", "@ann", "@docs", "a@pic.png", "@no/such", "@\x00"])
async def test_what_is_no_file_stays_as_it_is(text: str, folder: Path) -> None:
    assert await parts_of(text, folder) == text


async def test_what_cannot_be_sent_is_told(folder: Path) -> None:
    (folder / "pic.png").write_bytes(PNG + b"0" * MAX_PICTURE)
    with pytest.raises(BadInputError, match=r"@pic\.png: it has more than 8 MiB"):
        await parts_of("@pic.png", folder)
    (folder / "odd").write_bytes(b"\xff\x00")
    with pytest.raises(BadInputError, match="@odd: it is neither a text, a picture nor a PDF"):
        await parts_of("@odd", folder)


@pytest.mark.parametrize(
    ("typed", "ways"),
    [
        ("", ["docs/", "paper.pdf ", "pic.png "]),
        ("p", ["aper.pdf ", "ic.png "]),
        ("docs/", ["my\\ plan.md "]),
        ("docs/my\\ ", ["plan.md "]),
        (".h", ["idden "]),
        ("no/", []),
        ("\x00/", []),
    ],
)
def test_paths_are_completed(typed: str, ways: list[str], folder: Path) -> None:
    assert list(paths_behind(typed, folder)) == ways
    if typed == "p":
        assert list(paths_behind(f"{folder}/p", Path("/"))) == ways

import shlex
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk import named_files
from agentrail.cli.talk.clipboard import keep_picture
from agentrail.cli.talk.file_names import without_files
from agentrail.cli.talk.named_files import (
    MAX_PICTURE,
    dragged_picture,
    files_in,
    like_file,
    missing_in,
    paths_behind,
    with_parts,
)
from agentrail.models import File, Image, Part, Text

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
PDF = b"%PDF-1.7\n"


async def parts_of(text: str, folder: Path) -> str | tuple[Part, ...]:
    """Return the prompt *text* with the files that it names."""
    return with_parts(text, await files_in(text, folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "my plan.md").write_text("1. Tea.\n```\n")
    (tmp_path / "pic.png").write_bytes(PNG)
    (tmp_path / "paper.pdf").write_bytes(PDF)
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "away").symlink_to("..")
    return tmp_path


async def test_a_text_is_added_and_pictures_go_with_it(folder: Path) -> None:
    parts = await parts_of(r"see @docs/my\ plan.md @pic.png and @paper.pdf, @pic.png; ask @ann or a@pic.png", folder)
    text = "see @docs/my\\ plan.md @pic.png and @paper.pdf, @pic.png; ask @ann or a@pic.png"
    assert parts == (
        Text(f"{text}\n\ndocs/my plan.md:\n\n````\n1. Tea.\n```\n````"),
        Image("image/png", b64encode(PNG).decode()),
        File("application/pdf", b64encode(PDF).decode(), name="paper.pdf"),
    )
    assert await parts_of("@paper.pdf", folder) == (
        Text("@paper.pdf"),
        File("application/pdf", b64encode(PDF).decode(), name="paper.pdf"),
    )


async def test_how_large_a_file_is_is_known(folder: Path) -> None:
    for name, text in (("one", "a\n"), ("two", "a\nb"), ("none", "")):
        (folder / name).write_text(text)
    files = await files_in(r"@docs/my\ plan.md @one @two @none @pic.png @paper.pdf @ann", folder)
    assert [f"{file.name} {file.extent}" for file in files] == [
        "docs/my plan.md 2 lines",
        "one 1 line",
        "two 2 lines",
        "none 0 lines",
        "pic.png image/png, 1 KiB",
        "paper.pdf application/pdf, 1 KiB",
    ]


async def test_what_ends_a_sentence_is_no_part_of_a_name_unless_a_file_has_it(folder: Path) -> None:
    (folder / "why?").write_text("x")
    files = await files_in("is it @why? or @pic.png?! Not @pic.png).", folder)
    assert [file.name for file in files] == ["why?", "pic.png"]
    assert missing_in("@no/such.txt? @no/such.txt, @pic.png. @why?", folder) == ("no/such.txt",)


@pytest.mark.parametrize(
    "typed",
    [r"see @docs/my\ plan.md, please", r"see @docs/my\ plan.md", "@one and @ann:\n\nplan:\n\n```\nx\n```", "@none"],
)
async def test_what_the_person_wrote_is_known_without_the_files(folder: Path, typed: str) -> None:
    (folder / "one").write_text("see @plan\n\nplan:\n\n```\ntext\n")
    assert without_files(str(await parts_of(typed, folder))) == typed


@pytest.mark.parametrize(
    "text",
    ["nothing", "@", "@ann", "@docs", "a@pic.png", "@no/such", "@\x00", "@~no-one-here", "@~no-one-here/x", "@away"],
)
async def test_what_is_no_file_stays_as_it_is(text: str, folder: Path) -> None:
    assert await parts_of(text, folder) == text


def test_what_looks_like_a_file_and_is_not_there_is_told(folder: Path) -> None:
    text = "@missing.txt, @pic.png @ann @docs @no/such @\x00.txt @pic.png?"
    assert missing_in(text, folder) == ("missing.txt", "no/such", "\x00.txt")


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("pic.pgn", " (did you mean `@pic.png`?)"),
        ("docs/my-plan.md", " (did you mean `@docs/my\\ plan.md`?)"),
        ("nothere.txt", ""),
        ("no/such", ""),
        ("\x00.txt", ""),
    ],
)
def test_a_file_that_is_misspelt_is_named_with_the_nearest_one(folder: Path, name: str, remark: str) -> None:
    assert like_file(name, folder) == remark


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
        ("", ["away/", "docs/", "paper.pdf ", "pic.png "]),
        ("p", ["aper.pdf ", "ic.png "]),
        ("docs/", ["my\\ plan.md "]),
        ("docs/my\\ ", ["plan.md "]),
        (".h", ["idden "]),
        ("no/", []),
        ("~no-one-here", []),
        ("~no-one-here/", []),
        ("\x00/", []),
    ],
)
def test_paths_are_completed(typed: str, ways: list[str], folder: Path) -> None:
    assert list(paths_behind(typed, folder)) == ways
    if typed == "p":
        assert list(paths_behind(f"{folder}/p", Path("/"))) == ways


@pytest.mark.skipif(sys.platform != "linux", reason="NOT PROVED, because names of files are UTF-8 here")
async def test_a_file_whose_name_is_not_utf_8_is_refused_and_not_completed(folder: Path) -> None:
    (folder / "b\udcff.txt").write_text("x")
    assert list(paths_behind("b", folder)) == []
    with pytest.raises(BadInputError, match=r"@b\\udcff\.txt: its name is not UTF-8, .*; rename the file to send it"):
        await parts_of("see @b\udcff.txt", folder)


def test_of_a_large_folder_not_all_names_are_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MOST_ENTRIES", 3)
    for number in range(9):
        (folder / f"file-{number}").touch()
    assert len(paths_behind("file", folder)) <= 3


@pytest.mark.parametrize(
    "name",
    [
        "AGENTS.md",
        "{folder}/AGENTS.md",
        "docs/../AGENTS.md",
        "../{itself}/AGENTS.md",
        "{alias}/AGENTS.md",
        "box/id_rsa",
        "twice",
    ],
)
async def test_a_link_out_of_the_folder_is_not_followed(name: str, folder: Path) -> None:
    clone = folder / "clone"
    (clone / "docs").mkdir(parents=True)
    (folder / "id_rsa").write_text("TOP SECRET")
    (clone / "AGENTS.md").symlink_to("../id_rsa")
    (clone / "twice").symlink_to("AGENTS.md")
    (clone / "box").symlink_to("..")
    (folder / "alias").symlink_to("clone")
    written = name.format(folder=clone, itself=clone.name, alias=folder / "alias")
    with pytest.raises(
        BadInputError, match=r"a link leads out of the folder, to \S+/id_rsa; name that file to send it"
    ):
        await parts_of(f"@{written}", clone)


async def test_what_a_person_names_outside_of_the_folder_is_sent(folder: Path) -> None:
    clone = folder / "clone"
    (clone / "deep" / "er").mkdir(parents=True)
    (folder / "note.md").write_text("mine")
    (folder / "link.md").symlink_to("note.md")
    (clone / "inside.md").symlink_to("deep/er/note.md")
    (clone / "deep" / "er" / "note.md").write_text("here")
    for name, text in ((f"{folder}/note.md", "mine"), ("../link.md", "mine"), ("inside.md", "here")):
        assert await parts_of(f"@{name}", clone) == f"@{name}\n\n{name}:\n\n```\n{text}\n```"


async def test_a_link_before_two_dots_does_not_choose_what_is_sent(folder: Path) -> None:
    clone = folder / "clone"
    (clone / "docs").mkdir(parents=True)
    (folder / "elsewhere" / "b").mkdir(parents=True)
    (folder / "elsewhere" / "plan.md").write_text("TOP SECRET")
    (clone / "plan.md").write_text("tea")
    (clone / "b").symlink_to("../elsewhere/b")
    assert await parts_of("@b/../plan.md", clone) == "@b/../plan.md\n\nb/../plan.md:\n\n```\ntea\n```"


@pytest.mark.parametrize("name", ["own/agents.key", "{folder}/own/agents.key", "{link}/own/agents.key"])
async def test_no_file_of_agentrail_is_sent_by_whatever_name(
    name: str, folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path_factory.mktemp("other") / "link"
    link.symlink_to(folder)
    (folder / "own").mkdir()
    (folder / "own" / "agents.key").write_text("a secret")
    monkeypatch.setenv("AGENTRAIL_HOME", str(folder / "own"))
    with pytest.raises(BadInputError, match="agentrail keeps files of its own there"):
        await parts_of(f"@{name.format(folder=folder, link=link)}", folder)


async def test_a_picture_that_is_dragged_onto_the_terminal_is_named(folder: Path) -> None:
    picture, plan = folder / "my 'pic.png", folder / "docs" / "my plan.md"
    (folder / "pic.png").rename(picture)
    named = f"@{folder}/my\\ 'pic.png "
    for pasted in (shlex.quote(str(picture)), f"{shlex.quote(str(picture))} ", f"{folder}/my\\ \\'pic.png"):
        assert dragged_picture(pasted) == named
    assert await parts_of(named, folder) == (Text(named), Image("image/png", b64encode(PNG).decode()))
    others = (
        str(picture),
        shlex.quote(str(plan)),
        f"{folder}/none.png",
        f"see {shlex.quote(str(picture))}",
        "pic.png",
        "/\0.png",
        "",
        f"/{'x' * 5000}.png",
    )
    assert [dragged_picture(pasted) for pasted in others] == [None] * len(others)


async def test_pictures_that_are_dragged_onto_the_terminal_are_named(folder: Path) -> None:
    (folder / "a b'c.png").write_bytes(PNG)
    path, other = f"{folder}/a b'c.png", f"{folder}/pic.png"
    named = f"@{folder}/a\\ b'c.png "
    address = f"file://{folder}/a%20b%27c.png"
    for pasted in (shlex.quote(path), path.replace(" ", "\\ ").replace("'", "\\'"), address, f"{address}\n"):
        assert dragged_picture(pasted) == named
    assert dragged_picture(f"{shlex.quote(path)} {other}\n") == f"{named}@{other} "
    assert dragged_picture(address.replace("///", "//localhost/", 1)) == named
    for pasted in (f"{other} and", f"file://elsewhere{other}", f"{other} {folder}/none.png", "file://%00.png"):
        assert dragged_picture(pasted) is None


@pytest.mark.parametrize("text", ["is {} right?", "look at '{}'", 'see ({}), "{}"!', "file://{}", "compare {}."])
async def test_the_whole_path_of_a_picture_is_sent_with_it(folder: Path, text: str) -> None:
    typed = text.replace("{}", f"{folder}/pic.png").replace(f"({folder}", f"{folder}")
    assert [(file.name, file.extent) for file in await files_in(typed, folder / "docs")] == [
        (f"{folder}/pic.png", "image/png, 1 KiB")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "delete pic.png",  # its name alone is no path
        "{}\n{}",  # a listing that was pasted
        " ".join(f"/{number}/a.png" for number in range(7)) + " {} {}2",
        "{}/no.png",
        "https://x{}",
        "file://elsewhere{}",
        "{}\x00.png",
    ],
)
async def test_what_only_looks_like_the_path_of_a_picture_stays_text(folder: Path, text: str) -> None:
    typed = text.replace("{}2", f"{folder}/2.png").replace("{}", f"{folder}/pic.png")
    assert await parts_of(typed, folder) == typed


async def test_a_picture_that_cannot_be_sent_leaves_the_sentence_as_it_is(folder: Path) -> None:
    (folder / "big.png").write_bytes(PNG + bytes(MAX_PICTURE))
    (folder / "text.png").write_text("no picture")
    (folder / "link.png").symlink_to(folder.parent / "out.png")
    (folder.parent / "out.png").write_bytes(PNG)
    typed = f"delete {folder}/big.png {folder}/link.png {folder}/text.png"
    files = await files_in(typed, folder)
    assert with_parts(typed, files) == typed
    assert [file.extent for file in files] == [
        "it has more than 8 MiB",
        f"a link leads out of the folder, to {folder.parent}/out.png; name that file to send it",
    ]


async def test_a_picture_of_the_clipboard_has_a_name(folder: Path) -> None:
    pictures = dict[str, bytes]()
    names = [keep_picture(pictures, PNG + str(number).encode()) for number in range(20)]
    assert names[-1] == "clipboard-20.png"
    assert [*pictures] == names[-16:], "the oldest ones are forgotten"
    parts = with_parts("@clipboard-20.png", await files_in("@clipboard-20.png", folder, pictures=pictures))
    assert parts == (Text("@clipboard-20.png"), Image("image/png", b64encode(PNG + b"19").decode()))
    assert missing_in("@clipboard-20.png @clipboard-1.png", folder, pictures) == ("clipboard-1.png",)

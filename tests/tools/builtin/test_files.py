"""The file tools, on files on the disk and in memory: the same answers."""

from pathlib import Path

import pytest

from agentrail.adapters.sandboxes import searching
from agentrail.insight.text_difference import difference_in
from agentrail.sandboxes import LocalSandbox, MemorySandbox, Sandbox
from agentrail.tools import Ok, ToolContext
from agentrail.tools.builtin.file_changes import MOST_COMPARED
from agentrail.tools.builtin.file_tools import MAX_COMPARED, SEARCHED_BYTES
from agentrail.tools.builtin.search import NOT_ALL
from tests.kit import freeze_object
from tests.tools.builtin.rig import TOOLS, call

FILES = {
    "a.py": b"def f(x):\n    return x + 1\n\n\ndef g(x):\n    return x + 1\n",
    "empty.txt": b"",
    "blob.bin": b"\x00\x01",
    "dos.txt": b"one\r\ntwo\r\n",
    "docs/b.md": b"# Tea\nmore tea\n",
    "build/out.txt": b"tea\n",
    ".gitignore": b"build/\n",
    "long.txt": b"x" * 5000 + b"\nend",
}


@pytest.fixture(params=["memory", "disk"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    sandbox: Sandbox = MemorySandbox() if request.param == "memory" else LocalSandbox(tmp_path)
    for path, data in FILES.items():
        await sandbox.write(path, data)
    return sandbox


@pytest.mark.long
async def test_an_answer_says_that_a_folder_is_too_large_to_look_at_all(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_SEEN", 2)  # `.gitignore` and `a.py`
    assert await call("grep", box, pattern="def f") == f"a.py:1:def f(x):\n[{NOT_ALL}]"
    assert await call("grep", box, pattern="tea") == (f"nothing matches 'tea' in `.` (2 files searched); {NOT_ALL}")
    assert await call("grep", box, pattern="tea", glob="*.md") == (
        f"nothing matches 'tea' in `.` (0 files searched); {NOT_ALL}"
    )
    assert await call("glob", box, pattern="*.md") == f"no file below `.` matches '*.md'; {NOT_ALL}"
    assert (await call("glob", box, pattern="*.py")).startswith("a.py\n[there are more")


async def test_lines_come_with_their_numbers(box: Sandbox) -> None:
    assert await call("read_file", box, path="docs/b.md") == "     1\t# Tea\n     2\tmore tea"
    assert await call("read_file", box, path="dos.txt") == "     1\tone\n     2\ttwo"
    assert await call("read_file", box, path="empty.txt") == "[`empty.txt` is empty]"


async def test_a_part_says_how_to_go_on(box: Sandbox) -> None:
    assert await call("read_file", box, path="a.py", offset=2, limit=1) == (
        "     2\t    return x + 1\n\n[lines 2 to 2 of `a.py`, which has 56 bytes; go on with `offset` 3]"
    )
    assert await call("read_file", box, path="a.py", offset=5) == (
        "     5\tdef g(x):\n     6\t    return x + 1\n\n[these are the last lines of `a.py`, which has 6]"
    )
    assert await call("read_file", box, path="a.py", offset=7) == (
        "✗ `a.py` has 6 lines, so there is no line 7; use a smaller `offset`"
    )


async def test_a_long_line_is_cut(box: Sandbox) -> None:
    wanted = f"     1\t{'x' * 2000}… [3000 more characters]\n     2\tend"
    assert await call("read_file", box, path="long.txt") == wanted


async def test_a_long_file_is_read_to_its_end_piece_by_piece(box: Sandbox) -> None:
    text = "".join(f"line {number} {'y' * (number % 90)}\n" for number in range(1, 6001))
    await box.write("many.txt", text.encode())
    offset, found = 1, list[str]()
    while True:
        answer = await call("read_file", box, path="many.txt", offset=offset)
        lines, _, note = answer.partition("\n\n")
        found += [line.split("\t")[1] for line in lines.split("\n")]
        if "go on" not in note:
            break
        offset = int(note.rpartition("`offset` ")[2].removesuffix("]"))
    assert "".join(f"{line}\n" for line in found) == text


async def test_what_is_no_text_or_not_there_is_told(box: Sandbox) -> None:
    assert await call("read_file", box, path="blob.bin") == (
        "✗ `blob.bin` is no text: it has 2 bytes, and some of them are zero; use `shell` to look into it"
    )
    assert await call("read_file", box, path="no.txt") == (
        "✗ cannot read `no.txt`: there is no such file or folder; list the folder to see what there is"
    )
    assert (await call("read_file", box, path="docs")).startswith("✗ cannot read `docs`: ")
    assert await call("read_file", box, path="../x") == (
        "✗ the path '../x' is refused: it has a `..` part; give one that goes down from the root"
    )


async def test_a_file_is_written_with_its_folders(box: Sandbox) -> None:
    assert await call("write_file", box, path="n/e/w.txt", content="hé\nyou") == (
        "created `n/e/w.txt`: 2 lines, 7 bytes"
    )
    assert await call("write_file", box, path="n/e/w.txt", content="") == "replaced `n/e/w.txt`: 0 lines, 0 bytes"
    assert (await box.read("n/e/w.txt")).data == b""
    assert (await call("write_file", box, path="docs", content="x")).startswith("✗ ")
    assert (await call("write_file", box, path=".git/config", content="x")).startswith("✗ the path")


async def test_an_edit_is_exact_and_unique(box: Sandbox) -> None:
    assert await call("edit_file", box, path="a.py", old_text="def f", new_text="def h") == "edited `a.py`: 1 place"
    assert await call("edit_file", box, path="a.py", old_text="x + 1", new_text="x") == (
        "✗ cannot edit `a.py`: the text occurs 2 times, in lines 2, 6; nothing was changed. "
        "Give more of the lines around the one that is meant, or set `replace_all`."
    )
    assert await call("edit_file", box, path="a.py", old_text="x + 1", new_text="x", replace_all=True) == (
        "edited `a.py`: 2 places"
    )
    assert (await box.read("a.py")).data == b"def h(x):\n    return x\n\n\ndef g(x):\n    return x\n"


async def test_what_a_call_has_changed_is_in_the_details_of_its_result(box: Sandbox) -> None:
    async def rows(tool: str, **args: object) -> list[str] | None:
        result = await TOOLS[tool].execute(freeze_object(args), ToolContext(call_id="c", sandbox=box))
        assert isinstance(result, Ok)
        difference = difference_in(result.details)
        return (
            None if difference is None else [f"{row.mark}{row.text}" for hunk in difference.hunks for row in hunk.rows]
        )

    assert await rows("write_file", path="n.txt", content="one\ntwo\n") == ["+one", "+two"]
    assert await rows("write_file", path="n.txt", content="one\n2\n") == [" one", "-two", "+2"]
    assert await rows("edit_file", path="n.txt", old_text="2\n", new_text="") == [" one", "-2"]
    assert await rows("write_file", path="n.txt", content="") == ["-one"]
    await box.write("n.bin", b"\xff")
    assert await rows("write_file", path="n.bin", content="text") is None
    large = "x" * (MOST_COMPARED + 1)
    assert await rows("write_file", path="large.txt", content=large) is None
    assert await rows("edit_file", path="large.txt", old_text=large, new_text="") is None


async def test_a_near_miss_shows_the_closest_lines(box: Sandbox) -> None:
    assert await call("edit_file", box, path="a.py", old_text="def g(x):\n  return x+1\n", new_text="") == (
        "✗ cannot edit `a.py`: the text to replace does not occur; nothing was changed. These lines come closest:\n"
        "     1\tdef f(x):\n     2\t    return x + 1\n"
        "Copy the text exactly as it is there, without the line numbers."
    )
    for text in ("zebra", "def zebra()"):
        assert await call("edit_file", box, path="a.py", old_text=text, new_text="") == (
            "✗ cannot edit `a.py`: the text to replace does not occur; nothing was changed. "
            "Nothing in it looks like it; read the file first."
        )
    assert await call("edit_file", box, path="dos.txt", old_text="one\ntwo", new_text="") == (
        "✗ cannot edit `dos.txt`: the text to replace does not occur; nothing was changed. "
        "The lines of the file end in `\\r\\n`: write these ends in `old_text` and `new_text`."
    )
    assert await call("edit_file", box, path="a.py", old_text="x", new_text="x") == (
        "✗ `old_text` and `new_text` are the same, so nothing in `a.py` would change"
    )
    assert {path: (await box.read(path)).data for path in FILES} == FILES


async def test_the_closest_lines_are_looked_for_in_the_beginning_of_a_large_file(box: Sandbox) -> None:
    begun, rest = b"def f(one, two):\n", b"x" * (MAX_COMPARED + SEARCHED_BYTES) + b"\n"
    for content, is_found in ((begun + rest, True), (rest + begun, False)):
        await box.write("large.py", content)
        answer = await call("edit_file", box, path="large.py", old_text="def f(one,  two):", new_text="")
        assert ("def f(one, two):" in answer) is is_found
        assert ("Nothing in it looks like it" in answer) is not is_found


async def test_folders_are_listed_without_what_git_ignores(box: Sandbox) -> None:
    listed = ".gitignore  7 bytes\na.py  56 bytes\nblob.bin  2 bytes\ndocs/\ndos.txt  10 bytes\nempty.txt  0 bytes\n"
    assert await call("list_dir", box) == f"{listed}long.txt  5004 bytes"
    assert "build/\n" in await call("list_dir", box, include_ignored=True)
    assert await call("list_dir", box, path="docs") == "b.md  15 bytes"
    assert await call("list_dir", box, limit=1) == (
        ".gitignore  7 bytes\n[there are more; use a narrower pattern, a folder further down, or a higher limit]"
    )
    assert (await call("list_dir", box, path="none")).startswith("✗ cannot list `none`: ")


async def test_files_are_found_by_name(box: Sandbox) -> None:
    assert await call("glob", box, pattern="*.{md,py}") == "a.py\ndocs/b.md"
    assert await call("glob", box, pattern="*.md", path="docs") == "docs/b.md"
    assert await call("glob", box, pattern="out.txt") == (
        "no file below `.` matches 'out.txt'; what `.gitignore` names is left out unless `include_ignored` is set"
    )
    assert await call("glob", box, pattern="out.txt", include_ignored=True) == "build/out.txt"


@pytest.mark.long
async def test_lines_are_found_by_expression(box: Sandbox) -> None:
    assert await call("grep", box, pattern="tea") == "docs/b.md:2:more tea"
    assert await call("grep", box, pattern="TEA$", ignore_case=True, include_ignored=True) == (
        "build/out.txt:1:tea\ndocs/b.md:1:# Tea\ndocs/b.md:2:more tea"
    )
    assert await call("grep", box, pattern="x + 1", literal=True, glob="*.py", context=1) == (
        "a.py-1-def f(x):\na.py:2:    return x + 1\na.py-3-\n--\na.py-5-def g(x):\na.py:6:    return x + 1"
    )
    assert await call("grep", box, pattern="return", limit=1) == (
        "a.py:2:    return x + 1\n[stopped at 1 match; use a narrower pattern, path or glob]"
    )
    assert await call("grep", box, pattern="nothing", path="docs") == (
        "nothing matches 'nothing' in `docs` (1 file searched); what `.gitignore` names is left out unless "
        "`include_ignored` is set"
    )
    assert (await call("grep", box, pattern="(")).startswith("✗ cannot read the pattern '(': ")

"""`agentrail knowledge`: documents are added, searched, listed and removed, whatever their files are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrail.cli.documents.add_documents import main as add
from agentrail.cli.documents.list_documents import main as list_documents
from agentrail.cli.documents.rebuild_store import main as rebuild
from agentrail.cli.documents.remove_documents import main as remove
from agentrail.cli.documents.search_documents import main as search
from agentrail.cli.output.bad_input import BadInputError


def test_a_folder_is_added_searched_listed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, store = tmp_path / "docs", tmp_path / "k.sqlite"
    (folder / ".git").mkdir(parents=True)
    (folder / "leave.md").write_text("# Leave\n\n30 days \x1b[2J\u202e of leave.\n", encoding="utf-8")
    (folder / "evil\x1b[2J.md").write_text("evil", encoding="utf-8")
    (folder / ".git" / "hidden.md").write_text("hidden", encoding="utf-8")
    (folder / "link.md").symlink_to("/etc/hostname")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    assert add([Path("docs")], store, None) == 1
    out, err = capsys.readouterr()
    assert "1 added (1 passage), 0 unchanged, 2 left out; 1 document in the store" in out
    assert "`convert`" in err
    assert "\x1b" not in out + err
    assert add([folder / "leave.md"], store, None) == 0
    assert "0 added (0 passages), 1 unchanged" in capsys.readouterr().out
    assert search(("days", "leave"), store, None, 5, as_json=False) == 0
    text = capsys.readouterr().out
    assert text.startswith("[[docs/leave.md#0]]  characters 0 to 33  Leave\n")
    assert search(("leave",), store, None, 5, as_json=True) == 0
    lines = capsys.readouterr().out
    assert json.loads(lines)["citation"] == "docs/leave.md#0"
    assert not {"\x1b", "\u202e"} & {*text, *lines}
    assert search(("zebra",), store, None, 5, as_json=False) == 1
    assert list_documents(store, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "docs/leave.md"
    assert rebuild(store, None) == 0
    assert capsys.readouterr().out == "1 document made anew\n"
    assert remove(("docs/leave.md", "docs/none.md"), store) == 1
    out, err = capsys.readouterr()
    assert out == "1 removed\n"
    assert f"{store} has no `docs/none.md`; `agentrail knowledge list --store {store}` shows" in err
    assert list_documents(store, as_json=False) == 0
    assert capsys.readouterr().out == "document  passages  characters\n"
    with pytest.raises(BadInputError, match="there is no store"):
        search(("x",), tmp_path / "no", None, 5, as_json=False)
    with pytest.raises(BadInputError, match="there is no file"):
        add([tmp_path / "no"], store, None)
    assert not (tmp_path / "no").exists()

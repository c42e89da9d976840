"""What the numbers of the stored forms stand for: the tables and checksums of a version, the fields of a format.

`python -m tests.adapters.journals.numbered` adds the number that is newest, and to the newest format the fields and
members of unions that are new in it. It changes nothing else: what differs needs a new number, and its upcaster.
(Until the first release, delete the file and run this again.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias, cast

from agentrail.adapters.journals.checksums import checksum_of_snapshot
from agentrail.adapters.journals.packing import checksum_of, pack
from agentrail.adapters.journals.sql.sql_tables import VERSION
from agentrail.adapters.journals.sql.sqlite_tables import PAGE_SIZE, TABLES
from agentrail.adapters.journals.sql.stored_rows import ChainedColumns
from agentrail.adapters.journals.text_dedup import share_texts
from agentrail.codec.versions import FORMAT
from tests.codec.sampling import stored_classes
from tests.codec.shapes import MISSING, Choice, Chosen, Instance, Items, Leaf, Row, Shape, Table, fields_of, shape_of
from tests.kit import prompted

FILE: Final = Path(__file__).parent / "samples" / "numbered.json"

Form: TypeAlias = dict[str, dict[str, list[str]]]
"""By class and field, what may stand in the field: each with its path from there."""

LONG: Final = "a text that is long enough to be written once"
REQUIRED: Final = "required"


def tables() -> dict[str, object]:
    """Return what version `VERSION` stands for: statements, and checksums of rows that are always the same."""
    record = ChainedColumns("s", 2, 1, 3, "c1", 5, "name", b"check", b"{}", None)
    return {
        "tables": [" ".join(statement.split()) for statement in TABLES],
        "page size": PAGE_SIZE,
        "record": checksum_of(b"before", record.covered_columns, record.body).hex(),
        "snapshot": checksum_of_snapshot(b"record", ("s", 2, 5, "name"), b"{}").hex(),
    }


def spelling() -> list[str]:
    """Return bodies that show how what is written twice, or is large, is spelled in format `FORMAT`."""
    bodies = (pack(prompted("s", 1, text)).body for text in (LONG, "$= begins as a mark", "x" * 16_384))
    return [*(body.decode() for body in bodies), share_texts(f'["{LONG}","{LONG}"]'.encode()).decode()]


def form() -> Form:
    """Return what format `FORMAT` stands for: the fields of each stored class, and what may stand in them."""
    form: Form = {}
    for cls in stored_classes().values():
        fields = form.setdefault(_name(cls), {})
        for field in fields_of(cls):
            default = REQUIRED if field.default is MISSING else f"else {field.default!r}"
            fields[field.name] = [default, *sorted(set(_allowed(shape_of(field.hint), "")))]
    return form


def _name(cls: type[object]) -> str:
    tag = getattr(cls, "__struct_config__").tag if hasattr(cls, "__struct_config__") else None  # noqa: B009
    return str(tag or cls.__name__)


def _allowed(shape: Shape, path: str) -> Iterator[str]:
    match shape:
        case Leaf():
            yield f"{path}{shape.value}"
        case Chosen(options=options):
            yield from (f"{path}{written!r}" for written, _ in options)
        case Items(container=container, item=item):
            yield from _allowed(shape_of(item), f"{path}{container.__name__} of ")
        case Row(items=items):
            for index, item in enumerate(items):
                yield from _allowed(shape_of(item), f"{path}item {index} of {len(items)}: ")
        case Table(item=item):
            yield from _allowed(shape_of(item), f"{path}object of ")
        case Instance(cls=cls):
            yield f"{path}{_name(cls)}"
        case Choice(shapes=shapes, optional=optional):
            if optional:
                yield f"{path}{Leaf.NOTHING.value}"
            for inner in shapes:
                yield from _allowed(inner, path)


def broken(old: Form, new: Form) -> list[str]:
    """Return what records of the form *old* may say that readers of *new* misread, or do not have the means to read.

    New classes, new fields with a default, and new members of unions break nothing.
    """
    problems: list[str] = []
    for name, fields in old.items():
        now = new.get(name)
        if now is None:
            problems.append(f"{name} is gone")
            continue
        for field, (default, *allowed) in fields.items():
            if field not in now:
                problems.append(f"{name}.{field} is gone")
            elif now[field][0] != default:
                problems.append(f"{name}.{field} is {now[field][0]}, and was {default}")
            else:
                problems += [f"{name}.{field} was {one}" for one in allowed if one not in now[field]]
        problems += [f"{name}.{field} is new" for field in now.keys() - fields.keys() if now[field][0] == REQUIRED]
    return problems


def known() -> dict[str, dict[str, object]]:
    """Return what is noted: `tables` by version, `spelling` and `form` by format."""
    return cast("dict[str, dict[str, object]]", json.loads(FILE.read_text(encoding="utf-8")))


def main() -> None:
    """Add what is new."""
    noted = known() if FILE.exists() else {"tables": {}, "spelling": {}, "form": {}}
    noted["tables"].setdefault(str(VERSION), tables())
    noted["spelling"].setdefault(str(FORMAT), spelling())
    older = cast("Form", noted["form"].get(str(FORMAT), {}))
    if not broken(older, form()):
        noted["form"][str(FORMAT)] = form()
    FILE.write_text(json.dumps(noted, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

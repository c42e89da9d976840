"""The modules of one package, folder by folder, each with the first sentence of its docstring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docs.printing.markdown import code, joined, section, table
from docs.printing.source_text import Source


def by_folder(source: Source, package: str, order: Sequence[str]) -> list[str]:
    """Return a table of modules for *package* and for each folder in it, those higher up in *order* first."""
    folders = [name for name in source.modules(package) if source.is_package(name)]
    rank = {f"{package}.{name}": index for index, name in enumerate(order)}

    def position(folder: str) -> tuple[int, str]:
        return next((rank[name] for name in rank if f"{folder}.".startswith(f"{name}.")), -1), folder

    return joined(_folder(source, package, folder) for folder in sorted(folders, key=position))


def _folder(source: Source, package: str, folder: str) -> list[str]:
    title = code(folder.removeprefix(f"{package.rpartition('.')[0]}.").replace(".", "/") + "/")
    return section(title, [source.about_module(folder)], table(("module", "what it is"), _rows(source, folder)))


def _rows(source: Source, folder: str) -> Iterator[tuple[str, str]]:
    for module in source.modules(folder):
        name = module.removeprefix(f"{folder}.")
        if "." not in name and not source.is_package(module):
            yield code(name), source.about_module(module).split("\n\n")[0]

"""`merge_metrics`: the figures of several hosts as one Prometheus text, in which the label `host` is whose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.host.cluster.merged_views import Missing

HELP: Final = "# HELP "
COMMENT: Final = "#"
UP: Final = """\
# HELP agentrail_host_up Whether a host of the cluster has told its figures in time.
# TYPE agentrail_host_up gauge
"""


def merge_metrics(texts: Mapping[str, str], missing: Missing) -> str:
    """Return the figures of all hosts: what is of one metric stays together, as the format demands."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for host, text in texts.items():
        name = ""
        for line in text.splitlines():
            if line.startswith(COMMENT):
                if line.startswith(HELP):
                    name = line.removeprefix(HELP).partition(" ")[0]
                if line not in heads.setdefault(name, []):
                    heads[name].append(line)
            else:
                samples.setdefault(name, []).append(_with_host(line, host))
    up = "".join([f'agentrail_host_up{{host="{host}"}} {int(host in texts)}\n' for host in sorted({*texts, *missing})])
    lines = [line for name, head in heads.items() for line in (*head, *samples.get(name, ()))]
    return "".join([f"{line}\n" for line in lines]) + UP + up


def _with_host(line: str, host: str) -> str:
    """Return a sample with the label; an address has no character that the format escapes."""
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f'{name}{{host="{host}",{rest}'
    name, _, figure = line.partition(" ")
    return f'{name}{{host="{host}"}} {figure}'

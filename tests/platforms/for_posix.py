"""The modules that need a system such as Linux or macOS."""

FOR_POSIX = frozenset(
    {
        "agentrail.adapters.launcher",
        "agentrail.adapters.sandboxes.own_network",
        "agentrail.cli.talk.live.prompt_box",
        "agentrail.cli.talk.live.typed_keys",
        "agentrail.cli.output.terminal_modes",
        "agentrail.cli.host.unix_endpoint",
        "agentrail.host.http11.unix_listener",
    }
)
"""Modules that are never imported on Windows."""

NOT_RUN = frozenset(
    {
        "agentrail.adapters.mcp.pipes",
        "agentrail.adapters.processes",
        "agentrail.adapters.sandboxes.confined_open",
        "agentrail.adapters.sandboxes.files",
        "agentrail.cli.folder.program_copy",
        "agentrail.cli.host.workers.worker_link",
    }
)
"""Modules that are imported on Windows, and refuse there what they are for."""

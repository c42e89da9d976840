"""The modules that need a system such as Linux or macOS."""

FOR_POSIX = frozenset(
    {
        "agentrail.adapters.launcher",
        "agentrail.adapters.sandboxes.own_network",
        "agentrail.cli.talk.live.external_editor",
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
        "agentrail.adapters.sandboxes.containers.container_start",
        "agentrail.adapters.sandboxes.files",
        "agentrail.adapters.sandboxes.kept_files.files_restore",
        "agentrail.adapters.sandboxes.kept_files.tree_scan",
        "agentrail.cli.folder.program_copy",
        "agentrail.cli.host.workers.worker_link",
        "agentrail.cli.talk.bounded_output",
    }
)
"""Modules that are imported on Windows, and refuse there what they are for."""

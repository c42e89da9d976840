"""The Trio shell: tasks, time and mailboxes around the machine. It gets ports only."""

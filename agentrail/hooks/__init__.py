"""The plugin contract: hooks, actions, the matrix between them, and the pipeline that runs plugins."""

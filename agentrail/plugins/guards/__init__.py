"""Built-in plugins that judge what is called and said, and block, hold or change it."""

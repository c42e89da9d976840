"""Connects programs on asyncio, and programs without `await`, to Trio in a thread; the base of `aio` and `sync`."""

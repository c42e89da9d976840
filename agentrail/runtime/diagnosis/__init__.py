"""Finds and reports what goes wrong: steps that block the loop, actors that crash, plugins that break."""

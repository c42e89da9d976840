"""The laws of one plugin: what they say, how hooks are shown to it, and the simplest run that breaks one."""

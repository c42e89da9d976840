"""Faces that programs give a host: another protocol over HTTP, which makes the calls of the host for its clients."""

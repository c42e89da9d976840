"""Snapshots of the files below one folder: a bare repository in git's format, written and read without git."""

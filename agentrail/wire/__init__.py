"""The interface over HTTP as data: routes, calls, bodies, problem documents, frames of events. It does no I/O."""

"""What models of a host demand: `expect`."""


class ModelError(AssertionError):
    """A host did otherwise than its model says; its first argument is the rule."""


def expect(rule: str, found: object, wanted: object) -> None:
    """Raise `ModelError` if what was *found* is not what was *wanted*."""
    if found != wanted:
        raise ModelError(rule, found, wanted)

"""What models of a host demand: `expect`."""


class ModelError(AssertionError):
    """A host did otherwise than its model says; its first argument is the rule."""


def expect(rule: str, actual: object, expected: object) -> None:
    """Raise `ModelError` if what was *actual* is not what was *expected*."""
    if actual != expected:
        raise ModelError(rule, actual, expected)

"""A request to a model failed: one class for each thing that can be done about it."""

from __future__ import annotations

from agentrail.errors.branches import OutsideError


class ModelError(OutsideError):
    """A request to a model failed."""

    wording = "{0}"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after)

    @property
    def retry_after(self) -> float | None:
        """Seconds the provider asks us to wait."""
        wanted = self.args[1]
        return wanted if isinstance(wanted, int | float) and not isinstance(wanted, bool) else None


class TransientModelError(ModelError):
    """It may work the next time."""


class PermanentModelError(ModelError):
    """It will not work the next time either."""


class ContextTooLong(ModelError):
    """The conversation is longer than the model can read."""


# It will not work the next time either


class KeyMissing(PermanentModelError):
    """There is no key for the provider."""

    wording = "there is no key for this provider: {0} is not set; set it, or name another one by the option `api_key`"


class KeyRefused(PermanentModelError):
    """The provider does not know the key."""

    wording = "the provider refuses the key: {0}; check the variable that it is read from"


class KeyWanted(PermanentModelError):
    """The server wants a key, and none was sent."""

    wording = (
        "the server wants a key, and none was sent: {0}; name one by the option `api_key`, "
        "because the customary key of a provider goes to its own address alone"
    )


class AccessDenied(PermanentModelError):
    """The key is known, but may not do this."""

    wording = "the provider does not let this key do it: {0}"


class QuotaSpent(PermanentModelError):
    """There is no money or quota left."""

    wording = "the provider wants to be paid: {0}"


class RequestRefused(PermanentModelError):
    """The provider does not take the request as it is."""

    wording = "the provider does not take this request: {0}"


class ModelMissing(PermanentModelError):
    """The provider has no such model, or no such address."""

    wording = "the provider does not have this model or address: {0}; check the name of the model and `base_url`"


class ServerMissing(PermanentModelError):
    """Nothing listens at the address of the provider."""

    wording = (
        "the connection to the provider is refused: {0}; start the server, or correct `base_url` or the proxy that the "
        "environment names"
    )


class ProxyRefused(PermanentModelError):
    """The proxy between us and the provider does not let the request through."""

    wording = (
        "the proxy that the environment names does not let the request through: {0}; correct its address, name and "
        "password in `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`, as in `http://name:password@host:3128`, or keep the "
        "provider from it by `NO_PROXY`"
    )


class CertificateRefused(PermanentModelError):
    """The certificate of the provider, or of a proxy, is not valid for us."""

    wording = (
        "the certificate of the server cannot be trusted: {0}; name the authority that has signed it by "
        "`SSL_CERT_FILE` or `SSL_CERT_DIR`, or correct `base_url`"
    )


class WrongEndpoint(PermanentModelError):
    """What answers at the address is not the API that was asked for."""

    wording = "this is not the API of the provider: {0}; check `base_url`"


class EncodingRefused(PermanentModelError):
    """The answer is packed in a way that was not asked for and that we cannot read."""

    wording = (
        "the provider's answer cannot be read: {0}; have the server, or the proxy in between, send it as it is, or by "
        "`gzip` or `deflate`, or correct `base_url`"
    )


class BadResponse(PermanentModelError):
    """What the model answers, or counts, is not what the port allows."""

    wording = "the model's answer cannot be taken: {0}; the fault is in the code of this `Model`"


class BadModelOptions(PermanentModelError):
    """The options for the provider cannot be used."""

    wording = "cannot use these model options: {0}"


# It may work the next time


class RateLimited(TransientModelError):
    """Too many requests, or too many tokens, in a short time."""

    wording = "the provider's limit is reached: {0}"


class Overloaded(TransientModelError):
    """The provider has no capacity now."""

    wording = "the provider is overloaded: {0}"


class ProviderFailed(TransientModelError):
    """The provider reports a fault of its own."""

    wording = "the provider failed: {0}"


class NoFirstByte(TransientModelError):
    """The answer did not begin in time."""

    wording = "the provider's answer did not begin: {0}"


class NoNextByte(TransientModelError):
    """The answer began and then did not go on."""

    wording = "the provider's answer did not go on: {0}"


class ConnectionFailed(TransientModelError):
    """The provider could not be reached, or the connection broke."""

    wording = "the connection to the provider failed: {0}"


class StreamGarbled(TransientModelError):
    """The stream holds what is not of its format."""

    wording = "the provider's stream cannot be read: {0}"


class StreamEndedEarly(TransientModelError):
    """The stream ended before the answer did."""

    wording = "the provider's stream ended early: {0}"

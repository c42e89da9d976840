"""Errors of requests to models: one class for each cause that needs another reaction."""

from __future__ import annotations

from agentrail.errors.agentrail_error import OutsideError, UsageError, error


@error
class ModelError(OutsideError):
    """A request to a model failed."""

    wording = "{message}"

    message: str
    """What went wrong: all of the text, or the part of it that the class does not say."""
    retry_after: float | None = None
    """Seconds to wait before the next attempt, as the provider asks; `None` if it does not."""


class TransientModelError(ModelError):
    """A request failed for a reason that may pass; the same request is tried again."""


class PermanentModelError(ModelError):
    """A request failed for a reason that will not pass; the same request is not tried again."""


class ContextTooLong(ModelError):
    """The conversation is longer than the model can read."""


# Errors that are not tried again


class KeyMissing(PermanentModelError):
    """No API key for the provider is set."""

    wording = (
        "there is no key for this provider: {message} is not set; set it, or name another one by the option `api_key`"
    )


class CredentialsMissing(KeyMissing):
    """This machine has no credentials for the cloud, or they have ended and cannot be renewed."""

    wording = "there are no credentials for this provider: {message}"


class KeyRefused(PermanentModelError):
    """The provider refuses the API key as unknown or invalid."""

    wording = "the provider refuses the key: {message}; check the variable that it is read from"


class KeyWanted(PermanentModelError):
    """The server demands an API key, and none was sent."""

    wording = (
        "the server wants a key, and none was sent: {message}; name one by the option `api_key`, "
        "because the customary key of a provider goes to its own address alone"
    )


class AccessDenied(PermanentModelError):
    """The provider knows the API key, but does not allow the request with it."""

    wording = "the provider does not let this key do it: {message}"


class QuotaSpent(PermanentModelError):
    """The account at the provider has no money or quota left."""

    wording = "the provider wants to be paid: {message}"


class RequestRefused(PermanentModelError):
    """The provider refuses the request as invalid."""

    wording = "the provider does not take this request: {message}"


class ModelMissing(PermanentModelError):
    """There is no model of this name, or nothing at this URL."""

    wording = "there is no such model or address: {message}; check the name of the model and `base_url`"


class ServerMissing(PermanentModelError):
    """No server listens at the URL of the provider: the connection was refused."""

    wording = (
        "the connection to the provider is refused: {message}; start the server, or correct `base_url` or the proxy "
        "that the environment names"
    )


class ProxyRefused(PermanentModelError):
    """The HTTP proxy on the way to the provider refuses the request."""

    wording = (
        "the proxy that the environment names does not let the request through: {message}; correct its address, name "
        "and password in `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`, as in `http://name:password@host:3128`, or keep "
        "the provider from it by `NO_PROXY`"
    )


class CertificateRefused(PermanentModelError):
    """The TLS certificate of the provider, or of a proxy, cannot be verified."""

    wording = (
        "the certificate of the server cannot be trusted: {message}; name the authority that has signed it by "
        "`SSL_CERT_FILE` or `SSL_CERT_DIR`, or correct `base_url`"
    )


class WrongEndpoint(PermanentModelError):
    """The server at the URL answers, but not with the API of the provider."""

    wording = "this is not the API of the provider: {message}; check `base_url`"


class EncodingRefused(PermanentModelError):
    """The answer is compressed in a way that was not asked for and cannot be unpacked."""

    wording = (
        "the provider's answer cannot be read: {message}; have the server, or the proxy in between, send it as it is, "
        "or by `gzip` or `deflate`, or correct `base_url`"
    )


class BadResponse(PermanentModelError):
    """A `Model` returned a response or a usage that the protocol does not allow."""

    wording = "the model's answer cannot be taken: {message}; the fault is in the code of this `Model`"


class ResponseTooLong(PermanentModelError):
    """A model's response has more characters, calls or items than a session keeps of one."""

    wording = (
        "the model's response is longer than a session takes: {message}; have the model say less at once, write long "
        "texts to files in parts, or lower the option `max_tokens`"
    )


class BadModelOptions(PermanentModelError):
    """The options of a model are invalid, or not possible together."""

    wording = "cannot use these model options: {message}"


class LimitReached(PermanentModelError):
    """A limit that sessions share leaves too little for the request, so it was not sent; the turn is aborted."""

    wording = "{message}; the request was not sent"


# Errors that are tried again


class RateLimited(TransientModelError):
    """The provider's rate limit was reached: too many requests or tokens in a short time."""

    wording = "the provider's limit is reached: {message}"


class Overloaded(TransientModelError):
    """The provider has no capacity now."""

    wording = "the provider is overloaded: {message}"


class ProviderFailed(TransientModelError):
    """The provider reports an internal error."""

    wording = "the provider failed: {message}"


class NoFirstByte(TransientModelError):
    """The answer did not begin in time."""

    wording = "the provider's answer did not begin: {message}"


class NoNextByte(TransientModelError):
    """The answer began, and then nothing more came in time."""

    wording = "the provider's answer did not go on: {message}"


class ConnectionFailed(TransientModelError):
    """The provider could not be reached, or the connection broke."""

    wording = "the connection to the provider failed: {message}"


class ProviderNotReached(ConnectionFailed):
    """No connection to the provider, or to the proxy before it, could be made: no network, no DNS, or no route."""

    wording = (
        "no connection to the provider can be made: {message}; check the network and its DNS, `base_url`, and the "
        "proxy that the environment names, if there is one"
    )


class StreamGarbled(TransientModelError):
    """The stream contains data that does not follow its format."""

    wording = "the provider's stream cannot be read: {message}"


class StreamEndedEarly(TransientModelError):
    """The stream ended before the answer was complete."""

    wording = "the provider's stream ended early: {message}"


@error
class PartRefused(UsageError):
    """A prompt has a file or an image that the session's model does not take."""

    wording = (
        "cannot send {part} to `{model}`: {why}; give its text, another form of it, or switch to a model that takes it"
    )

    part: str
    """The file or image, in words."""
    model: str
    """Name of the model."""
    why: str
    """Why the model does not take it."""

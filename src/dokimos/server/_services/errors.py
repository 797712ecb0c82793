"""What a service refuses, in terms of the domain; `_api.http.error_responses` says which status each has."""

from __future__ import annotations


class ServiceError(Exception):
    """A request that cannot be carried out; the message is for the caller."""


class NotFoundError(ServiceError):
    """What the request names does not exist, or is not visible to the caller."""


class ConflictError(ServiceError):
    """The state of what the request names forbids it."""


class OutdatedError(ServiceError):
    """A change was made for another version of what it changes than the one that is there."""


class NotLatestError(ConflictError):
    """Another version of a dataset has become the latest one."""


class InvalidRequestError(ServiceError):
    """A value that the request holds cannot be used.

    The message begins with the path of the value, such as `items[3].evalResults[0].score`.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self._problem = message

    def within(self, path: str) -> InvalidRequestError:
        """Return the same error of a value whose field is inside `path`."""
        return InvalidRequestError(self._problem, field=f"{path}.{self.field}" if self.field else path)


class ForbiddenError(ServiceError):
    """The caller is known and may not do this."""


class ForeignOriginError(ForbiddenError):
    """A page of another site had a browser send the request."""


class UnauthorizedError(ServiceError):
    """The caller must say who it is."""


class BodyTooLargeError(ServiceError):
    """A request body over its limit."""


class SlowBodyError(ServiceError):
    """A request body that stopped arriving."""


class UnsupportedMediaError(ServiceError):
    """A body in a form that is not read."""


class RoleError(ForbiddenError):
    """The caller's role is too low."""


class TooManyFailuresError(ServiceError):
    """Too many wrong keys came from the caller's address."""

    def __init__(self, seconds: int) -> None:
        super().__init__(
            f"Too many wrong keys came from your address; try again in {seconds} seconds. Keys that the "
            "server has made are accepted meanwhile."
        )
        self.seconds = seconds


class RateLimitError(ServiceError):
    """A caller has made as many requests as it may at the moment."""

    def __init__(self, per_minute: int, seconds: int) -> None:
        super().__init__(
            f"This key or account may make {per_minute} requests per minute; try again in {seconds} seconds."
        )
        self.seconds = seconds


class UnavailableError(ServiceError):
    """It cannot be done at the moment; the caller should try again, after some seconds."""

    def __init__(self, message: str, *, retry_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds

"""Every failure a caller can see, and the one place that maps it to a code.

Two families. A :class:`RequestError` is a failure of the HTTP request itself (4xx/5xx). A :class:`ToolError`
is a refusal or failure of a tool, answered with HTTP 200 so that the model can read it and act on it.
Capabilities subclass :class:`ToolError` beside their own logic, give it the facts and word them there.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Advice = Literal["fix_arguments", "retry_later", "do_something_else"]

# The same call, unchanged, may succeed a little later. Everything else needs another call.
RETRYABLE_CODES = frozenset({"workspace_busy", "throttled", "SANDBOX_TIMEOUT", "SANDBOX_UNAVAILABLE", "internal"})
# Not now, but the same call may be sent again: after the cooldown, or when a person has decided.
WAITING_CODES = frozenset({"circuit_open", "approval_required"})
# No change to the arguments makes these work: the model has to take another way.
DEAD_END_CODES = frozenset(
    {
        "binary",
        "unsupported_type",
        "unreadable_image",
        "delete_guarded",
        "exists_long",
        "not_allowed",
        "denied",
        "expired",
    }
)


# How AWS says that it was asked too much at once, by service and by decade. S3 says SlowDown.
THROTTLING_CODES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
THROTTLED_SECONDS = 2


class WorkbenchError(Exception):
    """A failure with a code of the HTTP contract, words for the reader and facts for programs."""

    code: str = "internal"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.details: dict[str, Any] = details

    @property
    def retryable(self) -> bool:
        """True when the same request, unchanged, may succeed later."""
        return self.code in RETRYABLE_CODES

    def as_dict(self) -> dict[str, Any]:
        """``{"code", "message", "retryable", "details"}`` as both answer shapes carry it."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "details": self.details,
        }


class RequestError(WorkbenchError):
    """The request itself failed: answered with ``status`` and ``{"error": …}``."""

    status: ClassVar[int] = 500


class Unauthorized(RequestError):
    code, status = "unauthorized", 401


class Forbidden(RequestError):
    code, status = "forbidden", 403


class NotFound(RequestError):
    code, status = "not_found", 404


class Conflict(RequestError):
    code, status = "conflict", 409


class InvalidRequest(RequestError):
    code, status = "invalid_request", 400


class TooLarge(RequestError):
    code, status = "too_large", 413


class Throttled(RequestError):
    code, status = "throttled", 429


class Internal(RequestError):
    code, status = "internal", 500


class ToolError(WorkbenchError):
    """A tool refused or failed. Changes nothing; the message says what is wrong, what is there and what to do."""

    @property
    def advice(self) -> Advice:
        """Which of the two kinds of failure this is, or that waiting helps."""
        if self.retryable or self.code in WAITING_CODES:
            return "retry_later"
        return "do_something_else" if self.code in DEAD_END_CODES else "fix_arguments"

    def as_dict(self) -> dict[str, Any]:
        answer = super().as_dict()
        answer["details"] = {"advice": self.advice, **self.details}
        return answer


class WorkspaceBusy(ToolError):
    """Somebody else holds the right to write; ``retryAfterSeconds`` is in the details."""

    code = "workspace_busy"


class ToolInternal(ToolError):
    """Our fault, not the caller's; the log has the cause."""

    code = "internal"


class ToolThrottled(ToolError):
    """AWS, or others at the same records, left no room for this call; nothing was changed."""

    code = "throttled"

    def __init__(self) -> None:
        super().__init__(
            "Too much is going on at once. Nothing was changed. "
            f"Send the same call again in about {THROTTLED_SECONDS} seconds.",
            retryAfterSeconds=THROTTLED_SECONDS,
        )


def is_throttling(error: BaseException) -> bool:
    """True for a botocore ClientError by which AWS asks for fewer requests; its own retries are over then."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return False
    codes = {response.get("Error", {}).get("Code")}
    codes |= {reason.get("Code") for reason in response.get("CancellationReasons", ())}
    return not THROTTLING_CODES.isdisjoint(codes)

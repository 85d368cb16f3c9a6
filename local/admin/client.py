"""HTTP to one deployment: signed with the IAM credentials at hand, unsigned on loopback, failures in plain words.

Credentials come from where the AWS command line takes them. Requests go through botocore's own HTTP session, so that
proxies and certificates are those of the AWS tools, too.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from botocore import session as botocore_session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, NoCredentialsError, PartialCredentialsError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

SERVICE = "execute-api"
CONNECT_SECONDS, READ_SECONDS = 5, 70
# What is busy or throttled is asked again, as long as a person would wait.
PATIENCE_SECONDS = 60.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_REGION = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?\Z")


class AdminError(Exception):
    """What went wrong, in words for whoever typed the command. ``status`` is the HTTP status, if there was one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Deployment:
    """The API under one address. ``region`` is only needed where the address does not tell it (your own domain)."""

    def __init__(self, url: str, region: str | None = None) -> None:
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname or address.query or address.username:
            raise AdminError(f"{url!r} is no address of a deployment; it looks like https://….amazonaws.com.")
        self.local = address.hostname in _LOOPBACK
        if address.scheme == "http" and not self.local:
            raise AdminError(f"{url} is not encrypted. Use https for everything that is not on this machine.")
        self.url = url.rstrip("/")
        self._region = region
        self._session = botocore_session.get_session()

    @classmethod
    def chosen(cls, url: str | None, region: str | None = None) -> Deployment:
        """The deployment at ``url``, or at WORKBENCH_URL."""
        found = url or os.environ.get("WORKBENCH_URL")
        if not found:
            raise AdminError(
                "Say which deployment: --url, or the variable WORKBENCH_URL. `workbench serve` prints the address of a "
                "local one; in AWS it is the output of the -api stack whose name begins with `ToolsUrl`."
            )
        return cls(found, region)

    # ------------------------------------------------------------ asking

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a GET. ``path`` must be quoted already, see :func:`part`; a query of None is left out."""
        return self.call("GET", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON answer; raises AdminError for everything that is no success."""
        answer = self.send(method, path, body, query=query, headers=headers)
        return self.parsed(answer)

    def pages(self, path: str, name: str, **query: Any) -> Iterator[list[dict[str, Any]]]:
        """Each page of a list, as long as ``next`` says that more follow."""
        after: Any = None
        while True:
            answer = self.get(path, **query, after=after)
            yield answer[name]
            after = answer.get("next")
            if after is None:
                return

    def patiently(self, method: str, path: str) -> Any:
        """Like :meth:`call`, again while the answer says when to try again (409 and 429)."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.send(method, path)
            wait = answer.headers.get("retry-after", "")
            if answer.status not in (409, 429) or not wait.isdigit() or time.monotonic() + int(wait) > until:
                break
            time.sleep(int(wait))
        return self.parsed(answer)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, whatever its answer; raises AdminError when there is none."""
        with self.opened(method, path, body, query=query, headers=headers) as response:
            return whole(response)

    @contextmanager
    def opened(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> Iterator[Any]:
        """botocore's response of one request; with ``stream`` its ``raw`` is still to be read."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        asked = "&".join(f"{part(name)}={part(str(value))}" for name, value in given.items())
        sent = dict(headers or {})
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        request = AWSRequest(method, f"{self.url}{path}{'?' if asked else ''}{asked}", sent, data, stream_output=stream)
        if not self.local:
            self._sign(request)
        with opened(request, local=self.local) as response:
            yield response

    def failure(self, answer: Answer) -> AdminError:
        """What an answer of 400 and more means: Workbench's own refusal as it is worded, API Gateway's explained."""
        try:
            said = json.loads(answer.body)
        except ValueError:
            said = {}
        error = said.get("error") if isinstance(said, dict) else None
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return AdminError(error["message"], answer.status)
        message = str(said.get("message", "")) if isinstance(said, dict) else ""
        if "expired" in message.lower():
            text = "The AWS credentials have expired. Sign in again (such as `aws sso login`)."
        elif answer.status in (401, 403):
            text = (
                f"{self.url} refuses these AWS credentials ({message or answer.status}). They need execute-api:Invoke "
                "on this API, and the clock of this machine must be right."
            )
        elif answer.status == 404:
            text = f"There is no Workbench at {self.url}, or one that is older than this command."
        else:
            text = f"{self.url} answers HTTP {answer.status}{': ' if message else '.'}{message}"
        return AdminError(text, answer.status)

    def parsed(self, answer: Answer) -> Any:
        """The JSON of an answer; raises AdminError for everything that is no success."""
        if answer.status >= 400:
            raise self.failure(answer)
        try:
            return json.loads(answer.body)
        except ValueError:
            kind = answer.headers.get("content-type", "nothing")
            raise AdminError(f"{self.url} answers, but not as Workbench does (HTTP {answer.status}, {kind}).") from None

    def _sign(self, request: AWSRequest) -> None:
        host = urlsplit(self.url).hostname or ""
        match = _REGION.search(host)
        region = self._region or (match.group(1) if match else self._session.get_config_variable("region"))
        if not region:
            raise AdminError(f"Nothing says in which region {host} is. Add --region.")
        try:
            credentials = self._session.get_credentials()
            if credentials is None:
                raise NoCredentialsError
            SigV4Auth(credentials.get_frozen_credentials(), SERVICE, region).add_auth(request)
        except (NoCredentialsError, PartialCredentialsError):
            raise AdminError(
                "There are no AWS credentials to sign with. Sign in (such as `aws sso login`) and set AWS_PROFILE, or "
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            ) from None
        except BotoCoreError as error:
            raise AdminError(f"The AWS credentials cannot be used: {error} Sign in again.") from None


def part(text: str) -> str:
    """``text`` as one part of a path or query."""
    return quote(text, safe="-_.~")


@contextmanager
def opened(request: AWSRequest, *, local: bool) -> Iterator[Any]:
    """Send a request as it is and hand out the response; raises AdminError when there is none."""
    # What a shell sets for the outside would only be in the way on this machine.
    proxies = {} if local else get_environ_proxies(request.url)
    http = URLLib3Session(timeout=(CONNECT_SECONDS, READ_SECONDS), proxies=proxies)
    try:
        try:
            response = http.send(request.prepare())
        except BotoCoreError as error:
            address = "{0.scheme}://{0.netloc}".format(urlsplit(request.url))
            hint = "Is `workbench serve` running there?" if local else "Check the address and the network."
            raise AdminError(f"{address} does not answer ({_reason(error)}). {hint}") from None
        yield response
    finally:
        http.close()


def _reason(error: BotoCoreError) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).removesuffix(" Error").lower()


def whole(response: Any) -> Answer:
    """An answer that fits into memory; header names in lower case."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)

"""What departments pay for: the route that shows it, and the function that hears from S3 which bytes have gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import objects
from workbench import runtime as runtimes
from workbench.artifacts import access, billing, store
from workbench.artifacts.billing import Month
from workbench.errors import InvalidRequest
from workbench.http import Request, Response
from workbench.ids import is_part
from workbench.runtime import Runtime


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/usage?department=&month=``: the month's stored bytes, of everybody or of the asking person alone."""
    viewer = access.viewer_of(request.headers)
    department = request.query.get("department") or (viewer.department if viewer else None)
    if not department:
        raise InvalidRequest("Name a department (`?department=`).", field="department")
    now = runtime.clock.now()
    month = Month.parse(request.query["month"]) if "month" in request.query else Month.of(now)
    if month.start > now:
        raise InvalidRequest(f"The month {month.name} has not begun.", field="month")
    rows = billing.usage(runtime, department, month)
    if viewer is not None:
        rows = [row for row in rows if row["person"] == viewer.user]
    return Response({"usage": rows})


def handler(event: Mapping[str, Any], _context: Any) -> None:
    """The function ``artifact_removed``: S3's event that a file's bytes are gone for good. Each is counted once."""
    removed(runtimes.current(), event["detail"])


def removed(runtime: Runtime, detail: Mapping[str, Any]) -> None:
    """Take a version off the bill once its bytes are gone; a delete marker, which starts its grace, leaves it there.

    The news says that something under the key went for good, not what: also when a restore or a rule removes a delete
    marker, or what a crashed export left under a number that was given again. So the bucket is asked.
    """
    if detail.get("deletion-type") != "Permanently Deleted":
        return
    key: str = detail["object"]["key"]
    parts = [*key.split("/"), "", ""]
    folder, artifact, number = parts[:3]
    if folder != "artifacts" or not is_part(artifact) or not number.isdigit():
        return
    version = runtime.table.get(store.version_key(artifact, int(number)))
    # None for bytes of an export that was never committed: nobody pays for those.
    if version is None or "unbilledAt" in version:
        return
    stored, _markers = objects.versions(runtime.clients, runtime.settings.artifact_bucket, key)
    if all(entry["Key"] != key for entry in stored):
        billing.take_off(runtime, version)

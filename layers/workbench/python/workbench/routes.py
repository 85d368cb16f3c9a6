"""Every route of the API and the function that serves it. CDK and the local gateway are built from this table.

Tool routes are not listed here: they follow from the catalogue, one function per tool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from workbench import runtime
from workbench.clients import counting
from workbench.errors import NotFound
from workbench.http import Event, Request, Response, respond
from workbench.logs import acting
from workbench.runtime import Runtime

TOOL_ROUTE = "POST /v1/turns/{turn}/tools/{tool}"
DEFAULT_ROUTE = "$default"
SANDBOX_ROUTE = "POST /v1/sandbox"
FALLBACK = "fallback"
# What the answer cost, in AWS requests: budgets are visible.
REQUESTS_HEADER = "x-workbench-requests"


@dataclass(frozen=True)
class Route:
    """``key`` as API Gateway writes it, the function's folder, and ``module:callable`` behind it."""

    key: str
    function: str
    target: str


ROUTES: tuple[Route, ...] = (
    Route("POST /v1/conversations", "conversations", "workbench.conversations.api:create"),
    Route("GET /v1/conversations", "conversations", "workbench.conversations.listing:list_conversations"),
    Route("GET /v1/conversations/{conversation}", "conversations", "workbench.conversations.api:show"),
    Route("DELETE /v1/conversations/{conversation}", "conversations", "workbench.conversations.api:delete"),
    Route("POST /v1/conversations/{conversation}/restore", "conversations", "workbench.conversations.api:restore"),
    Route("POST /v1/conversations/{conversation}/turns", "turns", "workbench.conversations.turn_api:open_turn"),
    Route("POST /v1/turns/{turn}/finish", "turns", "workbench.conversations.turn_api:finish"),
    Route("GET /v1/turns/{turn}/trace", "turns", "workbench.conversations.turn_api:trace"),
    Route("GET /v1/turns/{turn}/receipt", "turns", "workbench.conversations.turn_api:receipt"),
    Route("GET /v1/conversations/{conversation}/files", "files", "workbench.workspace.api:list_files"),
    Route("GET /v1/conversations/{conversation}/file", "files", "workbench.workspace.api:get_file"),
    Route("PUT /v1/conversations/{conversation}/file", "files", "workbench.workspace.api:put_file"),
    Route("GET /v1/conversations/{conversation}/versions", "files", "workbench.workspace.api:list_versions"),
    Route(
        "GET /v1/conversations/{conversation}/versions/{a}/diff/{b}", "files", "workbench.workspace.api:diff_versions"
    ),
    Route(
        "POST /v1/conversations/{conversation}/versions/{n}/restore",
        "files",
        "workbench.workspace.api:restore_version",
    ),
    Route("GET /v1/results/{ref}", "results", "workbench.tools.results:get_result"),
    Route("POST /v1/results/{ref}/capture", "captures", "workbench.artifacts.capturing:capture"),
    Route("GET /v1/runs/{run}", "runs", "workbench.runs.api:show"),
    Route("GET /v1/catalogue", "catalogue", "workbench.tools.formats:get_catalogue"),
    Route("GET /v1/openapi.json", "catalogue", "workbench.tools.openapi:get_openapi"),
    Route("POST /v1/replay", "replay", "workbench.tools.replay_api:post_replay"),
    Route("GET /v1/approvals", "approvals", "workbench.tools.approvals:list_approvals"),
    Route("POST /v1/approvals/{approval}", "approvals", "workbench.tools.approvals:decide_approval"),
    Route("GET /v1/artifacts", "artifacts", "workbench.artifacts.listing:list_artifacts"),
    Route("GET /v1/artifacts/{artifact}", "artifacts", "workbench.artifacts.api:show"),
    Route("GET /v1/artifacts/{artifact}/versions/{v}/content", "artifacts", "workbench.artifacts.api:content"),
    Route("GET /v1/artifacts/{artifact}/versions/{v}/diff/{w}", "artifacts", "workbench.artifacts.api:diff"),
    Route("PUT /v1/artifacts/{artifact}/sharing", "artifacts", "workbench.artifacts.api:share"),
    Route("POST /v1/uploads", "uploads", "workbench.uploads:create"),
    Route("PUT /v1/skills/{name}", "skills", "workbench.skills.api:push"),
    Route("GET /v1/skills", "skills", "workbench.skills.api:list_skills"),
    Route("GET /v1/skills/{name}", "skills", "workbench.skills.api:show"),
    Route("DELETE /v1/skills/{name}", "skills", "workbench.skills.api:withdraw"),
    Route("POST /v1/skills/match", "skills", "workbench.skills.api:match"),
    Route("PUT /v1/prompts/{name}", "prompts", "workbench.prompts.api:publish"),
    Route("GET /v1/prompts", "prompts", "workbench.prompts.api:list_prompts"),
    Route("GET /v1/prompts/{name}", "prompts", "workbench.prompts.api:show"),
    Route("DELETE /v1/prompts/{name}", "prompts", "workbench.prompts.api:withdraw"),
    Route("POST /v1/prompts/{name}/render", "prompts", "workbench.prompts.api:render"),
    Route("POST /v1/documents", "documents", "workbench.knowledge.api:upload"),
    Route("GET /v1/documents", "documents", "workbench.knowledge.api:list_documents"),
    Route("GET /v1/documents/{document}", "documents", "workbench.knowledge.api:show"),
    Route("GET /v1/documents/{document}/passages", "documents", "workbench.knowledge.api:read_passages"),
    Route("DELETE /v1/documents/{document}", "documents", "workbench.knowledge.api:remove"),
    Route("GET /v1/collections", "documents", "workbench.knowledge.api:list_collections"),
    Route("GET /v1/collections/{collection}", "documents", "workbench.knowledge.api:show_collection"),
    Route("DELETE /v1/collections/{collection}", "documents", "workbench.knowledge.api:remove_collection"),
    Route("GET /v1/usage", "usage", "workbench.artifacts.billing_api:show"),
    Route("GET /v1/people/{user}", "people", "workbench.conversations.people_api:holdings"),
    Route("POST /v1/people/{user}/erase", "people", "workbench.conversations.people_api:erase"),
    Route("GET /v1/people/{user}/erase", "people", "workbench.conversations.people_api:show"),
    Route("POST /v1/reconciliations", "reconciliations", "workbench.reconciling.api:begin"),
    Route("GET /v1/reconciliations/{reconciliation}", "reconciliations", "workbench.reconciling.api:show"),
    Route(TOOL_ROUTE, FALLBACK, "workbench.tools.path:call_unknown_tool"),
)

Target = Callable[[Runtime, Request], Response]


def api_function(function: str) -> Callable[[Event, Any], dict[str, Any]]:
    """The Lambda handler that serves every route of ``function``."""
    targets = {route.key: route.target for route in ROUTES if route.function == function}
    loaded: dict[str, Target] = {}

    def answer(request: Request) -> Response:
        target = targets.get(request.route)
        if target is None:
            raise NotFound(f"There is no route {request.method} {request.path}.")
        if target not in loaded:
            module, _, name = target.partition(":")
            loaded[target] = getattr(import_module(module), name)
        with acting(request.headers.get("x-workbench-user")):
            return loaded[target](runtime.current(), request)

    def handler(event: Event, _context: Any) -> dict[str, Any]:
        with counting() as requests:
            response = respond(event, answer)
        response["headers"][REQUESTS_HEADER] = str(requests.total)
        return response

    return handler

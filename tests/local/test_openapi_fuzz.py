"""The API keeps to its own OpenAPI document: it is valid, complete, and no generated request finds a 500 or a breach.

Requests, valid and invalid ones, are drawn from the document by schemathesis. Paths name things that exist, so that
the rest of a request gets behind the 404s; where a path is all there is, its ids are made up as well.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.talk import Talk
from tests.local.uploaded import upload
from tests.skill_zips import skill_md, zipped
from workbench.routes import ROUTES, TOOL_ROUTE
from workbench.settings import Settings
from workbench.tools import catalogue
from workbench.tools.openapi import document
from workbench.tools.openapi_routes import ROUTES_DESCRIBED

DOCUMENT = document(Settings())
TOOL_PATH = TOOL_ROUTE.partition(" ")[2].partition("{tool}")[0]

# Who may call a tool without a token is tested in test_call_path.
# A method that a path does not have is a route that does not exist: 404, as API Gateway's default route answers.
NOT_CHECKED = {"ignored_auth", "unsupported_method", "allow_header_conformance", "missing_required_header"}
# Wrong arguments of a tool are an answer, not a refusal of the request; the tools' own tests look at them.
NOT_FOR_TOOLS = {"negative_data_rejection"}
# What a schema cannot say: which ids exist, which texts are paths, which months have begun, how long a result is,
# that a query or a header is needed.
MORE_THAN_A_SCHEMA = {
    "turns_open_turn",
    "files_get_file",
    "files_put_file",
    "results_get_result",
    "artifacts_list_artifacts",
    "usage_show",
    "skills_push",
    "prompts_render",
    "conversations_list_conversations",
    "uploads_create",
    "captures_capture",
    "documents_upload",
    "documents_list_collections",
}
# Any bytes may be the body, so that only the path can be wrong.
ANY_BODY = {"skills_push"}
# These start work that goes on behind the request.
SLOW = {"call_run_code", "people_erase", "conversations_delete", "conversations_restore"}
# Only these end what others ask about.
ENDING = {
    "documents_remove",
    "documents_remove_collection",
    "skills_withdraw",
    "prompts_withdraw",
    "people_erase",
    "conversations_delete",
    "turns_finish",
}
EXAMPLES, FEW_EXAMPLES = 6, 2


Operation = APIOperation[Any, Any, Any, Any]


# The rule for names, which no pattern can say: printable characters of any script, no blanks at the ends.
printable = st.characters(exclude_categories=("C", "Zl", "Zp", "Zs")) | st.just(" ")
schemathesis.openapi.format(
    "name", st.text(printable, min_size=1, max_size=128).filter(lambda text: text == text.strip())
)


def operations() -> list[Operation]:
    # The local system asks for no signature.
    unsigned = copy.deepcopy(DOCUMENT) | {"security": []}
    for methods in unsigned["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    loaded = schemathesis.openapi.from_dict(unsigned)
    return [found.ok() for found in loaded.get_all_operations()]


def checks(name: str) -> list[Any]:
    load_all_checks()
    left_out = NOT_CHECKED | (NOT_FOR_TOOLS if "call_" in name else set())
    left_out |= {"positive_data_acceptance"} if name in MORE_THAN_A_SCHEMA else set()
    return [check for known, check in CHECKS._items.items() if known not in left_out]


class PatientSession(requests.Session):
    """One that waits longer for an answer than schemathesis would: the machine may be busy."""

    def request(self, *arguments: Any, **named: Any) -> requests.Response:
        return super().request(*arguments, **(named | {"timeout": 60}))


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with PatientSession() as opened:
        yield opened


# ---------------------------------------------------------------- the document


def test_the_document_is_valid_openapi_3_1(api: Any) -> None:
    answer = api("GET", "/v1/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    served = answer.json
    assert served["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(served).iter_errors()] == []


def test_the_document_holds_every_route_and_tool_and_no_other() -> None:
    held = {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods}
    tools = {TOOL_ROUTE.replace("{tool}", name) for name in catalogue.names()}
    assert held == {route.key for route in ROUTES} | tools


def test_every_route_is_described() -> None:
    """A new route needs an entry in tools/openapi_routes.py: its title, its bodies and how it fails."""
    assert {route.key for route in ROUTES} == set(ROUTES_DESCRIBED)


def test_a_path_with_an_id_may_be_no_route() -> None:
    """With an encoded slash or question mark in it, the gateway sees another path."""
    without = [
        f"{method} {path}"
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if "{" in path and "404" not in operation["responses"]
    ]
    assert without == []


def test_the_arguments_of_a_tool_are_those_it_publishes() -> None:
    body = DOCUMENT["paths"][f"{TOOL_PATH}convert_units"]["post"]["requestBody"]["content"]["application/json"]
    arguments, text = body["schema"]["properties"]["arguments"]["anyOf"]
    assert arguments["required"] == ["value", "from", "to"] and arguments["additionalProperties"] is False
    assert text["type"] == "string"
    versions = DOCUMENT["paths"][f"{TOOL_PATH}export_artifact"]["post"]["requestBody"]["content"]["application/json"]
    titles = [one.get("title") for one in versions["schema"]["properties"]["arguments"]["anyOf"]]
    assert titles == ["export_artifact@1.0.0", "export_artifact@2.0.0", None]


# ---------------------------------------------------------------- the API against the document


class World:
    """A conversation with a file, an open turn, a result, an artifact and a parked call: something to ask about."""

    def __init__(self, api: Any) -> None:
        self.talk = Talk.open(api, f"fuzz-{secrets.token_hex(6)}")
        written = self.talk.ok("write_file", path="a.txt", content="one\ntwo\n")
        exported = self.talk.ok("export_artifact", name="a.md", content="# A\n")["structured"]
        parked = self.talk.call("write_file", path=".env", content="A=1")
        self.name = f"fuzz-{secrets.token_hex(6)}"
        api("PUT", f"/v1/skills/{self.name}", zipped({"SKILL.md": skill_md(self.name)}))
        api("PUT", f"/v1/prompts/{self.name}", {"template": "Hello", "version": "1.0.0"})
        document = upload(api, owner=self.name, collection=self.name)["id"]
        self.values = {
            "document": document,
            "collection": self.name,
            "name": self.name,
            "conversation": self.talk.conversation,
            "turn": self.talk.turn,
            "ref": written["ref"],
            "approval": parked["structured"]["approval"],
            "artifact": exported["artifact"],
            "v": "1",
            "a": "0",
            "b": "1",
            "n": "1",
        }


@pytest.fixture(scope="module")
def shared(system: LocalSystem) -> World:
    return World(Api(system.url))


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.label)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_no_request_finds_a_failure_of_ours_or_a_breach(
    system: LocalSystem,
    shared: World,
    session: requests.Session,
    operation: APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
) -> None:
    name = operation.definition.raw["operationId"]
    world, wanted = World(Api(system.url)) if name in ENDING else shared, checks(name)
    named = {parameter.name: world.values.get(parameter.name) for parameter in operation.path_parameters}
    wrong = operation.query or (operation.body and name not in ANY_BODY)
    fixed = all(named.values()) and (mode is GenerationMode.POSITIVE or wrong)
    if not (named or operation.query or operation.body) and mode is GenerationMode.NEGATIVE:
        # Nothing in such a request can be wrong.
        mode = GenerationMode.POSITIVE
    sent = 0

    @settings(
        max_examples=FEW_EXAMPLES if name in SLOW else EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode, path_parameters=named if fixed else None))
    def request(case: Case) -> None:
        nonlocal sent
        sent += 1
        if isinstance(case.body, dict) and "wait" in case.body:
            case.body["wait"] = 0
        response = case.call(base_url=system.url, session=session, headers={"X-Turn-Token": world.talk.token})
        case.validate_response(response, checks=wanted)

    request()
    assert sent

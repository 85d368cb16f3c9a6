"""Synthesises the templates and finds things in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import use_packaged_node

use_packaged_node()

from aws_cdk import App  # noqa: E402 - node has to be chosen before CDK is imported

from infra.settings import CONTEXT_KEY, DeploymentSettings, parse, read_context  # noqa: E402
from infra.stacks import add_workbench  # noqa: E402
from workbench.tools.catalogue import tools  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
# CDK's own switch: bundle the assets of no stack.
WITHOUT_BUNDLING: dict[str, Any] = {"aws:cdk:bundling-stacks": []}


@dataclass(frozen=True)
class Resource:
    """One resource of a template."""

    stack: str
    id: str
    type: str
    properties: dict[str, Any]
    whole: dict[str, Any]


class Deployment:
    """All templates of one synthesis, searched together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = sorted(folder.glob("*.template.json"))
        self.templates = {path.name.removesuffix(".template.json"): json.loads(path.read_text()) for path in self.files}

    def all(self) -> Iterator[Resource]:
        for stack, template in self.templates.items():
            for identifier, whole in template["Resources"].items():
                yield Resource(stack, identifier, whole["Type"], whole.get("Properties", {}), whole)

    def of(self, *types: str) -> list[Resource]:
        return [resource for resource in self.all() if resource.type in types]

    def one(self, kind: str) -> Resource:
        (found,) = self.of(kind)
        return found

    def function(self, name: str) -> Resource:
        (found,) = [f for f in self.of("AWS::Lambda::Function") if f.properties["FunctionName"] == f"workbench-{name}"]
        return found

    def statements(self, role_id: str, stack: str) -> list[dict[str, Any]]:
        """Every statement attached to a role, inline or as a policy of its own."""
        found: list[dict[str, Any]] = []
        for resource in self.of("AWS::IAM::Policy"):
            if resource.stack == stack and {"Ref": role_id} in resource.properties["Roles"]:
                found += resource.properties["PolicyDocument"]["Statement"]
        role = self.templates[stack]["Resources"][role_id]["Properties"]
        for policy in role.get("Policies", []):
            found += policy["PolicyDocument"]["Statement"]
        return found

    def resolved(self, value: Any) -> str:
        """A value as readable text, with what another stack exports followed to where it is made."""
        if isinstance(value, dict) and "Fn::ImportValue" in value:
            name = value["Fn::ImportValue"]
            exports = [o for t in self.templates.values() for o in t.get("Outputs", {}).values() if "Export" in o]
            (made,) = [output["Value"] for output in exports if output["Export"]["Name"] == name]
            return self.resolved(made)
        if isinstance(value, dict) and "Fn::Join" in value:
            separator, parts = value["Fn::Join"]
            return str(separator).join(self.resolved(part) for part in parts)
        return text(value)

    def statements_of(self, function: str) -> list[dict[str, Any]]:
        resource = self.function(function)
        role_id, attribute = resource.properties["Role"]["Fn::GetAtt"]
        assert attribute == "Arn"
        return self.statements(role_id, resource.stack)


def as_list(value: Any) -> list[Any]:
    """IAM writes one action or resource as a string and several as a list."""
    return value if isinstance(value, list) else [value]


def text(value: Any) -> str:
    """A CloudFormation value as readable text: references in angle brackets."""
    if isinstance(value, str):
        return value
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        return str(argument[0]).join(text(part) for part in argument[1])
    if function == "Fn::GetAtt":
        return f"<{'.'.join(argument)}>"
    if function == "Fn::Sub":
        return re.sub(r"\$\{([\w:]+)\}", r"<\1>", argument)
    return f"<{text(argument)}>"


def synthesise(folder: Path, **changes: Any) -> Deployment:
    """Synthesise cdk.json's settings with ``changes`` (in camelCase) into ``folder``, without bundling the assets."""
    context = read_context(ROOT / "cdk.json")
    settings: DeploymentSettings = parse({**context[CONTEXT_KEY], **changes})
    app = App(outdir=str(folder), context={**context, **WITHOUT_BUNDLING})
    add_workbench(app, settings, tools())
    app.synth()
    return Deployment(folder)

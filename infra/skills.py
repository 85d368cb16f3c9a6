"""The skills that a deployment brings along: a folder of them, each checked here, sent as an asset, kept by a function.

Nothing is asked of AWS while the templates are written, and nothing but the two assets' addresses can be read later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import CustomResource, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.functions import LIGHT_MIB, FunctionFactory
from infra.grants import granted_to
from infra.settings import DeploymentSettings, SettingsError
from workbench.skills.bundle import Bundle
from workbench.skills.folder import read_folder
from workbench.skills.registry import has_skill_file
from workbench.skills.skill_file import BadSkill
from workbench.skills.zipped import write_zip


class DeployedSkills(Construct):
    """The function that keeps skills for CloudFormation, and a custom resource for each of ``bundles``."""

    def __init__(
        self, scope: Construct, construct_id: str, *, factory: FunctionFactory, bundles: Sequence[Bundle]
    ) -> None:
        super().__init__(scope, construct_id)
        self.function = factory.make(
            self,
            "deployed_skills",
            does="Keeps the skills that the deployment brings along",
            grants=granted_to("deployed_skills"),
            memory_mib=LIGHT_MIB,
        )
        if not bundles:
            return
        found = {bundle.skill.name: self._asset(bundle) for bundle in bundles}
        reading = iam.Policy(
            self,
            "ReadTheBundles",
            roles=[self.function.role] if self.function.role else None,
            statements=[
                iam.PolicyStatement(
                    sid="ReadTheBundles",
                    actions=["s3:GetObject"],
                    resources=[
                        Stack.of(self).format_arn(
                            service="s3", region="", account="", resource=asset.s3_bucket_name,
                            resource_name=asset.s3_object_key,
                        )
                        for asset in found.values()
                    ],
                )
            ],
        )  # fmt: skip
        for bundle in bundles:
            asset = found[bundle.skill.name]
            resource = CustomResource(
                self,
                f"Skill {bundle.skill.name}",
                resource_type="Custom::WorkbenchSkill",
                service_token=self.function.function_arn,
                properties={
                    "Name": bundle.skill.name,
                    # Another content makes CloudFormation ask again.
                    "Digest": bundle.digest,
                    "Bucket": asset.s3_bucket_name,
                    "Key": asset.s3_object_key,
                },
            )
            # CloudFormation asks as soon as the function is there, its permissions or not.
            resource.node.add_dependency(self.node.find_child("deployed_skills"), reading)

    def _asset(self, bundle: Bundle) -> assets.Asset:
        # A zip of our own: it keeps which files are programs, and is the same on every machine.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{bundle.digest[:16]}.zip"
            path.write_bytes(write_zip(bundle))
            return assets.Asset(self, f"Bundle {bundle.skill.name}", path=str(path))


def read_skills(settings: DeploymentSettings, home: Path) -> list[Bundle]:
    """The skills of ``skillsDirectory`` (relative to ``home``); raises SettingsError with every reason against them."""
    if settings.skills_directory is None:
        return []
    root = home / settings.skills_directory
    if not root.is_dir():
        raise SettingsError(f"cdk.json, skillsDirectory: {root} is no folder. Name one that holds skills, or null.")
    bundles: dict[str, Bundle] = {}
    problems: list[str] = []
    for folder in sorted(place for place in root.iterdir() if place.is_dir() and has_skill_file(place)):
        try:
            bundle = read_folder(folder, settings.limits.skill_bytes)
        except BadSkill as bad:
            problems.append(f"  {folder.name}: {bad.reason}")
            continue
        if bundle.skill.name in bundles:
            problems.append(f"  {folder.name}: there is a skill named {bundle.skill.name} already.")
        bundles[bundle.skill.name] = bundle
    if problems:
        raise SettingsError(f"Skills of {root} cannot be deployed:\n" + "\n".join(problems))
    if not bundles:
        raise SettingsError(f"cdk.json, skillsDirectory: no folder in {root} has a SKILL.md.")
    return list(bundles.values())

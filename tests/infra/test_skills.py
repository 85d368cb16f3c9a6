"""Skills that a deployment brings along: what the templates say of them, and what stops it before it begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.settings import CONTEXT_KEY, SettingsError, parse, read_context
from infra.skills import read_skills
from tests.infra.templates import ROOT, WITHOUT_BUNDLING, Deployment, tools
from tests.skill_zips import skill_md


def make(root: Path, folder: str, content: str) -> Path:
    place = root / "skills" / folder
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(content)
    return place


def settings(**changes: Any) -> Any:
    return parse({**read_context(ROOT / "cdk.json")[CONTEXT_KEY], "skillsDirectory": "skills", **changes})


def synthesised(folder: Path, home: Path) -> Deployment:
    from aws_cdk import App

    from infra.stacks import add_workbench

    context = read_context(ROOT / "cdk.json")
    app = App(outdir=str(folder), context={**context, **WITHOUT_BUNDLING})
    add_workbench(app, settings(), tools(), read_skills(settings(), home))
    app.synth()
    return Deployment(folder)


def test_each_skill_is_an_asset_and_a_resource(tmp_path: Path) -> None:
    script = make(tmp_path, "one", skill_md("fill-forms", version="1.2.0")) / "go.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    make(tmp_path, "two", skill_md("Odd name (x)"))
    (tmp_path / "skills" / "notes").mkdir()
    made = synthesised(tmp_path / "out", tmp_path)
    resources = {found.properties["Name"]: found for found in made.of("Custom::WorkbenchSkill")}
    assert set(resources) == {"fill-forms", "Odd name (x)"}
    function = made.function("deployed_skills")
    reading = [s for s in made.statements_of("deployed_skills") if s["Sid"] == "ReadTheBundles"]
    allowed = {made.resolved(resource) for statement in reading for resource in statement["Resource"]}
    for resource in resources.values():
        properties = resource.properties
        assert properties["ServiceToken"] == {"Fn::GetAtt": [function.id, "Arn"]}
        # The function may read exactly these bundles, and may do so before CloudFormation asks it to.
        bucket = made.resolved(properties["Bucket"])
        assert f"arn:<AWS::Partition>:s3:::{bucket}/{properties['Key']}" in allowed
        policies = {
            policy.id for policy in made.of("AWS::IAM::Policy") if "deployedskills" in json.dumps(policy.properties)
        }
        assert len(policies) == 2 and policies < set(resource.whole["DependsOn"])
        packed = tmp_path / "out" / f"asset.{properties['Key']}"
        assert packed.is_file()
    assert len(allowed) == 2 and not any("*" in resource for resource in allowed)
    report = json.loads((tmp_path / "out" / "validation-report.json").read_text())
    assert [found for plugin in report["pluginReports"] for found in plugin["violations"]] == []


def test_the_same_skills_make_the_same_template(tmp_path: Path) -> None:
    make(tmp_path, "one", skill_md("demo"))
    first, second = (synthesised(tmp_path / name, tmp_path) for name in ("a", "b"))
    keys = [[found.properties["Key"] for found in made.of("Custom::WorkbenchSkill")] for made in (first, second)]
    assert keys[0] == keys[1] and len(keys[0]) == 1


def test_without_skills_the_function_reads_no_bundle(deployment: Deployment) -> None:
    assert deployment.of("Custom::WorkbenchSkill") == []
    actions = json.dumps(deployment.statements_of("deployed_skills"))
    assert "s3:GetObject" not in actions and "ReadTheBundles" not in actions


def test_every_broken_skill_stops_the_deployment_with_its_reason(tmp_path: Path) -> None:
    make(tmp_path, "good", skill_md("demo"))
    make(tmp_path, "twin", skill_md("demo"))
    make(tmp_path, "headless", "no head")
    (make(tmp_path, "linked", skill_md("linked")) / "out").symlink_to("/etc")
    (make(tmp_path, "large", skill_md("large")) / "x").write_bytes(b"x" * 70_000)
    with pytest.raises(SettingsError) as told:
        read_skills(settings(limits={"skillBytes": 65_536}), tmp_path)
    said = str(told.value)
    for reason in (
        "headless: The file does not begin",
        "linked: `out` is a link",
        "large: The files have 70,0",
        "twin: ",
    ):
        assert reason in said


@pytest.mark.parametrize("folder", ["missing", "empty", "file"])
def test_a_folder_without_skills_is_a_mistake(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match="skillsDirectory"):
        read_skills(settings(skillsDirectory=folder), tmp_path)
    assert read_skills(settings(skillsDirectory=None), tmp_path) == []

"""What is kept, for how long, and who can reach it: the table and the two buckets."""

from __future__ import annotations

import pytest

from tests.infra.templates import Deployment, Resource


def _bucket(deployment: Deployment, name: str) -> Resource:
    (found,) = [bucket for bucket in deployment.of("AWS::S3::Bucket") if name in bucket.id]
    return found


def test_the_table_can_be_restored_and_is_not_deleted_by_mistake(deployment: Deployment) -> None:
    table = deployment.one("AWS::DynamoDB::GlobalTable")
    (replica,) = table.properties["Replicas"]
    assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert replica["DeletionProtectionEnabled"] is True
    assert table.whole["DeletionPolicy"] == table.whole["UpdateReplacePolicy"] == "Retain"


def test_the_table_has_the_keys_that_the_code_uses(deployment: Deployment) -> None:
    table = deployment.one("AWS::DynamoDB::GlobalTable").properties
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert _keys(table["KeySchema"]) == {"HASH": "PK", "RANGE": "SK"}
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "gsi1"
    assert _keys(index["KeySchema"]) == {"HASH": "gsi1pk", "RANGE": "gsi1sk"}
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}


def test_buckets_are_closed_and_survive_their_stack(deployment: Deployment) -> None:
    assert len(deployment.of("AWS::S3::Bucket")) == 2
    for bucket in deployment.of("AWS::S3::Bucket"):
        assert all(bucket.properties["PublicAccessBlockConfiguration"].values())
        assert len(bucket.properties["PublicAccessBlockConfiguration"]) == 4
        assert bucket.properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        assert bucket.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert bucket.whole["DeletionPolicy"] == "Retain"


@pytest.mark.parametrize("name", ["Workspaces", "Artifacts"])
def test_buckets_refuse_what_is_not_tls(deployment: Deployment, name: str) -> None:
    bucket = _bucket(deployment, name)
    (policy,) = [p for p in deployment.of("AWS::S3::BucketPolicy") if p.properties["Bucket"] == {"Ref": bucket.id}]
    denials = [s["Condition"] for s in policy.properties["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in denials
    assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in denials


def test_only_artifacts_are_versioned(deployment: Deployment) -> None:
    assert _bucket(deployment, "Artifacts").properties["VersioningConfiguration"] == {"Status": "Enabled"}
    # An erased workspace must be gone, not kept as old versions.
    assert "VersioningConfiguration" not in _bucket(deployment, "Workspaces").properties


def test_the_rules_of_the_workspace_bucket_are_exactly_these(deployment: Deployment) -> None:
    assert _rules(_bucket(deployment, "Workspaces")) == {
        "tmp": {"Prefix": "tmp/", "ExpirationInDays": 1},
        "incomplete-uploads": {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    }


def test_the_news_of_a_removed_file_reaches_its_function(deployment: Deployment) -> None:
    (bucket,) = [one for one in deployment.of("AWS::S3::Bucket") if "VersioningConfiguration" in one.properties]
    assert bucket.properties["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    (rule,) = [rule.properties for rule in deployment.of("AWS::Events::Rule") if "aws.s3" in str(rule.properties)]
    assert rule["EventPattern"]["detail-type"] == ["Object Deleted"]
    # A marker only begins the grace, in which bytes are stored and paid for.
    assert rule["EventPattern"]["detail"]["deletion-type"] == ["Permanently Deleted"]
    (target,) = rule["Targets"]
    assert target["Arn"] == {"Fn::GetAtt": [deployment.function("artifact_removed").id, "Arn"]}


def test_the_rules_of_the_artifact_bucket_are_exactly_these(deployment: Deployment) -> None:
    assert _rules(_bucket(deployment, "Artifacts")) == {
        "grace": {"NoncurrentVersionExpiration": {"NoncurrentDays": 30}},
        "unattached": {
            "TagFilters": [{"Key": "retention", "Value": "unattached"}],
            "ExpirationInDays": 30,
            "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
        },
        "lone-markers": {"ExpiredObjectDeleteMarker": True},
        "incomplete-uploads": {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    }


def _keys(schema: list[dict[str, str]]) -> dict[str, str]:
    return {key["KeyType"]: key["AttributeName"] for key in schema}


def _rules(bucket: Resource) -> dict[str, dict[str, object]]:
    rules = bucket.properties["LifecycleConfiguration"]["Rules"]
    assert all(rule["Status"] == "Enabled" for rule in rules)
    return {rule["Id"]: {name: rule[name] for name in rule if name not in ("Id", "Status")} for rule in rules}

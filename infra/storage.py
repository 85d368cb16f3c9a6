"""Where everything durable lives: one table, one bucket for workspaces, one for artifacts.

How long an object stays is said here and nowhere else. S3 counts days from creation, or from the moment an object
becomes noncurrent, and rounds up to midnight UTC.
"""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.reasons import acknowledge

NO_ACCESS_LOGS = (
    "Only this deployment's functions read the bucket, and they write an audit line for every access of a person; "
    "an account that wants S3's own record turns on CloudTrail data events"
)
ONE_DAY = Duration.days(1)


class Storage(Construct):
    """The table and the two buckets; all three survive the deletion of their stack."""

    def __init__(self, scope: Construct, construct_id: str, *, grace_days: int, unattached_days: int) -> None:
        super().__init__(scope, construct_id)
        self.table = _table(self)
        self.workspaces = _bucket(
            self,
            "Workspaces",
            versioned=False,
            rules=[
                s3.LifecycleRule(id="tmp", prefix="tmp/", expiration=ONE_DAY),
                s3.LifecycleRule(id="incomplete-uploads", abort_incomplete_multipart_upload_after=ONE_DAY),
            ],
        )
        self.artifacts = _bucket(self, "Artifacts", versioned=True, rules=artifact_rules(grace_days, unattached_days))
        # Tells who pays that bytes have gone. Set on the bucket itself: the L2 property adds a function to do it.
        bucket = self.artifacts.node.default_child
        assert isinstance(bucket, s3.CfnBucket)
        bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )


def artifact_rules(grace_days: int, unattached_days: int) -> list[s3.LifecycleRule]:
    """The life of an exported file, in four rules that never grow with the number of conversations."""
    return [
        # Deleting a conversation puts a marker on its files: from then on they are noncurrent, and this rule counts the
        # grace. Restoring removes the markers.
        s3.LifecycleRule(id="grace", noncurrent_version_expiration=Duration.days(grace_days)),
        # A file that no reply carries: expiring it adds a marker, and the bytes follow a day later.
        s3.LifecycleRule(
            id="unattached",
            tag_filters={"retention": "unattached"},
            expiration=Duration.days(unattached_days),
            noncurrent_version_expiration=ONE_DAY,
        ),
        # S3 accepts this only in a rule without tags and days.
        s3.LifecycleRule(id="lone-markers", expired_object_delete_marker=True),
        s3.LifecycleRule(id="incomplete-uploads", abort_incomplete_multipart_upload_after=ONE_DAY),
    ]


def _table(scope: Construct) -> dynamodb.TableV2:
    text = dynamodb.AttributeType.STRING
    return dynamodb.TableV2(
        scope,
        "Table",
        partition_key=dynamodb.Attribute(name="PK", type=text),
        sort_key=dynamodb.Attribute(name="SK", type=text),
        billing=dynamodb.Billing.on_demand(),
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        time_to_live_attribute="ttl",
        deletion_protection=True,
        removal_policy=RemovalPolicy.RETAIN,
        global_secondary_indexes=[
            dynamodb.GlobalSecondaryIndexPropsV2(
                index_name="gsi1",
                partition_key=dynamodb.Attribute(name="gsi1pk", type=text),
                sort_key=dynamodb.Attribute(name="gsi1sk", type=text),
                projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            )
        ],
    )


def _bucket(scope: Construct, name: str, *, versioned: bool, rules: list[s3.LifecycleRule]) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        name,
        versioned=versioned,
        lifecycle_rules=rules,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        removal_policy=RemovalPolicy.RETAIN,
    )
    acknowledge(bucket, NO_ACCESS_LOGS, "AwsSolutions-S1")
    return bucket

"""The sandbox as ECS sees it: a task that holds no credentials, cannot write its image and is started by nobody else.

The task definition is the plain CloudFormation resource, because CDK's own construct always gives a task a role.
"""

from __future__ import annotations

from aws_cdk import Aws, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.layers import NOT_SHIPPED, ROOT
from infra.reasons import acknowledge
from infra.settings import BUILD_IMAGE, DeploymentSettings

CONTAINER = "sandbox"
# Docker's default capabilities that no step of the supervisor needs. SETUID, SETGID, CHOWN, DAC_OVERRIDE, FOWNER and
# KILL stay: it gives the tree to the sandbox's user, becomes that user, and kills what is left; SETPCAP empties the set
# that the program could gain capabilities from. The program has none.
DROPPED_CAPABILITIES = ["AUDIT_WRITE", "FSETID", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SYS_CHROOT"]
# The only writable places are memory and end with the task. Programs of the workspace may be run, as they may locally.
TMPFS_OPTIONS = ["rw", "exec", "nosuid", "nodev"]


class Sandbox(Construct):
    """The cluster, the one task definition, its image and the log of the supervisor."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings,
        log_retention: logs.RetentionDays,
    ) -> None:
        super().__init__(scope, construct_id)
        self.cluster_name = settings.name
        self.cluster = ecs.CfnCluster(self, "Cluster", cluster_name=self.cluster_name)
        acknowledge(
            self.cluster,
            "A task lives for one run, whose record and workflow metrics say what Container Insights would charge for",
            "AwsSolutions-ECS4",
        )
        self.log_group = logs.LogGroup(self, "Log", retention=log_retention, removal_policy=RemovalPolicy.DESTROY)
        self.repository, image_uri = _image(self, settings.sandbox_image)
        self.execution_role = self._execution_role()
        self.family = f"{settings.name}-sandbox"
        self.task_definition = self._task_definition(settings, image_uri)
        self.task_definition.node.add_dependency(self.execution_role)

    @property
    def family_arn(self) -> str:
        """The family without a revision, for policies that must outlive the next revision."""
        return Stack.of(self).format_arn(service="ecs", resource="task-definition", resource_name=self.family)

    @property
    def tasks_arn(self) -> str:
        """The cluster's tasks, without an id."""
        return Stack.of(self).format_arn(service="ecs", resource="task", resource_name=self.cluster_name)

    def _execution_role(self) -> iam.Role:
        # Used by ECS before the container starts; the container itself never sees it.
        role = iam.Role(
            self,
            "ExecutionRole",
            description="Pulls the sandbox's image and opens its log stream",
            assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"),
        )
        self.repository.grant_pull(role)
        acknowledge(
            role,
            "ecr:GetAuthorizationToken is for the whole registry and accepts no resource; the repository is named",
            "AwsSolutions-IAM5[Resource::*]",
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="SupervisorLog",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[self.log_group.log_group_arn],
            )
        )
        return role

    def _task_definition(self, settings: DeploymentSettings, image_uri: str) -> ecs.CfnTaskDefinition:
        task = ecs.CfnTaskDefinition
        container = task.ContainerDefinitionProperty(
            name=CONTAINER,
            image=image_uri,
            essential=True,
            privileged=False,
            readonly_root_filesystem=True,
            linux_parameters=task.LinuxParametersProperty(
                capabilities=task.KernelCapabilitiesProperty(drop=DROPPED_CAPABILITIES),
                init_process_enabled=True,
                tmpfs=[
                    # The supervisor bounds what the program adds to both; what it lays out first comes on top.
                    _tmpfs("/sandbox", settings.laid_out_mib + settings.sandbox.run_disk_mib),
                    _tmpfs("/tmp", settings.sandbox.run_disk_mib),  # noqa: S108 - a mount of its own
                ],
            ),
            ulimits=[
                _ulimit("core", 0),
                _ulimit("nofile", 4096),
                # The supervisor sets the program's own, lower number; this bounds what no limit of its own would.
                _ulimit("nproc", 2 * settings.sandbox.run_processes),
            ],
            stop_timeout=10,
            log_configuration=task.LogConfigurationProperty(
                log_driver="awslogs",
                options={
                    "awslogs-group": self.log_group.log_group_name,
                    "awslogs-region": Aws.REGION,
                    "awslogs-stream-prefix": CONTAINER,
                    # A supervisor never waits for its log.
                    "mode": "non-blocking",
                },
            ),
        )
        return ecs.CfnTaskDefinition(
            self,
            "Task",
            family=self.family,
            cpu=str(settings.sandbox.cpu),
            memory=str(settings.sandbox.memory_mib),
            network_mode="awsvpc",
            requires_compatibilities=["FARGATE"],
            runtime_platform=task.RuntimePlatformProperty(cpu_architecture="X86_64", operating_system_family="LINUX"),
            execution_role_arn=self.execution_role.role_arn,
            container_definitions=[container],
        )


def _image(scope: Construct, source: str) -> tuple[ecr.IRepository, str]:
    if source == BUILD_IMAGE:
        # Synthesis only hashes the directory; `cdk deploy` builds and pushes the image.
        asset = ecr_assets.DockerImageAsset(
            scope,
            "Image",
            directory=str(ROOT / "sandbox_container"),
            platform=ecr_assets.Platform.LINUX_AMD64,
            exclude=NOT_SHIPPED,
        )
        return asset.repository, asset.image_uri
    name, separator, version = source.partition("@") if "@" in source else source.partition(":")
    repository = ecr.Repository.from_repository_name(scope, "Repository", name)
    return repository, f"{repository.repository_uri}{separator}{version}"


def _tmpfs(path: str, size_mib: int) -> ecs.CfnTaskDefinition.TmpfsProperty:
    return ecs.CfnTaskDefinition.TmpfsProperty(container_path=path, size=size_mib, mount_options=TMPFS_OPTIONS)


def _ulimit(name: str, most: int) -> ecs.CfnTaskDefinition.UlimitProperty:
    return ecs.CfnTaskDefinition.UlimitProperty(name=name, soft_limit=most, hard_limit=most)

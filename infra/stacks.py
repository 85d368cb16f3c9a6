"""Workbench as three stacks: what must never be lost, what runs code, and what the portal calls.

Stacks are free of account and region, and nothing here asks AWS anything: the same templates deploy everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import App, Stack, Tags, Validations
from aws_cdk import aws_logs as logs
from cdk_nag import AwsSolutionsChecks
from constructs import Construct

from infra.functions import LIGHT_MIB, LONGEST_SECONDS, FunctionFactory, function_arn
from infra.grants import Places, granted_to
from infra.javascript import Javascript
from infra.layers import Layers
from infra.lifecycle import Lifecycle
from infra.network import Network
from infra.observability import Observability
from infra.runs import Runs
from infra.sandbox import Sandbox
from infra.settings import LOG_RETENTION, DeploymentSettings
from infra.skills import DeployedSkills
from infra.storage import Storage
from infra.tools import Tools
from infra.workflows import DELETE_CONVERSATION, RECONCILE, RUN_CODE, machine_arn
from workbench.skills.bundle import Bundle
from workbench.tools.contract import Tool


class StorageStack(Stack):
    """The table and the buckets. Deleting the stack keeps them."""

    def __init__(self, scope: Construct, settings: DeploymentSettings) -> None:
        super().__init__(
            scope,
            f"{settings.name}-storage",
            description="Workbench: table, workspaces, artifacts",
            termination_protection=True,
        )
        self.storage = Storage(
            self, "Storage", grace_days=settings.grace_days, unattached_days=settings.unattached_days
        )
        # Exported by hand, so that the other stacks know their spelling while they are built.
        self.table = self.export_value(self.storage.table.table_arn)
        self.workspaces = self.export_value(self.storage.workspaces.bucket_arn)
        self.artifacts = self.export_value(self.storage.artifacts.bucket_arn)


class SandboxStack(Stack):
    """The sandbox, its network, and the workflow that runs code in it."""

    def __init__(self, scope: Construct, settings: DeploymentSettings, storage: StorageStack) -> None:
        super().__init__(scope, f"{settings.name}-sandbox", description="Workbench: the code sandbox and its workflow")
        retention = _retention(settings)
        self.network = Network(self, "Network", zones=settings.zones, log_retention=retention)
        self.sandbox = Sandbox(self, "Sandbox", settings=settings, log_retention=retention)
        places = _places(self, settings, storage, sandbox=self.sandbox)
        factory = _factory(self, settings, storage, places)
        self.runs = Runs(
            self,
            "Runs",
            factory=factory,
            network=self.network,
            sandbox=self.sandbox,
            warm=settings.warm_sandboxes > 0,
        )


class ApiStack(Stack):
    """The portal's API, the deletion of conversations, the dashboard."""

    def __init__(
        self,
        scope: Construct,
        settings: DeploymentSettings,
        storage: StorageStack,
        runs: Runs,
        tools: Sequence[Tool],
        skills: Sequence[Bundle],
    ) -> None:
        super().__init__(scope, f"{settings.name}-api", description="Workbench: the tools and the portal's API")
        factory = _factory(self, settings, storage, _places(self, settings, storage))
        self.javascript = Javascript(self, "Javascript", factory=factory)
        self.tools = Tools(
            self, "Tools", factory=factory, tools=tools, requests_per_second=settings.requests_per_second
        )
        self.sandbox_check = factory.make(
            self,
            "sandbox_check",
            does="Proves what a sandbox can and cannot do; invoked by an admin",
            grants=granted_to("sandbox_check"),
            seconds=LONGEST_SECONDS,
            memory_mib=LIGHT_MIB,
        )
        self.skills = DeployedSkills(self, "Skills", factory=factory, bundles=skills)
        self.lifecycle = Lifecycle(self, "Lifecycle", factory=factory, artifacts=storage.storage.artifacts.bucket_name)
        Observability(
            self,
            "Observability",
            name=settings.name,
            api=self.tools.api,
            answering=self.tools.functions,
            background={
                "workflow": runs.workflow_function,
                "sandbox_route": runs.sandbox_function,
                "task_stopped": runs.task_stopped_function,
                "pool_keeper": runs.pool.function,
                "javascript": self.javascript.function,
                "sandbox_check": self.sandbox_check,
                "deployed_skills": self.skills.function,
                "lifecycle": self.lifecycle.function,
                "artifact_removed": self.lifecycle.artifact_removed_function,
                "reconciler": self.lifecycle.reconciler_function,
            },
            machines={
                RUN_CODE: runs.workflow.machine,
                DELETE_CONVERSATION: self.lifecycle.workflow.machine,
                RECONCILE: self.lifecycle.reconciling.machine,
            },
            table=storage.storage.table,
            reconciler=self.lifecycle.reconciler_metrics,
            pool=runs.pool.metrics(runs.workflow_function.function_name),
            alarm_topic_arn=settings.alarm_topic_arn,
        )


def add_workbench(
    app: App, settings: DeploymentSettings, tools: Sequence[Tool], skills: Sequence[Bundle] = ()
) -> list[Stack]:
    """Add the three stacks to ``app``, checked against the AwsSolutions rules when it is synthesised."""
    storage = StorageStack(app, settings)
    sandbox = SandboxStack(app, settings, storage)
    api = ApiStack(app, settings, storage, sandbox.runs, tools, skills)
    Tags.of(app).add("application", settings.name)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return [storage, sandbox, api]


def _retention(settings: DeploymentSettings) -> logs.RetentionDays:
    return logs.RetentionDays[LOG_RETENTION[settings.log_retention_days]]


def _places(
    scope: Construct, settings: DeploymentSettings, storage: StorageStack, sandbox: Sandbox | None = None
) -> Places:
    return Places(
        table=storage.table,
        workspaces=storage.workspaces,
        artifacts=storage.artifacts,
        run_machine=machine_arn(scope, f"{settings.name}-{RUN_CODE}"),
        delete_machine=machine_arn(scope, f"{settings.name}-{DELETE_CONVERSATION}"),
        reconcile_machine=machine_arn(scope, f"{settings.name}-{RECONCILE}"),
        task_family=sandbox.family_arn if sandbox else "",
        cluster=sandbox.cluster.attr_arn if sandbox else "",
        cluster_tasks=sandbox.tasks_arn if sandbox else "",
        execution_role=sandbox.execution_role.role_arn if sandbox else "",
        functions=function_arn(scope, f"{settings.name}-"),
        classifier_model=_model_arn(scope, settings.classifier_model) if settings.classifier_model else "",
    )


def _model_arn(scope: Construct, model: str) -> str:
    # A foundation model belongs to no account.
    return Stack.of(scope).format_arn(service="bedrock", account="", resource="foundation-model", resource_name=model)


def _factory(scope: Construct, settings: DeploymentSettings, storage: StorageStack, places: Places) -> FunctionFactory:
    environment = settings.function_settings(
        table=storage.storage.table.table_name,
        workspace_bucket=storage.storage.workspaces.bucket_name,
        artifact_bucket=storage.storage.artifacts.bucket_name,
        run_state_machine=places.run_machine,
        delete_state_machine=places.delete_machine,
        reconcile_state_machine=places.reconcile_machine,
        function_prefix=f"{settings.name}-",
        longest_function_seconds=LONGEST_SECONDS,
    ).to_environment()
    layers = Layers(scope, "Layers")
    return FunctionFactory(
        name=settings.name,
        layers=layers.all,
        more_layers={"documents": layers.extraction},
        environment=environment,
        log_retention=_retention(settings),
        places=places,
    )

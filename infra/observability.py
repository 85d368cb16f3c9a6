"""What an admin looks at: one dashboard, and an alarm for each way in which people would notice a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

FIVE_MINUTES = Duration.minutes(5)
HALF_WIDTH = 12


class Observability(Construct):
    """Alarms go to the topic of cdk.json's ``alarmTopicArn``; without one they only change colour.

    ``answering`` functions have a caller, who sees their failures as 5xx; ``background`` ones have none. ``reconciler``
    are its daily counts by name, ReconcilerFailed among them; ``pool`` those of the warm sandboxes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        api: apigateway.HttpApi,
        answering: Mapping[str, lambda_.IFunction],
        background: Mapping[str, lambda_.IFunction],
        machines: Mapping[str, sfn.StateMachine],
        table: dynamodb.ITable,
        reconciler: Mapping[str, cloudwatch.IMetric],
        pool: Mapping[str, cloudwatch.IMetric],
        alarm_topic_arn: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._topic = sns.Topic.from_topic_arn(self, "Topic", alarm_topic_arn) if alarm_topic_arn else None
        requests = api.metric_count(period=FIVE_MINUTES, statistic="Sum")
        failed = api.metric_server_error(period=FIVE_MINUTES, statistic="Sum")
        refused = api.metric_client_error(period=FIVE_MINUTES, statistic="Sum")
        # Without dimensions Lambda counts the whole account, which is whose concurrency runs out.
        throttles = cloudwatch.Metric(
            namespace="AWS/Lambda", metric_name="Throttles", statistic="Sum", period=FIVE_MINUTES
        )
        self._alarm("FailedRequests", failed, more_than=5, means="The API answered with 5xx; the logs say why")
        self._alarm("Throttles", throttles, more_than=0, means="The account's concurrent executions are used up")
        for function, made in background.items():
            self._alarm(
                f"Errors-{function}",
                made.metric_errors(period=FIVE_MINUTES),
                more_than=0,
                means=f"{function} failed and nobody waits for its answer; its log says why",
            )
        for machine, workflow in machines.items():
            self._alarm(
                f"Failures-{machine}",
                _failures(workflow, machine),
                more_than=3,
                means=f"Executions of {machine} fail; the run or the conversation they are named after is unfinished",
            )
        self._alarm(
            "NotReconciled",
            reconciler["ReconcilerFailed"],
            more_than=0,
            means="Something that nothing names could not be removed; the log of the function reconciler names it",
        )
        self._alarm(
            "NoWarmSandboxes",
            pool["FailedSandboxStarts"],
            more_than=1,
            means="Sandboxes cannot be started ahead, so that runs wait for one; the log of pool_keeper says why",
        )
        units = [table.metric_consumed_read_capacity_units(), table.metric_consumed_write_capacity_units()]
        latencies = [api.metric_latency(period=FIVE_MINUTES, statistic=share) for share in ("p50", "p99")]
        durations = [made.metric_duration(statistic="p99", label=function) for function, made in answering.items()]
        errors = [made.metric_errors(label=function) for function, made in {**answering, **background}.items()]
        started = [workflow.metric_started(label=machine) for machine, workflow in machines.items()]
        failures = [_failures(workflow, machine) for machine, workflow in machines.items()]
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=name)
        dashboard.add_widgets(
            _graph("Requests", [requests, refused, failed]),
            _graph("Latency", latencies),
            _graph("Duration of functions, p99", durations),
            _graph("Errors of functions", errors),
            _graph("Workflows started", started),
            _graph("Workflows failed", failures),
            _graph("Table units", units),
            _graph("Warm sandboxes", list(pool.values())),
            _graph("Found by the reconciler", list(reconciler.values())),
            _graph("Throttles of the account", [throttles]),
        )

    def _alarm(self, name: str, metric: cloudwatch.IMetric, *, more_than: int, means: str) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            threshold=more_than,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=means,
        )
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))


def _failures(machine: sfn.StateMachine, label: str) -> cloudwatch.MathExpression:
    prefix = label.replace("-", "_")  # one graph holds several machines, and its metrics need names of their own
    failed, timed_out = f"{prefix}_failed", f"{prefix}_timed_out"
    return cloudwatch.MathExpression(
        expression=f"{failed} + {timed_out}",
        using_metrics={failed: machine.metric_failed(), timed_out: machine.metric_timed_out()},
        period=FIVE_MINUTES,
        label=f"{label} failed",
    )


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=HALF_WIDTH)

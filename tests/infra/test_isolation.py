"""The sandbox has no network, no credentials and no way back in, as far as AWS resources can promise it."""

from __future__ import annotations

from typing import Any

from tests.infra.templates import Deployment, Resource, as_list, text
from tests.sandbox.bundle import CAPABILITIES

DOCKERS_DEFAULTS = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
PULL = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
# Who starts sandboxes: for a run, or ahead of runs.
STARTERS = ("workflow", "pool_keeper")


# ---------------------------------------------------------------- the network


def test_no_route_leads_out_of_the_vpc(deployment: Deployment) -> None:
    ways_out = (
        "AWS::EC2::InternetGateway",
        "AWS::EC2::VPCGatewayAttachment",
        "AWS::EC2::EgressOnlyInternetGateway",
        "AWS::EC2::NatGateway",
        "AWS::EC2::EIP",
        "AWS::EC2::Route",
        "AWS::EC2::VPNGateway",
        "AWS::EC2::TransitGatewayAttachment",
        "AWS::EC2::VPCPeeringConnection",
    )
    assert deployment.of(*ways_out) == []
    assert len(deployment.of("AWS::EC2::VPC")) == 1


def test_no_subnet_gives_public_addresses(deployment: Deployment) -> None:
    subnets = deployment.of("AWS::EC2::Subnet")
    assert len(subnets) == 2
    assert not any(subnet.properties["MapPublicIpOnLaunch"] for subnet in subnets)


def test_the_endpoints_are_exactly_these_and_say_what_may_be_asked(deployment: Deployment) -> None:
    own_account = {"StringEquals": {"aws:PrincipalAccount": "<AWS::AccountId>"}}
    repository = _repository(deployment)
    log = f"<{_sandbox_log(deployment)}.Arn>"
    api = deployment.one("AWS::ApiGateway::RestApi").id
    method = f"arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<{api}>/live/POST/v1/sandbox"
    layers = "arn:<AWS::Partition>:s3:::prod-<AWS::Region>-starport-layer-bucket/*"
    assert {_service(endpoint): _allowed(endpoint) for endpoint in deployment.of("AWS::EC2::VPCEndpoint")} == {
        "ecr.api": [(["ecr:GetAuthorizationToken"], ["*"], own_account), (PULL, [repository], own_account)],
        "ecr.dkr": [(PULL, [repository], own_account)],
        "logs": [(["logs:CreateLogStream", "logs:PutLogEvents"], [log], own_account)],
        "execute-api": [(["execute-api:Invoke"], [method], {})],
        "s3": [(["s3:GetObject"], [layers], {})],
    }


def test_the_resolver_knows_the_endpoints_and_no_other_name(deployment: Deployment) -> None:
    lists = {found.id: [text(name) for name in found.properties["Domains"]] for found in _domain_lists(deployment)}
    group = deployment.one("AWS::Route53Resolver::FirewallRuleGroup")
    allow, block = sorted(group.properties["FirewallRules"], key=lambda rule: rule["Priority"])
    assert (allow["Action"], allow["FirewallDomainRedirectionAction"]) == ("ALLOW", "TRUST_REDIRECTION_DOMAIN")
    assert (block["Action"], block["BlockResponse"]) == ("BLOCK", "NXDOMAIN")
    assert lists[block["FirewallDomainListId"]["Fn::GetAtt"][0]] == ["*"]
    api = deployment.one("AWS::ApiGateway::RestApi").id
    assert lists[allow["FirewallDomainListId"]["Fn::GetAtt"][0]] == [
        "api.ecr.<AWS::Region>.<AWS::URLSuffix>",
        "<AWS::AccountId>.dkr.ecr.<AWS::Region>.<AWS::URLSuffix>",
        "prod-<AWS::Region>-starport-layer-bucket.s3.<AWS::Region>.<AWS::URLSuffix>",
        "logs.<AWS::Region>.<AWS::URLSuffix>",
        f"<{api}>.execute-api.<AWS::Region>.<AWS::URLSuffix>",
    ]
    association = deployment.one("AWS::Route53Resolver::FirewallRuleGroupAssociation").properties
    assert association["FirewallRuleGroupId"] == {"Fn::GetAtt": [group.id, "Id"]}
    assert association["VpcId"] == {"Ref": deployment.one("AWS::EC2::VPC").id}


def test_nothing_opens_the_resolver_when_the_firewall_fails(deployment: Deployment) -> None:
    # Closed is Route 53's default; only a firewall configuration could change it.
    assert deployment.of("AWS::Route53Resolver::FirewallConfig") == []


def test_tasks_may_only_speak_https_and_only_they_reach_the_endpoints(deployment: Deployment) -> None:
    groups = {group.properties["GroupDescription"]: group for group in deployment.of("AWS::EC2::SecurityGroup")}
    (egress,) = groups["Sandbox tasks"].properties["SecurityGroupEgress"]
    assert (egress["IpProtocol"], egress["FromPort"], egress["ToPort"]) == ("tcp", 443, 443)
    assert not any(group.properties.get("SecurityGroupIngress") for group in groups.values())
    (ingress,) = deployment.of("AWS::EC2::SecurityGroupIngress")
    assert ingress.properties["GroupId"] == {"Fn::GetAtt": [groups["The endpoints of the sandbox"].id, "GroupId"]}
    assert ingress.properties["SourceSecurityGroupId"] == {"Fn::GetAtt": [groups["Sandbox tasks"].id, "GroupId"]}
    assert (ingress.properties["FromPort"], ingress.properties["ToPort"]) == (443, 443)
    assert deployment.of("AWS::EC2::SecurityGroupEgress") == []


def test_what_happens_in_the_network_is_logged(deployment: Deployment) -> None:
    flow = deployment.one("AWS::EC2::FlowLog").properties
    assert flow["ResourceId"] == {"Ref": deployment.one("AWS::EC2::VPC").id}
    assert flow["TrafficType"] == "ALL"


# ---------------------------------------------------------------- the task


def test_the_task_has_no_role(deployment: Deployment) -> None:
    assert "TaskRoleArn" not in deployment.one("AWS::ECS::TaskDefinition").properties


def test_only_the_execution_role_can_be_passed_and_only_to_ecs(deployment: Deployment) -> None:
    task = deployment.one("AWS::ECS::TaskDefinition")
    passing = [
        (policy.id, statement)
        for policy in deployment.of("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if any(action.lower() in ("iam:passrole", "iam:*", "*") for action in as_list(statement["Action"]))
    ]
    assert len(passing) == len(STARTERS)
    for _policy, statement in passing:
        assert statement["Resource"] == task.properties["ExecutionRoleArn"]
        assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}
    assert all(passing[0][1] in deployment.statements_of(starter) for starter in STARTERS)


def test_the_execution_role_pulls_one_image_and_writes_one_log(deployment: Deployment) -> None:
    role_id = deployment.one("AWS::ECS::TaskDefinition").properties["ExecutionRoleArn"]["Fn::GetAtt"][0]
    statements = deployment.statements(role_id, "workbench-sandbox")
    allowed = {
        action: text(statement["Resource"]) for statement in statements for action in as_list(statement["Action"])
    }
    assert allowed == {
        **dict.fromkeys(PULL, _repository(deployment)),
        "ecr:GetAuthorizationToken": "*",
        "logs:CreateLogStream": f"<{_sandbox_log(deployment)}.Arn>",
        "logs:PutLogEvents": f"<{_sandbox_log(deployment)}.Arn>",
    }


def test_the_container_is_confined(deployment: Deployment) -> None:
    task = deployment.one("AWS::ECS::TaskDefinition").properties
    (container,) = task["ContainerDefinitions"]
    assert container["ReadonlyRootFilesystem"] is True
    assert container["Privileged"] is False
    linux = container["LinuxParameters"]
    assert linux["InitProcessEnabled"] is True
    dropped, needed = (
        set(linux["Capabilities"]["Drop"]),
        {"SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL"},
    )
    # What is left is what the tests in a container run with.
    assert {f"CAP_{name}" for name in DOCKERS_DEFAULTS - dropped} == set(CAPABILITIES)
    assert "ALL" not in dropped and not dropped & needed
    assert "Add" not in linux["Capabilities"]
    assert {limit["Name"]: limit["HardLimit"] for limit in container["Ulimits"]} == {
        "core": 0,
        "nofile": 4096,
        "nproc": 256,
    }
    assert (task["RequiresCompatibilities"], task["NetworkMode"]) == (["FARGATE"], "awsvpc")
    assert task["RuntimePlatform"] == {"CpuArchitecture": "X86_64", "OperatingSystemFamily": "LINUX"}


def test_the_container_writes_to_memory_only(deployment: Deployment) -> None:
    task = deployment.one("AWS::ECS::TaskDefinition").properties
    (container,) = task["ContainerDefinitions"]
    assert {disk["ContainerPath"] for disk in container["LinuxParameters"]["Tmpfs"]} == {"/sandbox", "/tmp"}
    assert all({"nosuid", "nodev"} <= set(disk["MountOptions"]) for disk in container["LinuxParameters"]["Tmpfs"])
    assert not task.get("Volumes") and not container.get("MountPoints")


def test_the_task_definition_holds_no_secret(deployment: Deployment) -> None:
    (container,) = deployment.one("AWS::ECS::TaskDefinition").properties["ContainerDefinitions"]
    assert not container.get("Secrets") and not container.get("Environment") and not container.get("EnvironmentFiles")


def test_only_the_workflow_and_the_pool_start_and_stop_tasks_and_of_one_family(deployment: Deployment) -> None:
    cluster = deployment.one("AWS::ECS::Cluster")
    ecs = [
        (as_list(statement["Action"]), text(statement["Resource"]), statement.get("Condition"))
        for policy in deployment.of("AWS::IAM::Policy")
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if any(action.startswith("ecs:") for action in as_list(statement["Action"]))
    ]
    place = "arn:<AWS::Partition>:ecs:<AWS::Region>:<AWS::AccountId>"
    assert ecs == [
        (
            ["ecs:RunTask"],
            f"{place}:task-definition/workbench-sandbox:*",
            {"ArnEquals": {"ecs:cluster": {"Fn::GetAtt": [cluster.id, "Arn"]}}},
        ),
        (["ecs:StopTask"], f"{place}:task/workbench/*", None),
    ] * len(STARTERS)
    for starter in STARTERS:
        assert any(as_list(statement["Action"]) == ["ecs:RunTask"] for statement in deployment.statements_of(starter))


# ---------------------------------------------------------------- the one address it reaches


def test_the_sandbox_api_is_private_and_has_one_method(deployment: Deployment) -> None:
    api = deployment.one("AWS::ApiGateway::RestApi")
    assert api.properties["EndpointConfiguration"] == {"Types": ["PRIVATE"]}
    method = deployment.one("AWS::ApiGateway::Method").properties
    assert method["HttpMethod"] == "POST"
    parts = {found.id: found.properties for found in deployment.of("AWS::ApiGateway::Resource")}
    leaf = parts[method["ResourceId"]["Ref"]]
    assert (parts[leaf["ParentId"]["Ref"]]["PathPart"], leaf["PathPart"]) == ("v1", "sandbox")


def test_the_sandbox_api_answers_nobody_outside_the_vpc(deployment: Deployment) -> None:
    vpc = {"Ref": deployment.one("AWS::EC2::VPC").id}
    allow, deny = deployment.one("AWS::ApiGateway::RestApi").properties["Policy"]["Statement"]
    assert (allow["Effect"], allow["Resource"]) == ("Allow", "execute-api:/live/POST/v1/sandbox")
    assert allow["Condition"] == {"StringEquals": {"aws:SourceVpc": vpc}}
    assert (deny["Effect"], deny["Resource"]) == ("Deny", "execute-api:/*")
    assert deny["Condition"] == {"StringNotEquals": {"aws:SourceVpc": vpc}}


def test_the_sandbox_is_told_the_address_that_exists(deployment: Deployment) -> None:
    api = deployment.one("AWS::ApiGateway::RestApi").id
    for starter in STARTERS:
        told = deployment.function(starter).properties["Environment"]["Variables"]["WORKBENCH_SANDBOX_ROUTE_URL"]
        assert text(told) == f"https://<{api}>.execute-api.<AWS::Region>.<AWS::URLSuffix>/live/v1/sandbox"
    assert deployment.one("AWS::ApiGateway::Stage").properties["StageName"] == "live"


def test_the_news_of_a_stopped_task_reaches_its_function(deployment: Deployment) -> None:
    (rule,) = [rule.properties for rule in deployment.of("AWS::Events::Rule") if "aws.ecs" in str(rule.properties)]
    cluster = {"Fn::GetAtt": [deployment.one("AWS::ECS::Cluster").id, "Arn"]}
    assert rule["EventPattern"] == {
        "source": ["aws.ecs"],
        "detail-type": ["ECS Task State Change"],
        "detail": {"clusterArn": [cluster], "lastStatus": ["STOPPED"]},
    }
    (target,) = rule["Targets"]
    assert target["Arn"] == {"Fn::GetAtt": [deployment.function("task_stopped").id, "Arn"]}


# ---------------------------------------------------------------- helpers


def _service(endpoint: Resource) -> str:
    return text(endpoint.properties["ServiceName"]).removeprefix("com.amazonaws.<AWS::Region>.")


def _allowed(endpoint: Resource) -> list[tuple[list[str], list[str], dict[str, Any]]]:
    statements = endpoint.properties["PolicyDocument"]["Statement"]
    assert all(statement["Effect"] == "Allow" for statement in statements)
    return [
        (
            as_list(statement["Action"]),
            [text(resource) for resource in as_list(statement["Resource"])],
            {
                operator: {key: text(value) for key, value in tests.items()}
                for operator, tests in statement.get("Condition", {}).items()
            },
        )
        for statement in statements
    ]


def _domain_lists(deployment: Deployment) -> list[Resource]:
    return deployment.of("AWS::Route53Resolver::FirewallDomainList")


def _repository(deployment: Deployment) -> str:
    """The repository of the task's image, as policies name it."""
    (container,) = deployment.one("AWS::ECS::TaskDefinition").properties["ContainerDefinitions"]
    name = text(container["Image"]).split("/", 1)[1].rsplit(":", 1)[0]
    return f"arn:<AWS::Partition>:ecr:<AWS::Region>:<AWS::AccountId>:repository/{name}"


def _sandbox_log(deployment: Deployment) -> str:
    (container,) = deployment.one("AWS::ECS::TaskDefinition").properties["ContainerDefinitions"]
    return str(container["LogConfiguration"]["Options"]["awslogs-group"]["Ref"])

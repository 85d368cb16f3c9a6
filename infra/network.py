"""The network of the sandbox: isolated subnets, five endpoints as their only neighbours, and no other name to resolve.

There is no NAT and no internet gateway, so a route outwards does not exist. Endpoint policies say what may be asked of
each neighbour; the DNS firewall closes the one path that isolated subnets still have, name resolution.
"""

from __future__ import annotations

from aws_cdk import Aws, Fn, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_route53resolver as resolver
from constructs import Construct

HTTPS = ec2.Port.tcp(443)
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


class Network(Construct):
    """The VPC and its two security groups. ``open_to`` must be called once, when the neighbours are known."""

    def __init__(self, scope: Construct, construct_id: str, *, zones: int, log_retention: logs.RetentionDays) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr("10.0.0.0/20"),
            # Named by position, so that synthesis asks AWS nothing and one zone can be chosen.
            availability_zones=[Fn.select(zone, Fn.get_azs()) for zone in range(zones)],
            nat_gateways=0,
            create_internet_gateway=False,
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="sandbox", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=24)
            ],
        )
        self._flow_log(log_retention)
        self.endpoint_group = ec2.SecurityGroup(
            self, "EndpointGroup", vpc=self.vpc, description="The endpoints of the sandbox", allow_all_outbound=False
        )
        self.sandbox_group = ec2.SecurityGroup(
            self, "SandboxGroup", vpc=self.vpc, description="Sandbox tasks", allow_all_outbound=False
        )
        # Isolated routes reach only the endpoints. S3's gateway endpoint has no address of its own to name here, and
        # looking up its prefix list would call AWS during synthesis.
        self.sandbox_group.add_egress_rule(ec2.Peer.any_ipv4(), HTTPS, "HTTPS to the endpoints")
        self.endpoint_group.add_ingress_rule(self.sandbox_group, HTTPS, "HTTPS from sandbox tasks")

    @property
    def subnet_ids(self) -> list[str]:
        return [subnet.subnet_id for subnet in self.vpc.isolated_subnets]

    def open_to(self, *, repository_arn: str, log_group_arn: str, route_arn: str, route_host: str) -> None:
        """Let tasks pull one image, write one log and call one method; every other name and request is refused."""
        self._interface(
            "EcrApi",
            ec2.InterfaceVpcEndpointAwsService.ECR,
            # A token is for the whole registry: this action knows no resource. Credentials that somebody carried into
            # a sandbox belong to another account and get none.
            _allow("ecr:GetAuthorizationToken", on="*", only_own_account=True),
            _allow(*PULL, on=repository_arn, only_own_account=True),
        )
        self._interface(
            "EcrDocker",
            ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
            _allow(*PULL, on=repository_arn, only_own_account=True),
        )
        self._interface(
            "Logs",
            ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
            _allow("logs:CreateLogStream", "logs:PutLogEvents", on=log_group_arn, only_own_account=True),
        )
        self._interface(
            "ExecuteApi", ec2.InterfaceVpcEndpointAwsService.APIGATEWAY, _allow("execute-api:Invoke", on=route_arn)
        )
        layers = f"prod-{Aws.REGION}-starport-layer-bucket"
        gateway = self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        gateway.add_to_policy(_allow("s3:GetObject", on=f"arn:{Aws.PARTITION}:s3:::{layers}/*"))
        self._resolve_only(
            f"api.ecr.{Aws.REGION}.{Aws.URL_SUFFIX}",
            f"{Aws.ACCOUNT_ID}.dkr.ecr.{Aws.REGION}.{Aws.URL_SUFFIX}",
            f"{layers}.s3.{Aws.REGION}.{Aws.URL_SUFFIX}",
            f"logs.{Aws.REGION}.{Aws.URL_SUFFIX}",
            route_host,
        )

    def _interface(
        self, name: str, service: ec2.InterfaceVpcEndpointAwsService, *statements: iam.PolicyStatement
    ) -> None:
        endpoint = self.vpc.add_interface_endpoint(
            name,
            service=service,
            open=False,
            private_dns_enabled=True,
            security_groups=[self.endpoint_group],
            subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
        )
        for statement in statements:
            endpoint.add_to_policy(statement)

    def _resolve_only(self, *names: str) -> None:
        allowed = resolver.CfnFirewallDomainList(self, "EndpointNames", domains=list(names))
        everything = resolver.CfnFirewallDomainList(self, "EveryName", domains=["*"])
        rule = resolver.CfnFirewallRuleGroup.FirewallRuleProperty
        group = resolver.CfnFirewallRuleGroup(
            self,
            "OnlyEndpoints",
            firewall_rules=[
                rule(
                    priority=1,
                    action="ALLOW",
                    firewall_domain_list_id=allowed.attr_id,
                    # The names are aliases of AWS's own hosts, which would be inspected and blocked one by one.
                    firewall_domain_redirection_action="TRUST_REDIRECTION_DOMAIN",
                ),
                rule(priority=2, action="BLOCK", block_response="NXDOMAIN", firewall_domain_list_id=everything.attr_id),
            ],
        )
        # A VPC whose firewall fails refuses names: that is Route 53's default, and no resource here opens it.
        resolver.CfnFirewallRuleGroupAssociation(
            self,
            "Firewall",
            firewall_rule_group_id=group.attr_id,
            vpc_id=self.vpc.vpc_id,
            priority=101,
            mutation_protection="DISABLED",
        )

    def _flow_log(self, retention: logs.RetentionDays) -> None:
        group = logs.LogGroup(self, "FlowLogGroup", retention=retention, removal_policy=RemovalPolicy.DESTROY)
        self.vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
            traffic_type=ec2.FlowLogTrafficType.ALL,
        )


def _allow(*actions: str, on: str, only_own_account: bool = False) -> iam.PolicyStatement:
    conditions = {"StringEquals": {"aws:PrincipalAccount": Aws.ACCOUNT_ID}} if only_own_account else None
    return iam.PolicyStatement(
        actions=list(actions), resources=[on], principals=[iam.AnyPrincipal()], conditions=conditions
    )

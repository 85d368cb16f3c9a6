"""Everything in which moto 5.2.5 differs from AWS in a way that Workbench could trip over or come to rely on.

Each adaptation is one function whose docstring says what moto does, what AWS does and why it matters; there is a module
for each service. They are applied by :func:`adapt` and undone by what it returns; ``without`` leaves some out, which is
how the tests show that moto still needs each of them (``tests/local/moto_adaptations``). Nothing else in the project
patches moto.
"""

import moto.backends  # noqa: F401 - registers the services, and the stubber in botocore's built-in handlers
from moto.core.config import DefaultConfig

# Each of these registers its adaptations.
from local.moto_adaptations import dynamodb, lambda_ecs, s3, step_functions  # noqa: F401
from local.moto_adaptations.network import OutsideLoopback, refuse_outside, stay_on_this_machine
from local.moto_adaptations.registry import ADAPTATIONS, adapt

__all__ = ["ADAPTATIONS", "MOTO_CONFIG", "OutsideLoopback", "adapt", "refuse_outside", "stay_on_this_machine"]

MOTO_CONFIG: DefaultConfig = {
    "stepfunctions": {"execute_state_machine": True},
    "lambda": {"use_docker": False},
}

"""The templates are synthesised once for all tests of this folder, without bundling: one test does that for real."""

from __future__ import annotations

import pytest

from tests.infra.templates import Deployment, synthesise


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """What `cdk deploy` would create with the settings as they are delivered."""
    return synthesise(tmp_path_factory.mktemp("cdk"))

"""Runs the contract over this project's two backends, or over the one that ``--file-backend`` names."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.contract import backends
from tests.contract.protocol import FileBackend
from tests.local.conftest import Api
from tests.local.talk import Talk

OPTION = "--file-backend"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="MODULE:FACTORY", help="run the contract over FACTORY(directory) instead")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given = metafunc.config.getoption(OPTION, default=None)
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", [given] if given else ["library", "http"], indirect=True)
    elif "on_disk" in metafunc.fixturenames:
        metafunc.parametrize("on_disk", [given] if given else ["library"], indirect=True)


def made(request: pytest.FixtureRequest, root: Path) -> FileBackend:
    if request.param == "library":
        return backends.Directory(root)
    if request.param == "http":
        api = Api(request.getfixturevalue("system").url)
        return backends.Http(Talk.open(api, f"contract-{secrets.token_hex(6)}"))
    module, _, name = request.param.partition(":")
    factory: Callable[[Path], FileBackend] = getattr(import_module(module), name)
    return factory(root)


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> FileBackend:
    """Any backend."""
    return made(request, tmp_path / "root")


@pytest.fixture
def on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> FileBackend:
    """A backend over a directory, into which a test may put what no tool makes."""
    return made(request, tmp_path / "root")

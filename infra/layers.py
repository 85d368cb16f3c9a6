"""The Lambda layers: the product's own package, and third-party packages as wheels for the functions' platform.

What every function imports is one layer; what only the reading of documents needs is another.

Bundling never needs Docker. Where the wheels cannot be had it fails with the installer's own words instead of falling
back to a container.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import Annotations, AssetHashType, BundlingOptions, DockerImage, FileSystem, IgnoreMode, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.bytecode import add_bytecode, interpreter

ROOT = Path(__file__).resolve().parent.parent
DEPENDENCIES = ROOT / "layers" / "dependencies"
EXTRACTION = ROOT / "layers" / "extraction"
OWN = ROOT / "layers" / "workbench"

PYTHON = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64
# Byte code that lies about is of this machine's Python and changes at every run; layers get their own (bytecode.py).
NOT_SHIPPED = ["**/__pycache__", "**/*.pyc", "**/.mypy_cache", "**/.ruff_cache", "**/.pytest_cache"]
# botocore ships the models of 400 services, 30 MB; these are the ones the functions call (and STS, which it may).
BOTOCORE_SERVICES = frozenset({"bedrock-runtime", "dynamodb", "s3", "stepfunctions", "ecs", "lambda", "sts"})


class BundlingFailed(Exception):
    """The third-party layer could not be built; the message holds the installer's output."""


@jsii.implements(ILocalBundling)
class WheelBundling:
    """Installs a layer's pinned wheels into the asset's directory, compiled where ``python`` is there to do it."""

    def __init__(self, layer: Path, python: str | None = None) -> None:
        self._layer = layer
        self._python = python

    def try_bundle(self, output_dir: str, *, image: DockerImage, **_options: Any) -> bool:  # noqa: ARG002 - CDK's signature
        """Always True or an exception: returning False would make CDK start Docker."""
        install_wheels(Path(output_dir) / "python", self._layer)
        if self._python is not None:
            add_bytecode(self._python, Path(output_dir))
        return True


@jsii.implements(ILocalBundling)
class OwnBundling:
    """Copies the product's own package into the asset's directory, compiled where ``python`` is there to do it."""

    def __init__(self, python: str | None = None) -> None:
        self._python = python

    def try_bundle(self, output_dir: str, *, image: DockerImage, **_options: Any) -> bool:  # noqa: ARG002 - CDK's signature
        """Always True or an exception: returning False would make CDK start Docker."""
        left_out = shutil.ignore_patterns(*(pattern.removeprefix("**/") for pattern in NOT_SHIPPED))
        shutil.copytree(OWN, output_dir, ignore=left_out, dirs_exist_ok=True)
        if self._python is not None:
            add_bytecode(self._python, Path(output_dir))
        return True


def install_wheels(target: Path, layer: Path = DEPENDENCIES) -> None:
    """Install the requirements.txt of ``layer`` for Python 3.13 on arm64 into ``target``; raises BundlingFailed."""
    finished = subprocess.run(_installer(target, layer), capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        said = finished.stderr.strip() or finished.stdout.strip()
        raise BundlingFailed(
            f"The packages of layers/{layer.name}/requirements.txt could not be installed. They come from the package "
            f"index or a cache of its wheels; without either there is no layer to deploy.\n{said}"
        )
    _prune(target)


def _installer(target: Path, layer: Path) -> list[str]:
    requirements = str(layer / "requirements.txt")
    checked = ["--target", str(target), "--require-hashes", "--no-deps", "--python-version", "3.13", "-r", requirements]
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        platform = ["--python-platform", "aarch64-manylinux_2_28", "--only-binary", ":all:"]
        return [uv, "pip", "install", "--quiet", *platform, *checked]
    platform = ["--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64"]
    # pip would compare each package with the Python that runs pip; the lock has chosen for the functions' Python.
    implementation = ["--implementation", "cp", "--only-binary=:all:", "--no-compile", "--ignore-requires-python"]
    return [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *platform,
        *implementation,
        *checked,
    ]


def _prune(target: Path) -> None:
    models = target / "botocore" / "data"
    for model in models.iterdir() if models.is_dir() else ():
        if model.is_dir() and model.name not in BOTOCORE_SERVICES:
            shutil.rmtree(model)
    for scripts in (target / "bin", target / ".lock"):
        if scripts.is_dir():
            shutil.rmtree(scripts)
        else:
            scripts.unlink(missing_ok=True)


def _recipe(layer: Path, kind: str) -> str:
    """Identifies the layer by what it is made from, so that an unchanged one is neither built nor uploaded again."""
    recipe = (layer / "requirements.txt").read_bytes() + " ".join(sorted(BOTOCORE_SERVICES)).encode() + kind.encode()
    return hashlib.sha256(recipe).hexdigest()


class Layers(Construct):
    """The layers of one stack. Each stack has its own versions: exporting a version would forbid its replacement."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        version = PYTHON.name.removeprefix("python")
        self._python = interpreter(version)
        if self._python is None:
            Annotations.of(self).add_info(
                f"No Python {version} here (python{version} on the path): the layers hold no byte code, and every cold "
                "start compiles what it imports, which takes half a second more."
            )
        # Part of each layer's hash: with a Python that can compile them, layers are made anew.
        self._kind = f"byte code of {version}" if self._python else "sources"
        own = self._layer(
            "Workbench",
            OWN,
            "Workbench: the domain shared by all functions",
            FileSystem.fingerprint(str(OWN), exclude=NOT_SHIPPED, ignore_mode=IgnoreMode.GIT, extra_hash=self._kind),
            OwnBundling(self._python),
        )
        third_party = self._wheels("Dependencies", DEPENDENCIES, "Workbench: third-party packages")
        self.all: list[lambda_.ILayerVersion] = [third_party, own]

    def extraction(self) -> lambda_.ILayerVersion:
        """The packages that read uploaded documents, for the one function that does."""
        return self._wheels("Extraction", EXTRACTION, "Workbench: packages that read documents")

    def _wheels(self, construct_id: str, layer: Path, description: str) -> lambda_.LayerVersion:
        bundling = WheelBundling(layer, self._python)
        return self._layer(construct_id, layer, description, _recipe(layer, self._kind), bundling)

    def _layer(
        self, construct_id: str, source: Path, description: str, asset_hash: str, bundling: ILocalBundling
    ) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            construct_id,
            description=description,
            code=lambda_.Code.from_asset(
                str(source),
                asset_hash_type=AssetHashType.CUSTOM,
                asset_hash=asset_hash,
                bundling=BundlingOptions(image=DockerImage.from_registry("unused"), local=bundling),
            ),
            compatible_runtimes=[PYTHON],
            compatible_architectures=[ARCHITECTURE],
        )

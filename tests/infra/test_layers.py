"""The layers as they are deployed: bundled by the application itself, without Docker or npm, for another platform."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import layers
from tests.infra.templates import ROOT, Deployment

AARCH64 = 183  # e_machine of an ELF file
UNZIPPED_MOST_BYTES = 250 * 1024 * 1024


@pytest.fixture
def assembly(deployment: Deployment) -> Path:
    """cdk.out with its assets."""
    return deployment.folder


@pytest.fixture
def wheels(assembly: Path) -> Path:
    """The third-party layer's packages."""
    (found,) = assembly.glob("asset.*/python/pydantic")
    return found.parent


# What only a program of a developer's own uses, and no function: the retriever over RDF graphs.
FOR_DEVELOPERS = {"rdflib"}


def test_the_application_writes_every_stack(assembly: Path) -> None:
    assert {path.name for path in assembly.glob("*.template.json")} == {
        "workbench-storage.template.json",
        "workbench-sandbox.template.json",
        "workbench-api.template.json",
    }


def test_synthesis_looked_nothing_up(assembly: Path) -> None:
    assert '"missing"' not in (assembly / "manifest.json").read_text()
    assert not (ROOT / "cdk.context.json").exists()


def test_compiled_packages_are_for_the_functions_platform(wheels: Path) -> None:
    compiled = [path for path in wheels.rglob("*.so*") if path.is_file()]
    assert {path.name.split(".")[0] for path in compiled} >= {"_pydantic_core", "_imaging", "_regex"}
    for path in compiled:
        header = path.read_bytes()[:20]
        assert header[:4] == b"\x7fELF" and int.from_bytes(header[18:20], "little") == AARCH64, path.name
        assert "cpython-311" not in path.name, path.name


def test_the_layers_fit_into_a_function(assembly: Path) -> None:
    sizes = [_bytes(found) for found in assembly.glob("asset.*/python")]
    # The product's own, what all functions import, and what reads documents.
    assert len(sizes) == 3
    assert sum(sizes) < UNZIPPED_MOST_BYTES


def test_only_the_function_that_reads_documents_carries_the_packages_for_it(
    deployment: Deployment, assembly: Path
) -> None:
    (extraction,) = assembly.glob("asset.*/python/docx")
    assert {path.name for path in extraction.parent.iterdir()} >= {"lxml", "openpyxl", "pypdf", "pptx", "cryptography"}
    assert not (extraction.parent / "PIL").exists(), "it is in the other layer"
    layered = {
        function.properties["FunctionName"].removeprefix("workbench-"): len(function.properties["Layers"])
        for function in deployment.of("AWS::Lambda::Function")
        if "Layers" in function.properties
    }
    assert {name for name, count in layered.items() if count == 3} == {"documents"}


def test_no_asset_holds_byte_code(assembly: Path) -> None:
    assert [*assembly.rglob("__pycache__"), *assembly.rglob("*.pyc")] == []


def test_the_pruned_sdk_still_makes_every_client(wheels: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import botocore, botocore.session\n"
        "assert botocore.__file__.startswith(sys.argv[1]), botocore.__file__\n"
        "session = botocore.session.get_session()\n"
        "for service in sys.argv[2:]: session.create_client(service, region_name='eu-central-1')\n"
    )
    services = sorted(layers.BOTOCORE_SERVICES)
    finished = subprocess.run(
        [sys.executable, "-I", "-c", program, str(wheels), *services], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


def test_the_code_calls_no_service_that_was_pruned() -> None:
    source = (ROOT / "layers/workbench/python/workbench/clients.py").read_text()
    made = {part.split('"')[0] for part in source.split('self._make("')[1:]}
    assert made and made <= layers.BOTOCORE_SERVICES


def test_every_package_that_the_code_imports_is_in_a_layer(assembly: Path, wheels: Path) -> None:
    imported: set[str] = set()
    for source in (*layers.OWN.rglob("*.py"), *(ROOT / "functions").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    (extraction,) = assembly.glob("asset.*/python/docx")
    shipped = {path.name.split(".")[0] for path in (*wheels.iterdir(), *extraction.parent.iterdir())}
    assert imported - set(sys.stdlib_module_names) - {"workbench"} - shipped == FOR_DEVELOPERS


def test_a_failed_installation_says_so_and_never_asks_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "DEPENDENCIES", tmp_path)
    (tmp_path / "requirements.txt").write_text("no-such-package==1.0 --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(layers.BundlingFailed, match="could not be installed"):
        layers.WheelBundling(layers.DEPENDENCIES).try_bundle(str(tmp_path / "out"), image=None)  # type: ignore[arg-type]


def test_every_package_is_pinned_with_hashes() -> None:
    files = [(layer / "requirements.txt").read_text() for layer in (layers.DEPENDENCIES, layers.EXTRACTION)]
    lines = "".join(files).splitlines()
    packages = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert all("==" in line and line.endswith("\\") for line in packages)
    assert "://" not in "\n".join(lines)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())

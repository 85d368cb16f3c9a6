"""The layers as they are deployed: bundled by the application itself, without Docker or npm, for another platform."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import bytecode, layers
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


def test_only_layers_hold_byte_code_and_only_of_the_functions_python(assembly: Path) -> None:
    # The application ran with the path that conftest.py gave it.
    beside = shutil.which("python3.13", path=str(Path(sys.executable).parent))
    compiling = bytecode.interpreter("3.13", [sys.executable, beside]) is not None
    layered = {path.parent for path in assembly.glob("asset.*/python")}
    for asset in assembly.glob("asset.*"):
        compiled = {path.name.split(".", 1)[1] for path in asset.rglob("*.pyc")}
        assert compiled == ({"cpython-313.pyc"} if compiling and asset in layered else set()), asset.name


def test_the_products_own_layer_is_compiled_whole_and_brings_nothing_that_lies_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "source" / "python" / "workbench"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__pycache__" / "gone.cpython-27.pyc").write_bytes(b"old")
    (package / "__init__.py").write_text("")
    (package / "data.json").write_text("{}")
    (package / "ids.py").write_text("NAME = 1\n")
    monkeypatch.setattr(layers, "OWN", tmp_path / "source")
    for python, count in ((sys.executable, 2), (None, 0)):
        target = tmp_path / f"asset-{count}"
        # CDK makes the directory.
        target.mkdir()
        assert layers.OwnBundling(python).try_bundle(str(target), image=None)  # type: ignore[arg-type]
        assert {path.name for path in (target / "python/workbench").iterdir()} - {"__pycache__"} == {
            "__init__.py",
            "data.json",
            "ids.py",
        }
        tag = sys.implementation.cache_tag
        names = {path.name for path in target.rglob("*.pyc")}
        assert names == ({f"__init__.{tag}.pyc", f"ids.{tag}.pyc"} if count else set())


def test_byte_code_is_taken_as_it_is_and_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    package = tmp_path / "layer" / "python"
    package.mkdir(parents=True)
    (package / "told.py").write_text("SAID = 'when it was compiled'\ndef where(): pass\n")
    (package / "older.py").write_text("print 'of another Python'\n")
    bytecode.add_bytecode(sys.executable, tmp_path / "layer")
    # A source of another text and time shows that nothing compares them.
    (package / "told.py").write_text("SAID = 'later'\n")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import told; print(told.SAID)"
    finished = subprocess.run(
        [sys.executable, "-I", "-c", program, str(package)], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "when it was compiled\n"
    (compiled,) = package.rglob("*.pyc")
    assert b"/opt/python/told.py" in compiled.read_bytes()
    assert bytes(tmp_path) not in compiled.read_bytes()


def test_only_a_released_python_of_the_version_compiles(tmp_path: Path) -> None:
    def python(name: str, said: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{said}\n")
        path.chmod(0o755)
        return str(path)

    missing, chooser = str(tmp_path / "none"), python("chooser", "echo 'no such version' >&2; exit 127")
    another, candidate = python("another", "echo '3.12 final'"), python("candidate", "echo '3.13 candidate'")
    right = python("right", "echo '3.13 final'")
    assert bytecode.interpreter("3.13", [None, missing, chooser, another, candidate, right]) == right
    assert bytecode.interpreter("3.13", [None, missing, chooser, another, candidate]) is None
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert bytecode.interpreter(mine) == sys.executable


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

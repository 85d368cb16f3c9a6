"""The catalogue: names without imports, versions in order, and every published tool described in full."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench.tools import catalogue
from workbench.tools.arguments import InvalidArguments
from workbench.tools.contract import Tool
from workbench.tools.schemas import flattened, schema_of

ALL_VERSIONS = [(name, version) for name in catalogue.names() for version in catalogue.versions(name)]


def in_a_fresh_process(program: str, *arguments: str) -> str:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


def test_names_are_known_without_loading_any_tool():
    program = "import sys; from workbench.tools import catalogue as c; c.names(); c.versions('calculate');"
    loaded = in_a_fresh_process(program + "print([m for m in sys.modules if 'arithmetic' in m or 'file_tools' in m])")
    assert loaded == "[]"


def test_one_tool_loads_no_other_tools_module():
    wheres = {where.partition(":")[0] for by_version in catalogue.TABLE.values() for where in by_version.values()}
    program = "import sys; from workbench.tools import catalogue as c; c.get('calculate');"
    program += f"print(sorted({wheres!r} & set(sys.modules)))"
    assert in_a_fresh_process(program) == "['workbench.arithmetic.tools']"


def test_a_file_tool_waits_for_nothing_that_only_another_needs():
    program = (
        "import sys; from workbench.tools import catalogue as c; found = c.get(sys.argv[1]); found.bind(sys.argv[2])\n"
        "import workbench.workspace.looking\n"
        "print([m for m in sys.modules if m.rpartition('.')[2] in ('edit', 'search', 'listing', 'decoding', 'guard')])"
    )
    assert in_a_fresh_process(program, "read_file", '{"path": "a.md"}') == "[]"


def test_versions_are_ordered_by_number_and_the_latest_is_the_default(monkeypatch):
    where = catalogue.TABLE["calculate"]["1.0.0"]
    monkeypatch.setitem(catalogue.TABLE, "calculate", {"10.0.0": where, "9.1.0": where, "1.0.0": where})
    assert catalogue.versions("calculate") == ["1.0.0", "9.1.0", "10.0.0"]
    assert catalogue.get("calculate", "1.0.0").id == "calculate@1.0.0"


def test_a_table_that_disagrees_with_the_code_is_an_error(monkeypatch):
    monkeypatch.setitem(catalogue.TABLE, "calculate", {"2.0.0": "workbench.arithmetic.tools:current_time"})
    with pytest.raises(RuntimeError, match=r"current_time@1\.0\.0"):
        catalogue.get("calculate")


@pytest.mark.parametrize(("name", "version"), [("no_such_tool", None), ("calculate", "7.0.0"), ("", None)])
def test_what_is_not_registered_is_none(name, version):
    assert catalogue.get(name, version) is None


def test_the_nearest_name_is_found():
    assert catalogue.nearest("readFile") == "read_file"
    assert catalogue.nearest("delete_database") != "calculate"
    assert catalogue.nearest("zzz") is None


def test_both_versions_of_the_export_stay_registered():
    assert catalogue.versions("export_artifact") == ["1.0.0", "2.0.0"]


@pytest.mark.parametrize(("name", "version"), ALL_VERSIONS)
def test_every_tool_is_described_in_full_and_its_defaults_fit_its_own_bounds(name, version):
    found = catalogue.get(name, version)
    assert found is not None
    schema = schema_of(found)
    assert set(schema["properties"]) == set(found.shape.fields)
    assert flattened(schema)["type"] == "object"
    assert problems_with(
        found, {name: default for name, default in found.shape.defaults.items() if default is not None}
    ) <= {"is required"}


def problems_with(found: Tool, arguments: dict[str, object]) -> set[str]:
    try:
        found.bind(arguments)
    except InvalidArguments as error:
        return {problem["rule"] for problem in error.details["problems"]}
    return set()

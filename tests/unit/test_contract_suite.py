"""The contract tests see the faults that they are about: a backend that has them fails every one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

PROJECT = Path(__file__).resolve().parents[2]
# A naive backend does these right: they keep a careful one from refusing everything.
CONTROLS = {
    "test_look_alikes_are_different_characters",
    "test_an_edit_keeps_the_files_mode",
    "test_a_file_that_is_not_there_is_not_made_by_an_edit",
    "test_patterns_find_files_in_every_folder",
    "test_dots_that_stay_inside_are_fine_or_refused",
    "test_a_percent_sign_is_just_a_character",
    "test_nothing_is_stored_below_a_file_nor_in_place_of_a_folder",
    "test_one_of_two_spellings_of_a_name_never_stands_for_the_other_file",
}


def test_every_test_of_the_contract_can_fail(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "tests/contract", "-p", "no:cacheprovider", "--tb=no"),
            *("--file-backend", "tests.contract.backends:Naive", f"--junit-xml={report}", f"--basetemp={tmp_path}/t"),
        ],
        cwd=PROJECT,
        capture_output=True,
        check=False,
    )
    outcomes: dict[str, set[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        outcomes.setdefault(name, set()).add(case[0].tag if len(case) else "passed")
    assert {name for name, seen in outcomes.items() if seen == {"passed"}} == CONTROLS
    assert "error" not in set().union(*outcomes.values())

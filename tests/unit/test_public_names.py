"""What a developer imports: from where the documentation says, by these names, loading only what is used."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

PACKAGES = ("workbench.retrieval", "workbench.skills", "workbench.prompts")
SIGNATURES = {
    "workbench.retrieval.retrieval_tool": ["retriever", "k=4", "name='retrieve'"],
    "workbench.skills.discover_skills": ["dirs", "strict=False"],
    "workbench.skills.load_skills_into": ["registry", "dirs"],
    "workbench.skills.match_skills": ["registry", "text", "threshold=0.05"],
    "workbench.skills.parse_skill_file": ["content", "path=None"],
    "workbench.skills.score_skills": ["registry", "text"],
    "workbench.prompts.ab_prompts": ["variants", "pick=None", "key=None"],
    "workbench.prompts.define_prompt": ["name", "template", "version='1.0.0'"],
    "workbench.prompts.load_prompt_file": ["path"],
}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_and_no_other(package: str) -> None:
    module = importlib.import_module(package)
    assert all(getattr(module, name).__name__ == name for name in module.__all__)
    with pytest.raises(AttributeError):
        module.nothing  # noqa: B018


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(path: str) -> None:
    package, _, name = path.rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(package), name)).parameters.values()
    shown = [one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in parameters]
    assert shown == SIGNATURES[path]


def test_a_package_loads_nothing_that_is_not_asked_for() -> None:
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import workbench.retrieval, workbench.skills\n"
        "print(sorted({'workbench.retrieval.tfidf', 'workbench.retrieval.index', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

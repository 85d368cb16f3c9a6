"""One process that wants more memory than a run may use is refused it, and the answer says so with its code."""

from __future__ import annotations

import pytest

from tests.local.conftest import Api
from tests.local.talk import Talk, text


@pytest.mark.parametrize(
    ("language", "code", "said"),
    [
        ("python", "open('workspace/kept.txt', 'w').write('kept')\nblock = bytearray(2 ** 40)", "MemoryError"),
        ("python", "import numpy\nnumpy.ones(10 ** 12)", "Unable to allocate"),
        ("javascript", "Buffer.alloc(2 ** 34)", "Array buffer allocation failed"),
        ("shell", "python3 -c 'bytearray(2 ** 40)'", "MemoryError"),
    ],
)
def test_a_process_that_is_refused_memory_ends_with_that_code(
    api: Api, unique: str, language: str, code: str, said: str
) -> None:
    talk = Talk.open(api, unique)
    answer = talk.call("run_code", code=code, language=language)
    assert (answer["outcome"], answer["error"]["code"]) == ("error", "SANDBOX_MEMORY")
    assert not answer["error"]["retryable"]
    assert answer["structured"]["exitCode"] == 1
    assert "in chunks" in text(answer) and said in text(answer)
    if "kept.txt" in code:
        assert talk.files() == {"kept.txt": b"kept"}


def test_a_program_that_copes_with_the_refusal_has_not_failed(api: Api, unique: str) -> None:
    code = "try:\n    bytearray(2 ** 40)\nexcept MemoryError as error:\n    print('less, then')"
    assert Talk.open(api, unique).ok("run_code", code=code)["structured"]["stdout"] == "less, then\n"

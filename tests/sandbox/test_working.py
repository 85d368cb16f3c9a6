"""What must keep working inside: the positive controls."""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.sandbox.conftest import Sandbox
from tests.sandbox.route_server import MIB

RUNGS = ("local", "bundle")
ROOMY = {"memoryBytes": 1024 * MIB}


def test_numpy_pandas_and_a_figure(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import numpy, pandas
import matplotlib.pyplot as plt
frame = pandas.DataFrame({"x": numpy.arange(10), "y": numpy.arange(10) ** 2})
frame.plot(x="x", y="y")
plt.savefig("workspace/figure.png")
print(frame.y.sum(), (numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum())
""",
        **ROOMY,
    )
    assert run.report["stdout"] == "285 27000000.0\n"
    # No warning about caches, fonts or a missing display.
    assert run.report["stderr"] == ""
    assert (run.workspace()["figure.png"] or b"").startswith(b"\x89PNG")


def test_subprocess_threads_asyncio_and_sqlite(sandbox: Sandbox) -> None:
    run = sandbox.run("""
import asyncio, sqlite3, subprocess, threading
print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True, text=True))
done = []
threads = [threading.Thread(target=done.append, args=(n,)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
async def main():
    child = await asyncio.create_subprocess_exec("echo", "async", stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    return out.decode().strip(), await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(3)))
print(sorted(done) == list(range(20)), asyncio.run(main()))
db = sqlite3.connect("workspace/data.db")
db.execute("create table t (x)"); db.executemany("insert into t values (?)", [(n,) for n in range(100)]); db.commit()
print(db.execute("select sum(x) from t").fetchone())
""")
    assert run.report["stderr"] == ""
    assert run.report["stdout"].splitlines() == [
        "CompletedProcess(args=['sh', '-c', 'echo out; echo err >&2; exit 3'], returncode=3, stdout='out\\n', stderr='err\\n')",
        "True ('async', [0, 1, 2])",
        "(4950,)",
    ]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_process_pools(sandbox: Sandbox, method: str) -> None:
    run = sandbox.run(f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
def square(x):
    return x * x
if __name__ == "__main__":
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("{method}")) as pool:
        print(list(pool.map(square, range(10))))
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(sum(pool.map(square, range(10))))
""")
    assert run.report["stdout"] == "[0, 1, 4, 9, 16, 25, 36, 49, 64, 81]\n285\n", run.report


def test_office_files_and_pdf(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import docx, openpyxl, pandas, pptx, pypdf, xlsxwriter, yaml
from bs4 import BeautifulSoup
from lxml import etree
from PIL import Image
from reportlab.pdfgen import canvas
w = "workspace/"
book = openpyxl.Workbook(); book.active["A1"] = 42; book.save(w + "a.xlsx")
other = xlsxwriter.Workbook(w + "b.xlsx"); other.add_worksheet().write(0, 0, "x"); other.close()
d = docx.Document(); d.add_paragraph("hello"); d.save(w + "a.docx")
p = pptx.Presentation(); p.slides.add_slide(p.slide_layouts[5]).shapes.title.text = "title"; p.save(w + "a.pptx")
c = canvas.Canvas(w + "a.pdf"); c.drawString(100, 700, "printed"); c.save()
Image.new("RGB", (10, 10), "red").save(w + "a.jpg")
print(openpyxl.load_workbook(w + "a.xlsx").active["A1"].value, pandas.read_excel(w + "b.xlsx", header=None).iloc[0, 0],
      docx.Document(w + "a.docx").paragraphs[0].text, pptx.Presentation(w + "a.pptx").slides[0].shapes.title.text,
      pypdf.PdfReader(w + "a.pdf").pages[0].extract_text().strip(), Image.open(w + "a.jpg").size,
      BeautifulSoup("<p>soup</p>", "lxml").p.text, etree.fromstring("<a b='c'/>").get("b"), yaml.safe_load("a: [1]"))
""",
        **ROOMY,
    )
    assert run.report["stdout"] == "42 x hello title printed (10, 10) soup c {'a': [1]}\n", run.report["stderr"]
    assert set(run.workspace()) == {"a.xlsx", "b.xlsx", "a.docx", "a.pptx", "a.pdf", "a.jpg"}


def test_node(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
const fs = require("fs"), { execFileSync } = require("child_process"), { Worker } = require("worker_threads");
fs.writeFileSync("workspace/out.json", JSON.stringify({ rows: fs.readFileSync("inputs/a.csv", "utf8").split(",").map(Number) }));
console.log(execFileSync("sh", ["-c", "echo from shell"]).toString().trim(), [3, 1, 2].toSorted());
console.error("complaint");
new Worker("require('worker_threads').parentPort.postMessage(7)", { eval: true }).on("message", (m) => { console.log("worker", m); process.exitCode = 4; });
""",
        "javascript",
        inputs={"a.csv": b"1,2"},
    )
    assert (run.report["stdout"], run.report["stderr"]) == ("from shell [ 1, 2, 3 ]\nworker 7\n", "complaint\n")
    assert run.report["exitCode"] == 4
    assert run.workspace()["out.json"] == b'{"rows":[1,2]}'


def test_node_modules_in_the_other_style(local_sandbox: Sandbox) -> None:
    run = local_sandbox.run(
        "import { sum } from './workspace/sum.mjs';\nconsole.log(await Promise.resolve(sum(2, 3)));",
        "javascript",
        files={"sum.mjs": b"export const sum = (a, b) => a + b;\n"},
    )
    assert run.report["stdout"] == "5\n", run.report["stderr"]


def test_a_shell_pipeline(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "yes | head -3 | awk '{print NR, $0}' | sed s/y/z/ > workspace/out.txt; sort -rn workspace/out.txt | head -1; "
        "printf 'b\\na\\n' | sort | tr '\\n' ' '; date +%Z; grep -c z workspace/out.txt; python3 -c 'print(6 * 7)'; node -p '1 + 1'; false",
        "shell",
    )
    assert run.report["stdout"].splitlines() == ["3 z", "a b UTC", "3", "42", "2"], run.report["stderr"]
    assert run.report["exitCode"] == 1
    assert run.workspace()["out.txt"] == b"1 z\n2 z\n3 z\n"


def test_a_traceback_is_given_as_python_prints_it(sandbox: Sandbox) -> None:
    run = sandbox.run("def half(x):\n    return x / 0\n\nhalf(3)\n")
    lines = run.report["stderr"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert any(line.strip() == "return x / 0" for line in lines)
    assert run.report["exitCode"] == 1


def test_scripts_in_the_workspace_can_be_run(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "./workspace/hello.sh", "shell", files={"hello.sh": b"#!/bin/sh\necho hello $0\n"}, modes={"hello.sh": 0o755}
    )
    assert run.report["stdout"] == "hello ./workspace/hello.sh\n"

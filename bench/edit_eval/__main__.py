"""``python -m bench.edit_eval``: scripted models, or with ``--openai URL --model NAME`` or ``--bedrock ID`` a real one.

The key of an endpoint is taken from the environment variable that ``--key-env`` names. The system runs in a process of
its own, because the local AWS would otherwise answer for the real Bedrock too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.edit_eval.models import BedrockModel, EndpointFailed, Model, OpenAIModel
from bench.edit_eval.scripted import SCRIPTED
from bench.edit_eval.trials import Trial, record, run, summary

OUT = Path("out/edit_eval/measurements.json")
READY = "workbench ready on "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation, print successes by kind and record them; 1 when a file was left wrong by a scripted model."""
    options = _options(arguments)
    models: Sequence[Model] = _models(options)
    console = Console(width=None if sys.stdout.isatty() else 140)
    done: list[tuple[str, list[Trial]]] = []
    with _system() as url:
        for model in models:
            with console.status(model.name):
                try:
                    trials = run(url, model, tries=options.tries)
                except EndpointFailed as error:
                    print(f"edit_eval: {error}", file=sys.stderr)
                    return 2
            record(options.out, model.name, trials)
            done.append((model.name, trials))
    console.print(_table(done))
    console.print(f"Recorded in {options.out}.", highlight=False)
    return int(not (options.openai or options.bedrock) and any(trial.wrong for _, trials in done for trial in trials))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.edit_eval", description="How often does a model edit one line right?")
    endpoint = parser.add_mutually_exclusive_group()
    endpoint.add_argument("--openai", metavar="URL", help="an OpenAI-compatible endpoint, such as https://host/v1")
    endpoint.add_argument("--bedrock", metavar="MODEL", help="a Bedrock model, with the shell's AWS credentials")
    parser.add_argument("--model", help="the model's name at the OpenAI-compatible endpoint")
    parser.add_argument("--key-env", metavar="NAME", help="the environment variable that holds the endpoint's key")
    parser.add_argument("--region", help="the AWS region of Bedrock")
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    if options.openai and not options.model:
        parser.error("--openai needs --model")
    return options


def _models(options: argparse.Namespace) -> Sequence[Model]:
    if options.openai:
        key = os.environ[options.key_env] if options.key_env else ""
        return [OpenAIModel(options.openai, options.model, key, options.temperature)]
    if options.bedrock:
        import botocore.session

        client = botocore.session.get_session().create_client("bedrock-runtime", region_name=options.region)
        return [BedrockModel(client, options.bedrock, options.temperature)]
    return SCRIPTED


@contextmanager
def _system() -> Iterator[str]:
    """The local system's address, for as long as the block lasts."""
    command = [sys.executable, "-m", "local.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(READY):
                raise RuntimeError("the local system did not start")
            yield line.removeprefix(READY).strip()
        finally:
            process.terminate()


def _table(done: Sequence[tuple[str, list[Trial]]]) -> Table:
    table = Table(title="edit_file: one line to change", title_justify="left")
    for column in ("model", "kind", "right", "slips saved", "left wrong", "wrong without rules", "failures"):
        table.add_column(column, justify="left" if column in ("model", "kind", "failures") else "right")
    for name, trials in done:
        for kind, figures in summary(trials).items():
            failures = ", ".join(f"{count} {what}" for what, count in figures["failures"].items())
            right = f"{figures['successes']}/{figures['trials']}"
            cells = [str(figures[key]) for key in ("saved", "wrong", "blindlyWrong")]
            table.add_row(name, kind, right, *cells, failures)
    return table


if __name__ == "__main__":
    sys.exit(main())

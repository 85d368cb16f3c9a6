"""The ``workbench`` command. Each subcommand is a function here that adds its own parser."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from local.admin.commands import AnyOrder, add_admin, add_download, add_prompts, add_skills
from local.sandbox_check import add_sandbox_check

Subparsers = Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = command_line().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def command_line() -> argparse.ArgumentParser:
    """The parser of every command; what it gives has the function to call as ``run``."""
    parser = argparse.ArgumentParser(
        prog="workbench", description="The whole backend on this machine, and a deployment looked after from it."
    )
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="command", parser_class=AnyOrder)
    for add in COMMANDS:
        add(subparsers)
    return parser


def add_serve(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("serve", help="run the whole system on this machine until interrupted")
    parser.add_argument("--port", type=_port, default=0, help="port on 127.0.0.1; 0 (the default) takes a free one")
    parser.add_argument(
        "--unsafe-sandbox",
        action="store_true",
        help="run programs without isolation where the machine cannot isolate them: they can do what you can do",
    )
    parser.add_argument("--verbose", action="store_true", help="show the handlers' logs on stderr")
    parser.set_defaults(run=serve)


def serve(options: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM. Prints one line on stdout when it can answer; everything else goes to stderr."""
    signals = _watch_signals()
    # A handler may print, which is its log in Lambda; here standard output belongs to the ready line.
    stdout, sys.stdout = sys.stdout, sys.stderr

    # Imported here, because moto and boto take most of a second that `workbench --help` need not wait for.
    from local.system import LocalSystem

    system = LocalSystem()
    try:
        sandbox: Literal["real", "unsafe"] = "unsafe" if options.unsafe_sandbox else "real"
        system.start(options.port, {"warm_sandboxes": 1}, sandbox, verbose=options.verbose)
    except OSError as error:
        print(f"workbench cannot listen on port {options.port}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        print(f"workbench ready on {system.url}", file=stdout, flush=True)
        signals.recv(1)
    finally:
        system.stop()
    # Everything is stopped and flushed; taking an interpreter with all of boto in it apart would take a second more.
    sys.stderr.flush()
    os._exit(0)


def add_inspect(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("inspect", help="follow a sentence along the whole path of a tool call")
    parser.add_argument("sentence", help='such as "what is 15%% of 80" or "convert 5 miles to km"')
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.set_defaults(run=inspect)


def inspect(options: argparse.Namespace) -> int:
    """Show the path of one sentence and what is turned down; 1 when something hostile was not, 2 without a tool."""
    from rich.console import Console

    from local import inspect_path, inspect_view
    from local.system import LocalSystem

    with LocalSystem().start(sandbox="off") as system:
        try:
            found = inspect_path.inspect(system, options.sentence)
        except ValueError as error:
            print(f"workbench inspect: {error}", file=sys.stderr)
            return 2
    if options.json:
        print(json.dumps(asdict(found), ensure_ascii=False, indent=2, default=str))
    else:
        inspect_view.render(found, Console())
    return 0 if found.held else 1


def _watch_signals() -> socket.socket:
    """From now on SIGINT and SIGTERM make the returned socket readable.

    The kernel may give a signal to any thread. Python runs handlers in the main one, which a signal that went
    elsewhere does not wake; the byte that Python's own C handler writes here does.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer.detach())
    return reader


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    add_serve,
    add_inspect,
    add_sandbox_check,
    add_admin,
    add_download,
    add_skills,
    add_prompts,
)


if __name__ == "__main__":
    sys.exit(main())

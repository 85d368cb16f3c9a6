"""The command line explains itself: every command has its page of help, and a wrong word is answered in words."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from local.cli import command_line


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _commands(child)


ALL = {parser.prog: parser for parser in _commands(command_line())}


def test_the_commands_are_found() -> None:
    assert {"workbench serve", "workbench inspect", "workbench admin conversations list"} <= ALL.keys()


@pytest.mark.parametrize("command", ALL)
def test_every_command_has_its_page_of_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """argparse fills in the texts only when they are shown: a bare percent sign in one breaks the page."""
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args([*command.split()[1:], "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {command}")


@pytest.mark.parametrize("port", ["99999", "-1", "http", "8080.0", ""])
def test_a_port_that_is_none_is_told_what_one_is(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["serve", f"--port={port}"])
    assert ended.value.code == 2
    assert "a port is a number from 0 to 65535" in capsys.readouterr().err

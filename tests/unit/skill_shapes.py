"""SKILL.md files in the shapes that public collections have them: every way of writing a head that people use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Shape:
    what: str
    content: str | bytes
    name: str
    description: str
    version: str = "0.1.0"
    body: str = "#"
    fields: dict[str, Any] = field(default_factory=dict)


SHAPES = [
    Shape(
        "plain",
        "---\nname: meeting-notes\ndescription: Turn a transcript into notes with owners and dates.\n---\n\n# Notes\n",
        "meeting-notes",
        "Turn a transcript into notes with owners and dates.",
    ),
    Shape(
        "license and a quoted description with colons",
        "---\nname: tax-forms\n"
        'description: "Fill in tax forms: fields, signatures, totals. Use when: a form is given."\n'
        "license: Proprietary. LICENSE.txt has complete terms\n---\n# Forms\n",
        "tax-forms",
        "Fill in tax forms: fields, signatures, totals. Use when: a form is given.",
        fields={"license": "Proprietary. LICENSE.txt has complete terms"},
    ),
    Shape(
        "a colon in an unquoted description, which YAML refuses",
        "---\nname: release-check\ndescription: Use when: a release is about to go out, or someone asks: is it ready?\n"
        "license: MIT\n---\n# Check\n",
        "release-check",
        "Use when: a release is about to go out, or someone asks: is it ready?",
        fields={"license": "MIT"},
    ),
    Shape(
        "a colon in an unquoted description that goes on below",
        "---\nname: incident-log\ndescription: Keep a log of an incident. Triggers:\n  outage, pager: on-call asks\n"
        "  for a summary\nmetadata:\n  author: ops\n---\n# Log\n",
        "incident-log",
        "Keep a log of an incident. Triggers: outage, pager: on-call asks for a summary",
        fields={"metadata": {"author": "ops"}},
    ),
    Shape(
        "folded over lines",
        "---\nname: brand-voice\ndescription: >\n  Write in the house's voice.\n"
        "  Use for posts and mails.\nversion: 2.1.0\n"
        "---\n# Voice\n",
        "brand-voice",
        "Write in the house's voice. Use for posts and mails.",
        "2.1.0",
    ),
    Shape(
        "a literal block with a list in it",
        "---\nname: sql-review\ndescription: |-\n  Review SQL for:\n  - missing indexes\n"
        "  - cartesian joins\n---\n# Review\n",
        "sql-review",
        "Review SQL for: - missing indexes - cartesian joins",
    ),
    Shape(
        "tools as a list",
        "---\nname: web-tests\ndescription: Test a page in a browser.\nallowed-tools:\n"
        "  - Bash\n  - Read\n---\n# Tests\n",
        "web-tests",
        "Test a page in a browser.",
        fields={"allowed-tools": ["Bash", "Read"]},
    ),
    Shape(
        "tools on one line, with brackets that are no YAML list",
        "---\nname: git-helper\ndescription: Helps with branches.\nallowed-tools: Bash(git:*), Read\n---\n# Git\n",
        "git-helper",
        "Helps with branches.",
        fields={"allowed-tools": "Bash(git:*), Read"},
    ),
    Shape(
        "metadata with a version of its own",
        '---\nname: api-design\ndescription: Designs APIs.\nmetadata:\n  author: example-org\n  version: "1.0"\n'
        "compatibility: Needs Python 3.11 and network\n---\n# API\n",
        "api-design",
        "Designs APIs.",
        fields={"metadata": {"author": "example-org", "version": "1.0"}},
    ),
    Shape(
        "single quotes with an apostrophe",
        "---\nname: 'copy-edit'\ndescription: 'Edits a person''s text; keeps what''s theirs.'\n---\n# Edit\n",
        "copy-edit",
        "Edits a person's text; keeps what's theirs.",
    ),
    Shape(
        "quotes that end before the line does",
        '---\nname: rename\ndescription: "Rename" files and "move" them\n---\n# Rename\n',
        "rename",
        '"Rename" files and "move" them',
    ),
    Shape(
        "brackets and signs at the beginning of a description",
        "---\nname: beta\ndescription: [Beta] @team: draws & charts, 100% * free\n---\n# Beta\n",
        "beta",
        "[Beta] @team: draws & charts, 100% * free",
    ),
    Shape(
        "a name with blanks and capitals",
        "---\nname: Test-Driven Development (TDD)\ndescription: Write the test first.\n"
        "when_to_use: always\n---\n# TDD\n",
        "Test-Driven Development (TDD)",
        "Write the test first.",
        fields={"when_to_use": "always"},
    ),
    Shape(
        "a name with its collection before it",
        "---\nname: docs:changelog\ndescription: Keeps a changelog.\nversion: v3\n---\n# Changelog\n",
        "docs:changelog",
        "Keeps a changelog.",
        "v3",
    ),
    Shape(
        "carriage returns, a mark, tabs and comments",
        b"\xef\xbb\xbf---\r\n# who: the data team\r\nname: csv-clean\r\ndescription: Cleans CSV files.\r\n"
        b"tags: [data, csv]\r\n---\r\n\r\n# Clean\r\n\r\n---\r\nEnd\r\n",
        "csv-clean",
        "Cleans CSV files.",
        fields={"tags": ["data", "csv"]},
    ),
    Shape(
        "tabs for indentation, which YAML refuses",
        "---\nname: tabbed\ndescription: Uses tabs.\nmetadata:\n\tauthor: somebody\n---\n# Tabs\n",
        "tabbed",
        "Uses tabs.",
        fields={"metadata": "author: somebody"},
    ),
    Shape(
        "other scripts and emoji",
        "---\nname: 表計算\ndescription: 表を作る 📊。使う時: 集計\n---\n# 表\n",
        "表計算",
        "表を作る 📊。使う時: 集計",
    ),
    Shape(
        "a long description in quotes over lines",
        '---\nname: long\ndescription: "Comprehensive document work: creation,\n'
        "  editing and analysis. When the model needs to:\n"
        '  (1) create, (2) change, or (3) comment"\nlicense: Apache-2.0\n---\n# Long\n',
        "long",
        "Comprehensive document work: creation, editing and analysis. When the model needs to: (1) "
        "create, (2) change, or "
        "(3) comment",
        fields={"license": "Apache-2.0"},
    ),
]

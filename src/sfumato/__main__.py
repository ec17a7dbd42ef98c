"""Run the command line: `python -m sfumato`."""

from __future__ import annotations

from sfumato.cli.command_line import main

main()

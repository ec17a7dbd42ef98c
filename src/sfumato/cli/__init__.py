"""The command line: a thin shell over the same calls. One file per command."""

from sfumato.cli.app import app, main

__all__ = ["app", "main"]

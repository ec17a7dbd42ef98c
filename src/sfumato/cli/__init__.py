"""The command line: a thin shell over the same calls. One file per command."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.cli.command_line import app as app
    from sfumato.cli.command_line import main as main

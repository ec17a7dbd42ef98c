"""Ctrl-C and a polite kill: the command is left by an exception, so that half-written folders are removed on the way.

An exception that a signal raises can be lost: inside a finaliser or a callback of a library Python only prints it. So it is
raised again, every few seconds, until the command is being left.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN = 5.0
"""Seconds until it is raised again; tidying up takes less."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGINT stop what runs inside."""
    signal.signal(signal.SIGTERM, _handler(lambda: SystemExit(128 + signal.SIGTERM)))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored where the shell says so
        signal.signal(signal.SIGINT, _handler(KeyboardInterrupt))
    try:
        yield
    except KeyboardInterrupt:  # raised where no command was running any more
        sys.exit(128 + signal.SIGINT)
    finally:
        leaving()


def leaving() -> None:
    """Say that the command is being left: nothing is raised again."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _handler(error: Callable[[], BaseException]) -> Callable[[int, Any], None]:
    def stop(_number: int, _frame: Any) -> None:
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        raise error()

    return stop

"""Ctrl-C and a polite kill: the command is left by an exception, so that half-written folders are removed on the way.

An exception that a signal raises can be lost. Inside a finaliser or a weak reference's callback Python prints it and goes on
(it is not printed here, and raised again at once); a library may swallow it (it is raised again every few seconds, until
the command is being left), or raise an error of its own in its place, as DuckDB does: `asked_to_stop` then says that the command
was stopped, and did not fail.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_AGAIN = 5.0
"""Seconds until it is raised again where a library swallowed it; tidying up takes less."""

_AT_ONCE = 0.01
"""Seconds until it is raised again where Python itself says that it was lost."""


_asked: list[int] = []
"""The signal that asked the command to stop, if one did."""


def asked_to_stop() -> int | None:
    """Return the exit code of a command that was asked to stop: 130 after Ctrl-C, 143 after a polite kill; None if it was not."""
    return 128 + _asked[0] if _asked else None


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGINT stop what runs inside."""
    _asked.clear()
    signal.signal(signal.SIGTERM, _handler(lambda: SystemExit(128 + signal.SIGTERM)))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored where the shell says so
        signal.signal(signal.SIGINT, _handler(KeyboardInterrupt))
    told, sys.unraisablehook = sys.unraisablehook, _lost
    try:
        yield
    except KeyboardInterrupt:  # raised where no command was running any more
        sys.exit(128 + signal.SIGINT)
    finally:
        leaving()
        sys.unraisablehook = told


def leaving() -> None:
    """Say that the command is being left: nothing is raised again."""
    _raise_again(0)


def _handler(error: Callable[[], BaseException]) -> Callable[[int, Any], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        if not _asked:  # later it comes as an alarm
            _asked.append(number)
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, stop)
            if _inside(frame, _lost):  # a busy machine is not through with it yet: raised there, it would be printed
                _raise_again(_AT_ONCE)
                return
        _raise_again(_AGAIN)
        raise error()

    return stop


def _inside(frame: FrameType | None, function: Callable[..., None]) -> bool:
    code = function.__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _lost(unraisable: Any) -> None:
    """Python's word that an exception came to nothing; ours comes again, and the person at the screen need not know."""
    # without a handler the alarm would kill
    stopped = hasattr(signal, "SIGALRM") and callable(signal.getsignal(signal.SIGALRM))
    if stopped and isinstance(unraisable.exc_value, SystemExit | KeyboardInterrupt):
        _raise_again(_AT_ONCE)
    else:
        sys.__unraisablehook__(unraisable)


def _raise_again(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)

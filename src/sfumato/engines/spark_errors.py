"""Errors across Spark: a sentence raised on a worker comes back as it was; anything else loses the values it may quote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import pyarrow as pa

import sfumato.errors
from sfumato.errors import DataError, SfumatoError


def send_back(kind: str, message: str) -> NoReturn:
    """Raise on a worker; the driver finds the sentence in Spark's report by its mark."""
    raise RuntimeError("sfumato " + json.dumps({"kind": kind, "message": message})) from None


@contextmanager
def plain_words() -> Iterator[None]:
    """Turn what Spark raises, which may quote a value, into a sentence that does not."""
    from pyspark.errors import PySparkException

    kinds: list[type[Exception]] = [PySparkException, pa.ArrowException]
    with suppress(ImportError):  # a client of Spark Connect has no Java
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        kinds.append(Py4JError)
    try:
        yield
    except tuple(kinds) as error:
        raise _error_in_plain_words(error) from None


def _error_in_plain_words(error: Exception) -> SfumatoError:
    report = str(error)
    if found := re.search(r'sfumato (\{"kind": .*\})', report):
        sent = json.loads(found[1])
        kind = getattr(sfumato.errors, sent["kind"], DataError)
        return kind(sent["message"])
    if "No module named 'sfumato'" in report:
        return DataError(
            "Python on Spark's workers does not find sfumato. Install it there, or ship it with the session, "
            "for example with spark.submit.pyFiles or an archive of the environment."
        )
    if "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in report or "Checkpoint block" in report:
        return DataError("Spark lost an executor that held part of the data. Call setCheckpointDir, and open it again.")
    getter = getattr(error, "getCondition", None)
    condition = (getter() if getter else None) or type(error).__name__
    if condition == "PATH_ALREADY_EXISTS":
        return DataError("the folder to write to exists already. Choose a new one, or remove it first.")
    return DataError(f"Spark could not finish the work ({condition}). Spark's log says why.")

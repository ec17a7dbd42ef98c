"""The parent of Spark's Python workers in the tests: it imports what they need once, and they are its forks."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import pandas  # noqa: F401
import pyarrow.dataset  # noqa: F401
import pyspark.worker  # noqa: F401
import scipy.stats  # noqa: F401

for home in ("sfumato.kernels", "sfumato.data", "sfumato.masks", "sfumato.risk", "sfumato.utility"):
    for module in pkgutil.iter_modules(importlib.import_module(home).__path__, f"{home}."):
        importlib.import_module(module.name)

if __name__ == "__main__":
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()  # a worker collects garbage after every task: not through all that was imported here
    manager()

"""The version, in one place."""

from __future__ import annotations

VERSION = "0.1.0"

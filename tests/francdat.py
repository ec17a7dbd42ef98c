"""The small file on which the literature shows individual risk."""

from __future__ import annotations

FRANCDAT = {
    "Key1": [1, 1, 1, 3, 4, 4, 6, 1],
    "Key2": [2, 2, 2, 3, 3, 3, 2, 2],
    "Key3": [5, 1, 1, 1, 1, 1, 1, 5],
    "Key4": [1, 1, 1, 5, 4, 1, 5, 1],
    "w": [18, 45.5, 39, 17, 541, 8, 5, 92],
}
"""The example of Capobianchi, Polettini and Lucarelli (2001), on which the literature's software is shown."""
WEIGHT = {"w": {"role": "weight", "scale": "ordered"}}

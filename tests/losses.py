"""The losses that the general model is tested with."""

from __future__ import annotations

from sfumato.papers import Absolute, Loss, Quadratic, ZeroOne

LOSSES = [Quadratic(), Absolute(), ZeroOne(0.8)]


def by_name(loss: Loss) -> str:
    return loss.name

"""The survey with the planted target."""

from __future__ import annotations

import pytest

from sfumato.datasets import survey20k
from sfumato.datasets.analysis_survey import TARGET, UNIFORM_STATE
from sfumato.errors import ParameterError


def test_the_target_is_there_and_alone_with_what_others_know_of_her() -> None:
    frame = survey20k().to_native()
    assert len(frame) == 20_000
    alike = frame.query("sex == 'F' and state == 'S03' and age >= 60 and race == 'other'")
    assert len(alike) == 1
    assert alike.iloc[0][list(TARGET)].to_dict() == TARGET
    assert frame["income"].max() == TARGET["income"]
    assert frame["income"].nlargest(2).iloc[1] < TARGET["income"] / 2


def test_one_state_is_nearly_of_one_cell() -> None:
    frame = survey20k().to_native()
    frame = frame[frame["state"] == UNIFORM_STATE]
    assert len(frame) > 150
    assert ((frame["sex"] == "F") & (frame["race"] == "white")).mean() == pytest.approx(0.98, abs=0.02)


def test_the_same_seed_gives_the_same_survey() -> None:
    assert survey20k(500).digest() == survey20k(500).digest()
    assert survey20k(500).digest() != survey20k(500, seed=1).digest()


def test_a_survey_needs_room_for_the_target() -> None:
    with pytest.raises(ParameterError, match="at least 100"):
        survey20k(10)

"""Before and after a global recoding that was written to a file and read again: codes for missing, and renamed categories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata
from sfumato.cli.files import load_like
from sfumato.contract import Release
from sfumato.masks import Recode
from sfumato.schema import Schema
from sfumato.utility.before_after import Files, renamed_columns, statistics, tables


@pytest.fixture
def both(tmp_path: Path) -> tuple[Microdata, Microdata]:
    rng = np.random.default_rng(71)
    n = 420
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["cook", "clerk", "smith"], n),
            "hours": np.where(rng.random(n) < 0.1, 999, rng.integers(8, 60, n)),
        }
    )
    schema = Schema.guess(frame).roles(key=["sex", "job"], confidential="hours").change("hours", missing=(999,))
    data = Microdata(frame, schema)
    mask = Recode({"job": {"cook": "food", "smith": "craft"}, "hours": [20, 30, 40]}, unlisted="keep")
    draws = Draws(1)
    mask.apply(data, draws).write(tmp_path / "out", draws, seed_file=tmp_path / "seed.toml")
    return data, load_like(data, tmp_path / "out" / "masked.csv")


def test_a_code_for_missing_that_became_text_is_no_value(both: tuple[Microdata, Microdata]) -> None:
    data, masked = both
    found = statistics(Files(Release.of(data, masked), data.schema.names(), False, 10)).set_index("statistic")
    gaps = float(np.isnan(data.numbers("hours")).mean())
    assert found.loc["missing", ["before", "after"]].tolist() == pytest.approx([gaps, gaps])
    assert abs(found.loc["standard deviation", "difference"]) < 0.2 * found.loc["standard deviation", "before"]


def test_renamed_categories_are_no_change_where_records_are_aligned_and_are_named_where_not(
    both: tuple[Microdata, Microdata],
) -> None:
    data, masked = both
    aligned, apart = Release.of(data, masked, align="rows"), Release.of(data, masked)
    found = tables(Files(aligned, data.schema.names(), False, 10)).set_index(["first", "second"])
    assert found.loc[("sex", "job"), "distance"] == 0
    assert renamed_columns(aligned) == []
    assert renamed_columns(apart) == ["job"]

"""Cross-tabulations for people: the last variable across, on screen and as CSV."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from mas_survey import survey

from sfumato.errors import DataError
from sfumato.mas import CrossTab, Policy, Vault
from sfumato.mas.analyses import OLS


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    from mas_survey import microdata

    made = Vault.create(tmp_path_factory.mktemp("wide") / "v", Policy.open())
    made.freeze("survey", microdata(survey()))
    return made


def test_a_table_of_two_variables_is_that_of_pandas_crosstab(vault: Vault) -> None:
    frame = survey()
    found = vault.ask("survey", None, CrossTab(("race", "sex"))).wide()
    truth = pd.crosstab(frame["race"], frame["sex"], margins=True, margins_name="Total")
    assert list(found.columns) == list(truth.columns)
    assert (found.to_numpy(float) == truth.loc[found.index].to_numpy(float)).all()


def test_more_variables_stand_at_the_left_and_other_columns_can_be_chosen(vault: Vault) -> None:
    found = vault.ask("survey", None, CrossTab(("race", "sex"), of="income"))
    assert found.wide("mean").loc["Total", "Total"] == found.frame().iloc[-1]["mean"]
    three = vault.ask("survey", None, CrossTab(("race", "work", "sex"))).wide()
    assert three.index.names == ["race", "work"]
    assert "Total" in found.text(wide=True)
    with pytest.raises(DataError, match="Did you mean 'mean'"):
        found.wide("means")


def test_other_answers_are_not_printed_wide(vault: Vault) -> None:
    with pytest.raises(DataError, match="no cross-tabulation"):
        vault.ask("survey", None, OLS("log(income) ~ age")).wide()


def test_the_command_line_prints_and_writes_a_wide_table(vault: Vault, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sfumato.cli import app

    out = tmp_path / "table.csv"
    asked = ["ask", str(vault.folder), "survey", "--crosstab", "race,sex", "--wide", "--out", str(out)]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    table = pd.read_csv(out)
    assert table.columns[0] == "race"
    assert table.columns[-1] == "Total"
    assert (table.iloc[:-1, 1:].sum() == table.iloc[-1, 1:]).all()

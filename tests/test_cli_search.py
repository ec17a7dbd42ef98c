"""`sfumato search`: the answer, files beside it, exit codes, and what is written wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import N, document, files, folder, run

from sfumato import Draws, Microdata, Recipe
from sfumato.schema import Schema

__all__ = ["files", "folder"]  # fixtures

Files = tuple[Path, Path, Path]


def args(files: Files, *more: object, mask: str = "kim_noise; columns=salary") -> tuple[object, ...]:
    return ("search", files[0], "--schema", files[2], "--mask", mask, "--risk", "salary", "--utility",
            "variance_kept; over=salary", "--effort", "quick", "--seed", 3, *more)  # fmt: skip


def test_the_answer_names_the_recipe_and_its_risk_holds_for_fresh_seeds(files: Files, tmp_path: Path) -> None:
    saved = tmp_path / "recipe.toml"
    done = run(*args(files, "--max-error", 5, "--save-recipe", saved))
    assert done.exit_code == 0, done.stderr
    assert "kim_noise with kim_noise.lambda2 = " in done.stdout
    assert "> kim_noise" in done.stdout  # the chosen point among those of the frontier
    data = Microdata.read(files[0], Schema.read(files[2]))
    recipe = Recipe.read(saved)
    before = pd.read_csv(files[0])["salary"].to_numpy()
    errors = [((recipe.apply(data, Draws(s)).masked.numbers("salary") - before) ** 2).mean() for s in range(900, 980)]
    assert np.mean(np.sqrt(errors) >= 5) >= 0.9  # an error of at least 5, in 95 % of the releases


def test_without_masks_and_measures_those_that_suit_the_schema_are_taken(files: Files) -> None:
    done = run("search", files[0], "--schema", files[2], "--effort", "quick", "--seed", 3, "--json")
    assert "kim_noise, mdav, rank_swap" in done.stderr
    assert "a snooper is to be off by 25 % of a standard deviation" in done.stderr
    found = document(done)
    assert [family["name"] for family in found["families"]] == ["kim_noise", "mdav", "rank_swap"]
    before = pd.read_csv(files[0])
    limits = {f"risk for {name}": 16 / before[name].var() for name in ("salary", "income")}
    assert found["thresholds"] == pytest.approx(limits, rel=1e-9)
    assert found["choice"]["feasible"]
    assert all(found["choice"]["limits"][name] <= limit for name, limit in limits.items())


def test_the_answer_as_json_holds_the_choice_the_frontier_and_every_point(files: Files) -> None:
    found = document(run(*args(files, "--max-risk", 0.04, "--json")))
    assert found["choice"]["feasible"]
    assert found["choice"]["limits"]["risk for salary"] <= 0.04
    assert found["thresholds"] == {"risk for salary": 0.04}
    assert found["records"] == N
    (chosen,) = [row for row in found["frontier"] if row["chosen"]]
    assert chosen["limit"] == found["choice"]["limits"]["risk for salary"]
    points = [row for row in found["points"] if row["chosen"]]
    assert {row["side"] for row in points} == {"risk", "utility"}
    assert all(row["confirmed"] == 20 and row["replications"] == 2 for row in points)
    assert '"seed"' not in json.dumps(found)


def test_the_same_seed_gives_the_same_answer(files: Files) -> None:
    first, again = (document(run(*args(files, "--max-risk", 0.04, "--json"))) for _ in range(2))
    assert first == again


def test_a_threshold_that_nothing_reaches_gives_exit_code_3(files: Files, tmp_path: Path) -> None:
    saved, page = tmp_path / "recipe.toml", tmp_path / "p.html"
    done = run(*args(files, "--max-risk", 1e-7, "--save-recipe", saved, "--page", page))
    assert done.exit_code == 3
    assert "infeasible: none of the recipes (kim_noise) reaches the threshold." in done.stdout
    assert not saved.exists()
    assert page.exists()  # what was tried can be looked at all the same
    found = document(run(*args(files, "--max-risk", 1e-7, "--json", "--save-recipe", saved)), 3)
    assert not found["choice"]["feasible"]
    assert found["recipe"] is None  # none was written


def test_a_search_is_taken_up_from_its_file_with_the_same_answer(files: Files, tmp_path: Path) -> None:
    kept = tmp_path / "seen.jsonl"
    first = document(run(*args(files, "--max-risk", 0.04, "--json", "--resume", kept)))
    lines = kept.read_text("utf-8").splitlines(keepends=True)
    kept.write_text("".join(lines[:5]) + lines[5][:30], "utf-8")  # killed in the middle of a line
    assert document(run(*args(files, "--max-risk", 0.04, "--json", "--resume", kept))) == first
    assert kept.read_text("utf-8").splitlines(keepends=True) == lines
    other = run(*args(files, "--max-risk", 0.04, "--resume", kept, mask="rank_swap; columns=salary"))
    assert other.exit_code == 1
    assert "holds another search" in other.stderr


def test_pages_and_charts_are_written_and_not_over_others(files: Files, tmp_path: Path) -> None:
    page, chart = tmp_path / "search.html", tmp_path / "search.svg"
    more = ("--max-risk", 0.04, "--page", page, "--chart", chart)
    assert run(*args(files, *more)).exit_code == 0
    assert "Recipes for survey.csv" in page.read_text("utf-8")
    assert chart.read_text("utf-8").startswith("<svg")
    again = run(*args(files, *more))
    assert again.exit_code == 1
    assert "--replace" in again.stderr
    assert run(*args(files, *more, "--replace")).exit_code == 0


def test_several_snoopers_are_told_apart_and_each_has_to_be_kept_off(files: Files) -> None:
    found = document(
        run(
            "search", files[0], "--schema", files[2], "--mask", "kim_noise; columns=salary,age", "--risk",
            "cap; column=salary; unmatched=nearest", "--utility", "correlations_kept; over=salary,income", "--max-risk", 0.3,
            "--snooper", "neighbour; keys=age,sex", "--snooper", "colleague; keys=age,sex,race,region", "--effort", "quick",
            "--seed", 1, "--json",
        )
    )  # fmt: skip
    assert set(found["snoopers"]) == {"neighbour", "colleague"}
    limits = found["choice"]["limits"]
    assert {title.rpartition(", ")[2] for title in limits} == {"neighbour", "colleague"}
    assert max(limits.values()) <= 0.3


def test_parameters_may_be_named_alone_listed_or_by_column(files: Files) -> None:
    found = document(run(*args(files, "--max-risk", 0.04, "--over", "lambda2=0.1,0.2,0.4", "--json")))
    levels = {row["kim_noise.lambda2"] for row in found["points"]}
    assert levels == {0.1, 0.2, 0.4}
    one = document(run(*args(files, "--max-risk", 0.04, "--over", "kim_noise.lambda2.salary=0.1:0.4", "--json")))
    assert 0.1 <= one["choice"]["settings"]["kim_noise.lambda2.salary"] <= 0.4
    groups = ("--over", "mdav.k=3,30", "--over", "mdav.aggregate=mean,median")
    found = document(run(*args(files, "--max-risk", 0.5, *groups, "--json", mask="mdav; columns=salary")))
    assert {(row["mdav.k"], row["mdav.aggregate"]) for row in found["points"]} == {
        (k, a) for k in (3, 30) for a in ("mean", "median")
    }


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ((), 2, "say how much risk is allowed"),
        (("--max-risk", -1), 1, "must be a number of at least 0"),
        (("--max-risk", 0.04, "--max-error", 5), 2, "not both"),
        (("--max-risk", 0.04, "--mask", "kim_noise; columns=salary"), 0, ""),
        (("--max-risk", 0.04, "--mask", "kim_nois"), 1, "Did you mean 'kim_noise'"),
        (("--max-risk", 0.04, "--over", "lamda2=0.1:1"), 1, "is not in the recipes"),
        (("--max-risk", 0.04, "--over", "lambda2=1:2:3:4"), 1, "neither a range"),
        (("--max-risk", 0.04, "--over", "lambda2=0.1:0.1"), 1, "is empty"),
        (("--max-risk", 0.04, "--over", "lambda2=0.1:1", "--over", "kim_noise.lambda2=1:2"), 1, "twice"),
        (("--max-risk", 0.04, "--snooper", "keys=age"), 2, "a name of its own"),
        (("--max-risk", 0.04, "--snooper", "a; keys=age", "--keys", "age"), 2, "not both"),
        (("--max-risk", 0.04, "--maximise", "hellingr"), 1, "is not in the search"),
        (("--max-risk", 0.04, "--chart", "chart.doc"), 1, ".svg"),
        (("--risk", "cap; column=salary", "--max-error", 5), 2, "Use --max-risk"),
    ],
)
def test_what_is_written_wrongly_is_told_in_one_sentence(
    files: Files, more: tuple[Any, ...], code: int, words: str
) -> None:
    done = run(*args(files, *more))
    assert done.exit_code == code, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_the_same_mask_twice_is_told(files: Files) -> None:
    done = run(*args(files, "--max-risk", 0.04, "--mask", "mdav", "--mask", "mdav"))
    assert done.exit_code == 2
    assert "--mask mdav is given twice" in done.stderr


def test_a_recipe_file_named_as_a_mask_does_not_push_it_out(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "kim_noise.toml"
    path.write_text("", "utf-8")
    done = run(*args(files, "--max-risk", 0.04, "--recipe", path))
    assert done.exit_code == 2
    assert "two recipes are called 'kim_noise'" in done.stderr


def test_a_search_needs_a_seed_to_be_taken_up(files: Files, tmp_path: Path) -> None:
    plain = ("search", files[0], "--risk", "salary", "--utility", "salary", "--max-risk", 0.04)
    done = run(*plain, "--mask", "kim_noise", "--resume", tmp_path / "seen.jsonl")
    assert done.exit_code == 1
    assert "needs its own seed" in " ".join(done.stderr.split())


def test_the_report_is_not_written_over_what_a_search_keeps(files: Files, tmp_path: Path) -> None:
    done = run(*args(files, "--max-error", 5, "--resume", tmp_path / "x.json", "--out", tmp_path / "x.html"))
    assert done.exit_code == 2
    assert "name another file for --resume" in " ".join(done.stderr.split())
    assert not list(tmp_path.glob("x.*"))

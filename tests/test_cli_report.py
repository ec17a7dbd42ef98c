"""`sfumato report`: files before a review board; numbers against pandas and NumPy, not against sfumato."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import N, document, files, folder, frames, run

__all__ = ["files", "folder", "frames"]  # fixtures

Files = tuple[Path, Path, Path]


def args(files: Files, out: Path, *more: object) -> tuple[object, ...]:
    return ("report", *files[:2], "--schema", files[2], "--align", "rows", "--out", out, *more)


def read(path: Path) -> Any:
    return json.loads(path.with_suffix(".json").read_text("utf-8"))


def test_the_report_holds_the_risk_against_its_limit(
    files: Files, frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    before, after = frames
    risk = 1 / ((after["salary"] - before["salary"]) ** 2).mean()
    done = run(*args(files, tmp_path / "r.html", "--risk", "salary", "--max-risk", 2 * risk))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0] == "The release passes the one check that has a limit."
    (check,) = read(tmp_path / "r.html")["data"]["checks"]
    assert check["score"]["value"] == pytest.approx(risk, rel=1e-9)
    assert check["limit"] == pytest.approx(2 * risk)
    assert f"{risk:.3g}" in (tmp_path / "r.html").read_text("utf-8")


def test_a_check_that_fails_gives_exit_code_3_and_still_a_report(files: Files, tmp_path: Path) -> None:
    done = run(*args(files, tmp_path / "r.html", "--risk", "salary", "--max-risk", 1e-9))
    assert done.exit_code == 3
    assert "It fails on risk for salary." in done.stdout
    assert "fails" in (tmp_path / "r.html").read_text("utf-8")


def test_a_measure_that_does_not_apply_is_told_and_does_not_pass(files: Files, tmp_path: Path) -> None:
    done = run(*args(files, tmp_path / "r.html", "--risk", "dcr", "--max-risk", 0.1))
    assert done.exit_code == 3
    assert "Could not be measured" in done.stdout


def test_without_measures_keys_and_confidential_numbers_are_looked_at(files: Files, tmp_path: Path) -> None:
    done = run(*args(files, tmp_path / "r.html"))
    assert done.exit_code == 0, done.stderr
    assert "No limit was set" in done.stdout
    found = [c["title"] for c in read(tmp_path / "r.html")["data"]["checks"]]
    assert found[:3] == ["records below 3-anonymity", "risk for salary", "risk for income"]
    assert len(found) == 5


def test_a_column_that_was_recoded_has_no_subgroups_and_the_report_says_why(files: Files, tmp_path: Path) -> None:
    masked = pd.read_csv(files[1])
    masked["age"] = masked["age"].floordiv(10).map("{}0s".format)
    masked.to_csv(tmp_path / "recoded.csv", index=False)
    more = (
        "--schema",
        files[2],
        "--risk",
        "k_anonymity; k=3",
        "--utility",
        "variance_kept",
        "--by",
        "age",
        "--by",
        "sex",
    )
    done = run("report", files[0], tmp_path / "recoded.csv", *more, "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Subgroups by age were not looked at: the release has none of the original" in page
    assert "The worst subgroups by sex" in page


def test_limits_go_to_all_measures_or_to_one_by_name(files: Files, tmp_path: Path) -> None:
    more = ("--risk", "salary", "--risk", "k_anonymity; k=3", "--max-risk", 9, "--max-risk", "k_anonymity=0", "--utility",
            "hellinger", "--utility", "variance_kept", "--min-utility", "hellinger=0.25")  # fmt: skip
    found = document(run(*args(files, tmp_path / "r.html", *more, "--json")), 3)
    limits = {c["title"]: c["limit"] for c in found["data"]["checks"]}
    assert limits == {
        "risk for salary": 9, "records below 3-anonymity": 0, "1 - Hellinger distance": 0.25, "variance kept": None
    }  # fmt: skip
    assert {**found, "report": None, "json": None} == {**read(tmp_path / "r.html"), "report": None, "json": None}


def test_subgroups_recipe_keys_title_and_question_are_in_the_report(
    files: Files, frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    recipe = files[1].parent / "recipe.toml"
    more = ("--risk", "salary", "--by", "region", "--recipe", recipe, "--keys", "age,sex", "--title", "Teachers", "--asked",
            "May it be released?")  # fmt: skip
    done = run(*args(files, tmp_path / "r.html", *more))
    assert done.exit_code == 0, done.stderr
    told = read(tmp_path / "r.html")
    assert told["title"] == "Teachers"
    assert told["sections"][0]["sentences"][0] == "May it be released?"
    groups = told["data"]["checks"][0]["by"]["region"]["worst_first"]
    before, after = frames
    square = (after["salary"] - before["salary"]) ** 2
    for group in groups:
        own = before["region"] == group["group"]
        assert group["records"] == own.sum()
        assert group["value"] == pytest.approx(1 / square[own].mean(), rel=1e-9)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "looks for records by age, sex" in page
    assert "kim_noise" in page
    assert "That the file was made with it was not checked." in page


def test_the_publishable_version_has_no_risk_and_no_limit(
    files: Files, frames: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    before, after = frames
    risk = 1 / ((after["salary"] - before["salary"]) ** 2).mean()
    more = ("--risk", "salary", "--max-risk", 0.0876, "--utility", "hellinger", "--publishable")
    done = run(*args(files, tmp_path / "r.html", *more))
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "r.html").read_text("utf-8") + json.dumps(read(tmp_path / "r.html"))
    assert "This is the publishable version" in text
    assert "0.0876" not in text
    assert f"{risk:.3g}" not in text
    assert f"{N} original" not in text
    assert files[0].name not in text  # what the confidential file is called


def test_a_pdf_is_written_by_the_name_of_the_file(files: Files, tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    done = run(*args(files, tmp_path / "r.pdf", "--risk", "salary"))
    assert done.exit_code == 0, done.stderr
    pages = pypdf.PdfReader(tmp_path / "r.pdf").pages
    assert all("Confidential" in page.extract_text() for page in pages)
    assert (tmp_path / "r.json").exists()


def test_a_search_kept_as_json_is_in_the_report(files: Files, tmp_path: Path) -> None:
    kept = tmp_path / "search.json"
    done = run(
        "search", files[0], "--schema", files[2], "--mask", "kim_noise; columns=salary", "--risk", "salary", "--utility",
        "variance_kept; over=salary", "--max-risk", 0.05, "--effort", "quick", "--confirm", 3, "--seed", 1, "--json",
        "--out", tmp_path / "searched.html",
    )  # fmt: skip
    beside = read(tmp_path / "searched.html")
    assert beside["version"] == "confidential"
    assert beside["data"]["search"]["choice"] == json.loads(done.stdout)["choice"]
    kept.write_text(done.stdout, "utf-8")
    answer = json.loads(done.stdout)
    assert answer["choice"]["feasible"]
    done = run(*args(files, tmp_path / "r.html", "--search", kept))
    assert done.exit_code == 0, done.stderr
    told = read(tmp_path / "r.html")
    titles = [s["title"] for s in told["sections"]]
    assert {"Methods tried", "The frontier", "The chosen recipe"} <= set(titles)
    assert told["data"]["search"]["choice"] == answer["choice"]


def test_nothing_is_overwritten_unless_asked(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    out.with_suffix(".json").write_text("mine")
    done = run(*args(files, out, "--risk", "salary"))
    assert done.exit_code == 1
    assert "is there already" in done.stderr
    assert out.with_suffix(".json").read_text() == "mine"
    assert not out.exists()
    assert run(*args(files, out, "--risk", "salary", "--replace")).exit_code == 0


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--max-risk", 0.5), 2, "a limit needs its measure"),
        (("--risk", "salary", "--max-risk", "incme=1"), 1, "names 'incme'"),
        (("--risk", "salary", "--max-risk", "lots"), 1, "must be a number"),
        (("--risk", "salary", "--min-utility", "0.5"), 1, "--min-utility"),
        (("--risk", "salary", "--by", "regoin"), 1, "regoin"),
        (("--risk", "k_anonymity; kk=3"), 1, "kk"),
        (("--risk", "incme"), 1, "Did you mean 'income'?"),
        (("--utility", "hellinger; over=incme"), 1, "Did you mean 'income'?"),
        (("--risk", "salary", "--recipe", "absent.toml"), 1, "absent.toml"),
        (("--risk", "salary", "--search", "absent.json"), 1, "absent.json"),
        (("--risk", "salary", "--population-count", "n"), 2, "--population"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(
    files: Files, tmp_path: Path, more: tuple[str, ...], code: int, said: str
) -> None:
    done = run(*args(files, tmp_path / "r.html", *more))
    assert done.exit_code == code
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()[-1]) < 600
    assert not (tmp_path / "r.html").exists()


def test_the_report_is_html_or_pdf(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "r.docx"
    asked = ("--schema", files[2], "--risk", "salary", "--utility", "salary", "--max-risk", 1, "--mask", "kim_noise")
    swept = ("--over", "kim_noise.lambda2=0.1,0.2")
    for given in (args(files, out, "--risk", "salary"), ("search", files[0], *asked, "--out", out),
                  ("map", files[0], *asked, *swept, "--out", out)):  # fmt: skip
        done = run(*given)
        assert done.exit_code == 2
        assert ".html or .pdf" in done.stderr
        assert not out.exists()


def test_neither_the_report_of_a_search_nor_what_is_beside_it_overwrites_a_file(files: Files, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("mine")
    asked = ("--schema", files[2], "--risk", "salary", "--utility", "salary", "--max-risk", 1, "--mask", "kim_noise")
    done = run("search", files[0], *asked, "--out", tmp_path / "r.html")
    assert done.exit_code == 1
    assert "r.json is there already" in done.stderr

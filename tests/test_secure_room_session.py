"""The session of a secure room: its record, the researcher's words, its policy, and the folder for the output checker."""

from __future__ import annotations

import hashlib
import inspect
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.contract import registered
from sfumato.errors import DataError, ParameterError
from sfumato.room import OutputPolicy, SecureRoom
from sfumato.room import outputs as finalising
from sfumato.tables.rules import MinimumFrequency, PPercent


def survey(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "<west>"], n, p=[0.6, 0.36, 0.04]),
            "job": rng.choice(["yes", "no"], n),
            "age": rng.integers(18, 70, n).astype(float),
            "income": rng.lognormal(3, 0.5, n),
        }
    )


def busy_room(**fields: Any) -> SecureRoom:
    data = survey()
    room = SecureRoom(**{"tell": None, **fields})
    room.crosstab(data["region"], data["job"], margins=True)
    room.crosstab(data["region"], data["job"], margins=True, suppress=True)
    room.ols("income ~ age + job", data)
    return room


# -- the record


def test_every_output_is_recorded_with_its_status_and_the_line_that_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    room = busy_room(tell=print)
    assert [o.status for o in room.outputs.values()] == ["fail", "review", "pass"]
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"{o.name}: {o.summary}" for o in room.outputs.values()]
    data = survey()
    few = int((pd.crosstab(data["region"], data["job"], margins=True) < 10).sum(axis=None))
    assert printed[0] == f"output_0: fail; {few} of 12 cells: fewer than 10 contributors ({few})"
    text = room.print_outputs()
    assert capsys.readouterr().out == text + "\n"
    assert "crosstab(index=region, columns=job, margins=True)" in text
    assert repr(room) == "SecureRoom('standard 1', 3 outputs)"


def test_what_a_researcher_does_to_a_table_afterwards_does_not_reach_the_record() -> None:
    data = survey()
    room = SecureRoom(tell=None)
    table = room.crosstab(data["region"], data["job"])
    table.iloc[:, :] = 999
    assert (room.last.tables["table"].to_numpy() != 999).all()
    with pytest.raises(TypeError):
        room.outputs["output_0"] = room.last  # type: ignore[index]


def test_outputs_are_renamed_in_place_and_numbers_are_not_used_again() -> None:
    room = busy_room()
    room.rename_output("output_1", "jobs by region")
    assert list(room.outputs) == ["output_0", "jobs by region", "output_2"]
    assert room.outputs["jobs by region"].name == "jobs by region"
    room.remove_output("output_2")
    data = survey()
    room.crosstab(data["region"], data["job"])
    assert list(room.outputs) == ["output_0", "jobs by region", "output_3"]
    room.rename_output("output_3", "output_4")
    room.crosstab(data["region"], data["job"])
    assert room.last.name == "output_5"


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 81, "Output_0", "a\nb"])
def test_a_name_that_cannot_be_a_file_or_is_taken_is_refused(name: str) -> None:
    room = busy_room()
    with pytest.raises(ParameterError):
        room.rename_output("output_1", name)
    assert list(room.outputs) == ["output_0", "output_1", "output_2"]


def test_comments_add_up_and_an_exception_is_a_sentence() -> None:
    room = busy_room()
    room.add_comments("output_0", "Table 1 of the paper.")
    room.add_comments("output_0", "Seen by the supervisor.")
    room.add_exception("output_0", "These are public offices.")
    assert room.outputs["output_0"].comments == ("Table 1 of the paper.", "Seen by the supervisor.")
    assert room.outputs["output_0"].exception == "These are public offices."
    with pytest.raises(ParameterError, match="must not be empty"):
        room.add_exception("output_0", "  ")
    for call in (room.remove_output, lambda n: room.add_comments(n, "x"), lambda n: room.rename_output(n, "y")):
        with pytest.raises(ParameterError, match="Did you mean 'output_0'"):
            call("outptu_0")


def test_the_signatures_begin_as_those_of_pandas() -> None:
    for name in ("crosstab", "pivot_table"):
        mine = inspect.signature(getattr(SecureRoom, name)).parameters
        theirs = [p for p, v in inspect.signature(getattr(pd, name)).parameters.items() if v.kind is not v.VAR_KEYWORD]
        assert list(mine)[1 : len(theirs) + 1] == theirs
        assert set(mine) - {"self", *theirs} == {"suppress", "contributor"}


# -- the folder


def test_the_folder_has_results_checks_words_and_checksums_that_verify(tmp_path: Path) -> None:
    room = busy_room()
    picture = tmp_path / "plot.png"
    picture.write_bytes(b"a picture")
    room.custom_output(picture, "A map of the regions.")
    room.add_exception("output_0", "All <b>public</b>.")
    folder = room.finalise(tmp_path / "release")
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == [
        "checks/output_0.csv", "checks/output_1.csv", "checks/output_2.csv", "checksums.sha256", "index.html", "index.json",
        "outputs/output_0.table.csv", "outputs/output_1.table.csv", "outputs/output_2.coefficients.csv",
        "outputs/output_2.json", "outputs/output_3.png", "policy.toml",
    ]  # fmt: skip
    subprocess.run(["sha256sum", "--check", "--quiet", "checksums.sha256"], cwd=folder, check=True)
    index = json.loads((folder / "index.json").read_text("utf-8"))
    assert [o["status"] for o in index["outputs"]] == ["fail", "review", "pass", "review"]
    assert index["outputs"][0]["exception"] == "All <b>public</b>."
    assert all("fewer than 10 contributors" in f["why"] for f in index["outputs"][0]["failures"])
    for output in index["outputs"]:
        for file in output["files"]:
            assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    table = pd.read_csv(folder / "outputs/output_1.table.csv", index_col=0)
    np.testing.assert_array_equal(table, room.outputs["output_1"].tables["table"])
    assert table.loc["<west>"].isna().all()
    facts = json.loads((folder / "outputs/output_2.json").read_text("utf-8"))
    assert facts["nobs"] == 200
    assert OutputPolicy.read(folder / "policy.toml") == room.policy


def test_the_page_escapes_words_and_fetches_nothing(tmp_path: Path) -> None:
    room = busy_room()
    room.add_exception("output_0", "<script>alert(1)</script>")
    html = (room.finalise(tmp_path / "release") / "index.html").read_text("utf-8")
    assert "<script" not in html
    assert "&lt;west&gt;" in html
    assert "http" not in html
    assert 'title="fewer than 10 contributors"' in html
    assert "output_1 hides cells" in html


def test_a_failing_output_without_an_exception_keeps_everything_in(tmp_path: Path) -> None:
    room = busy_room()
    with pytest.raises(ParameterError, match=r"output_0.*add_exception"):
        room.finalise(tmp_path / "release")
    assert not list(tmp_path.iterdir())
    room.remove_output("output_0")
    assert room.finalise(tmp_path / "release").is_dir()


def test_a_folder_that_exists_is_refused_even_if_it_is_empty(tmp_path: Path) -> None:
    room = busy_room()
    room.remove_output("output_0")
    with pytest.raises(DataError, match="exists already"):
        room.finalise(tmp_path)
    with pytest.raises(ParameterError, match="nothing has been recorded"):
        SecureRoom(tell=None).finalise(tmp_path / "new")


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = busy_room()
    room.remove_output("output_0")

    def broken(*args: object) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(finalising, "page", broken)
    with pytest.raises(OSError, match="disk full"):
        room.finalise(tmp_path / "release")
    assert not list(tmp_path.iterdir())


def test_a_custom_file_that_changed_or_vanished_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    file.write_bytes(b"one")
    room = SecureRoom(tell=None)
    room.custom_output(file, "A picture.")
    file.write_bytes(b"two")
    with pytest.raises(DataError, match="has changed"):
        room.finalise(tmp_path / "release")
    file.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        room.finalise(tmp_path / "release")
    with pytest.raises(DataError, match="no file"):
        room.custom_output(file, "Gone.")
    assert not list(tmp_path.iterdir())


def test_outputs_that_differ_by_a_few_records_are_pointed_out(tmp_path: Path) -> None:
    data = survey(400)
    room = SecureRoom(tell=None)
    for size in (400, 399, 380):
        room.ols("income ~ age", data[:size])
    notes = json.loads((room.finalise(tmp_path / "r") / "index.json").read_text("utf-8"))["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("output_0 and output_1 have the same variables")


def test_two_rooms_that_did_the_same_write_the_same_folder(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        room = busy_room()
        room.remove_output("output_0")
        texts.append((room.finalise(tmp_path / name) / "checksums.sha256").read_text("utf-8"))
    assert texts[0] == texts[1]


# -- the policy


def test_a_policy_survives_its_file(tmp_path: Path) -> None:
    policy = OutputPolicy(title="ours", rules=(MinimumFrequency(n=5), PPercent(p=15)), residual_df=20, group=5)
    policy.write(tmp_path / "ours.toml")
    again = OutputPolicy.named(str(tmp_path / "ours.toml"))
    assert again == policy
    data = survey()
    room = SecureRoom(again, tell=None)
    table = room.crosstab(data["region"], data["job"])
    assert room.last.status == ("fail" if (table < 5).any(axis=None) else "pass")
    assert registered("output policy")["output_policy"] is OutputPolicy


def test_the_standard_policy_is_the_default_of_the_class() -> None:
    assert OutputPolicy.named("standard") == OutputPolicy(title="standard")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]]\nn = 3", "needs a name"),
        ("[[rule]]\nname = 'minimum_frequncy'", "Did you mean 'minimum_frequency'"),
        ("residual_df = 0", "at least 1"),
        ("rules = ", "is not TOML"),
        ("negative = 'ignore'", "one of 'review', 'absolute'"),
        ("rule = 3", r"\[\[rule\]\] tables"),
        ("rule = []", "at least one"),
        ("treshold = 3", "is not in"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        OutputPolicy.parse(text)


def test_a_policy_that_does_not_exist_is_named() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'standard'"):
        SecureRoom("standart")
    with pytest.raises(ParameterError, match="no policy"):
        SecureRoom("nowhere.toml")

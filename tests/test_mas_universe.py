"""Universes: the forms they are written in, one canonical form for each, and what is said of those that make no sense."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, asked, inside, paper, random_piece, vault_of

from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import CrossTab
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.sums import SumsRequest, TableSums
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault

FREE = Policy.named("hardened").with_(rules=(), accounts=UNLIMITED, per_minute=None)
"""Drops and noise of the hardened policy, without its rules and accounts."""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, pd.DataFrame]:
    rng = np.random.default_rng(11)
    n = 1_500
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "state": rng.choice(["S01", "S02", "S03"], n),
        "race": rng.choice(["A", "B", "O", "it's"], n), "sick": rng.choice(["no", "yes"], n),
        "rich": rng.choice([True, False], n),
    })  # fmt: skip
    frame.loc[(frame["sex"] == "M") & (frame["state"] == "S03"), "race"] = "B"  # cells without records
    roles = {"sick": "confidential", "rich": "confidential"}
    return vault_of(tmp_path_factory.mktemp("vault") / "v", frame, roles), frame


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return paper(tmp_path_factory.mktemp("vault") / "v")


def as_text(pieces: list[dict[str, list[str]]], rng: np.random.Generator) -> str:
    def quoted(value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def one(name: str, levels: list[str]) -> str:
        if len(levels) == 1 and rng.random() < 0.5:
            return f"{name} == {quoted(levels[0])}"
        return f"{name} in ({', '.join(map(quoted, levels))})"

    return " or ".join("(" + " and ".join(one(n, v) for n, v in piece.items()) + ")" for piece in pieces)


def rewordings(
    pieces: list[dict[str, list[str]]], levels: dict[str, list[str]], rng: np.random.Generator
) -> list[object]:
    """The same cells in other words: order, JSON, text, negation, one piece per cell, conditions that hold for all."""
    turned = [
        {n: {"not": [v for v in levels[n] if v not in chosen]} if len(chosen) < len(levels[n]) else chosen
         for n, chosen in piece.items()}
        for piece in pieces
    ]  # fmt: skip
    shuffled = [
        {n: [str(v) for v in rng.permutation(piece[n])] for n in rng.permutation(list(piece))}
        for piece in (pieces[i] for i in rng.permutation(len(pieces)))
    ]
    cells = [
        dict(zip(piece, ([v] for v in cell), strict=True))
        for piece in pieces
        for cell in itertools.product(*piece.values())
    ]
    more = [{**{n: list(v) for n, v in levels.items()}, **piece} for piece in pieces]
    doubled = [*pieces, pieces[0]]
    return [
        turned, shuffled, json.dumps(turned), json.dumps(shuffled), as_text(pieces, rng), as_text(shuffled, rng), cells, more,
        doubled, Universe.of(pieces), Universe.of(pieces).to_json(), Universe.of(pieces[:1]) | Universe.of(pieces),
    ]  # fmt: skip


def test_a_universe_written_in_many_ways_has_one_wording_and_the_same_bytes(
    people: tuple[Vault, pd.DataFrame],
) -> None:
    vault, frame = people
    levels = {n: sorted(map(str, frame[n].unique())) for n in frame}
    rng = np.random.default_rng(0)
    known = {Question(vault.dataset("data"), FREE, Universe(), CrossTab(("sex",))).selection.words()}
    for i in range(60):
        pieces = [random_piece(rng, levels) for _ in range(rng.integers(1, 4))]
        questions = [asked(vault, form, FREE) for form in [pieces, *rewordings(pieces, levels, rng)]]
        assert len({q.selection.words() for q in questions}) == 1
        assert len({q.selection.where() for q in questions}) == 1
        known.add(questions[0].selection.words())
        if i < 8:
            forms = [pieces, *rewordings(pieces, levels, rng)]
            answers = {vault.ask("data", form, CrossTab(("state", "sick")), FREE).to_bytes() for form in forms}
            assert len(answers) == 1
    assert len(known) > 50


def test_a_selection_holds_the_records_that_pandas_finds(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = people
    texts = frame.astype(str)
    levels = {n: sorted(texts[n].unique()) for n in texts}
    rng = np.random.default_rng(1)
    for _ in range(80):
        pieces = [random_piece(rng, levels) for _ in range(rng.integers(1, 4))]
        selection = asked(vault, pieces).selection
        expected = int(np.logical_or.reduce([inside(texts, piece) for piece in pieces]).sum())
        assert vault.dataset("data").cubes.of(selection.variables).count(selection) == expected
        found = vault.dataset("data").warehouse.ask(f"SELECT count(*) AS n FROM records WHERE {selection.where()}")
        assert int(found["n"][0]) == expected


def test_known_cells_without_records_do_not_change_the_answer(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = people
    forms = [{"sex": "M", "state": "S03", "race": "B"}, {"sex": "M", "state": "S03", "race": ["A", "B", "it's"]}]
    assert len({str(vault.ask("data", form, CrossTab(("sick",)), FREE).tables) for form in forms}) == 1


def test_conditions_on_confidential_variables_that_select_the_same_records_have_noise_of_their_own(
    tmp_path: Path,
) -> None:
    frame = pd.DataFrame(
        {"sex": ["F"] * 50 + ["M"] * 50, "ill": ["a"] * 50 + ["b"] * 50, "sad": ["c"] * 50 + ["d"] * 50}
    )
    vault = vault_of(tmp_path / "v", frame, {"ill": "confidential", "sad": "confidential"})
    fine = FREE.set({"counts.base": 1})
    counts = set()
    for form in ({"ill": "a"}, {"sad": "c"}, {"sex": "F"}):
        sums, _ = Mechanism(vault.dataset("data"), fine, asked(vault, form, fine)).protect(
            SumsRequest({"all": TableSums(())})
        )
        counts.add(float(sums.cells("all").n))
    assert len(counts) == 3  # equal answers would tell that all the ill are sad


def test_parentheses_and_negation_become_pieces(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = people
    pairs = [
        ("sex == 'F' and (state == 'S01' or race == 'O')", [{"sex": "F", "state": "S01"}, {"sex": "F", "race": "O"}]),
        ("not (sex == 'F' or state == 'S01')", {"sex": "M", "state": ["S02", "S03"]}),
        ("not (sex == 'F' and state == 'S01')", [{"sex": "M"}, {"state": ["S02", "S03"]}]),
        ("sex = F and rich == true", {"sex": "F", "rich": "True"}),
        ("not not sex != 'F'", {"sex": "M"}),
    ]
    for text, pieces in pairs:
        assert asked(vault, text).selection.words() == asked(vault, pieces).selection.words(), text


def test_numbers_and_yes_no_levels_may_be_given_as_such(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = people
    forms = [{"rich": True}, {"rich": "True"}, {"rich": [np.bool_(True)]}, {"rich": {"not": [False]}}]
    assert len({asked(vault, form).selection.words() for form in forms}) == 1
    assert Universe.of({"age": [np.int64(3), 4.0]}) == Universe.of({"age": ["3", "4"]})


def test_ranges_are_the_levels_between_their_ends(census: Vault) -> None:
    forms = [
        {"income": "62,001-120,000"}, {"income": ["62,001-70,500", "70,501-120,000"]}, {"income": ">= 62001"},
        "income >= 62001", "income > 62000", "income > '62,000'",
        "not income <= 62000", {"income": {"not": ["0-62000"]}}, {"income": "62001 or more"},
    ]  # fmt: skip
    assert len({asked(census, form).selection.words() for form in forms}) == 1


def test_several_conditions_on_one_variable_must_all_hold(census: Vault) -> None:
    between = [
        "income > 39500 and income <= 53500", "income >= 39501 and not income > 53500", {"income": "39,501-53,500"},
        {"income": {"all": [">= 39501", "<= 53500"]}}, '{"income": {"all": [">= 39501", {"not": [">= 53501"]}]}}',
    ]  # fmt: skip
    assert len({asked(census, form).selection.words() for form in between}) == 1
    universe = Universe.of(between[0])
    assert Universe.of(universe.to_json()) == universe


def test_everybody_is_written_in_several_ways(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = people
    forms = [
        None,
        "",
        "all",
        {},
        [],
        [{}],
        "[]",
        {"sex": ["F", "M"]},
        [{"sex": "F"}, {"sex": "M"}],
        "sex in ('F', 'M')",
        "sex is not missing",
        {"sex": {"not": ["missing"]}},
    ]
    assert {asked(vault, form).selection.words() for form in forms} == {"all"}


@pytest.mark.parametrize(("form", "error", "says"), [
    ({"sexx": "F"}, DataError, "Did you mean 'sex'"),
    ("stat == 'S01'", DataError, "Did you mean 'state'"),
    ({"state": "S1"}, DataError, "Did you mean 'S01'"),
    ({"state": ["S01", "S09"]}, DataError, "level 'S09'"),
    ({"sex": []}, ParameterError, "at least one"),
    ({"sex": {"not": ["F", "M"]}}, DataError, "leaves no level of 'sex'"),
    ({"sex": {"except": ["F"]}}, ParameterError, '"not"'),
    ({"sex": None}, ParameterError, "texts or numbers"),
    ({"sex": [["F"]]}, ParameterError, "texts or numbers"),
    ([{"sex": "F"}, {}], ParameterError, "no condition"),
    (7, ParameterError, "a universe is a text"),
    (["sex"], ParameterError, "a universe is a text"),
    ('{"sex": "F"', ParameterError, "not JSON"),
    ("sex == 'F' and sex == 'M'", DataError, "leaves no level of 'sex'"),
    ('{"sex": "F", "sex": "M"}', ParameterError, "names a variable twice"),
    ("[" * 100_000, ParameterError, "not JSON"),
    ({"sex": {"all": []}}, ParameterError, '"all"'),
    ({"sex": {"not": {"all": [["F"], ["M"]]}}}, ParameterError, '"all"'),
    ({"x" * 100_000: "F"}, DataError, "x…'"),
    ("x" * 2_000_000, ParameterError, "more than 1,000,000 signs"),
    ([{"sex": "F"}] * 1_001, ParameterError, "more than 1,000 pieces"),
    ({"sex": list(range(10_001))}, ParameterError, "more than 10,000 levels"),
    ("sex > 3", DataError, "variable 'sex', whose levels are no numbers"),
    ("sex > 'F'", DataError, "Name levels with == or in; it has: F, M"),
    ("sex ==", ParameterError, "expected after '=='"),
    ("sex in ()", ParameterError, "expected after '('"),
    ("sex == missing", ParameterError, "write 'is missing'"),
    ("sex is F", ParameterError, "for a value write =="),
    ("__import__('os').system('x')", ParameterError, ""),
])  # fmt: skip
def test_a_universe_that_makes_no_sense_is_refused_in_a_sentence(
    people: tuple[Vault, pd.DataFrame], form: object, error: type[Exception], says: str
) -> None:
    vault, _ = people
    with pytest.raises(error) as caught:
        vault.check("data", form)
    assert says in str(caught.value)
    assert str(caught.value)[-1] in ".?'"
    assert len(str(caught.value)) < 500
    assert caught.value.__cause__ is None


def test_a_variable_without_cutpoints_cannot_form_a_universe(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sex": ["F", "M"] * 50, "income": np.arange(100.0)})
    vault = vault_of(tmp_path / "v", frame, {"income": "confidential"})
    with pytest.raises(DataError, match="has not set cutpoints"):
        vault.check("data", {"income": "0-50"})


def test_a_text_that_would_have_thousands_of_pieces_is_refused() -> None:
    text = " and ".join(f"(a{i} == 1 or b{i} == 1)" for i in range(15))
    with pytest.raises(ParameterError, match="more than 1,000 pieces"):
        Universe.of(text)


def test_a_table_too_large_to_choose_from_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"v{i}": rng.choice([str(k) for k in range(60)], 900) for i in range(4)})
    vault = vault_of(tmp_path / "v", frame, {})
    with pytest.raises(DataError, match="Form it with fewer variables"):
        vault.check("data", {f"v{i}": "1" for i in range(4)})

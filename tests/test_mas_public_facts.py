"""Public facts of confidential variables: with the frozen noisy counts held fixed, nothing that users see depends on a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.mas import Cutpoints, Fixed, Hybrid, Increasing, Minimum, Partitioned, ValueCounts, preview
from sfumato.mas.cutpoints import NoisyCounts
from sfumato.mas.dataset import Dataset
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.value_counts import PublicFacts, frozen_sd
from sfumato.mas.variable import Variable
from sfumato.mas.vault import Vault
from sfumato.reports import policy_report
from sfumato.schema import Attribute, Schema
from sfumato.typing import Numbers

N = 3_000
STRATEGIES = (Fixed, Minimum, Increasing, Partitioned, Hybrid)
RECODES = (LevelRecode("paid", "job", {"paid": ["clerk", "nurse"]}),)


def people() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({
        "person": np.arange(N), "sex": rng.choice(["F", "M"], N), "age": rng.integers(18, 90, N),
        "income": np.round(np.exp(rng.normal(10, 0.7, N)), 2), "debt": np.round(rng.exponential(900, N)),
        "sick": rng.choice(["no", "yes"], N, p=[0.7, 0.3]), "code": rng.choice([1, 2, 3], N),
        "job": rng.choice(["clerk", "nurse", "none"], N, p=[0.6, 0.3, 0.1]), "mood": rng.choice(["low", "high"], N),
    })  # fmt: skip
    frame.loc[5, "job"] = "judge"  # a level that one person has
    frame.loc[6:60, "debt"] = np.nan
    return frame


def schema() -> Schema:
    roles = dict.fromkeys(("sex", "age"), "key") | {"person": "identifier"}
    return Schema(tuple(
        Attribute(
            c, role=roles.get(c, "confidential"), scale="ordered" if c in ("age", "income", "debt", "mood") else "unordered",
            integer=c in ("age", "debt"), bounds=(0, 6_000) if c == "debt" else (None, None),
            labels={"1": "town", "2": "village", "3": "farm"} if c == "code" else {},
            values={"low": 1, "high": 2} if c == "mood" else {},
        )
        for c in people().columns
    ))  # fmt: skip


def changed(row: int, **values: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return what gives one person other confidential values."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        other = frame.copy()
        for name, value in values.items():
            other[name] = other[name].astype(object if isinstance(value, str | None) else float)
            other.loc[row, name] = value
        return other

    return change


OTHERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "the largest amount": changed(17, income=9_876_543.0, debt=5_999.0),
    "the smallest amount, and a debt beyond its bounds": changed(17, income=-300.0, debt=1e7),
    "a gap where there was none": changed(17, income=np.nan, sick=None, code=np.nan),
    "a number with more digits": changed(17, income=12_000.123456),
    "a level that nobody had": changed(17, sick="perhaps", job="pilot", code=7.0),
    "a level that nobody has any more": changed(5, job="nurse"),
    "a level that is the label of another": changed(17, code=1.0, sick="missing", job="other levels"),
    "a median that moves": lambda f: f.assign(income=np.where(f["income"].rank() == N // 2, 1.0, f["income"])),
    "all amounts": lambda f: f.assign(income=f["income"].to_numpy()[::-1] * 1.7, debt=f["debt"].fillna(3.0)),
}  # fmt: skip


def all_changes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the file with every change of one person, each of another person."""
    for values in (
        {"income": 9_876_543.0, "debt": 1e7}, {"income": np.nan, "sick": None, "code": np.nan}, {"sick": "perhaps", "code": 7.0},
        {"income": -300.5}, {"code": 1.0, "job": "other levels"}, {"job": "pilot"},
    ):  # fmt: skip
        frame = changed(len("".join(values)) + 70, **values)(frame)
    return frame


OTHERS["all single changes"] = all_changes


class HeldCounts:
    """Noisy counts at freezing, kept from one file and given to the next; what the first one never counted is noise alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: dict[tuple[object, ...], Numbers | float] = {}
        self.keep = True
        noisy = PublicFacts._noisy

        def held(
            facts: PublicFacts, variable: Variable, code: str, bins: int, purpose: str, words: str = "", names: Any = ()
        ) -> Numbers:
            found = noisy(facts, variable, code, bins, purpose, words, names)
            listed = list(names) or list(range(bins))
            about = (variable.name, purpose, words, "sums" if len(names) and "other levels" in names else "")
            if self.keep:
                self.kept |= {(*about, one): float(n) for one, n in zip(listed, found, strict=True)}
            return np.array([self.kept.get((*about, one), self.kept.get((*about[:3], "", one), 0.7)) for one in listed])

        monkeypatch.setattr(PublicFacts, "_noisy", held)


def frozen(folder: Path, frame: pd.DataFrame, **said: Any) -> Dataset:
    """Register, choose cutpoints by every strategy, and freeze."""
    vault = Vault.create(folder, secret=Draws(4))
    vault.add("people", frame, schema(), identity="person", recodes=RECODES, **said)
    vault.cutpoints("people", "age", "fixed", d=300)
    vault.cutpoints("people", "income", "hybrid", d=150)
    vault.cutpoints("people", "debt", "minimum", d=200)
    return vault.freeze("people", confirm=True)


def seen(dataset: Dataset) -> str:
    """All that questions, rules, analyses and users see of a data set before they ask."""
    cuts = {
        name: v.cutpoints.to_dict() | {"source": ""} for name, v in dataset.variables.items() if v.cutpoints is not None
    }
    return repr((dataset.codebook, dataset.describe(), dataset.frozen_loss, dataset.combinations(), cuts))


def without_digest(text: str, dataset: Dataset) -> str:
    """The digest of the counts is keyed, and says nothing but whether something changed."""
    for v in dataset.variables.values():
        if v.cutpoints is not None:
            text = text.replace(repr(v.cutpoints.source), "''")
    return text


def compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], complete: Sequence[str] = ()
) -> Dataset:
    """Freeze the file and others, with the noisy counts of the first one, and compare all that is seen."""
    held, frame = HeldCounts(monkeypatch), people()
    first = frozen(folder / "first", frame, complete=complete)
    held.keep = False
    for i, name in enumerate(names):
        other = frozen(folder / str(i), OTHERS[name](frame), complete=complete)
        assert without_digest(seen(other), other) == without_digest(seen(first), first), name
    return first


@pytest.mark.verify
@pytest.mark.parametrize("complete", [[], ["mood"]])
def test_with_noisy_counts_held_fixed_no_single_change_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: list[str]
) -> None:
    compared(tmp_path, monkeypatch, list(OTHERS), complete)


def test_with_noisy_counts_held_fixed_no_public_fact_depends_on_a_confidential_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"complete": ["mood"]}
    first = compared(tmp_path, monkeypatch, ["all single changes"], said["complete"])
    assert {n: v.gaps for n, v in first.variables.items() if v.numeric} == {
        "age": False, "income": True, "debt": True, "mood": "mood" not in said.get("complete", ()),
    }  # fmt: skip
    assert first.variables["sick"].levels == ("no", "yes", "missing")
    assert first.variables["job"].levels == ("clerk", "none", "nurse", "missing")
    assert first.variables["mood"].levels == (("low", "high") if said else ("low", "high", "missing"))


def test_the_noisy_counts_do_depend_on_them(tmp_path: Path) -> None:
    """The test above would see it."""
    frame = people()
    pair = [frozen(tmp_path / str(i), f) for i, f in enumerate((frame, OTHERS["all amounts"](frame)))]
    assert len({without_digest(seen(one), one) for one in pair}) == 2


# -- what they are charged


def test_cutpoints_are_chosen_from_the_counts_that_freezing_charges_in_any_case(tmp_path: Path) -> None:
    frame = people()
    with_cuts = frozen(tmp_path / "a", frame)
    vault = Vault.create(tmp_path / "b", secret=Draws(4))
    vault.add("people", frame, schema(), identity="person")
    plain = vault.freeze("people", confirm=True)
    tables = 1 + 1 + 1 + 1 + 2 + 1  # of sick, code, job and debt, of levels and numbers of mood, and bins of income,
    loss = 2 / frozen_sd(N) ** 2
    assert with_cuts.frozen_loss == pytest.approx(plain.frozen_loss)
    assert (plain.frozen_loss / loss - tables) in (
        pytest.approx(1),
        pytest.approx(2),
    )  # ... after a lattice, perhaps twice
    assert (with_cuts.variables["income"].bounds, with_cuts.variables["income"].middle) == (
        plain.variables["income"].bounds, plain.variables["income"].middle,
    )  # fmt: skip


def test_cutpoints_from_counts_of_records_that_were_never_frozen_are_charged_too(tmp_path: Path) -> None:
    frame = people()
    vault = Vault.create(tmp_path / "v", secret=Draws(4))
    vault.add("people", frame, schema(), identity="person")
    vault.cutpoints("people", "debt", "minimum", d=200)
    more = pd.concat([frame, frame[:300].assign(person=lambda f: f["person"] + N)])
    again = vault.add("people", more, schema(), identity="person")
    assert "debt" in again.cutpoints
    carried = vault.freeze("people", confirm=True).frozen_loss
    (other := Vault.create(tmp_path / "w", secret=Draws(4))).add("people", more, schema(), identity="person")
    assert carried == pytest.approx(other.freeze("people", confirm=True).frozen_loss + 2 / 8.0**2)
    # a later version with the cutpoints of this one is charged for its own counts alone
    vault.add(
        "people",
        pd.concat([more, more[:400].assign(person=lambda f: f["person"] + 2 * N)]),
        schema(),
        identity="person",
    )
    later = vault.freeze("people", confirm=True)
    assert later.variables["debt"].cutpoints == vault.dataset("people", 1).variables["debt"].cutpoints
    assert later.frozen_loss <= carried + other.dataset("people").frozen_loss * 1.05


def test_edges_of_the_custodian_are_his_public_choice(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "v", secret=Draws(4))
    vault.add("people", people(), schema(), identity="person")
    vault.cutpoints("people", "debt", Cutpoints((500, 1_500), whole=True), d=75)
    data = vault.freeze("people", confirm=True)
    assert data.variables["debt"].levels == ("500 or less", "501 to 1500", "1501 or more", "missing")
    assert data.variables["debt"].cutpoints.source == ""  # type: ignore[union-attr]
    assert data.exact == ()


# -- exact ones by the custodian's word


def test_exact_cutpoints_of_a_confidential_variable_need_the_custodians_word_and_are_said_everywhere(
    tmp_path: Path,
) -> None:
    vault, frame = Vault.create(tmp_path / "v", secret=Draws(4)), people()
    vault.add("people", frame, schema(), identity="person")
    exact = vault.cutpoints("people", "income", "minimum", d=100, exact=True).choose("minimum")
    assert exact == Minimum(d=100).cut(frame["income"])
    assert "EXACT counts" in str(vault.registration("people"))
    data = vault.freeze("people", confirm=True)
    assert data.exact == ("cutpoints: income",)
    assert vault.dataset("people").describe()["exact"] == ["cutpoints: income"]
    assert "read off exact counts, in no account: cutpoints: income" in str(vault.usage("people"))
    said = " ".join(policy_report(vault.policy, standing=vault.usage("people")).sections[1].sentences)
    assert "read off exact counts" in said
    assert "cutpoints: income" in said
    again = Vault.open(vault.folder).dataset("people")
    assert again.exact == data.exact


def test_exact_cutpoints_are_refused_when_frozen_at_once_unless_he_says_so(tmp_path: Path) -> None:
    frame = people()
    data = Microdata(frame, schema())
    cut = preview(frame["income"], d=200).choose("minimum")
    vault = Vault.create(tmp_path / "v", secret=Draws(4))
    with pytest.raises(DataError, match=r"cutpoints of income were chosen from exact counts.*exact=True"):
        vault.freeze("people", data, {"income": cut})
    found = vault.freeze("people", data, {"income": cut}, exact=True)
    assert found.exact[0] == "cutpoints: income"
    # frozen at once, names of levels and gaps are as the file has them, and that is said
    assert found.exact[1:] == (
        "names of levels: sick, code, job, mood", "whether values are missing: income, debt, sick, code, job, mood",
    )  # fmt: skip
    assert "judge" in found.variables["job"].levels


def test_cutpoints_of_earlier_versions_of_sfumato_count_as_exact_unless_the_custodian_gave_them() -> None:
    table = {"edges": [1.0, 2.0], "d": 75}
    assert Cutpoints.from_dict(table | {"strategy": "minimum"}).source == "exact"
    assert [Cutpoints.from_dict(table | more).source for more in ({"strategy": "own"}, {})] == ["", ""]
    noisy = Cutpoints.from_dict(table | {"strategy": "minimum", "source": "noisy 3f"})
    assert Cutpoints.from_dict(noisy.to_dict()).source == "noisy 3f"


# -- gaps and levels


def test_a_variable_that_is_said_to_be_complete_and_is_not_is_refused_and_no_value_is_named(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "v", secret=Draws(4))
    for i, (name, frame) in enumerate((
        ("debt", people()), ("sick", people()), ("code", changed(3, code=9.0)(people())), ("mood", changed(3, mood=None)(people())),
    )):  # fmt: skip
        vault.add(f"people{i}", frame, schema(), identity="person", complete=[name])
        with pytest.raises(DataError, match=f"'{name}' is said to be complete, but some records") as told:
            vault.freeze(f"people{i}", confirm=True)
        assert "9" not in str(told.value)
    with pytest.raises(ParameterError, match="'age' is not confidential"):
        vault.add("people", people(), schema(), complete=["age"])


def test_a_number_that_is_not_whole_where_the_schema_says_so_is_refused_to_the_custodian(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "v", secret=Draws(4))
    with pytest.raises(DataError, match="'debt' is said to hold whole numbers, and does not") as told:
        vault.add("people", changed(17, debt=17.5)(people()), schema(), identity="person")
    assert "17" not in str(told.value)


def test_levels_that_the_schema_lists_and_nobody_has_are_levels_until_noise_hides_them(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "v", secret=Draws(4))
    frame, listed = people(), schema().change("code", labels={"1": "a", "2": "b", "3": "c", "4": "d"})
    vault.add("people", frame, listed, identity="person", complete=["code"])
    assert vault.freeze("people", confirm=True).variables["code"].levels == ("1", "2", "3", "other levels")
    named = LevelRecode("rest", "code", {"far": ["3", "4"]})
    vault.add("named", frame, listed, identity="person", complete=["code"], recodes=[named])
    made = vault.freeze("named", confirm=True).variables
    assert (made["code"].levels, made["rest"].levels) == (("1", "2", "3", "4"), ("1", "2", "far"))


def test_keep_rare_shows_the_names_of_the_file_by_the_custodians_word_and_tells_nothing_of_gaps(tmp_path: Path) -> None:
    data = frozen(tmp_path / "v", people(), keep_rare=True)
    assert data.variables["job"].levels == ("clerk", "judge", "none", "nurse", "missing")
    assert data.variables["paid"].levels == ("paid", "judge", "none", "missing")
    assert data.exact == ("names of levels: sick, code, job, mood",)


def test_a_level_that_one_person_has_is_hardly_ever_shown_and_a_frequent_one_always(tmp_path: Path) -> None:
    frame = people()
    shown = []
    for seed in range(3):
        vault = Vault.create(tmp_path / str(seed), secret=Draws(seed))
        vault.add("people", frame, schema(), identity="person")
        shown += vault.freeze("people", confirm=True).variables["job"].levels
    assert "judge" not in shown
    assert all(shown.count(level) == 3 for level in ("clerk", "nurse", "none", "missing"))


# -- strategies on noisy counts


def noisy(x: Numbers, low: float, high: float, sd: float, rng: np.random.Generator) -> NoisyCounts:
    """Counts of whole numbers between bounds, one by one, as the definition says."""
    edges = np.arange(low, high + 1)
    counts = np.array([(x <= edges[0]).sum(), *((x == e).sum() for e in edges[1:]), (x > edges[-1]).sum(), 0], float)
    return NoisyCounts.of_bins(edges, counts + sd * rng.normal(size=len(counts)), len(x), True, sd)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_counts_without_noise_give_the_edges_of_exact_counts(strategy: type) -> None:
    rng = np.random.default_rng(3)
    for x in (rng.integers(18, 90, 4_000), np.clip(rng.normal(50, 9, 4_000).round(), 0, 100), rng.poisson(9, 4_000)):
        found = strategy(d=75).cut_tally(noisy(x.astype(float), 0, 100, 0.0, rng))
        assert found.edges == strategy(d=75).cut(x).edges


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bins_by_noisy_counts_hold_d_records_in_nearly_all_files(strategy: type) -> None:
    rng = np.random.default_rng(4)
    held = []
    for n in (5_000, 20_000):
        for _ in range(6):
            x = np.clip(rng.normal(50, 14, n).round(), 0, 100)
            cut = strategy(d=150).cut_tally(noisy(x, 0, 110, frozen_sd(n), rng))
            assert len(cut) >= 5
            held += ValueCounts.of(x).bins(cut.edges).tolist()
    assert np.mean(np.array(held) < 150) < 0.01


def test_a_bin_is_judged_by_the_parts_that_lie_wholly_in_it() -> None:
    counts = NoisyCounts(
        np.array([10.0, 20.0, 30.0, 40.0]), np.array([100, 50, 60, 90]), np.array([100, 150, 210, 300]), 0, False,
        np.array([10.0, 20.0, 30.0]), np.array([100.0, 50.0, 60.0, 90.0]), 4.0,
    )  # fmt: skip
    assert counts.surely([20.0]).tolist() == [150 - 8 * np.sqrt(2), 150 - 8 * np.sqrt(2)]
    assert counts.surely([15.0]).tolist() == [
        100 - 8,
        150 - 8 * np.sqrt(2),
    ]  # half of what lies between 10 and 20 is in neither
    assert counts.surely([12.0, 18.0])[1] == 0
    assert counts.fewest([30.0]) == 90 - 8


@pytest.mark.parametrize("kind", ["ages", "amounts"])
def test_edges_by_noise_are_near_exact_ones(kind: str) -> None:
    """Quantiles of noisy counts differ from exact ones by little more than the noise of all counts up to them."""
    rng = np.random.default_rng(5)
    for n in (5_000, 20_000):
        x = (
            rng.integers(18, 90, n).astype(float)
            if kind == "ages"
            else np.minimum(np.exp(rng.normal(3.4, 0.5, n)).round(), 110)
        )
        tally, exact = noisy(x, 0, 110, frozen_sd(n), rng), ValueCounts.of(x)
        for share in np.arange(1, 10) / 10:
            edge = tally.quantile(share)
            below, upto = exact.up_to(edge - 1), exact.up_to(edge)
            slack = 4 * frozen_sd(n) * np.sqrt(112) / 2  # sums of noise that ends at 0, as a bridge does
            assert below - slack <= share * n <= upto + slack

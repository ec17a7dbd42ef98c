"""Golden answers: digests of what sfumato computes for fixed seeds, to show that a change of shape changed no number.

    python tests/golden.py write        # before the change: writes .golden.txt
    python tests/golden.py compare      # after it: names every answer that differs, and exits 1 if there is one
    python tests/golden.py compare masks tables

Digests are of exact bytes, so that they hold on one machine and one set of libraries: the file is not in the repository. `make
golden` writes it where there is none, and compares where there is one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "contract")]

import numpy as np  # noqa: E402

FILE = HERE.parent / ".golden.txt"
Answers = Iterator[tuple[str, object]]
_VOLATILE = {"seconds", "elapsed", "date", "time", "created", "moment", "hash", "head", "folder", "seed_file"}


def digest(value: object) -> str:
    """Return a digest of a value: arrays by their bytes, everything else by its JSON."""
    hasher = hashlib.blake2b(digest_size=10)
    _feed(hasher, value)
    return hasher.hexdigest()


def _feed(hasher: Any, value: object) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        hasher.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _VOLATILE:
                hasher.update(repr(str(key)).encode())
                _feed(hasher, inner)
    elif isinstance(value, list | tuple | np.ndarray):
        hasher.update(b"[")
        for inner in value:
            _feed(hasher, inner)
        hasher.update(b"]")
    elif isinstance(value, bytes):
        hasher.update(value)
    else:
        hasher.update(repr(value).encode())


def attempt(make: Callable[[], object]) -> object:
    """Return what is made, or the sentence with which it is refused."""
    from sfumato.errors import SfumatoError

    try:
        return make()
    except SfumatoError as error:
        return f"{type(error).__name__}: {error}"


def masks() -> Answers:
    """Every registered mask in every variant, on the file of the contract."""
    from contract_cases import MASKS

    from sfumato.testing import DRAWS, microdata, rows

    data = microdata()
    for case in MASKS:
        mask = case.values[0]
        yield str(case.id), attempt(lambda mask=mask: rows(mask.apply(data, DRAWS).masked))


def measures() -> Answers:
    """The score of every measure, estimator and attack in every variant."""
    from contract_cases import ESTIMATORS, MEASURES
    from test_attacks import ATTACKS, SNOOPER, masked

    from sfumato.contract import Draws
    from sfumato.testing import DRAWS, RECIPE, microdata, score_of

    data = microdata()
    release = RECIPE.apply(data, DRAWS)
    for case in MEASURES:
        measure = case.values[0]
        yield (
            str(case.id),
            attempt(
                lambda m=measure: score_of(m, release).to_dict(),
            ),
        )
    for case in ESTIMATORS:
        yield f"estimator {case.id}", attempt(lambda e=case.values[0]: e.estimate(release.masked, {}))
    attacked = masked(data)
    for case in ATTACKS:
        yield f"attack {case.id}", attempt(lambda a=case.values[0]: _guesses(a.run(attacked, SNOOPER, Draws(1))))


def _guesses(guesses: Any) -> list[Any]:
    return [np.asarray(getattr(guesses, field)).tolist() for field in ("target", "guess", "truth", "right", "baseline")]


def tables() -> Answers:
    """Every protection with every rule, on a business table, a table of counts and two linked tables."""
    from test_protections import PROTECTIONS, RULES, rule

    from sfumato.contract import Draws, registered
    from sfumato.datasets import business
    from sfumato.tables import Table, audit
    from sfumato.testing import firms, tabulate

    made = {
        "firms": tabulate(firms(90), size="staff"),
        "counts": tabulate(firms().drop(columns="owner"), None),
        "business": Table.of(business(600, regions=6, sectors=5), "region * sector", "turnover"),
        "linked": Table.of(
            business(400, regions=4, sectors=4, hierarchies=False),
            "region * sector + region_group * sector",
            "turnover",
        ),
    }
    for name, t in made.items():
        yield f"{name} table", [t.value, len(t)]
        for named in RULES:
            yield f"{name} {named}", attempt(lambda t=t, named=named: _levels(rule(named).assess(t)))
    for (kind, t), (named, cls) in itertools.product(made.items(), PROTECTIONS.items()):
        fields = cls.parameters()
        for rule_name in RULES if "rules" in fields else ("",):
            options = {"rules": rule(rule_name)} if rule_name else {}
            found = attempt(lambda cls=cls, options=options, t=t: cls(**options).protect(t, Draws(20_061)))
            if isinstance(found, str):
                yield f"{kind} {named} {rule_name}", found
                continue
            yield f"{kind} {named} {rule_name}", [found.values, found.low, found.high, found.status.tolist()]
            if rule_name in ("", "p_percent", "minimum_frequency"):
                for measure in registered("table measure").values():
                    yield (
                        f"{kind} {named} {rule_name} {measure.name}",
                        attempt(lambda m=measure, p=found: _measure(m).score(p).to_dict()),
                    )
                yield f"{kind} {named} {rule_name} audit", attempt(lambda p=found: str(audit(p)))


def _levels(found: Any) -> list[Any]:
    return [found.unsafe, found.upper, found.lower, found.width, found.reasons.tolist()]


def _measure(cls: Any) -> Any:
    from sfumato.tables import PPercent

    return cls(**({"rules": PPercent(p=10)} if "rules" in cls.parameters() else {}))


def _vault(folder: Path) -> tuple[Any, Any]:
    from sfumato.contract import Draws
    from sfumato.datasets.analysis_survey import coarse_cutpoints, survey20k
    from sfumato.mas.ledger import Ledger
    from sfumato.mas.perturbation import ledger_key
    from sfumato.mas.policy import Policy
    from sfumato.mas.vault import Vault

    vault = Vault(folder, Draws("golden"), Policy.named("hardened"))
    vault.ledger = Ledger(folder / "golden.sqlite", ledger_key(Draws("golden")), lasting=False)
    return vault, vault.freeze("survey", survey20k(8_000), coarse_cutpoints())


def questions() -> Answers:
    """The bytes of the answers to the 200 ordinary questions, under three policies."""
    import dataclasses

    from sfumato.mas.attacks.reference_workload import ordinary_questions
    from sfumato.mas.policy import Policy

    with tempfile.TemporaryDirectory() as folder:
        vault, dataset = _vault(Path(folder))
        for title in ("census2009", "hardened", "strict"):
            policy = Policy.named(title).with_(per_minute=None)
            fresh = dataclasses.replace(dataset, name=f"survey_{title}", decided={})
            for i, question in enumerate(ordinary_questions()):
                found = vault.ask(fresh, question.universe, question.analysis, policy, user=question.user)
                yield f"{title} {i:03d}", found.to_bytes() if hasattr(found, "to_bytes") else repr(found)


def attacks() -> Answers:
    """The outcome of every attack recipe on every policy."""
    from sfumato.datasets.analysis_survey import coarse_cutpoints, survey20k
    from sfumato.errors import SfumatoError
    from sfumato.mas.attacks.bench import Bench, all_recipes
    from sfumato.mas.policy import Policy

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(survey20k(6_000), coarse_cutpoints(), Path(folder), worlds=1, trials=4)
        for title in ("census2009", "hardened"):
            for name, recipe in all_recipes().items():
                if name == "timing":
                    continue  # seconds, not numbers
                try:
                    yield (
                        f"{title} {name}",
                        repr(bench.run(recipe(), Policy.named(title), 1 if "budget" in name else None)),
                    )
                except SfumatoError as error:
                    yield f"{title} {name}", str(error)


# ruff: noqa: E501 - a command a line
COMMANDS = """
schema survey.csv
mask survey.csv --schema schema.toml --out release --mask kim_noise --set columns=salary,income --set lambda2=salary:0.15,income:0.3 --seed-file seed.toml
mask survey.csv --schema schema.toml --out other --mask top_code --set columns=salary --set quantile=0.9 --seed-file seed2.toml
mask survey.csv --schema schema.toml --out third --mask mdav --set columns=salary,income --set k=4 --seed-file seed3.toml
mask --list
risk survey.csv --schema schema.toml --keys age,sex
risk survey.csv release/masked.csv --align rows --schema schema.toml --column salary
risk survey.csv release/masked.csv --align rows --schema schema.toml --keys age,sex,region
risk --list
utility survey.csv release/masked.csv --schema schema.toml --align rows
utility survey.csv release/masked.csv --schema schema.toml --align rows --measure 'variance_kept; over=salary'
utility --list
map survey.csv --schema schema.toml --mask kim_noise --over lambda2=0.05,0.2 --risk salary --utility salary --utility 'salary ~ experience' --max-error 5 --replications 20 --seed 3 --out map.html
search survey.csv --schema schema.toml --mask 'kim_noise; columns=salary,income' --mask 'rank_swap; columns=salary,income' --risk salary --utility 'variance_kept; over=salary,income' --max-error 5 --effort quick --seed 1 --save-recipe recipe.toml
report survey.csv release/masked.csv --schema schema.toml --align rows --recipe release/recipe.toml --risk salary --max-risk 0.5 --utility correlations_kept --min-utility 0.9 --by region --out report.html
table firms.csv --schema firms.toml --formula 'region * sector' --variable turnover --method suppression --rule 'p% 10' --out t1.csv
table firms.csv --schema firms.toml --formula 'region * sector' --variable turnover --method rta --out t2.csv --seed-file t2.toml
table firms.csv --schema firms.toml --formula 'region * sector' --method controlled_rounding --out t3.csv --seed-file t3.toml
table --list
table-map firms.csv --schema firms.toml --formula 'region * sector' --variable turnover --method rta --method suppression --rule 'p% 10' --over rta.base_cv=0.1,0.25 --max-risk 1 --replications 3 --seed 1
audit t1.csv --dimensions region,sector --variable turnover
audit t1.csv
vault add v people people.csv --schema people.toml
vault cutpoints v people age --strategy fixed --least 100
vault freeze v people
vault freeze v people --confirm
ask v people
ask v people --crosstab sex,race
ask v people --ols 'income ~ age + C(sex)'
ask v people --universe "sex == 'F'" --crosstab race
ask v people --analysis quantiles --set of=income
ask --list
vault log v
papers
demo --records 500 --replications 20 --seed 9 --out demo
attack census2009 --recipe probes --rules-on --targets 20
attack hardened --recipe differencing --map drop.q=0,2 --max-risk 0.6 --targets 20
"""
"""One command a line, quoted as in a shell."""


def commands() -> Answers:
    """`--json` of every command, on small files of its own folder."""
    from commands import run

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _files(Path(folder))
            for line in filter(None, COMMANDS.splitlines()):
                done = run(*shlex.split(line), "--json")
                text = done.stdout
                try:
                    shown: object = json.loads(text)
                except ValueError:
                    shown = text
                yield line, [done.exit_code, done.stderr if done.exit_code else "", shown]
            for path in sorted(
                p for p in Path().rglob("*") if p.suffix in (".csv", ".toml", ".json") and "v" not in p.parts
            ):
                yield f"file {path}", path.read_bytes()
        finally:
            os.chdir(here)


def _files(folder: Path) -> None:
    from sfumato.datasets import business, teachers
    from sfumato.datasets.analysis_survey import survey20k

    for name, data in (("survey", teachers(600, seed=5)), ("firms", business(300, regions=4, sectors=4))):
        data.write(folder / f"{name}.csv")
        data.schema.write(folder / ("schema.toml" if name == "survey" else f"{name}.toml"))
    people = survey20k(3_000)
    people.write(folder / "people.csv")
    people.schema.write(folder / "people.toml")


PARTS = {f.__name__: f for f in (masks, measures, tables, questions, attacks, commands)}


def known_secrets() -> None:
    """Let secrets be the same in every run."""
    from sfumato.contract import draws

    made = (hashlib.sha256(f"golden {i}".encode()).digest() for i in itertools.count())
    draws.secrets = SimpleNamespace(token_bytes=lambda _size: next(made))  # type: ignore[attr-defined]


def answers(parts: list[str]) -> dict[str, str]:
    """Return the digests of all answers of some parts."""
    found = {}
    for part in parts:
        known_secrets()
        began = time.process_time()
        for key, value in PARTS[part]():
            found[f"{part}: {key}"] = digest(value)
            if os.environ.get("GOLDEN_SHOW") and os.environ["GOLDEN_SHOW"] in f"{part}: {key}":
                print(f"{part}: {key}\n   {value!r}"[:3_000])
        print(f"{part}: {sum(k.startswith(part) for k in found)} answers, {time.process_time() - began:.0f} CPU s")
    return found


def main(verb: str = "", *parts: str) -> int:
    """Write the digests, or compare with those written before; without a verb, whichever there is to do."""
    verb = verb or ("compare" if FILE.exists() else "write")
    chosen = list(parts) or list(PARTS)
    before = dict(line.rsplit(" ", 1) for line in FILE.read_text("utf-8").splitlines()) if FILE.exists() else {}
    found = answers(chosen)
    mine = {k: v for k, v in before.items() if k.split(":")[0] in chosen}
    if verb == "write":
        merged = {k: v for k, v in before.items() if k not in mine} | found
        FILE.write_text("".join(f"{k} {v}\n" for k, v in sorted(merged.items())), "utf-8")
        print(f"{len(found)} answers are written to {FILE.name}; the next run compares with them.")
        return 0
    wrong = sorted(k for k in mine.keys() | found.keys() if mine.get(k) != found.get(k))
    for key in wrong:
        print(f"{'new' if key not in mine else 'gone' if key not in found else 'differs'}: {key}")
    print(f"{len(found)} answers, {len(wrong)} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

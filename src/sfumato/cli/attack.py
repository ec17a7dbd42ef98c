"""`sfumato attack`: every attack of the bench against a policy, or some at several of its settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato import mas
from sfumato.cli.console import Misuse, Screen, percent
from sfumato.cli.files import check_chart, check_report, save_chart
from sfumato.cli.map_output import exit_infeasible, show_choice, show_points
from sfumato.cli.options import (
    Only,
    OutputOptions,
    SourceOptions,
    argument,
    expand_options,
    option,
    output_field,
)
from sfumato.cli.parse import pair, values_of
from sfumato.cli.vault import open_vault
from sfumato.contract.score import number
from sfumato.errors import ParameterError, refuse_unknown
from sfumato.files import private

if TYPE_CHECKING:
    from sfumato.data.microdata import Microdata
    from sfumato.maps import Choice, RUMap
    from sfumato.mas.attacks.base import Outcome, PolicyAttack
    from sfumato.mas.attacks.bench import Bench
    from sfumato.mas.attacks.reference_workload import Honest, HonestUsers
    from sfumato.mas.policy import Policy
    from sfumato.mas.usage import UsageReport


def settings_swept(given: Iterable[str], policy: Policy) -> dict[str, tuple[float, ...]]:
    """Return the values of each swept setting, from "drop.share=0.05,0.1,0.2" or "counts.sd=1:10:4"."""
    from sfumato.mas.policy import settings_of

    known = settings_of(policy)
    found: dict[str, tuple[float, ...]] = {}
    for text in given:
        name, values = pair(text, "--map", "counts.sd=2,5,10")
        refuse_unknown("setting", known, f"the policy {policy.title}", name)
        if not known[name].numeric:
            raise ParameterError(f"{name} is not a number, so it cannot be swept.")
        if name in found:
            raise ParameterError(f"--map names {name} twice; put all its values into one.")
        found[name] = values_of(name, values, known[name])
    return found


def show_map(screen: Screen, m: RUMap, choice: Choice | None) -> None:
    """Print the points of a map, and what was chosen."""
    rules = "with the universe rules off" if m.subject.rules_off else "with all rules"
    recipes = ", ".join(recipe.name for recipe in m.subject.recipes)
    screen.say(f"{len(m.points):,} settings, attacked {rules} by {recipes}, {m.subject.bench.trials:,} times each.")
    screen.say()
    show_points(
        screen, m, {"at": lambda point: point.at}, "R: right guesses above the baseline. U: 1 if nothing is lost."
    )
    show_choice(screen, choice, "Add --max-risk to choose the most useful settings that are safe enough.")


@dataclass(frozen=True, kw_only=True)
class AttackOptions:
    """The options of `sfumato attack`."""

    policy: str = argument(
        "POLICY", "census2009, hardened, guaranteed, or a policy of your own in TOML.", default="hardened"
    )
    file: Path | None = option("Data to attack. A generated survey of 20,000 persons if not given.", "--data")
    source: Annotated[SourceOptions, Only("schema", "read")]
    recipe: list[str] | None = option("A recipe by name; all if not given, with --map some cheap ones.")
    targets: int = option("Targets of each recipe.", default=400, min=10, max=100_000)
    rules_off: bool | None = option(
        "Attack again with the universe rules off, or not; with --map attack with the rules off, or on.",
        "--rules-off/--rules-on",
    )
    over: list[str] | None = option(
        "Trace risk against utility over a setting of the policy: drop.share=0.05,0.1,0.2 or counts.sd=1:10:4. Give it "
        "twice to sweep two.",
        "--map",
        metavar="SETTING=VALUES",
    )
    max_risk: float | None = option(
        "With --map, choose the most useful settings with a risk of at most R.", metavar="R", min=0
    )
    vault: str | None = option(
        "A data set of a vault: the report says what was asked of it so far.", metavar="VAULT/NAME"
    )
    out: Path | None = output_field("Write a report (.html or .pdf, and .json beside it): confidential.")
    chart: Path | None = output_field("With --map, draw the map (.svg or .png).")
    output: OutputOptions

    def check(self) -> None:
        """Refuse what does not belong together, or cannot be written, before any work is done."""
        if not self.over and (self.max_risk is not None or self.chart is not None):
            raise Misuse("--max-risk and --chart are for the map: name what to sweep, such as --map counts.sd=2,5,10.")
        if self.vault is not None and self.out is None:
            raise Misuse("--vault is for the report: say where to write it with --out report.html.")
        check_report(self.out, self.output.replace)
        check_chart(self.chart, self.output.replace)


@expand_options
def attack(options: AttackOptions) -> None:
    """Attack a policy of the analysis system by every known recipe, and see what it costs honest users.

    Confidential attributes are planted in the data before they are attacked: no real value is guessed. Success is compared
    with that of somebody who does not ask (Wilson's interval), and with the limit that a policy must keep. With --map, some
    recipes attack the policy at several settings, and the most useful ones that are safe enough can be chosen.
    """
    from sfumato.mas.attacks import bench as benches

    screen, policy = options.output.screen(), mas.Policy.named(options.policy)
    options.check()
    swept = settings_swept(options.over or (), policy)
    recipes = [benches.recipe_named(name)() for name in options.recipe] if options.recipe else None
    vault = None if options.vault is None else Path(options.vault)
    stands = None if vault is None else open_vault(vault.parent).usage(vault.name)
    data = None if options.file is None else options.source.load(screen, options.file)
    with private() as folder:
        bench, users = _laid_out(data, Path(folder), options.targets)
        if swept:
            _map(screen, policy, swept, bench, users, recipes, stands, options)
            return
        every = recipes or [kind() for kind in benches.all_recipes().values()]
        policies = (policy,) if options.rules_off is False else (policy, benches.rules_off(policy))
        attacks = {p.title: found for p in policies if (found := _attack(screen, p, bench, every))}
        served = users.served(policy)
        document = {
            "policy": policy.label,
            "attacks": {title: [_facts(o) for o in found] for title, found in attacks.items()},
            "workload": _honest(screen, policy.title, served) | _further(screen, policy, users),
        }
    if options.out is not None:
        from sfumato.reports.subject_reports import policy_report

        policy_report(policy, attacks=attacks, served=served, standing=stands).write(options.out, json=True)
        screen.say(f"Wrote {options.out} and {options.out.with_suffix('.json')}.")
    screen.answer({**document, "report": options.out})


def _attack(screen: Screen, policy: Policy, bench: Bench, recipes: Sequence[PolicyAttack]) -> list[Outcome]:
    """Run the recipes against a policy, and print what came of them."""
    from sfumato.mas.attacks.bench import HEADS, table

    with screen.progress() as tell:
        found = bench.all(policy, recipes, tell)
    if idle := [r.name for r in recipes if r.name not in {o.recipe for o in found}]:
        screen.note(f"these data give some recipes nobody or nothing to attack: {', '.join(idle)}.")
    if found:
        screen.say(f"Attacks on {policy.title}", strong=True)
        screen.table(HEADS, table(found), (1, 2, 4, 5, 6, 7, 8, 9))
        screen.say()
    return found


def _laid_out(data: Microdata | None, folder: Path, targets: int) -> tuple[Bench, HonestUsers]:
    """Return the bench and the honest users: of the generated survey, or of data of one's own."""
    from sfumato.datasets.analysis_survey import coarse_cutpoints, fine_cutpoints, survey20k
    from sfumato.mas.attacks.bench import Bench, cutpoints_of
    from sfumato.mas.attacks.reference_workload import HonestUsers, tables_about
    from sfumato.mas.preparation import find_variables

    if data is None:
        survey = survey20k()
        bench = Bench(survey, fine_cutpoints(), folder / "bench", trials=targets)
        return bench, HonestUsers(survey, coarse_cutpoints(), folder / "honest")
    cutpoints = cutpoints_of(data)
    names = [v.name for v in find_variables(data, cutpoints) if v.levels]
    users = HonestUsers(data, cutpoints, folder / "honest", tables_about(names))
    return Bench(data, cutpoints, folder / "bench", trials=targets), users


def _map(
    screen: Screen, policy: Policy, swept: Mapping[str, Sequence[float]], bench: Bench, users: HonestUsers,
    recipes: list[PolicyAttack] | None, stands: UsageReport | None, options: AttackOptions,
) -> None:  # fmt: skip
    max_risk, out, chart = options.max_risk, options.out, options.chart
    with screen.progress() as tell:
        m = mas.policy_map(
            policy, swept, bench=bench, users=users, recipes=recipes, rules_off=bool(options.rules_off),
            progress=lambda done, total: tell("Attacking and asking at every setting", done, total),
        )  # fmt: skip
        if max_risk is not None:
            tell("Attacking the best one again", 0, 0)
        choice = None if max_risk is None else m.choose(max_risk)
        if chart is not None:
            save_chart(m.chart(max_risk, choice), chart)
    show_map(screen, m, choice)
    if out is not None:
        from sfumato.reports.subject_reports import policy_report

        policy_report(policy, standing=stands, map=m.section(max_risk, choice)).write(out, json=True)
        screen.say(f"Wrote {out} and {out.with_suffix('.json')}.")
    screen.answer(
        {**m.to_dict(), "choice": None if choice is None else choice.to_dict(), "report": out, "chart": chart}
    )
    exit_infeasible(choice)


def _honest(screen: Screen, title: str, found: Honest) -> dict[str, Any]:
    screen.say(f"{found.asked} ordinary questions under {title}: {percent(found.answered)} answered.", strong=True)
    if found.refused:
        screen.table(("refused by", "questions"), list(found.refused.items()), (1,))
    rows = [(size, percent(found.shown[size]), percent(error)) for size, error in found.errors.items()]
    screen.table(("records in a cell", "shown", "median error of the count"), rows, (1, 2))
    if not math.isnan(found.overlap):
        screen.say(
            f"Confidence intervals of regressions overlap by {percent(found.overlap)} (median) with those without protection; "
            f"{percent(found.coverage)} of the published intervals hold the coefficient without protection."
        )
    if not math.isnan(found.precision):
        screen.say(
            f"Standard errors of least squares are {found.precision:.2f} times those without protection (median)."
        )
    screen.say(
        f"Told of one person by all answers: at most {percent(found.told)} of guesses between two values are right as the accounts "
        f"count it, {percent(found.formal)} for whoever knows everything else."
    )
    return {
        "asked": found.asked, "answered": found.answered, "refused": dict(found.refused), "errors": dict(found.errors),
        "shown": dict(found.shown), "overlap": number(found.overlap), "precision": number(found.precision),
        "coverage": number(found.coverage), "told": number(found.told), "formal": number(found.formal),
    }  # fmt: skip


def _further(screen: Screen, policy: Policy, users: HonestUsers) -> dict[str, Any]:
    """Print what a user gets who is alone, and how much of the questions a shelf would answer."""
    alone = users.alone(policy)
    answered = round(alone.asked * alone.answered)
    screen.say(f"One user alone gets {answered} of his first {alone.asked} questions answered.")
    shelves = {k: users.on_shelf(k) for k in (2, 3)}
    screen.say(
        f"A shelf of all tables of one and two variables answers {percent(shelves[2])} of the questions, with those of three "
        f"variables {percent(shelves[3])}."
    )
    return {
        "alone": {"asked": alone.asked, "answered": answered},
        "shelf": {f"up to {k}": share for k, share in shelves.items()},
    }


def _facts(one: Outcome) -> dict[str, Any]:
    return {
        "recipe": one.recipe, "title": one.title, "targets": one.success.targets, "right": one.success.rate,
        "interval": list(one.success.interval), "baseline": one.success.baseline, "limit": one.limit, "held": one.held,
        "formal": one.formal, "mu": number(one.mu), "calculated": number(one.calculated),
        "refusal_rate": one.refusal_rate, "refused": one.refused,
    }  # fmt: skip

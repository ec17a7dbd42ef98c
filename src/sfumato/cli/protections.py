"""From texts to protections of tables: with their parameters, rules, and what is wanted of single cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sfumato.cli.given import pair, settings, values_of
from sfumato.cli.handling import Misuse
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    from sfumato.cli.screen import Screen
    from sfumato.tables import APriori, Protection


def protection_of(
    name: str, given: Iterable[str], rule: list[str] | None, marked: bool, option: str = "--set"
) -> Protection:
    """Return a method with its parameters and rules; `marked` says whether a file may say which cells are unsafe."""
    from sfumato.contract import find
    from sfumato.tables import ByHand, rules_of

    cls: Any = find("protection", name)
    fields = settings(cls, given, option)
    among_others = (
        option != "--set" and "extra" in cls.parameters() and "extra" not in fields
    )  # rules have no part in it
    if rule and "rules" in cls.parameters() and not among_others:
        fields["rules"] = rules_of(list(rule))
    elif rule and option == "--set":
        raise Misuse(
            f"{name} protects every contributor by its own parameters and takes no --rule. Use --set; --list shows them."
        )
    elif "rules" in cls.parameters() and "rules" not in fields and not _optional(cls, "rules"):
        if not (marked and "a_priori" in cls.parameters()):
            raise Misuse(
                f"{name} needs to know which cells are unsafe: --rule 'p% 10', --rule 'minimum 3'. --list shows the rules."
            )
        fields["rules"] = ByHand()
    made: Protection = cls.from_dict(fields)
    return made


def protections_of(given: Iterable[str], rule: list[str] | None, marked: bool) -> dict[str, Protection]:
    """Return several methods by name, each with its parameters after semicolons: 'rta; prior_cv=0.4'."""
    found: dict[str, Protection] = {}
    for text in given:
        name, _, rest = text.partition(";")
        parts = [part for part in rest.split(";") if part.strip()]
        own = text.strip() if name.strip() in found else name.strip()
        if own in found:
            raise Misuse(f"--method {own} is given twice; leave one out, or give it other parameters.")
        found[own] = protection_of(name.strip(), parts, rule, marked, "--method")
    if not found:
        raise Misuse("name what to try: --method rta --method suppression. `sfumato table --list` shows all.")
    if rule and not any("rules" in p.parameters() for p in found.values()):
        raise Misuse("none of these methods takes a --rule: they protect every contributor by their own parameters.")
    return found


def with_wishes(screen: Screen, chosen: Protection, wanted: APriori | None, asked: bool) -> Protection:
    """Return a method that knows what is wanted of single cells; one that cannot is refused, or told if nobody asked."""
    if wanted is None or repr(wanted) == "APriori(nothing)":
        return chosen
    if "a_priori" in chosen.parameters():
        return chosen.with_(a_priori=wanted)
    if asked:
        raise Misuse(f"--a-priori is for suppression; {chosen.name} does not look at single cells.")
    screen.note(
        f"the file says more of single cells (their status, costs or levels), which {chosen.name} does not look at."
    )
    return chosen


def swept_over(over: Iterable[str], protections: Mapping[str, Protection]) -> dict[str, Any] | None:
    """Return the values of each swept parameter, by "method.parameter"; None, for the usual ranges, if nothing is named.

    The parameter's name alone will do where only one of the methods has it.
    """
    known = {f"{name}.{p}": facts for name, method in protections.items() for p, facts in method.parameters().items()}
    found: dict[str, Any] = {}
    for text in over:
        name, values = pair(text, "--over", "rta.base_cv=0.05:0.4:5")
        owners = [path for path in known if path.partition(".")[2] == name]
        path = owners[0] if len(owners) == 1 else name
        if path not in known:
            raise ParameterError(unknown_name("parameter", path, known, "the methods"))
        if path in found:
            raise ParameterError(f"--over names {path} twice; put all its values into one.")
        facts = known[path]
        found[path] = (
            list(values_of(path, values, facts))
            if facts.numeric
            else [v.strip() for v in values.split(",") if v.strip()]
        )
    return found or None


def _optional(cls: Any, name: str) -> bool:
    """Whether a parameter need not be given."""
    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING

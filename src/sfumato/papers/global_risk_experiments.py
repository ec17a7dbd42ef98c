"""The experiments of the global-risk paper, on anybody's file: one key masked more and more, and what is left of the risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import charts
from sfumato.attacks.attacker_file import key_names
from sfumato.contract import Draws, Mask, Release, Snooper
from sfumato.data import Microdata, classes_of
from sfumato.errors import ParameterError, unknown_name
from sfumato.lazy import pd
from sfumato.masks import ChangeRare, IndependentNoise, RecodeRare
from sfumato.risk.classification import EqualWeights, crossed
from sfumato.risk.global_risk import GlobalRisk, key_changes, key_subsets
from sfumato.schema.attribute import Scale

if TYPE_CHECKING:
    import altair as alt

NOISE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_STEPS = (1, 2, 5)


@dataclass(frozen=True, eq=False)
class KeyExperiments:
    """What `key_experiments` found."""

    risks: pd.DataFrame

    def frame(self) -> pd.DataFrame:
        """Return a row for each file, experiment, setting and kind of risk.

        Columns: file, records, experiment, key, parameter, setting, kind, value, change (the inversion-change factor of the
        masked key) and keys (the subset that serves a snooper best).
        """
        return self.risks

    def chart(self) -> alt.HConcatChart:
        """Draw minimal and maximal risk against each setting, as in Figures 4.1 to 4.3 of the paper."""
        return charts.paper_charts.key_experiments_chart(self.risks)


def key_experiments(
    data: Microdata | Mapping[str, Microdata],
    *,
    ordered: str | None = None,
    unordered: str | None = None,
    tree: str | None = None,
    noise: Sequence[float] = NOISE,
    shares: Sequence[float] = SHARES,
    least: Sequence[int] | None = None,
    snooper: Snooper | None = None,
    draws: Draws | int = 1,
) -> KeyExperiments:
    """Repeat the three experiments of the global-risk paper (section 4) on a file, or on several by name.

    An ordered key gets noise of c times its variance, rounded and kept within its bounds as the schema says (in the paper, age
    from 0 to 100). An unordered key is changed for the p % of the records whose keys are rarest. A partially ordered key loses
    two levels of its hierarchy where fewer than t records have a value. Each time the other keys stay as they are.

    Parameters
    ----------
    ordered, unordered, tree
        The keys; the first one of each scale if none is named. Without a key of a scale its experiment is left out.
    noise, shares, least
        The settings c, p and t. Without `least`, t goes up to the number of records of the most frequent value.

    Examples
    --------
    >>> from sfumato.datasets import billing
    >>> found = key_experiments(billing(200), noise=[0, 1], shares=[0, 0.5], least=[1, 1_000])
    >>> found.frame()["experiment"].unique().tolist()
    ['noise on age', 'sex changed', 'zip recoded']
    """
    files = {f"{len(data):,} records": data} if isinstance(data, Microdata) else dict(data)
    if not files:
        raise ParameterError("give at least one file.")
    seeded = Draws(draws) if isinstance(draws, int) else draws
    keys = {file: _keys(records, snooper, ordered, unordered, tree) for file, records in files.items()}
    if least is None:  # the same for all files: past its most frequent value the risk of a smaller one stays as it is
        trees = [(records, keys[file].get(Scale.PARTIALLY_ORDERED)) for file, records in files.items()]
        sizes = (classes_of(records, [name], "value").sizes.max(initial=0) for records, name in trees if name)
        least = _limits(int(max(sizes, default=0)))
    rows = []
    for file, records in files.items():
        for plan in _plans(records, keys[file], noise, shares, least):
            rows += _measured(file, records, snooper, seeded, *plan)
    if not rows:
        raise ParameterError("give at least one setting of an experiment: noise, shares or least.")
    order = {name: i for i, name in enumerate(dict.fromkeys(row["experiment"] for row in rows))}
    frame = pd.DataFrame(rows).sort_values("experiment", key=lambda c: c.map(order), kind="stable", ignore_index=True)
    return KeyExperiments(frame)


def _keys(
    data: Microdata, snooper: Snooper | None, ordered: str | None, unordered: str | None, tree: str | None
) -> dict[Scale, str]:
    known = key_names(Release(data, (data,)), snooper or Snooper())
    wanted = {Scale.ORDERED: ordered, Scale.UNORDERED: unordered, Scale.PARTIALLY_ORDERED: tree}
    found = {}
    for scale, name in wanted.items():
        if name is not None and name not in known:
            raise ParameterError(unknown_name("key", name, known, "the keys that the snooper looks for records by"))
        if name is not None and data.schema[name].scale is not scale:
            raise ParameterError(
                f"'{name}' is {data.schema[name].scale.value}, where a key that is {scale.value} is needed."
            )
        first = next((n for n in known if data.schema[n].scale is scale), None)
        if (chosen := name or first) is not None:
            found[scale] = chosen
    return found


Plan = tuple[str, str, str, list[tuple[float, Mask]]]
"""Experiment, key, what the parameter is, and a mask for each setting."""


def _plans(
    data: Microdata, keys: dict[Scale, str], noise: Sequence[float], shares: Sequence[float], least: Sequence[int]
) -> list[Plan]:
    plans: list[Plan] = []
    if name := keys.get(Scale.ORDERED):
        masks: list[tuple[float, Mask]] = [(c, IndependentNoise(columns=(name,), lambda2=c)) for c in noise]
        plans.append((f"noise on {name}", name, "c: variance of the noise / of the key", masks))
    if name := keys.get(Scale.UNORDERED):
        # a share of less than one record changes nobody
        some = [p for p in shares if p == 0 or p * len(data) >= 1]
        plans.append(
            (
                f"{name} changed",
                name,
                "p: share of the records, rarest first",
                [(p, ChangeRare(name, share=p)) for p in some],
            )
        )
    if name := keys.get(Scale.PARTIALLY_ORDERED):
        masks = [(t, RecodeRare((name,), least=t)) for t in least]
        plans.append((f"{name} recoded", name, "t: values of fewer records are cut", masks))
    return plans


def _limits(most: int) -> list[int]:
    """Return 1, 2, 5, 10, … up to the first that is more than the most frequent value has records."""
    steps = [m * 10**p for p in range(len(str(most)) + 1) for m in _STEPS]
    return [t for t, before in zip(steps, [0, *steps], strict=False) if before <= most]


def _measured(
    file: str, data: Microdata, snooper: Snooper | None, draws: Draws, experiment: str, key: str, parameter: str,
    masks: list[tuple[float, Mask]],
) -> list[dict[str, Any]]:  # fmt: skip
    rows = []
    for setting, mask in masks:
        outcome = mask.apply(data, draws)
        for kind in ("min", "max"):
            measure = GlobalRisk(kind=kind)
            score = measure.score(outcome, snooper)
            rows.append(
                {
                    "file": file, "records": len(data), "experiment": experiment, "key": key, "parameter": parameter,
                    "setting": float(setting), "kind": f"{kind}imal", "value": score.value,
                    "change": score.details[f"change of {key}"], "keys": ", ".join(measure.best_keys(outcome, snooper)),
                }
            )  # fmt: skip
    return rows


def masking_floors(data: Microdata, snooper: Snooper | None = None) -> pd.DataFrame:
    """Return for each key of an unmasked file the maximal risk that is left however strongly this key alone is masked.

    Whatever is done to a key, a snooper can leave it out: the risk of the other keys is a floor. The key with the lowest floor
    is the one where masking can achieve most. The paper advises to start with the key that has most values; that is often the
    one, and not always. Columns: key, values (how many different ones), floor, fall (from the risk of the unmasked file).
    """
    outcome = Release(data, (data,))
    found = crossed(outcome, snooper or Snooper(), "wildcard")
    subsets = key_subsets(found, key_changes(outcome, found, {}), EqualWeights())
    every = tuple(range(len(found.names)))
    whole = subsets.value(every)
    rows = []
    for k in every:
        rest = tuple(o for o in every if o != k)
        floor = subsets.value(rest) if rest else 0.0
        values = len(np.unique(found.before.codes[k][found.before.codes[k] >= 0]))
        rows.append({"key": found.names[k], "values": values, "floor": floor, "fall": whole - floor})
    return pd.DataFrame(rows).sort_values("floor", kind="stable", ignore_index=True)

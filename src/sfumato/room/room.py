"""The session of a researcher in a secure room: familiar calls, each output checked and recorded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from sfumato.errors import DataError, ParameterError, refuse_unknown
from sfumato.room.checks import check_model
from sfumato.room.models import RoomModel, fit_logit, fit_ols, foreign_model, from_arrays, from_formula
from sfumato.room.outputs import Output, Status
from sfumato.room.pandas_calls import TableRequest, ask_crosstab, ask_pivot_table
from sfumato.room.policy import OutputPolicy
from sfumato.room.tabulation import tabulate

Tell = Callable[[str], object]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,79}")


class SecureRoom:
    """A session of output checking, for researchers who see the data and want to take results out.

    Tables and models are called as in pandas and statsmodels. Each is checked under the room's policy, recorded as output_0,
    output_1, …, and returned; `finalise` writes the folder for the output checker.

    Parameters
    ----------
    policy
        The name of a policy, a TOML file, or an `OutputPolicy`.
    suppress
        Whether cells that fail are hidden, unless a call says otherwise.
    tell
        The function that receives the line with the result of the checks: `print`, a logger's `info`, or None.

    Examples
    --------
    >>> import pandas as pd
    >>> firms = pd.DataFrame({"region": ["N"] * 30 + ["S"] * 24, "size": (["small"] * 3 + ["large"] * 3) * 9})
    >>> room = SecureRoom()
    >>> table = room.crosstab(firms["region"], firms["size"])
    output_0: pass
    """

    def __init__(
        self, policy: str | OutputPolicy = "standard", *, suppress: bool = False, tell: Tell | None = print
    ) -> None:
        self.policy = policy if isinstance(policy, OutputPolicy) else OutputPolicy.named(policy)
        self.suppress = suppress
        self.tell = tell
        self._outputs: dict[str, Output] = {}
        self._made = 0

    @property
    def outputs(self) -> Mapping[str, Output]:
        """The recorded outputs by name, in the order they were made."""
        return MappingProxyType(self._outputs)

    @property
    def last(self) -> Output:
        """The last recorded output."""
        if not self._outputs:
            raise ParameterError("nothing has been recorded yet.")
        return next(reversed(self._outputs.values()))

    def __repr__(self) -> str:
        return f"SecureRoom('{self.policy.label}', {len(self._outputs)} outputs)"

    # -- tables

    def crosstab(
        self, index: Any, columns: Any, values: Any = None, rownames: Any = None, colnames: Any = None,
        aggfunc: Any = None, margins: bool = False, margins_name: str = "All", dropna: bool = True,
        normalize: Any = False, *, suppress: bool | None = None, contributor: Any = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Return a cross-tabulation, as `pandas.crosstab` does; the statistics of values are count, sum, mean, median, std, var.

        Parameters
        ----------
        suppress
            Whether cells that fail are hidden (NaN) and totals computed from the others alone; None for the room's setting.
        contributor
            The owner of each record (a household, a company), where one may own several.
        """
        asked = ask_crosstab(
            index, columns, values, rownames, colnames, aggfunc, margins, margins_name, dropna, normalize, contributor,
        )  # fmt: skip
        return self._table(asked, suppress)

    def pivot_table(
        self, data: Any, values: Any = None, index: Any = None, columns: Any = None, aggfunc: Any = "mean",
        fill_value: Any = None, margins: bool = False, dropna: bool = True, margins_name: str = "All",
        observed: bool = True, sort: bool = True, *, suppress: bool | None = None, contributor: str | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Return a pivot table, as `pandas.pivot_table` does; keys and values are columns of `data` by name.

        Without `values` all other numerical columns are used. `suppress` and `contributor` (a column's name) are as in `crosstab`;
        a cell that fails for one value or statistic is hidden for all.
        """
        asked = ask_pivot_table(
            data, values, index, columns, aggfunc, fill_value, margins, dropna, margins_name, observed, sort,
            contributor,
        )  # fmt: skip
        return self._table(asked, suppress)

    # -- models

    def ols(
        self, endog: Any, exog: Any = None, missing: str = "none", hasconst: bool | None = None, *, data: Any = None,
        subset: Any = None, drop_cols: Any = None,
    ) -> RoomModel:  # fmt: skip
        """Return least squares of an outcome on columns, as `statsmodels.api.OLS(endog, exog).fit()` does.

        A constant is a column like any other. With a formula: ``ols("income ~ age + C(region)", data)``.
        """
        return self._model(fit_ols, "ols", endog, exog, missing, hasconst, data, subset, drop_cols)

    def logit(
        self, endog: Any, exog: Any = None, missing: str = "none", hasconst: bool | None = None, *, data: Any = None,
        subset: Any = None, drop_cols: Any = None,
    ) -> RoomModel:  # fmt: skip
        """Return a logistic regression of an outcome of 0 and 1, as `statsmodels.api.Logit(endog, exog).fit()` does.

        With a formula: ``logit("employed ~ age + C(region)", data)``.
        """
        return self._model(fit_logit, "logit", endog, exog, missing, hasconst, data, subset, drop_cols)

    def olsr(self, formula: str, data: Any, subset: Any = None, drop_cols: Any = None) -> RoomModel:
        """Return least squares from a formula, as `statsmodels.formula.api.ols(formula, data).fit()` does."""
        return self.ols(formula, data=data, subset=subset, drop_cols=drop_cols)

    def logitr(self, formula: str, data: Any, subset: Any = None, drop_cols: Any = None) -> RoomModel:
        """Return a logistic regression from a formula, as `statsmodels.formula.api.logit(formula, data).fit()` does."""
        return self.logit(formula, data=data, subset=subset, drop_cols=drop_cols)

    def record(self, result: Any) -> Output:
        """Check and record a fitted model of statsmodels, of any kind, and return its record."""
        found = foreign_model(result)
        checks = check_model(found.df_resid, found.rsquared, found.columns, found.names, self.policy)
        return self._checked_model(
            f"record({found.kind} of {found.outcome})", found.coefficients, found.facts, checks,
            (found.outcome, *found.names),
        )  # fmt: skip

    # -- the researcher's comments

    def custom_output(self, path: str | Path, comment: str) -> Output:
        """Record a file made in another way, such as a picture; a person must look at it."""
        file = Path(path)
        if not file.is_file():
            raise DataError(f"there is no file at {file}.")
        said = _text(comment, "comment")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return self._add(
            "custom", "review", f"custom_output({file.name})", "review; made outside of the checks", path=file.absolute(),
            digest=digest, comments=(said,),
        )  # fmt: skip

    def rename_output(self, output: str, name: str) -> None:
        """Rename an output; it keeps its position."""
        self._find(output)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ParameterError(
                "an output's name is that of its file: up to 80 letters, digits, spaces, - and _, the first a letter or a digit."
            )
        if name.casefold() in {n.casefold() for n in self._outputs if n != output}:
            raise ParameterError(f"there is already an output '{name}'.")
        self._outputs = {
            (name if n == output else n): (replace(o, name=name) if n == output else o)
            for n, o in self._outputs.items()
        }

    def remove_output(self, output: str) -> None:
        """Remove an output from the record; its number is not used again."""
        self._find(output)
        del self._outputs[output]

    def add_comments(self, output: str, comment: str) -> None:
        """Add a comment for the output checker."""
        found = self._find(output)
        self._outputs[output] = replace(found, comments=(*found.comments, _text(comment, "comment")))

    def add_exception(self, output: str, reason: str) -> None:
        """Request that an output leaves although it fails, with the reason; a checker decides."""
        self._outputs[output] = replace(self._find(output), exception=_text(reason, "reason"))

    def print_outputs(self) -> str:
        """Print every output with its status, as `tell` does, and return the text."""
        text = "\n".join(map(str, self._outputs.values())) or "nothing has been recorded yet."
        tell = self.tell or print
        tell(text)
        return text

    def finalise(self, folder: str | Path) -> Path:
        """Write all outputs for the output checker to a new folder, whole or not at all, and return its path.

        Refused while an output fails without a requested exception: hide its cells (suppress=True), remove it, or give a reason
        why it should leave.
        """
        from sfumato.room.outputs import write_folder

        return write_folder(folder, tuple(self._outputs.values()), self.policy)

    # -- internal

    def _table(self, asked: TableRequest, suppress: bool | None) -> pd.DataFrame:
        hide = self.suppress if suppress is None else suppress
        found = tabulate(asked, self.policy, hide)
        self._add(
            "table", found.status, asked.command, found.summary, tables={"table": found.table.copy()},
            outcome=found.outcome, variables=asked.names, suppressed=found.suppressed,
            records=found.records,
        )  # fmt: skip
        return found.table

    def _model(
        self, fit: Any, name: str, endog: Any, exog: Any, missing: str, hasconst: bool | None, data: Any, subset: Any,
        drop_cols: Any,
    ) -> RoomModel:  # fmt: skip
        if isinstance(endog, str):
            frame = exog if data is None else data
            design = from_formula(endog, frame, subset, drop_cols)
            command = f"{name}({endog})"
        else:
            if data is not None or subset is not None or drop_cols is not None:
                raise ParameterError("data, subset and drop_cols go with a formula, such as 'income ~ age'.")
            design = from_arrays(endog, exog, missing, hasconst)
            command = f"{name}({design.outcome_name} on {', '.join(design.names)})"
        model: RoomModel = fit(design)
        checks = check_model(model.df_resid, model.rsquared, design.columns, design.names, self.policy)
        self._checked_model(
            command, model.coefficients(), model.numbers(), checks, (design.outcome_name, *design.names)
        )
        return model

    def _checked_model(
        self, command: str, coefficients: pd.DataFrame, facts: Mapping[str, Any], checks: pd.DataFrame,
        variables: tuple[str, ...],
    ) -> Output:  # fmt: skip
        found = set(checks["status"])
        status: Status = "fail" if "fail" in found else "review" if "review" in found else "pass"
        why = "; ".join(checks.loc[checks["status"] != "pass", "finding"])
        return self._add(
            "model", status, command, f"{status}; {why}" if why else status, tables={"coefficients": coefficients},
            outcome=checks, facts=dict(facts), variables=variables, records=int(facts.get("nobs", 0)),
        )  # fmt: skip

    def _add(self, kind: Any, status: Status, command: str, summary: str, **fields: Any) -> Output:
        while (name := f"output_{self._made}") in self._outputs:
            self._made += 1
        output = Output(name, kind, status, command, summary, **fields)
        self._made += 1
        self._outputs[name] = output
        if self.tell is not None:
            self.tell(f"{name}: {summary}")
        return output

    def _find(self, output: str) -> Output:
        refuse_unknown("output", self._outputs, "the record", output)
        return self._outputs[output]


def _text(given: object, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ParameterError(f"a {what} is a sentence for the output checker; it must not be empty.")
    return given.strip()

"""Which tables are wanted, as a formula: ``region * sector + region_group * sector``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sfumato.errors import ParameterError

Term = tuple[str, ...]


@lru_cache(maxsize=256)
def terms(formula: str) -> tuple[Term, ...]:
    """Return the sets of columns that a formula breaks down by; () is the grand total.

    ``a * b`` has the cells of a by b and every margin, ``a : b`` the cells alone; ``+`` puts tables side by side, which are
    then protected together; ``- 1`` leaves the grand total out. A name with spaces stands in backticks.

    >>> terms("region * sector")
    ((), ('region',), ('sector',), ('region', 'sector'))
    >>> terms("region : sector - 1")
    (('region', 'sector'),)
    """
    from formulaic.errors import FormulaicError

    from sfumato.utility.formula import expand

    if not isinstance(formula, str) or not formula.strip():
        raise ParameterError("say which table is wanted, with a formula such as 'region * sector'.")
    try:
        parsed = list(expand(formula))
    except (FormulaicError, SyntaxError, TypeError, ValueError, AttributeError):
        raise ParameterError(
            f"'{formula}' cannot be read as a formula. Use the names of columns with *, : and +, such as 'region * sector'; "
            "a name with spaces or signs in it stands in backticks: '`size class` * sector'."
        ) from None
    found: list[Term] = []
    for term in parsed:
        names = []
        factors: tuple[Any, ...] = getattr(term, "factors", (None,))
        for factor in factors:
            kind = getattr(factor, "eval_method", None)
            if kind is not None and kind.value == "literal" and factor.expr == "1":
                continue
            if kind is None or kind.value != "lookup":
                raise ParameterError(
                    f"'{formula}' is not the formula of a table. Use the names of columns with *, : and +, such as "
                    "'region * sector + region_group * sector'."
                )
            names.append(str(factor.expr))
        found.append(tuple(names))
    if not any(found):
        raise ParameterError(f"'{formula}' breaks nothing down. Name at least one column, such as 'region * sector'.")
    return tuple(dict.fromkeys(found))

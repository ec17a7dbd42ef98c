"""Formulas of columns, such as ``wage + bonus`` or ``log(wage)``: parsed here, never evaluated by Python.

    sum     = product { ("+" | "-") product }
    product = power { ("*" | "/") power }
    power   = sign [ "**" power ]
    sign    = [ "-" ] ( a number | column | function "(" sum ")" | "(" sum ")" )

A column whose name is no plain word stands in backticks.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import Any

import numpy as np

from sfumato.errors import SchemaError, join_names, unknown_name
from sfumato.typing import Flags, Numbers

FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "round": np.round,
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
_DEPTH = 200


class ColumnFormula:
    """A function of columns.

    Examples
    --------
    >>> total = ColumnFormula("wage + `other pay`")
    >>> total.columns, total({"wage": 2.0, "other pay": 0.5})
    (('wage', 'other pay'), 2.5)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        names: dict[str, str] = {}

        def plain(match: re.Match[str]) -> str:
            return names.setdefault(match[1], f"__column_{len(names)}")

        try:
            self._tree = ast.parse(re.sub(r"`([^`]+)`", plain, text).strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise SchemaError(
                f"'{text}' is neither a column nor a formula of columns, such as wage + bonus or log(wage). "
                "A column whose name is no plain word stands in backticks."
            ) from None
        self._quoted = {word: name for name, word in names.items()}
        self.columns = tuple(dict.fromkeys(self._names(self._tree, 0)))
        if not self.columns:
            raise SchemaError(f"the formula '{text}' names no column.")

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Return the formula of numbers or arrays; NaN where it has no value."""
        with np.errstate(all="ignore"):
            found = self._value(self._tree, values)
            return np.where(np.isfinite(found), found, np.nan) if isinstance(found, np.ndarray) else found

    def _names(self, node: ast.AST, depth: int) -> list[str]:
        if depth > _DEPTH:
            raise SchemaError(f"the formula '{self.text[:40]}…' is nested too deeply.")
        match node:
            case ast.Name(id=word):
                return [self._quoted.get(word, word)]
            case ast.Constant(value=value) if type(value) in (int, float):
                return []
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return self._names(left, depth + 1) + self._names(right, depth + 1)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                return self._names(inner, depth + 1)
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
                if name not in FUNCTIONS:
                    raise SchemaError(unknown_name("function", name, FUNCTIONS, f"the formula '{self.text}'"))
                return self._names(inner, depth + 1)
        raise SchemaError(
            f"'{self.text}' is no formula of columns: numbers, columns, + - * / **, parentheses and the functions "
            f"{join_names(FUNCTIONS, len(FUNCTIONS))} may stand in it."
        )

    def _value(self, node: ast.AST, values: Mapping[str, Any]) -> Any:
        match node:
            case ast.Name(id=word):
                return values[self._quoted.get(word, word)]
            case ast.Constant(value=value):
                return float(value)  # type: ignore[arg-type]
            case ast.BinOp(left=left, op=sign, right=right):
                return _OPERATORS[type(sign)](self._value(left, values), self._value(right, values))
            case ast.UnaryOp(op=sign, operand=inner):
                found = self._value(inner, values)
                return -found if isinstance(sign, ast.USub) else found
            case ast.Call(func=ast.Name(id=name), args=[inner]):
                return FUNCTIONS[name](self._value(inner, values))
        raise AssertionError(node)


def quoted(name: str) -> str:
    """Return a column's name as it stands in a formula."""
    return name if name.isidentifier() and name.isascii() and not iskeyword(name) else f"`{name}`"


def decimals(values: Numbers, most: int = 9) -> int:
    """Return how many digits after the point the numbers have, at most `most`."""
    known = values[np.isfinite(values)]
    scale = np.maximum(np.abs(known), 1.0) * 1e-12
    return next((d for d in range(most) if (np.abs(np.round(known, d) - known) <= scale).all()), most)


def agrees(formula: ColumnFormula, values: Mapping[str, Numbers], found: Numbers) -> Flags:
    """Return for which records a column is what the formula gives, as far as the digits of all columns tell, shape (n,).

    A record in which some column is missing agrees.
    """
    named = {name: np.asarray(values[name], np.float64) for name in formula.columns}
    made, slack = formula(named), 0.5001 * 10.0 ** -decimals(found) + 1e-9 * np.abs(found)
    for name, x in named.items():
        moved = formula({**named, name: x + 0.5 * 10.0 ** -decimals(x)})
        slack = slack + np.abs(np.where(np.isnan(moved), 0.0, moved - made))
    known = ~(np.isnan(found) | np.any([np.isnan(x) for x in named.values()], axis=0))
    with np.errstate(invalid="ignore"):
        alike: Flags = ~known | (np.abs(made - found) <= slack)
    return alike

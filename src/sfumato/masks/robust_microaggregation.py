"""Robust microaggregation: groups by Mahalanobis distances that outliers have not bent."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, learned, param
from sfumato.errors import DataError, listing
from sfumato.kernels.groups import consecutive
from sfumato.masks.microaggregation import Labels, Microaggregation, Numbers, units
from sfumato.microdata import Microdata


class RobustMicroaggregation(Microaggregation):
    """MDAV groups in robust Mahalanobis distance (Templ and Meindl 2008), so that outliers do not set the scale for the rest.

    The scatter is learned once from all complete records (orthogonalised Gnanadesikan-Kettenring; Maronna and Zamar 2002);
    directions without scatter do not count. With grouping = "projection" the records are sorted along the first robust
    principal component instead.
    """

    grouping: Literal["mdav", "projection"] = param(
        default="mdav", doc="how groups are formed in the robust metric", choices=("mdav", "projection")
    )
    scatter: Any = learned("columns", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn location and scatter of each set of columns, in standard units."""
        from sfumato.kernels.robust import robust_location_scatter

        fitted = super().fit(data, draws)
        scatter = {}
        household = filter(None, [data.schema.one("household")])
        for names in self.together(fitted.names, data.schema):
            batch = data.batch(list(dict.fromkeys([*names, *household])))
            first, _ = units(batch, names)
            first = first[np.argsort(batch.ids[first], kind="stable")]  # sums hang on the order of their terms
            centre, scale = np.array([fitted.spread[n] for n in names]).T
            x = (np.column_stack([batch.numbers(n)[first] for n in names]) - centre) / scale
            if (count := int((~np.isnan(x).any(axis=1)).sum())) <= len(names):
                raise DataError(
                    f"only {count:,} records have all of {listing(names)}, too few to find their scatter. Name fewer columns."
                )
            scatter[names] = robust_location_scatter(x)
        return fitted.learn(scatter=scatter)

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the groups of the whitened records; x has the answered columns of one set."""
        from sfumato.kernels.robust import principal_axes, whitened

        whole = next(s for s in self.scatter if set(names) <= set(s))
        at = [whole.index(n) for n in names]
        centre, scatter = self.scatter[whole]
        centre, scatter = centre[at], scatter[np.ix_(at, at)]
        if self.grouping == "mdav":
            return self.groups(whitened(x, centre, scatter), ids, draws)
        _, axes = principal_axes(scatter)
        return consecutive(np.argsort((x - centre) @ axes[:, 0], kind="stable"), self.k)

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return MDAV's groups of whitened records."""
        from sfumato.kernels.mdav import mdav

        return mdav(x, self.k) if x.shape[1] else consecutive(np.arange(len(x)), self.k)

"""Cluster microaggregation: clusters first, then groups of k within each cluster."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, param
from sfumato.kernels.groups import consecutive
from sfumato.masks.microaggregation import Labels, Microaggregation, Numbers
from sfumato.masks.projection_microaggregation import first_component


class ClusterMicroaggregation(Microaggregation):
    """Records are clustered by k-means, and grouped within their cluster by MDAV or along its first principal component.

    For data that fall apart into kinds (Templ, Meindl and Kowarik 2015): a component then fits its own cluster, and MDAV has
    less to search. A cluster of fewer than k records joins the nearest one. No random start: the same data give the same groups.
    """

    clusters: int = param(
        default=10,
        doc="number of clusters, at most one for every k records",
        low=1,
        high=1e4,
        integer=True,
        scale="log",
    )
    grouping: Literal["mdav", "projection"] = param(
        default="mdav", doc="how groups are formed within a cluster", choices=("mdav", "projection")
    )

    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the groups of all clusters."""
        from sfumato.kernels.kmeans import k_means, merge_small

        cluster = merge_small(x, k_means(x, min(self.clusters, len(x) // self.k)), self.k)
        labels = np.empty(len(x), np.int64)
        used = 0
        for rows in np.split(np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster))[:-1]):
            found = self._within(x[rows])
            labels[rows] = found + used
            used += int(found.max()) + 1
        return labels

    def _within(self, x: Numbers) -> Labels:
        if self.grouping == "mdav":
            from sfumato.kernels.mdav import mdav

            return mdav(x, self.k)
        return consecutive(np.argsort(first_component(x), kind="stable"), self.k)

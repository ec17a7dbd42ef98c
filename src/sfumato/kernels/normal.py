"""The inverse normal distribution function, fast: Wichura (1988), algorithm AS 241, about 1e-16 relative error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.warming import Warming


def _compile() -> Callable[[Any, Any], None]:
    import numba

    made: Callable[[Any, Any], None] = numba.njit(cache=True, nogil=True)(_ppf)
    return made


_compiled = Warming(_compile)


def _ppf(p: Any, out: Any) -> None:
    """Fill in the quantiles. It is run as it is, too: both ways the logarithm is the C library's, so the bits are the same."""
    for i in range(len(p)):
        q = p[i] - 0.5
        if abs(q) <= 0.425:
            r = 0.180625 - q * q
            out[i] = (
                q
                * (
                    (
                        (
                            (
                                (
                                    ((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853)
                                    * r
                                    + 45921.953931549871457
                                )
                                * r
                                + 13731.693765509461125
                            )
                            * r
                            + 1971.5909503065514427
                        )
                        * r
                        + 133.14166789178437745
                    )
                    * r
                    + 3.387132872796366608
                )
                / (
                    (
                        (
                            (
                                (
                                    ((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
                                    + 21213.794301586595867
                                )
                                * r
                                + 5394.1960214247511077
                            )
                            * r
                            + 687.1870074920579083
                        )
                        * r
                        + 42.313330701600911252
                    )
                    * r
                    + 1.0
                )
            )
            continue
        r = p[i] if q < 0.0 else 1.0 - p[i]
        r = math.sqrt(-math.log(r))
        if r <= 5.0:
            r -= 1.6
            x = (
                (
                    (
                        (
                            (
                                ((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177)
                                * r
                                + 1.27045825245236838258
                            )
                            * r
                            + 3.64784832476320460504
                        )
                        * r
                        + 5.7694972214606914055
                    )
                    * r
                    + 4.6303378461565452959
                )
                * r
                + 1.42343711074968357734
            ) / (
                (
                    (
                        (
                            (
                                (
                                    (1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r
                                    + 0.0151986665636164571966
                                )
                                * r
                                + 0.14810397642748007459
                            )
                            * r
                            + 0.68976733498510000455
                        )
                        * r
                        + 1.6763848301838038494
                    )
                    * r
                    + 2.05319162663775882187
                )
                * r
                + 1.0
            )
        else:
            r -= 5.0
            x = (
                (
                    (
                        (
                            (
                                (
                                    (2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r
                                    + 0.0012426609473880784386
                                )
                                * r
                                + 0.026532189526576123093
                            )
                            * r
                            + 0.29656057182850489123
                        )
                        * r
                        + 1.7848265399172913358
                    )
                    * r
                    + 5.4637849111641143699
                )
                * r
                + 6.6579046435011037772
            ) / (
                (
                    (
                        (
                            (
                                (
                                    (2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r
                                    + 1.8463183175100546818e-5
                                )
                                * r
                                + 7.868691311456132591e-4
                            )
                            * r
                            + 0.0148753612908506148525
                        )
                        * r
                        + 0.13692988092273580531
                    )
                    * r
                    + 0.59983220655588793769
                )
                * r
                + 1.0
            )
        out[i] = -x if q < 0.0 else x


def normals_from(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal quantile of each number in (0, 1); shape as given."""
    uniforms = np.ascontiguousarray(uniforms, np.float64)
    if (compiled := _compiled.for_size(uniforms.size)) is None:
        few = uniforms.ravel().tolist()
        _ppf(few, few)
        return np.array(few).reshape(uniforms.shape)
    out = np.empty(uniforms.shape)
    compiled(uniforms.ravel(), out.ravel())
    return out

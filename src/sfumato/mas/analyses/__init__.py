"""The analyses that users can ask for."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.mas.analyses.correlation import Correlation as Correlation
    from sfumato.mas.analyses.regression import OLS as OLS
    from sfumato.mas.analyses.regression import Logistic as Logistic
    from sfumato.mas.analyses.regression import Multinomial as Multinomial
    from sfumato.mas.analyses.residuals import Residuals as Residuals
    from sfumato.mas.analyses.table_analyses import CrossTab as CrossTab
    from sfumato.mas.analyses.table_analyses import Histogram as Histogram
    from sfumato.mas.analyses.table_analyses import Quantiles as Quantiles

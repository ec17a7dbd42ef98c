"""The analyses that users can ask for."""

from sfumato.mas.analyses.correlation import Correlation
from sfumato.mas.analyses.cross_tab import CrossTab
from sfumato.mas.analyses.histogram import Histogram
from sfumato.mas.analyses.logistic import Logistic
from sfumato.mas.analyses.multinomial import Multinomial
from sfumato.mas.analyses.ols import OLS
from sfumato.mas.analyses.quantiles import Quantiles
from sfumato.mas.analyses.residuals import Residuals

__all__ = ["OLS", "Correlation", "CrossTab", "Histogram", "Logistic", "Multinomial", "Quantiles", "Residuals"]

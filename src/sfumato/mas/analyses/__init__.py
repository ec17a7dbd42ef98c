"""The analyses that users can ask for."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.mas.analyses.distributions import Histogram as Histogram
    from sfumato.mas.analyses.distributions import Quantiles as Quantiles
    from sfumato.mas.analyses.inequality import Inequality as Inequality
    from sfumato.mas.analyses.inequality import ShareBelow as ShareBelow
    from sfumato.mas.analyses.survival import Cox as Cox
    from sfumato.mas.analyses.survival import KaplanMeier as KaplanMeier
    from sfumato.mas.analyses.tables import CrossTab as CrossTab
    from sfumato.mas.analyses.tests import ANOVA as ANOVA
    from sfumato.mas.analyses.tests import Independence as Independence
    from sfumato.mas.analyses.tests import RankTest as RankTest
    from sfumato.mas.analyses.tests import TTest as TTest
    from sfumato.mas.models.correlation import Correlation as Correlation
    from sfumato.mas.models.linear import OLS as OLS
    from sfumato.mas.models.ordered import OrderedLogit as OrderedLogit
    from sfumato.mas.models.outcome_models import Logistic as Logistic
    from sfumato.mas.models.outcome_models import Multinomial as Multinomial
    from sfumato.mas.models.outcome_models import Poisson as Poisson
    from sfumato.mas.models.outcome_models import Probit as Probit
    from sfumato.mas.models.residuals import Residuals as Residuals

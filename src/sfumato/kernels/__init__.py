"""Array functions: arrays in, arrays out, no word of disclosure control. numba lives here only.

``from sfumato import kernels`` is light: a module, and with it the compiler, is imported when it is first used.
"""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from . import agreement as agreement
    from . import boxes as boxes
    from . import cart as cart
    from . import classes as classes
    from . import column_pairs as column_pairs
    from . import forest as forest
    from . import gap_programs as gap_programs
    from . import gaps as gaps
    from . import graphical_model as graphical_model
    from . import keyed_numbers as keyed_numbers
    from . import lattice as lattice
    from . import loglinear as loglinear
    from . import matching as matching
    from . import microaggregation as microaggregation
    from . import moments as moments
    from . import near_sums as near_sums
    from . import neighbours as neighbours
    from . import noisy_sums as noisy_sums
    from . import regression as regression
    from . import sorting as sorting
    from . import swapping as swapping
    from . import table_algebra as table_algebra
    from . import uniques as uniques

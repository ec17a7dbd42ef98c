"""Data files in and out, with their labels."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.formats.codebook import read_ddi as read_ddi
    from sfumato.formats.contents import FileContents as FileContents
    from sfumato.formats.data_files import read_file as read_file
    from sfumato.formats.data_files import write_file as write_file

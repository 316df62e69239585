"""Data in blocks, for ``fit`` and ``partial_fit`` of all estimators: rows that exceed memory."""

from skpmd._rows.arrow import ArrowBlocks
from skpmd._rows.blocks import Blocks

__all__ = ["ArrowBlocks", "Blocks"]

"""Data in blocks, for ``fit`` and ``partial_fit`` of all estimators: rows that exceed memory."""

from skpmd._base.arrow import ArrowBlocks
from skpmd._base.blocks import Blocks

__all__ = ["ArrowBlocks", "Blocks"]

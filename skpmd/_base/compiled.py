"""Compiled kernels on disk: what to do where Numba cannot read them."""

import os
from pickle import UnpicklingError


def damaged_folder(error):
    """Folder of Numba's cache if an error comes from a damaged file in it, else None."""
    if not isinstance(error, (UnpicklingError, EOFError)):
        return None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__") == "numba.core.caching":
            path = getattr(frame.f_locals.get("self"), "_index_path", None)
            if path is not None:
                return os.path.dirname(path)
        trace = trace.tb_next
    return None

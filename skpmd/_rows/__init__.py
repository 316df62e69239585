"""One table of rows, wherever they are: in memory, in blocks that are read, or on Dask.

What a user gives goes through `opening.as_table`: arrays stay as they are, and of all else there is
a `table.BlockTable`. Beyond this room nobody asks which it is, for both keep one protocol:

* ``len(X)``, ``X.shape`` and ``X.dtype`` are those of all rows. ``X[slice]`` and ``X[places]`` are
  rows in memory, an array or a CSR matrix. ``X[mask]`` are the rows that are left, which are
  read only where they are few.
* ``table.mapped(function, X)`` has a function of each row in the place of the row, and
  ``table.limits(X)`` are the least and the greatest number.
* ``rows.Rows`` holds X with the columns of a `skpmd.engine.model.Batch`, such as y and weight:
  ``take(places)`` is a batch of some rows, ``whole()`` are all in order, and ``one_pass()`` goes
  through them in random order, in groups of blocks that are the same wherever the rows are.
* Sums over batches (`skpmd._runtime.threads.total`) are made where the rows are, and so are
  predictions (``by_block.row_by_row``), for these depend on one row each.

A method that cannot do without all rows together asks ``table.is_in_memory(X)`` and takes another
way, or ``table.need_memory(X, ...)``, which says what a user can do. `blocks`, `arrow` and
`dask_table` are the places where rows may be; another one is a subclass of `blocks.Blocks`, and of
`table.BlockTable` if sums are to be made there.
"""

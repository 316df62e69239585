"""What the README and the pages of the documentation say of studies, a module for each page.

A page's module has its path, ``PAGE``; functions with the names of studies, ``STUDIES``, which take
the rows of the committed results and yield the sentences, or parts of them, that the page must have
word for word; and ``ALLOWED``, the parts of it with figures that no study has measured: settings,
thresholds, sizes, protocols, and what a test holds.
"""

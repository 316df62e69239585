"""What the pictures of the studies have in common: plain numbers, and a legend outside of them."""


def plain_ticks(axis, at=(1.0, 2.0, 5.0)):
    """Numbers as they are said, at these multiples of the powers of ten of a log axis."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=at))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def legend_above(figure, panels, ncols, **options):
    """One legend for some panels above all of them; a label counts once."""
    found = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    options = {"loc": "outside upper center", "fontsize": 9, **options}
    figure.legend(list(found.values()), list(found), ncols=ncols, **options)

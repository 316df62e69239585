"""The figures of the page on the inside of models of one's own."""

PAGE = "docs/inside/custom.rst"
ALLOWED = ()


def honesty(rows):
    """Two modes, the narrow one of two widths."""

    def by_default(shape):
        (row,) = (row for row in rows if (row["setting"], row["shape"]) == ("auto", shape))
        return row

    wide, needle = by_default("widths 1 and .05"), by_default("needle")
    assert wide["right"] == wide["fits"]
    assert needle["wrong"] and wide["warned"] == needle["warned"] == 0
    yield (
        "In the plane the narrow one of two modes with widths 1 and 0.05 under a prior of width 5 "
        f"is found in {wide['right']} of {wide['fits']} fits, one of width 0.005 in "
        f"{needle['right']} of {needle['fits']}, and none of them warned (study ``honesty``"
    )


STUDIES = (honesty,)

"""The figures of the guide to merging."""

PAGE = "docs/user_guide/merging.rst"
ALLOWED = (  # Thresholds of warnings.
    "shards together lack more than 0.3 nats of the posteriors (root mean square)",
    "particles. Above 0.1 there is a warning; where the density follows values of the posterior, "
    "there is one only above 0.9",
    "from that of a shard in its own units, is above 1.5",
    "is how well they match, and below 0.8 there is a warning for mixtures",
)


def merge(rows):
    """All families."""
    warned = {(row["model"], row["set"]) for row in rows if row["warned"]}
    assert {one for one in warned if one[0] == "mixture"} == {("mixture", "flights, spikes")}
    assert not any(model == "logistic" for model, _ in warned)
    yield from logistic(rows)
    (gap,) = gaps(rows, "process", False)
    yield f"to rounding, {gap:.0e} standard deviations in the study".replace("e-0", "e-")
    yield from mixtures(rows)
    yield from topics(rows)


def gaps(rows, model, with_rows, *names):
    """Gaps of a family, of these sets in their order or of all."""
    own = {
        row["set"]: row["gap"]
        for row in rows
        if (row["model"], row["with_rows"]) == (model, with_rows)
    }
    return [own[name] for name in names or own]


def logistic(rows):
    """Without rows and with them."""
    names = "keel_pima", "keel_magic", "adult"
    shards = {row["set"]: row["shards"] for row in rows if row["model"] == "logistic"}
    assert shards == dict(zip(names, (4, 4, 8), strict=True))
    pima, magic, adult = gaps(rows, "logistic", False, *names)
    assert pima < 1e-12
    yield (
        "the largest gap of a mean was that of rounding for pima, whose shards hold all their "
        f"rows, {magic:.3f} standard deviations of the fit to all rows for magic in four shards, "
        f"and {adult:.2f} for adult in eight, which hold most of their rows, without a warning"
    )
    assert not any(gaps(rows, "logistic", True, *names))
    yield "With all rows given each of them was the same as the fit to all rows."


def mixtures(rows):
    """Flights with more noise and with less."""
    own = {row["set"]: row for row in rows if row["model"] == "mixture"}
    flights, spikes = own["flights"], own["flights, spikes"]
    assert flights["shards"] == spikes["shards"] == 8
    yield (
        f"Flights in eight shards of {round(flights['n'] / 8, -3):,.0f} rows gave a held-out log "
        f"density {-100 * flights['gap']:.1f} % better than the fit to all rows. With columns that "
        f"are narrow spikes it was {-100 * spikes['gap']:.1f} % better, with a warning; another "
        f"seed of the fit to all rows was {100 * spikes['again']:.1f} % worse"
    )


def topics(rows):
    """Without documents and with them."""
    own = [row for row in rows if row["model"] == "topics"]
    assert all(row["shards"] == 8 for row in own)
    assert all(row["warned"] for row in own if not row["with_rows"])
    lost = [100 * gap for gap in gaps(rows, "topics", False)]
    yield (
        f"sums of eight shards lost {min(lost):.1f} to {max(lost):.1f} % of the log "
        "perplexity of a held-out word, and there is always a warning"
    )
    yield f"after which the loss was {100 * max(gaps(rows, 'topics', True)):.1f} % at most"


STUDIES = (merge,)

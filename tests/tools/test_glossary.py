"""The package speaks the field's language, and the check of it would notice if it did not."""

import ast

import pytest

from tests.tools.glossary import homonyms, instead_of, names, places, prose, words_given_up
from tests.tools.source import modules, needs_source, parse


@pytest.mark.slow  # five seconds
@needs_source
def test_no_word_that_was_given_up_is_left():
    left = places()
    assert not left, "\n".join(f"{one.path}:{one.line}: {one.text}" for one in left)


@needs_source
def test_a_name_of_a_shared_room_means_one_thing():
    assert not homonyms({name: one for name, one in modules().items() if "." in name})


def test_a_second_meaning_is_noticed():
    known = {
        "skpmd._base.a": parse("def f(): pass\ndef g(): pass", "skpmd._base.a"),
        "skpmd.lda._b": parse("class f: pass\ndef h(): pass", "skpmd.lda._b"),
        "skpmd.mixture._c": parse("def h(): pass", "skpmd.mixture._c"),
    }
    assert homonyms(known) == {"f": ["skpmd._base.a", "skpmd.lda._b"]}


@pytest.mark.parametrize(
    "name",
    ["cloud", "Cloud", "cloud_of", "_n_redraws", "MAX_POLISH", "n_sweeps", "takeIn", "take_in",
     "_LEAST_ESS", "MOST_ROWS", "_LEAST", "Found", "_reference", "surrogate", "loss", "n_lost",
     "watched", "doubts", "shared_out", "temper", "expect", "begin", "forget", "aligned", "Units",
     "closed_form_block", "Problem", "learnt", "_certificates",
     "are_elsewhere", "_handed_on", "n_held", "once", "opened", "scouts", "course"],
)  # fmt: skip
def test_names_that_were_given_up_are_noticed(name):
    assert instead_of(name)


@pytest.mark.parametrize(
    "name",
    ["particles", "temperature", "tempered_smc", "forgetting", "cubic_surrogate", "log_loss",
     "CubicSurrogate", "neg_pinball_loss_scorer", "found", "__enter__", "at_least", "expected",
     "n_samples_seen", "beginning", "unit", "preference", "lower_bound_", "background"],
)  # fmt: skip
def test_other_names_pass(name):
    assert not instead_of(name)


def test_usual_senses_are_bound_to_their_files():
    assert not instead_of("loss", "skpmd/mixture/_partition.py")
    assert instead_of("loss", "skpmd/mixture/_model.py")
    assert not instead_of("kept", "skpmd/engine/smc.py")
    assert instead_of("kept", "skpmd/mixture/_rows.py")


def test_all_kinds_of_names_are_read():
    text = """
def a(b, *c, d=1, **e):
    f = g(h=i)
    j.k = {"l": m}
    n["o"] += 1
    import p as q
    for r, (s, t) in u: pass
class V:
    w: int
"""
    found = {name for name, _ in names(ast.parse(text))}
    assert found == set("a b c d e f h k l o q r s t V w".split())


def test_prose_is_comments_and_strings():
    text = 'x = 1  # one\n"""two\nthree"""\ny = f"four {x} five"\nz = "six"\n'
    found = " ".join(line for line, _ in prose(text))
    assert all(word in found for word in "one two three four five six".split())
    assert "x = 1" not in found


def test_words_of_prose_are_whole_words():
    found = words_given_up("The Clouds are redrawn, and polished.")
    assert found == ["Clouds", "redrawn", "polished"]
    assert not words_given_up("clean, unsettled, foretold, cloudiness")

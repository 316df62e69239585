"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "a word's own assignment has a part in its next one",
        "lda/_kernels.py",
        "mass[z] = max(mass[z] - each, alpha[z])",
        "mass[z] = max(mass[z], alpha[z])",
        "lda/test_kernels.py",
    ),
    Defect(
        "a collapsed update does not leave a word's own responsibilities out",
        "lda/_kernels.py",
        "max(mass[k] - token * own[k], least[k])",
        "max(mass[k], least[k])",
        "lda/test_kernels.py",
    ),
    Defect(
        "a sweep of a chain that has not burnt in is counted",
        "lda/_kernels.py",
        "weight = part if iteration >= n_burn else",
        "weight = part if iteration >= n_burn - 1 else",
        "lda/test_kernels.py",
    ),
    Defect(
        "counts of words are discounted and those of topics are not",
        "lda/_topics.py",
        "discount * self.totals, discount",
        "self.totals, discount",
        "lda/test_kernels.py",
    ),
    Defect(
        "the ELBO of a topic model forgets the entropy of the assignments",
        "lda/_topics.py",
        "entropy.sum(axis=1) + self.document_terms(mass)",
        "self.document_terms(mass)",
        "lda/test_kernels.py",
    ),
    Defect(
        "the prior of topic proportions has no normaliser",
        "lda/_topics.py",
        "log_normaliser(alpha + mass) - log_normaliser(alpha)",
        "log_normaliser(alpha + mass)",
        "lda/test_kernels.py",
    ),
    Defect(
        "the scale N/B is missing from a step of topics",
        "lda/_fit.py",
        "gamma * size / n\n",
        "gamma\n",
        "lda/test_streams.py",
    ),
    Defect(
        "a document that comes alone is taken for a batch",
        "lda/_fit.py",
        "-np.expm1(n / full * np.log1p(-whole)) if whole < 1.0 else part",
        "whole",
        "lda/test_streams.py",
    ),
    Defect(
        "counts of a stream do not come to stand for its new documents",
        "lda/_fit.py",
        "1.0 - (1.0 - gamma) * growth",
        "gamma",
        "lda/test_streams.py",
    ),
    Defect(
        "counts of a step that Ctrl-C cut short stay unbalanced",
        "lda/_fit.py",
        "block._replace(counts=block.counts.balanced())",
        "block._replace(counts=block.counts)",
        "lda/test_streams.py",
    ),
    Defect(
        "words of a call that failed stay in the topics",
        "lda/_fit.py",
        "        words[:, touched] = before\n",
        "        pass\n",
        "lda/test_streams.py",
    ),
    Defect(
        "threads go on after Ctrl-C",
        "engine/threads.py",
        "        wait(begun)\n",
        "        pass\n",
        "engine/test_threads.py",
    ),
    Defect(
        "topic proportions are averaged over topics of other kinds",
        "lda/_predict.py",
        "weight * mass[:, labels[i]]",
        "weight * mass",
        "lda/test_predict.py",
    ),
    Defect(
        "the ELBO of a new document forgets the prior of its proportions",
        "lda/_inference.py",
        "return value + math.lgamma(before) - math.lgamma(after)",
        "return value",
        "lda/test_predict.py",
    ),
]

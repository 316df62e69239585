"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "a failed call of partial_fit is not undone",
        "_base/estimator.py",
        "            vars(self).update(before)\n",
        "            pass\n",
        "base/test_streaming.py",
    ),
    Defect(
        "a step forgets nothing of what redraws have lost",
        "engine/rejuvenation_error.py",
        "return error_terms * (1.0 - a) ** 2",
        "return error_terms",
        "base/test_streaming.py",
    ),
    Defect(
        "an edge of q that a redraw forgets goes unnoticed",
        "engine/rejuvenation_error.py",
        "np.where(_edges(before, start, end, moved / np.sqrt(spread), monitored), gap, squared)",
        "squared",
        "base/test_streaming.py",
    ),
    Defect(
        "what speaks against a Gaussian is forgotten by its own account",
        "logistic/_streaming.py",
        "assumed = assumed._replace(error_terms=with_conflict(assumed.error_terms, outcome))",
        "pass",
        "base/test_streaming.py",
    ),
    Defect(
        "any move within the old spread is a usual one",
        "engine/rejuvenation_error.py",
        "np.maximum(spread - narrow, 0.0)",
        "spread",
        "base/test_streaming.py",
    ),
    Defect(
        "weights with a heavy tail contradict a rejuvenation",
        "engine/rejuvenation_error.py",
        "if ess >= _MIN_ESS and not pareto_k(stayed.log_ratio) > MAX_K:",
        "if ess >= _MIN_ESS:",
        "base/test_streaming.py",
    ),
    Defect(
        "parameters are checked at the first part only",
        "_base/estimator.py",
        "            self._validate_params()\n",
        "            pass\n",
        "api/test_calls.py",
    ),
    Defect(
        "arrays that change in place are not taken back",
        "_base/estimator.py",
        "                one()\n",
        "                pass\n",
        "api/test_interrupts.py",
    ),
    Defect(
        "the record of a stream forgets how many steps there were",
        "_base/records.py",
        "self.n + other.n",
        "len(self.last) + other.n",
        "api/test_calls.py",
    ),
    Defect(
        "rows that agree in their first columns are taken for copies",
        "_base/rows.py",
        "(_FEW_COLUMNS, len(columns))",
        "(_FEW_COLUMNS,)",
        "base/test_rows.py",
    ),
    Defect(
        "a stream forgets that a mode was left out",
        "_base/streaming.py",
        "account = error_terms, outcome.n_left_out",
        "account = error_terms, 0",
        "api/test_from_values.py",
    ),
]

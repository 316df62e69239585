"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "rows that come sorted by a column are dropped",
        "logistic/_retained.py",
        "changed = appeared or _differ(fitted, since) or _columns_differ(retained)",
        "changed = appeared or _differ(fitted, since)",
        "logistic/test_retained.py",
    ),
    Defect(
        "retained rows are not discounted",
        "logistic/_retained.py",
        "[(1.0 - a) * weight, new.weight]",
        "[weight, new.weight]",
        "logistic/test_retained.py",
    ),
    Defect(
        "a rejuvenation of a stream starts from the prior",
        "logistic/_streaming.py",
        "target = AssumedDensityModel(model, assumed.gaussian, a, cubic)",
        "pass",
        "base/test_streaming.py",
    ),
    Defect(
        "the horseshoe's coordinates have no Jacobian",
        "logistic/_horseshoe.py",
        "return np.log(g).sum(axis=1) - 0.5 * squares",
        "return -0.5 * squares",
        "logistic/test_priors.py",
    ),
    Defect(
        "a class's probability in the softmax gradient has the wrong power of the likelihood",
        "logistic/_design.py",
        "return total, self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)",
        "return total, self.prior.gradient(theta) + self.prior.pull_back(theta, gradient)",
        "logistic/test_multinomial_model.py",
    ),
    Defect(
        "the stiff rows forget the power of the likelihood",
        "logistic/_stiff.py",
        "power * weight",
        "weight",
        "logistic/test_stiff.py",
    ),
    Defect(
        "moves start although the weights are good",
        "logistic/_fit.py",
        "failed = first.infos[0].ess < min_share * n or convergence_warnings(outcome)",
        "failed = True",
        "logistic/test_estimator.py",
    ),
    Defect(
        "scales of a prior are multiplied by units",
        "logistic/_make_model.py",
        "unit[:, :n_features] = 1.0 / column_scale",
        "unit[:, :n_features] = column_scale",
        "logistic/test_column_scale.py",
    ),
    Defect(
        "two features separate in a quarter of the plane",
        "logistic/_make_model.py",
        "gaps.max() >= np.pi - 1e-9",
        "gaps.max() >= 0.5 * np.pi",
        "logistic/test_priors.py",
    ),
    Defect(
        "few particles stand for all on rows that they were not held against",
        "logistic/_compressed.py",
        "left = variances(few.roots, X, fit_intercept) > few.largest",
        "left = variances(few.roots, X, fit_intercept) > np.inf",
        "logistic/test_predictions.py",
    ),
    Defect(
        "few particles decide between classes that are hardly apart",
        "logistic/_compressed.py",
        "~(best - second > 4.0 * few.error)",
        "np.isnan(best)",
        "logistic/test_predictions.py",
    ),
    Defect(
        "a mean logit decides however uncertain it is",
        "logistic/_compressed.py",
        "> _CURVATURE * spread + 1e-9",
        "> 1e-9",
        "logistic/test_predictions.py",
    ),
    Defect(
        "logits are rounded relative to the coefficients",
        "logistic/_averages.py",
        "centre = np.zeros((K, LANES)) if at_zero else points.mean @ tile.T\n",
        "centre = (16.0 * points.mean @ tile.T).astype(np.float16) / np.float32(16.0)\n",
        "logistic/test_predictions.py",
    ),
]

"""Export of estimators as ONNX graphs, for point predictions without Python.

This module needs the extra: ``pip install skpmd[onnx]``.
"""

from functools import partial

import numpy as np
from sklearn.utils.validation import check_is_fitted

import skpmd
from skpmd._export import library
from skpmd.linear._onnx import probabilities
from skpmd.sparse_gp._full_scale import FullScaleGP
from skpmd.sparse_gp._onnx import moments
from skpmd.sparse_gp._vecchia import VecchiaGP

__all__ = ["register_converters"]


def register_converters():
    """Register the converters for estimators of skpmd with skl2onnx, once per process.

    After this call ``skl2onnx.to_onnx`` converts the following estimators, alone and in pipelines:

    * `BayesianLogisticRegressionPMD`: labels and probabilities. The probabilities are averages over
      all particles, from which `predict_proba` may differ by ``prediction_tol``. They are in the
      precision of the rows; in single precision they are accurate to 2e-6, and may be 0 below
      1e-38. Labels are integers (0 and 1 for False and True) or strings. Options are the same as
      for scikit-learn's classifiers: ``zipmap`` (False for rows of float64), ``nocl``,
      ``output_class_labels`` and ``raw_scores``.
    * `SparseGPRegressorPMD` with inducing inputs (``approximation`` of "fitc", "vfe" or "dtc",
      given or chosen by "auto") and a kernel of constants times one RBF or Matern kernel, plus
      noise: means and, with the option ``return_std``, standard deviations, as from ``predict``.

    For all other estimators skl2onnx raises a NotImplementedError that gives the reason.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.

    See Also
    --------
    skpmd.persistence.skops_trusted_types : Types for saving complete estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.onnx import register_converters
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> model, rows = model.fit(X, y), X[:1].astype(np.float32)

    With the extra:

    >>> import skl2onnx  # doctest: +SKIP
    >>> register_converters()  # doctest: +SKIP
    >>> graph = skl2onnx.to_onnx(model, rows, options={"zipmap": False})  # doctest: +SKIP
    """
    skl2onnx = library("skl2onnx", "onnx")
    register = partial(skl2onnx.update_registered_converter, overwrite=True)
    register(
        skpmd.BayesianLogisticRegressionPMD,
        "SkpmdBayesianLogisticRegressionPMD",
        _shapes_of_classifier,
        _convert_classifier,
        options={
            "zipmap": [True, False, "columns"],
            "nocl": [True, False],
            "output_class_labels": [False, True],
            "raw_scores": [True, False],  # What calibration asks for.
        },
    )
    register(
        skpmd.SparseGPRegressorPMD,
        "SkpmdSparseGPRegressorPMD",
        _shapes_of_process,
        _convert_process,
        parser=_parse_process,
        options={"return_std": [True, False]},
    )
    for estimator in _WHY_NOT:
        register(estimator, f"Skpmd{estimator.__name__}", _refuse, _convert_nothing)


_WHY_NOT = {
    skpmd.SparseGPClassifierPMD: "averages over latent functions by quadrature",
    skpmd.GaussianMixturePMD: "relabels and averages the responsibilities of many mixtures",
    skpmd.LDATopicModelPMD: "iterates for each document until its topics have converged",
    skpmd.ParticleMirrorDescent: "is made of Python functions of its user",
}


def _refuse(operator):
    """Say why there is no graph, when skl2onnx looks for the shapes of what it makes."""
    kind = type(operator.raw_operator)
    raise NotImplementedError(
        f"{kind.__name__} {_WHY_NOT[kind]}: there is no ONNX graph of it. Save it by skops or "
        "pickle, see skpmd.persistence.skops_trusted_types."
    )


def _convert_nothing(scope, operator, container):
    _refuse(operator)


class Nodes:
    """Operators of ONNX at one version, as attributes: ``nodes.MatMul(A, B)``.

    ``dtype`` is the dtype of results: float64 if the rows are float64, else float32.
    """

    def __init__(self, operator, container):
        self._operators = library("skl2onnx.algebra.onnx_ops", "onnx")
        types = library("skl2onnx.common.data_types", "onnx")
        self._version, self._proto_type = container.target_opset, types.guess_proto_type
        self._tensors = {np.float64: types.DoubleTensorType(), np.float32: types.FloatTensorType()}
        is_double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
        self.dtype = np.float64 if is_double else np.float32

    def __getattr__(self, name):
        return partial(getattr(self._operators, f"Onnx{name}"), op_version=self._version)

    def double(self, values):
        """Values in double precision."""
        return self.Cast(values, to=self._proto_type(self._tensors[np.float64]))

    def same(self, values, **names):
        """Values in the precision of results."""
        return self.Cast(values, to=self._proto_type(self._tensors[self.dtype]), **names)

    def constant(self, values):
        """An array in the precision of results."""
        return np.ascontiguousarray(values, dtype=self.dtype)

    def shaped(self, values, *dims):
        """Values of each row in another shape."""
        return self.ReshapeApi13(values, np.array([0, *dims], dtype=np.int64))

    def sum(self, values, axis, keepdims=1):
        """Sums along an axis."""
        return self.ReduceSumApi11(values, axes=[axis], keepdims=keepdims)


def _check_columns(operator, n_features):
    """ValueError where rows have other columns: a single one would be repeated."""
    utils = library("skl2onnx.common.utils", "onnx")
    utils.check_input_and_output_numbers(operator, input_count_range=1)
    shape = operator.inputs[0].type.shape
    if shape and shape[-1] not in (None, n_features):
        name = type(operator.raw_operator).__name__
        raise ValueError(f"{name} has {n_features} features, and X has {shape[-1]}.")


# ------------------------------------------------------------------ logistic regression
def _shapes_of_classifier(operator):
    classifier = operator.raw_operator
    check_is_fitted(classifier)
    _check_columns(operator, classifier.n_features_in_)
    shapes = library("skl2onnx.common.shape_calculator", "onnx")
    shapes.calculate_linear_classifier_output_shapes(operator)


def _convert_classifier(scope, operator, container):
    classifier, nodes = operator.raw_operator, Nodes(operator, container)
    averages = probabilities(
        nodes,
        nodes.same(operator.inputs[0]),
        classifier.posterior_,
        len(classifier.classes_),
        classifier.n_features_in_,
        classifier._state.fit_intercept,
    )
    label, proba = operator.outputs
    with_scores = container.get_options(classifier, {"raw_scores": False})["raw_scores"]
    proba = nodes.Identity(
        _scores(nodes, averages, len(classifier.classes_)) if with_scores else averages,
        output_names=[proba],
    )
    classes = library("skl2onnx.common.utils_classifier", "onnx").get_label_classes(
        scope, classifier
    )
    is_word = classes.dtype.kind in "OU"
    labels = np.array([str(one) for one in classes]) if is_word else classes.astype(np.int64)
    chosen = nodes.ArgMax(averages, axis=1, keepdims=0)
    for output in (proba, nodes.Gather(labels, chosen, output_names=[label])):
        output.add_to(scope, container)


def _scores(nodes, averages, n_classes):
    """Values of the decision function, (n, n_classes); of two classes the first is its negative."""
    logs = nodes.Log(averages)
    if n_classes > 2:
        return logs
    return nodes.MatMul(logs, nodes.constant([[1.0, -1.0], [-1.0, 1.0]]))


# ------------------------------------------------------------------ Gaussian processes
def _parse_process(scope, regressor, inputs, custom_parsers=None):
    """The operator of a process with the variables that it makes."""
    types = library("skl2onnx.common.data_types", "onnx")
    operator = scope.declare_local_operator("SkpmdSparseGPRegressorPMD", regressor)
    operator.inputs = inputs
    with_std = scope.get_options(regressor, {"return_std": False})["return_std"]
    for name in ("variable", "std")[: 1 + with_std]:
        kind = types.guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shapes_of_process(operator):
    regressor = operator.raw_operator
    check_is_fitted(regressor, "posterior_")
    _check_columns(operator, regressor.n_features_in_)
    model = regressor._state.model
    if isinstance(model, VecchiaGP | FullScaleGP):
        raise NotImplementedError(
            "SparseGPRegressorPMD has conditioned each row on its neighbours "
            f"(approximation_={regressor.approximation_!r}), and there is no ONNX graph of a "
            "search for them: fit it with approximation='fitc'."
        )
    if not model.covariance.is_fast:
        raise NotImplementedError(
            "There are ONNX graphs of constants times one RBF or Matern kernel (nu of 0.5, 1.5, "
            f"2.5 or inf), plus WhiteKernel; got kernel {model.covariance.kernel}."
        )
    rows = operator.inputs[0].get_first_dimension()
    for output in operator.outputs:
        output.type.shape = [rows, model.n_targets]


def _convert_process(scope, operator, container):
    regressor, nodes = operator.raw_operator, Nodes(operator, container)
    outputs = operator.outputs
    found = moments(
        nodes,
        operator.inputs[0],
        regressor._state,
        regressor._noise_factor(),
        with_std=len(outputs) > 1,
    )
    for node, output in zip(found, outputs, strict=False):
        nodes.Identity(node, output_names=[output]).add_to(scope, container)

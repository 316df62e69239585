"""Inference methods from a model and all its data to a posterior: steps, weights, moves."""

from functools import partial

import numpy as np

from skpmd._base.results import OF_STEPS, Remedies, convergence_warnings
from skpmd._base.steps import ReportedBatches, bar_of_rounds, bar_of_steps
from skpmd._rows.rows import are_in_memory
from skpmd._rows.samples import in_one_batch
from skpmd._runtime.threads import are_distributed, each
from skpmd.engine.diagnostics import pareto_k
from skpmd.engine.importance import Proposal, ProposalDraws, even_counts, skewed
from skpmd.engine.loop import Outcome, drive, states_of_fit
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.particles import draw_prior, effective_sample_size
from skpmd.engine.rejuvenation import rejuvenate_by_kernels
from skpmd.engine.rejuvenation_error import NO_ERROR, RejuvenationErrors
from skpmd.engine.variational import laplace, variational_mirror_descent
from skpmd.linear import _span
from skpmd.linear._hmc import move_from_proposals, move_hierarchical
from skpmd.linear._priors import NormalPrior
from skpmd.linear._sites import expectation_propagation
from skpmd.proposals.control_variates import FEWEST, SampledModel, checked, sampled
from skpmd.proposals.importance_rounds import importance_rounds

PROPOSALS = ("auto", "prior", "laplace", "mirror")
_TAIL_DF = 5.0  # The widest component has Student tails with these degrees of freedom.
# Under a prior whose tails fall by a power, this share of the draws comes from a Cauchy component
# that is so much wider.
_DEFENSIVE_FACTOR, _DEFENSIVE_SHARE = 3.0, 0.1
# Where so few rows a coordinate tell less than so many nats, there are components of such shares of
# what they tell. Of more rows Gaussian tails are wide enough, and draws from there are lost.
_FEW_ROWS, _MAX_NATS, _SHARES_OF_ROWS = 10, 12.0, (0.3, 0.0)
_FREE = 0.25  # From this posterior sd on, in prior sds, rows tell little of a dispersion.
# Effects of few groups: from this posterior sd of a group sd's coordinate on there are proposals so
# many sds from its mean, pulled back by what is known where they are so many sds wide; the last is
# for a tail to no effects, as wide as the prior. Such a share of all draws is theirs. Without them
# errors of sds were 2 to 9 %, with them 0 to 2 %, of 1 to 12 groups.
_FEW_GROUPS, _SHARE_OF_SDS = 0.12, 0.3
_FEW_STEPS, _CLOSE = 15, 0.1  # Of a search for the mode of such a proposal, to so many sds.
_OTHER_SDS = ((2.0, 1.0), (4.0, 1.0), (8.0, 1.0), (-4.0, 1.0), (-8.0, 2.0))
# With more coordinates than this, finding skewed axes takes longer than moves, and gains little.
_MAX_SKEWED = 200
# Weights have no chance where those of so many draws of a first Gaussian have a logarithm of more
# than this variance: one of 1 leaves a third of the draws effective. A mode within so many
# posterior sds a coordinate, root mean square, is enough for it.
_N_TRIED, _HOPELESS, _ROUGH = 64, 20.0, 0.1
# Where it is so many times the number of coordinates, or R-hat is so large at the first look after
# the warm-up, the shape of that Gaussian is not the posterior's, as of separable classes under a
# wide prior, and chains find their own: R-hat was 1.02 there, in the place of 1.17 to 3.5, in a
# quarter of the time (the study `calibration`).
_OF_ANOTHER_SHAPE, _MISSHAPEN_R_HAT = 1000.0, 1.1
_MIRROR_SHARES, _LAPLACE_SHARES = (0.75, 0.25), (0.5, 0.5)  # Each skewed, and then not.
# A posterior of many rows may be so near to normal, in nats, that it needs no more than a few draws
# with wider tails beside those of a normal one.
_NORMAL, _SHARES_OF_NORMAL = 0.1, (0.9, 0.1)
# Moves follow where a smaller share of the first round is effective. There (0.03 to 0.2 on real
# data, 0.5 to 1 where the weights were right) further rounds reached the number of effective draws,
# but with sds 16 to 32 % too small and without a warning.
_MIN_SHARE = 0.3
# Proposals that are conditional on sds have the tails of those of few levels: there further rounds
# were right from .1 on (slopes of two factors, against long chains), and chains took twice as long.
_MIN_SHARE_OF_OWN = 0.05
# Without moves a smaller share is warned of: the means were wrong in four of four such fits whose
# weights had nothing else against them.
_MIN_UNMOVED = 0.1
# Modes of a share of e^-15 are none, and those that are nearer than half an sd are one; others have
# at least such a share of the draws, in units of that of the largest.
_MIN_LOG_MASS, _SAME_MODE, _MIN_MODE_SHARE = -15.0, 0.5, 0.1
# Weights are the last word with moves="never", and of an improper posterior, alone.
_UNMOVED = {
    "never": "set moves='auto', or raise n_particles",
    "improper": "leave out the columns that y was computed from",
}
_TOO_FREE = "lower prior_scale, or leave out features that few rows have"
_TOO_FREE_GIVEN_EARLIER = "leave out features that few rows have, or fit all rows together"


def proposal_components(model, batches, proposal, power, modes=None, misfit=np.inf):
    """Components of the proposal mixture that the estimator's ``proposal`` names, and their shares.

    ``"laplace"`` is the normal approximation at the mode, once by the sinh-arcsinh map and once
    with Student tails; ``"mirror"`` is the fixed point of Gaussian mirror descent, once by the
    sinh-arcsinh map and once plain; ``"auto"`` is all four, of each of the ``modes``. The model
    offers ``gaussian_target``, ``skew_axes`` and ``tail_df``.

    Where the likelihood is flat in a direction (separable classes), the posterior has the tails of
    its prior. So under a Student prior there is a defensive Cauchy component, three times as wide:
    without it the sd of a separated coefficient at 4 degrees of freedom was 11 to 34 % too small
    over four seeds, with k-hat near 0.5; with it within 5 %.

    A model that has ``conditional_components`` has its own, whatever is named. Where ``misfit``,
    the spread of what a normal posterior lacks in nats, is small, ``"auto"`` is such a one.
    """
    if hasattr(model, "conditional_components"):
        return model.conditional_components(batches, power)
    is_normal = proposal == "auto" and misfit < _NORMAL

    def with_skewness(gaussian, power):
        if is_normal or model.n_coordinates > _MAX_SKEWED:
            return Proposal(gaussian.mean, gaussian.chol)
        return skewed(gaussian, model, partial(_log_joint, model, batches, power), batches, power)

    gaussians, shares = [], []
    modes = modes_of(model, batches, power) if modes is None else modes
    for mode, mass in modes:
        own = []
        if proposal in ("auto", "mirror") and not is_normal:
            gaussians.append((variational_mirror_descent(model, batches, mode, power), np.inf))
            own += _MIRROR_SHARES
        if proposal in ("auto", "laplace"):
            gaussians.append((mode, _TAIL_DF))
            of_two = _SHARES_OF_NORMAL if is_normal else _LAPLACE_SHARES
            own += [0.25 * share for share in of_two] if own else of_two
        shares += [mass * share for share in own]
    with_axes = each(lambda one: with_skewness(one[0], power), gaussians)
    components = []
    for skew, (gaussian, df) in zip(with_axes, gaussians, strict=True):
        components += [skew, Proposal(gaussian.mean, gaussian.chol, df)]
    shares, wide = np.array(shares) / sum(shares), []
    if np.isfinite(model.tail_df):
        centre = components[1]
        wide.append(Proposal(centre.mean, _DEFENSIVE_FACTOR * centre.factor, 1.0))
    if not model.is_log_concave and model.prior.has_gaussian:
        wide += _with_free_dispersions(model, gaussians[0][0])
    for share in _SHARES_OF_ROWS if _are_near_prior(model, batches, modes) else ():
        flat = laplace(model, batches, modes[0][0].mean, share * power)
        flat = variational_mirror_descent(model, batches, flat, share * power)
        wide.append(with_skewness(flat, share * power))
    of_wide = np.full(len(wide), _DEFENSIVE_SHARE)
    return [*components, *wide], np.append((1.0 - of_wide.sum()) * shares, of_wide)


def _with_free_dispersions(model, gaussian):
    """The Gaussian whose dispersions have their prior, in a list, where rows tell little of them.

    A likelihood is flat towards no dispersion, or normal tails: the posterior of such a coordinate
    has a tail as wide as its prior, and coefficients there are as they are elsewhere.
    """
    mean, cov = gaussian.mean.copy(), gaussian.chol @ gaussian.chol.T
    is_free = np.arange(len(mean)) >= len(mean) - len(model.family.dispersions.names)
    is_free &= np.diag(cov) > _FREE**2
    if not is_free.any():
        return []
    mean[is_free], cov[is_free], cov[:, is_free] = 0.0, 0.0, 0.0
    cov[is_free, is_free] = 1.0
    return [Proposal(mean, np.linalg.cholesky(cov))]


def with_other_sds(model, batches, mixture, power):
    """The same mixture with proposals around smaller and larger sds of effects, of few groups.

    Given a large sd the intercept is as free as the effects, and given a small one it is known:
    no Gaussian is wide here and narrow there. Those near another sd have the intercept's spread
    there, and so the tail of an sd that one or two groups leave to its prior.
    """
    (components, shares), groups, found = mixture, getattr(model.family, "groups", None), []
    if groups is None or not model.prior.has_gaussian:
        return mixture
    first = model.n_coordinates - len(groups.dispersions.names)
    mean, factor = components[1].mean, components[1].factor
    for place in range(first, first + groups.n_effects):
        sd = np.linalg.norm(factor[place])
        for height, width in _OTHER_SDS if sd > _FEW_GROUPS else ():
            near = _Near(model, place, mean[place] + height * sd, width * sd)
            start = mean + height * (factor @ factor[place]) / sd  # Of a normal posterior.
            found.append(Proposal(*laplace(near, batches, start, power, _FEW_STEPS, _CLOSE)))
    if not found:
        return mixture
    of_sds = np.full(len(found), _SHARE_OF_SDS / len(found))
    return [*components, *found], np.append((1.0 - _SHARE_OF_SDS) * shares, of_sds)


class _Near:
    """A model whose coordinate at a place is known to be N(at, sd^2), as `laplace` asks for it."""

    def __init__(self, model, place, at, sd):
        self._model, self._place, self._at, self._precision = model, place, at, sd**-2

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """As of the model."""
        gradient, precision = self._model.gaussian_target(mean, cov, batches, b)
        gradient, precision, place = gradient.copy(), precision.copy(), self._place
        gradient[place] += self._precision * (self._at - mean[place])
        precision[place, place] += self._precision
        return gradient, precision


def _are_near_prior(model, batches, modes):
    """Whether rows tell so little that draws of the prior, and of some of them, are of use.

    Coefficients given few rows are a mixture over dispersions, with tails as wide as the prior:
    wider than those of a Gaussian, of which the weights have no variance. Of draws from the prior
    none is larger than the largest likelihood over the evidence, whose logarithm Laplace's method
    gives. With the wide components sds of 3 to 8 rows are within 3 %, 5 to 46 % off without them.
    """
    if model.is_log_concave or not model.prior.has_gaussian:
        return False
    mean, chol = modes[0][0]
    if sum(len(batch.weight) for batch in batches) >= _FEW_ROWS * len(mean):
        return False
    log_volume = np.log(np.diag(chol)).sum() + 0.5 * len(mean) * np.log(2.0 * np.pi)
    return -model.log_prior(mean[None])[0] - log_volume < _MAX_NATS


def modes_of(model, batches, power):
    """Laplace approximations at the modes that starts lead to, the highest first, and their masses.

    Where few rows have a joint density without a bound, it is the fixed point of Gaussian mirror
    descent from the prior, which integrates over what a search would climb.

    They are those of normal posteriors of these heights, but no less than a share that keeps a mode
    whose mass is elsewhere than at its top.
    """
    if model.has_poles and model.is_met(batches):
        found = laplace(model, batches, np.zeros(model.n_coordinates), 0.0)
        for share in (*_SHARES_OF_ROWS[::-1], 1.0):
            found = variational_mirror_descent(model, batches, found, share * power)
        return [(found, 1.0)]
    modes = [laplace(model, batches, start, power) for start in model.starts(batches)]
    if len(modes) == 1:
        return [(modes[0], 1.0)]
    log_mass = _log_joint(model, batches, power, np.array([mode.mean for mode in modes]))
    log_mass += [np.log(np.diag(mode.chol)).sum() for mode in modes]
    found = []
    for i in np.argsort(-log_mass, kind="stable"):
        log_share, mode = log_mass[i] - log_mass.max(), modes[i]
        gaps = [np.linalg.solve(one.chol, mode.mean - one.mean) for one, _ in found]
        is_new = all(np.linalg.norm(gap) > _SAME_MODE for gap in gaps)
        if log_share > _MIN_LOG_MASS and is_new:
            found.append((mode, max(np.exp(log_share), _MIN_MODE_SHARE)))
    return found


def _log_joint(model, batches, power, theta):
    return model.log_prior(theta) + power * log_likelihood(model, theta, batches)


def draw_proposals(model, components, shares, n_particles, rng):
    """Particles drawn from the mixture q itself, with r = 0."""
    draws = ProposalDraws(components, even_counts(np.asarray(shares), n_particles))
    return draws(None, model, None, rng).particles


def find_posterior(model, rows, parameters, options, rng, last=None):
    """The posterior by the inference method that the parameters and the model ask for.

    The model has a ``prior``; it offers ``log_joint_gradient`` and, if its prior allows, a
    ``gaussian_target``. Where there is ``last``, the `Stream` of the last fit, stochastic steps
    start there instead of from the prior or the proposals.

    Returns the `Outcome`, whose notes name the method; the number of passes of stochastic steps, or
    of rounds of reweighting and checks of chains; and `Remedies` if it is not to be trusted.
    """
    if last is not None and last.particles.theta.shape[1] != model.n_coordinates:
        raise ValueError(
            f"warm_start=True needs the features and classes of the last fit: it had "
            f"{last.particles.theta.shape[1]} coordinates, these data have {model.n_coordinates}. "
            "Set warm_start=False."
        )
    proposal, hierarchical = parameters.proposal, not model.prior.has_gaussian
    if model.has_poles and isinstance(parameters.prior, str):  # Earlier ones know of dispersions.
        is_improper = model.look_for_exact_rows(rows.whole())
        # Chains would not end where it is highest; a hierarchical prior has nothing else.
        if is_improper and parameters.moves == "auto" and not hierarchical:
            parameters = parameters._replace(moves="improper")
    by_steps = takes_steps(parameters, options)
    if by_steps and parameters.moves == "always":
        raise ValueError(
            "moves='always' is not for proposal='prior' or reweight=False, which take stochastic "
            "steps: set one or the other."
        )
    if by_steps or (hierarchical and parameters.moves == "never"):
        source = "prior" if hierarchical else proposal
        outcome = _by_steps(model, rows, source, options, rng, last)
        return outcome, options.max_iter, OF_STEPS
    whole = ReportedBatches(rows.whole())
    if hierarchical:
        states = _by_moves(model, whole, parameters, options, rng)
    else:
        states = _in_span_or_not(model, rows, whole, parameters, options, rng)
    with bar_of_rounds() as report:
        outcome = drive(states, report)
    chains = _TOO_FREE if isinstance(parameters.prior, str) else _TOO_FREE_GIVEN_EARLIER
    return (
        outcome,
        len(outcome.infos),
        Remedies(_UNMOVED.get(parameters.moves, _UNMOVED["never"]), chains),
    )


def takes_steps(parameters, options):
    """Whether the parameters ask for stochastic mirror steps."""
    return parameters.proposal == "prior" or not options.reweight


def _by_steps(model, rows, source, options, rng, last):
    """Stochastic mirror steps from the last fit, the prior or the mixture of proposals."""
    error_terms = NO_ERROR
    if last is not None:
        start, error_terms = last.particles, last.error_terms
        if np.isnan(start.log_pi).any():  # Mirror steps need pi, which moves and averages lack.
            observer = RejuvenationErrors(model.monitored, error_terms)
            start = rejuvenate_by_kernels(
                start, model, options.settings, rng, observer=observer
            ).particles
            error_terms = observer.terms
    elif source == "prior":
        start = draw_prior(model, options.n_particles, rng)
    else:
        components, shares = proposal_components(model, rows.whole(), source, options.power)
        start = draw_proposals(model, components, shares, options.n_particles, rng)
    start = Outcome(start, error_terms=error_terms)
    with bar_of_steps(options, rows) as report:
        outcome = drive(states_of_fit(model, rows, start, options, rng), report)
    return outcome.with_findings(notes={"method": f"mirror steps from {name_of(source)}"})


def _by_moves(model, batches, parameters, options, rng):
    """Hamiltonian moves under a hierarchical prior, as states for `skpmd.engine.loop.drive`."""
    notes = {"method": "Hamiltonian moves from a normal prior's posterior"}
    for outcome in move_hierarchical(model, batches, options.n_particles, options.power, rng):
        yield outcome.with_findings(notes=notes)


def _in_span_or_not(model, rows, whole, parameters, options, rng):
    """Coefficients in the span of the rows, where these are few, and of the prior beside it."""
    are_many = rows.data.X.shape[1] >= _span.FEWEST
    span = _span.span_of(model, rows, rng) if are_many else None
    if span is None:
        yield from _by_sample_or_all(model, rows, whole, parameters, options, rng)
        return
    batches = ReportedBatches(span.rows.whole())
    for outcome in _by_weights_or_moves(span.model, batches, parameters, options, rng):
        yield span.restored(outcome)


def _by_sample_or_all(model, rows, whole, parameters, options, rng):
    """Reweighting by an expansion of all rows and a sample of them; where it fails, by all."""
    sample = None
    takes_samples = getattr(model, "remainders", None) is not None and not model.is_conjugate
    if takes_samples and parameters.moves != "always" and len(rows) >= FEWEST:
        batches = in_one_batch(rows, whole)
        sample = sampled(model, model.terms(rows), batches, options.power, rng)
    if sample is not None:
        given = SampledModel(model, sample), sample.batches, parameters, options, rng
        states = _by_weights_or_moves(*given, sample)

        def is_sound(last):  # There is one round alone where few of its draws are effective.
            ess = effective_sample_size(last.particles.log_ratio)
            return ess >= _MIN_SHARE * options.n_particles and not convergence_warnings(last)

        if (yield from checked(states, model, sample, batches, options.power, is_sound)):
            return
    yield from _by_weights_or_moves(model, whole, parameters, options, rng)


def _by_weights_or_moves(model, batches, parameters, options, rng, near=None):
    """Importance reweighting of draws from the proposals; where it fails, moves from there.

    Where there is an expansion ``near`` the only mode, of rows that stand for all, there are none.
    """
    n, power, source = options.n_particles, options.power, name_of(parameters.proposal)
    remedy = _UNMOVED.get(parameters.moves)
    if parameters.proposal == "auto" and parameters.moves != "always" and model.is_conjugate:
        yield model.exact_draws(batches, n, power, rng)
        return
    is_own = hasattr(model, "conditional_components")
    if near is None and not is_own:
        gaussian = _of_many_coordinates(model, batches, parameters, power)
        if gaussian is not None:
            notes = {"method": f"Hamiltonian moves from {source}"}
            given = [Proposal(gaussian.mean, gaussian.chol)], n, power, rng, True
            fits = None  # Until the first look after the warm-up, which some never reach.
            for outcome in move_from_proposals(model, batches, *given):
                yield outcome.with_findings(notes=notes)
                r_hat, warming_up = outcome.chains.r_hat, outcome.chains.warming_up
                if not warming_up and not (fits := fits or r_hat <= _MISSHAPEN_R_HAT):
                    break
            if fits:
                return
    misfit = np.inf if near is None else near.misfit
    if near is not None:
        modes = [(laplace(model, batches, near.centre, power), 1.0)]
    else:
        modes = [None] if is_own else modes_of(model, batches, power)
    mixture = proposal_components(model, batches, parameters.proposal, power, modes, misfit)
    notes, first, n_whole = {}, None, len(mixture[0])
    if not is_own and not model.is_log_concave:
        mixture = with_other_sds(model, batches, mixture, power)
    if parameters.moves != "always":
        # Each mode has so many draws at first, and one of them may have all mass.
        near_prior = not is_own and _are_near_prior(model, batches, modes)
        is_last = remedy is not None or near_prior
        least = _MIN_SHARE_OF_OWN if is_own else _MIN_SHARE / len(modes)
        min_share = 0.0 if is_last else least
        for outcome in importance_rounds(model, batches, mixture, n, power, rng, min_share):
            first = first or outcome
            # Proposals at several modes disagree of themselves, and so do those with thin tails
            # and those of a part.
            if len(modes) > 1 or near_prior or len(mixture[0]) > n_whole:
                outcome = outcome.with_findings(disagreement=None)
            share = first.infos[0].ess / n
            few = remedy is not None and share < _MIN_UNMOVED
            reasons = (f"only {share:.1%} of the draws are effective: {remedy}",) if few else ()
            notes = {"method": f"importance reweighting of {source}"}
            yield outcome.with_findings(notes=notes, reasons=reasons)
        failed = first.infos[0].ess < min_share * n or convergence_warnings(outcome)
        if remedy is not None or near is not None or not failed:
            return
        log_ratio = outcome.particles.log_ratio
        notes = {
            "importance_ess": effective_sample_size(log_ratio),
            "importance_pareto_k": pareto_k(log_ratio),
        }
    notes = {"method": f"Hamiltonian moves from {source}", **notes}
    for outcome in move_from_proposals(model, batches, mixture[0], n, power, rng):
        yield outcome.with_findings(notes=notes)


def _of_many_coordinates(model, batches, parameters, power):
    """The Gaussian that whitens chains where weights of so many coordinates have no chance.

    It is that of expectation propagation for one logit. For several classes Laplace's has the right
    axes under a normal prior, and chains find its mean and scale themselves; under a Laplace prior
    it has not. None where weights have a chance, or are asked for, or the model is another.
    """
    of_one = hasattr(model, "derivatives_at")
    of_many = model.n_logits > 1 and isinstance(model.prior, NormalPrior)
    is_known = np.isinf(model.tail_df) and (of_one or of_many)
    is_known &= parameters.proposal in ("auto", "mirror") and parameters.moves != "never"
    is_known &= are_in_memory(batches) and not are_distributed(batches)
    if not is_known or model.n_coordinates <= _MAX_SKEWED:
        return None
    tol = _ROUGH * np.sqrt(model.n_coordinates)
    found = laplace(model, batches, model.starts(batches)[0], power, tol=tol)
    if of_one:
        found = expectation_propagation(model, batches, found, power)
    if found is None or parameters.moves == "always":
        return found
    z = np.random.default_rng(0).standard_normal((_N_TRIED, model.n_coordinates))
    log_joint = _log_joint(model, batches, power, found.mean + z @ found.chol.T)
    variance = np.var(log_joint + 0.5 * (z**2).sum(axis=1))
    return found if _HOPELESS < variance < _OF_ANOTHER_SHAPE * model.n_coordinates else None


def name_of(proposal):
    """What ``diagnostics_["method"]`` calls the density that particles were first drawn from."""
    return "prior" if proposal == "prior" else f"proposals: {proposal}"

"""What the columns of benchmark tables mean, in a line each."""

# The meaning in most studies.
COLUMNS = {
    "answered": "seeds on which the other has an answer within our CPU seconds",
    "answered_long": "as ``answered``, within ten times our CPU seconds or by the other's own end",
    "C": "inverse strength of an L2 penalty, scikit-learn's ``C``",
    "coverage": "share of the test rows inside their 90 % intervals; 0.9 is right",
    "cpu": "CPU seconds of the fit",
    "cpu_s": "CPU seconds of the fit",
    "crps": "continuous ranked probability score by ten quantiles, in sds of y; smaller is better",
    "d": "number of coordinates of the posterior",
    "data": "data set or corpus",
    "ece": "expected calibration error, 15 bins; smaller is better",
    "ess": "effective sample size of the particles (after moves: of the draws); larger is better",
    "gap": "mean of ours less theirs over the seeds answered in time; below zero ours is better",
    "growth_mb": "growth of the peak memory after the first fifth of the stream, MB",
    "half_width": "half the width of the gap's 90 % interval (Student's t)",
    "K": "number of components or topics",
    "k_hat": "Pareto k-hat of the importance weights; above 0.7 they miss a tail",
    "kind": "what the row is of, as said above",
    "kl": "Kullback-Leibler divergence KL(exact, estimate), nats; smaller is better",
    "log_loss": "mean negative log probability of the test labels, nats; smaller is better",
    "loss": "by what share of theirs our mean is worse, 0 where it is not",
    "max_mean_error": "largest error of a posterior mean over coordinates, in posterior sds",
    "max_sd_error": "largest relative error of a posterior sd over coordinates",
    "mean_error": "absolute error of a posterior mean, in posterior sds",
    "mean_mean_error": "mean absolute error of a posterior mean over coordinates, in posterior sds",
    "method": "method, as said above",
    "model": "kind of model that is fitted",
    "n": "number of rows that are learnt from",
    "nlpd": "negative log predictive density of a test row, mean, nats; smaller is better",
    "ours": "our mean figure over the seeds answered in time; smaller is better",
    "peak_mb": "peak resident memory of the whole process, MB",
    "peak_mb_over_X": "peak memory less that before the fit, with X in it, MB",
    "perplexity": "perplexity of held-out words, by document completion; smaller is better",
    "predict_cpu": "CPU seconds of predictions for the test part (of ours, with their scores)",
    "r_hat": "largest R-hat of the chains of Hamiltonian moves; none without moves",
    "reference_cpu": "CPU seconds of the reference's sampling, without its warm-up",
    "reference_min_ess": "smallest effective sample size of a mean in the reference",
    "reference_r_hat": "largest R-hat of the reference over coordinates",
    "rmse": "root mean square error on the test part, in sds of y; smaller is better",
    "rows": "number of rows of the fit",
    "sd_error": "relative error of a posterior sd",
    "second_half_over_first": "CPU of the stream's second half over that of its first; 1 is steady",
    "seconds": "wall seconds of the fit",
    "seed": "number of the repetition: seed of the fit, of its data or of their split",
    "seeds": "number of seeds or splits that are averaged or compared",
    "setting": "setting of the method",
    "shape": "posterior, by the name of its shape or of its data",
    "temperature": "what the log likelihood is divided by",
    "theirs": "mean of the other's best figure within our CPU seconds, over the same seeds",
    "theirs_long": "as ``theirs``, within ten times our CPU seconds or by the other's own end",
    "tv": "total variation distance of the density to the exact one; smaller is better",
    "verdict": 'ours beside the other at equal CPU; only "ahead" is a win',
    "verdict_long": "as ``verdict``, with ten times our CPU seconds for the other, or its own end",
    "warned": "classes of the warnings that the fit gave, if any",
}

# Where a study means something else or more by a name, or has a column that no other has.
IN_STUDY = {
    "calibration": {
        "C": "scikit-learn's ``C``, chosen by cross-validation on the training part",
        "cpu": "CPU seconds of our last fit, without the search for the temperature",
        "ece": "expected calibration error of ours over all predicted rows; smaller is better",
        "ece_difference": "``ece`` less ``ece_sklearn``; below zero ours is better",
        "ece_se": "standard error of ``ece_difference``, by the jackknife",
        "ece_sklearn": "expected calibration error of scikit-learn's probabilities",
        "fold": "number of the fold",
        "log_loss": (
            "log loss of ours on the fold, or on all predicted rows, nats; smaller is better"
        ),
        "log_loss_difference": (
            "``log_loss`` less ``log_loss_sklearn``, nats; below zero ours is better"
        ),
        "log_loss_se": "standard error of ``log_loss_difference``, by the jackknife, nats",
        "log_loss_sklearn": "log loss of scikit-learn on the same rows, nats",
        "prior_scale": "prior sd of our coefficients of standardised columns",
        "rows": "number of predicted rows",
        "setting": "how our prior and temperature were chosen, as said above",
        "temperature": "what the log likelihood of ours is divided by",
    },
    "classification": {
        "calibration_error": "expected calibration error, mean over splits; smaller is better",
        "cpu": "CPU seconds of fit and prediction (SVGP: of training), mean over splits",
        "error_rate": "share of the test rows that are labelled wrongly, mean over splits",
        "log_loss": "log loss on the test part, nats, mean over splits; smaller is better",
        "method": "estimator, as said above",
        "n": "number of rows of the training part",
    },
    "densities": {
        "cpu": (
            "CPU seconds of all fits that the kind takes on the split; choosing settings left out"
        ),
        "data": "table",
        "score": "mean log density of a test row, nats; larger is better",
        "seed": "number of the split",
        "setting": (
            "``pmd``: start, prior covariance over that of the rows, prior concentration of the "
            "weights; ``gm``: start and ``reg_covar`` (``gm bic``: and number of components); "
            "``bgm``: start; ``flow``: transforms and hidden layers"
        ),
    },
    "flights": {
        "cpu": "CPU seconds so far (``cost``, ``default``, ``synthetic``: of all)",
        "epoch": "passes over the rows so far",
        "learning_rate": "learning rate of SVGP",
        "n_inducing": "number of inducing points of SVGP",
        "noise": "noise variance that SVGP starts from",
        "optimizer": "optimizer of SVGP: Adam, or natural gradients with Adam for the rest",
        "rate": "multiply-adds per CPU second of this machine's own matrix product",
        "ratio": "CPU of the pass over that of N M^2 multiply-adds at ``rate``; smaller is better",
        "rmse_to_truth": (
            "root mean square error from the function without noise; the noise has sd 0.5"
        ),
        "rows": "rows taken in so far (``cost``: of the pass; ``synthetic``: of all calls)",
        "seed": "number of the split (``default``: seed of the fit)",
        "setting": "approximation that the fit has taken",
        "split": "number of the split",
    },
    "gp_small": {
        "cpu": "CPU seconds of the fit, mean over tables",
        "crps": "continuous ranked probability score by ten quantiles; smaller is better",
        "data": "function that y is of, with noise",
        "rmse": "root mean square error on the new rows; smaller is better",
        "seeds": "number of tables that are averaged",
    },
    "honesty": {
        "estimator": "estimator, as listed above; ``all`` is all of them",
        "false_alarms": "number of right fits that warned",
        "fits": "number of fits",
        "largest_error": "largest error of a fit, in units of that from which a fit is wrong",
        "of_means": "number of silent fits in which a mean is wrong, of the ``generated`` ones",
        "right": "number of right fits",
        "setting": (
            "how the estimator is run, as said above; ``documented`` and ``outside`` are totals"
        ),
        "share_named": "share of all fits that are ``named``",
        "silent": "number of wrong fits that did not warn; smaller is better",
        "warned": "number of fits that warned",
        "wrong": "number of wrong fits",
    },
    "categories": {
        "coverage": "share of targets in 90 % intervals",
        "cpu": "CPU seconds of the fit",
        "data": "data set",
        "rows": "number of rows to learn from",
    },
    "groups": {
        "cpu": "CPU seconds of the fit",
        "d": "coordinates that are compared",
        "ess": "effective sample size of our particles",
        "family": "family of y",
        "max_effect": "largest error of the mean of a group's effect, in its posterior sds",
        "memory": "largest memory above that before the fit, over that of X",
        "method": "package",
        "n": "number of rows",
        "n_groups": "number of groups",
        "nuts_cpu": "CPU seconds of a run of NUTS, without its warm-up and compilation",
        "nuts_divergent": "divergent transitions of that run",
        "nuts_min_ess": "smallest effective sample size of a mean of no effect in that run",
        "nuts_warmup": "CPU seconds of its warm-up",
        "pmd_cpu": "CPU seconds of our fit, mean over seeds",
        "pmd_ess": "effective sample size of our particles, mean over seeds",
        "ratio": "CPU seconds of NUTS for as many effective draws, its warm-up in, over ours",
        "sd": "estimated sd of groups, or its posterior mean; .9 was drawn from",
        "sd_gap": "estimated group sd less the posterior mean; crossed: the largest",
        "seed": "seed of the fit",
    },
    "linear": {
        "coverage": "share of held-out rows in central 90 % predictive intervals; 0.9 is right",
        "cpu": "CPU seconds of the fit (held out: mean over folds, with predictions and searches)",
        "deviance": "mean deviance of held-out rows, as said above; smaller is better",
        "family": "family of y",
        "from_ours": "largest distance of a coefficient from our mean, in our posterior sds",
        "gap": 'deviance of "skpmd, evidence" less that of the method; below zero ours is better',
        "gap_se": "standard error of ``gap`` over rows",
        "min_ess": "smallest effective sample size of a reference",
        "n": "number of rows",
        "nuts": "settings of NUTS, as said above",
        "nuts_cpu": "CPU seconds of a run of NUTS, without its warm-up and compilation",
        "nuts_min_ess": "smallest effective sample size of a mean in that run",
        "nuts_r_hat": "largest R-hat of that run over coordinates",
        "nuts_warmup": "CPU seconds of its warm-up",
        "pmd_cpu": "CPU seconds of our fit, mean over seeds",
        "pmd_ess": "effective sample size of our particles, mean over seeds",
        "r_hat": "largest R-hat, of a reference over coordinates or of our Hamiltonian moves",
        "ratio": "CPU seconds of NUTS for as many effective draws, its warm-up in, over ours",
        "ratio_sampling": "the same without the warm-up",
        "seed": "seed of the fit",
    },
    "logistic": {
        "cpu": "CPU seconds of a warm fit",
        "log_loss_gap": "test log loss less that of the reference, nats; none without a test part",
        "nuts_chains": "layout of NUTS's chains, the faster of two",
        "nuts_cpu": "CPU seconds of a run of NUTS, mean, without its warm-up and compilation",
        "nuts_min_ess": "smallest effective sample size of NUTS over coordinates, mean over runs",
        "nuts_r_hat": "largest R-hat of NUTS over coordinates and runs",
        "nuts_rms": "root mean square error of NUTS's means, in posterior sds",
        "nuts_warmup": "CPU seconds of the warm-up of a run of NUTS, mean",
        "pmd_cpu": "CPU seconds of our fit, mean over eight seeds",
        "pmd_rms": (
            "root mean square error of our means over coordinates and seeds, in posterior sds"
        ),
        "ratio": "CPU seconds of NUTS at our error over ours; above one ours is faster",
        "reference_min_ess": (
            "smallest effective sample size of the reference, of means and of squares"
        ),
        "seed": "seed of the fit",
    },
    "many_rows": {
        "approximation": "approximation that was asked for",
        "predict_cpu": "CPU seconds of the predicted means of 4,000 rows",
        "rmse": "root mean square error of 4,000 means from the function without noise",
        "taken": "approximation that the fit has taken",
    },
    "mnist8m": {
        "answered_long": "as ``answered``: nobody has more time here",
        "cpu": "CPU seconds of the fit or up to the point, mean over seeds; in verdicts ours",
        "ess": "effective sample size of our particles on the first seed",
        "k_hat": "largest Pareto k-hat of our weights over seeds; above 0.7 they miss a tail",
        "kind": "``method``: whole fits, ours and scikit-learn's; the others as said above",
        "log_loss": "log loss on the test images, nats, mean over seeds; smaller is better",
        "max_mean_error": (
            "largest error of a mean over coordinates and seeds, in sds of ``laplace``"
        ),
        "max_sd_error": "largest relative error of an sd over coordinates and seeds",
        "mean_error": (
            "root mean square error of the means in sds, mean over seeds; smaller is better"
        ),
        "method": (
            "``laplace`` stands for the truth; ours is ``skpmd``; then scikit-learn's and peers"
        ),
        "ours": "root mean square error of our means in sds, mean over seeds; smaller is better",
        "peak_mb_over_X": (
            "peak memory less that before the fit, with X in it, MB; largest over seeds"
        ),
        "rows": "rows of the fit, or read up to the point, mean over seeds",
        "sd_error": "root mean square relative error of the sds, mean over seeds",
        "setting": "step size, learning rate or width of the kernels; n is the number of rows",
        "theirs_long": "as ``theirs``: nobody has more time here",
        "verdict_long": "as ``verdict``: nobody has more time here",
    },
    "moves": {
        "cpu": "CPU seconds of the fit (``cost``: mean of the fits of kind ``auto``)",
        "nuts_cpu_at_equal_error": (
            "CPU seconds in which NUTS reaches our error, without its warm-up"
        ),
        "reference_draws": "number of draws of the reference",
        "rms": "root mean square error of our means over coordinates and seeds, in posterior sds",
        "seed": "seed of the fit",
    },
    "paper_flights": {
        "cpu": "CPU seconds of the fit, or up to the point; in verdicts those of our fit, mean",
        "loss": "by what share of theirs our mean is worse, 0 where it is not; none for log loss",
        "method": "method, as said above; in verdicts the one that ours is held against",
        "ours": (
            "our mean RMSE (or log loss, where ``kind`` says so) over splits; smaller is better"
        ),
        "rows": "rows of the fit, or read up to the point in all passes",
        "seed": "number of the split",
        "setting": (
            "``svgp``: optimizer, learning rate, inducing points (M); ``subset``: rows that the "
            "kernel is fitted to; ``smc``: width of the kernels over the spread of the particles; "
            "``trees``: leaves, rate, number; ``paper``: eta, n0, noise variance over the variance "
            "of y"
        ),
    },
    "paper_lda": {
        "cpu": (
            "CPU seconds up to the point (curves: mean over splits); in verdicts those of our fit"
        ),
        "documents": "documents visited so far in all passes (averages: by all their runs)",
        "method": "method, as said above; in verdicts the one that ours is held against",
        "ours": "our mean perplexity over the splits answered in time; smaller is better",
        "perplexity": (
            "perplexity of held-out words; curves: mean over splits; ``setting``: best answer"
        ),
        "sd": "standard deviation of the perplexity over splits",
        "setting": (
            "``pmd``: particles, batch; ``sklearn``, ``gensim``: batch, offset, decay, iterations, "
            "tolerance; ``tomotopy``: sweeps from prior to prior, 0 for a fixed one; ``scvb0``: "
            "batch, scale, offset, burn-in; ``sgrld``: batch, step, offset, decay; ``smc``: first "
            "share, its sweeps, past tokens"
        ),
        "share": "share of all words that the topic has",
        "words": "leading words of the topic with their probabilities",
    },
    "paper_logistic": {
        "at_our_cpu": (
            "best ``mean_error`` within our CPU seconds, mean over seeds; smaller is better"
        ),
        "at_ten_times": "best ``mean_error`` within ten times our CPU seconds, mean over seeds",
        "cpu": "CPU seconds up to the point, mean over seeds; in verdicts those of our defaults",
        "ess": "smallest effective sample size of the reference over coordinates",
        "log_loss": (
            "log loss of the averaged probabilities on the test images, nats, mean over seeds"
        ),
        "mean_error": "root mean square error of the means, in posterior sds, mean over seeds",
        "method": "method, as said above; in verdicts its family, the words before a comma",
        "ours": "our mean ``mean_error`` over the seeds answered in time; smaller is better",
        "rows": "rows read up to the point, mean over seeds",
        "sd_error": "root mean square relative error of the sds, mean over seeds",
        "setting": (
            "what is chosen of the method; n is the number of rows and t that of the step; numbers "
            "after ``Student t`` and ``df`` are degrees of freedom, those after ``paths`` their "
            "number and longest search, ``width`` that of the kernels over the spread of the "
            "particles"
        ),
        "test_error": "share of the test images that are labelled wrongly, mean over seeds",
    },
    "paper_mixture": {
        "cpu": "CPU seconds up to the point, mean over runs; in verdicts those of our defaults",
        "kl": "KL(exact, estimate), nats, mean over runs; smaller is better",
        "method": "method, as said above; in verdicts the one that ours is held against",
        "ours": "our mean total variation over the runs answered in time; smaller is better",
        "rows": "rows read up to the point, mean over runs; once for all particles or chains",
        "runs": "number of runs that are averaged",
        "seeds": "number of runs that are compared",
        "setting": (
            "``one-pass SMC``: width of the kernels over the spread of the particles; ``SGLD``: "
            "chains x step size; ``SVI``: covariance, learning rate; ``SGD NPV``: components, "
            "learning rate; the others as they say"
        ),
        "tv": "total variation distance to the exact posterior, mean over runs; smaller is better",
        "tv_sd": "standard deviation of the total variation over runs",
    },
    "past_memory": {
        "cpu_s": "CPU seconds of the fit, those of reading included",
        "form": "where the rows are, as listed above",
        "model": "estimator that is fitted",
        "peak_mb": "largest memory that is no page of a file, MB",
        "rows": "number of rows of the fit (topics: of documents)",
    },
    "posteriors": {
        "cpu": "CPU seconds, mean over seeds; the search for the mode included where it is given",
        "data": "posterior: its name in posteriordb, or the data set of a logistic regression",
        "k_hat": "largest Pareto k-hat over seeds; above 0.7 weights miss a tail",
        "max_mean_error": "largest error of a mean over coordinates and seeds, in posterior sds",
        "max_sd_error": "largest relative error of an sd over coordinates and seeds",
        "method": "method, as listed above",
        "warned": "number of seeds with a warning",
    },
    "price": {
        "by": "what particles were weighed by, as said above",
        "cpu": "CPU seconds of our fit (``price``: the least of three)",
        "d": "number of columns of X",
        "evidence_gap": "log evidence less that of the reference, nats",
        "evidence_se": "standard error of ``evidence_gap``, by those that both fits state",
        "family": "what y is",
        "peer_cpu": "CPU seconds of scikit-learn's fit, the least of three",
        "ratio": "``cpu`` over ``peer_cpu``; smaller is better",
        "reference_by": "what those of the reference were weighed by",
        "reference_ess": "effective sample size of the reference",
        "rows_weighed": "rows in the sample by which particles were weighed; none where all were",
        "seed": "seed of the fit",
        "shape": "what rows are like, as said above",
    },
    "regression": {
        "budget": "CPU seconds that the run was given; 0: it ends by itself",
        "coverage": "share of the test rows inside their 90 % intervals (trees: between quantiles)",
        "cpu": "CPU seconds of the last fit (trees: of that by squared error)",
        "quantiles_cpu": "CPU seconds of the fits and predictions of ten quantiles",
        "seed": "number of the split",
        "setting": (
            "ours: approximation taken; ``svgp``: optimizer, kernel, learning rate, inducing "
            "points (M); ``sgpr``: kernel, inducing inputs (M); ``exact``, ``gpboost``: kernel; "
            "trees: parameters of scikit-learn's"
        ),
    },
    "stream": {
        "cpu": "CPU seconds of all calls, drawing of the rows included",
        "method": "estimator, as said above",
        "peak_mb": "peak memory less that before the stream, MB",
        "rejuvenations": "number of rejuvenations in all calls",
        "rows": "number of rows of the stream",
        "seed": "seed of the fit and of the order of the rows",
        "warned": "whether the last call warned",
    },
    "theory": {
        "cpu_s": "CPU seconds of an iteration, least of some (section 3.3: up to the step, mean)",
        "d": "number of dimensions",
        "error": "mean absolute error of the integrals",
        "error_reweighted": "mean absolute error of the integral after one reweighting by all data",
        "error_steps": "mean absolute error of the integral after T steps",
        "growth": "power of t with which the number of particles grows",
        "kl": "KL(exact, estimate) of both densities on Omega, nats, mean over seeds",
        "kl_average": "excess KL(average, q*) of the average of all iterates, nats, mean",
        "kl_last": "KL(q*, q_T) of the last iterate, nats, mean",
        "l1_error": "expected L1 distance of the estimate to the density that it estimates",
        "m": "number of particles (rate of SGLD: of steps)",
        "m_T": "number of particles in the last step",
        "method": "other method of which an iteration is timed",
        "of": "what the slope is of",
        "part": "part of the theory that the row measures, ``slope`` for a fitted exponent",
        "peak_mb": "peak memory of an iteration beyond that before it, MB",
        "relation": "whether the slope should equal the bound or be at most as large",
        "repetitions": "number of repetitions that are averaged",
        "seeds": "number of seeds that are averaged",
        "size": "number of particles, components or steps (SVI: of dimensions)",
        "standard_error": "standard error of the slope (section 3.3: of the mean error)",
        "states": "number of states at which the recurrence was looked at",
        "steps": "number of steps so far, ten a pass",
        "T": "number of steps",
        "task": "what one iteration does: move weights, or rejuvenate the particles",
        "way": (
            "``kernels``, ``weights``, or from the former to the latter after a pass (``switch``)"
        ),
    },
    "topic_calibration": {
        "alpha": "Dirichlet parameter of the documents' topic proportions",
        "claimed": "mean of the largest topic's proportion as predicted",
        "coverage": (
            "share of the counted true probabilities inside their 90 % intervals; 0.9 is right"
        ),
        "cpu": "CPU seconds of the fit, of ``documents`` of the predictions",
        "documents": "number of documents",
        "eta": "Dirichlet parameter of the topics' words",
        "factor": "factor over whose other settings the coverages are averaged",
        "K": "number of topics",
        "kind": "``simulation``, ``small``, ``documents``; ``factor``: means at one level of one",
        "length": "mean number of tokens of a document",
        "level": "level of the factor",
        "of_documents": "share of the documents' true proportions inside their 90 % intervals",
        "of_largest": "the same of the topic with the largest predicted proportion",
        "passes": "passes and sweeps of the fit",
        "repeat": "number of the simulation with these factors",
        "share": "mean of the true proportions of the topics of ``claimed``",
        "topics_found": "number of true topics with a distance below 0.3 to the one found",
        "V": "number of words of the vocabulary",
        "warned": "whether the fit warned",
        "width": "mean width of the intervals of the counted words",
        "words": "number of probabilities of words that are counted",
    },
}

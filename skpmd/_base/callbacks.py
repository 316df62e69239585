"""scikit-learn's callbacks, from its version 1.9 on, as a listener of the course of a fit.

A fit is one task, each of its outer phases a task in it, and each step of a phase a task in that.
Where a callback wants a task to end, the fit ends at its next complete state. The interface is
experimental in scikit-learn; without it estimators have no ``set_callbacks``.
"""

from contextvars import ContextVar
from functools import wraps

from skpmd.engine.course import current

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _torn_down
except ImportError:  # Of a version before 1.9, or one that has changed its mind.
    _torn_down = None

    class CallbackSupportMixin:
        """Stands in where there are no callbacks."""


_tasks = ContextVar("callbacks of a fit by skpmd", default=())


def with_callbacks(fit):
    """Decorator of ``fit`` that makes it the task of scikit-learn's callbacks."""
    if _torn_down is None:
        return fit

    @_torn_down
    @wraps(fit)
    def called(self, *args, **kwargs):
        root = self._init_callback_context(max_subtasks=None)
        X, y = (
            args[place] if len(args) > place else kwargs.get(name)
            for place, name in enumerate(("X", "y"))
        )
        root.call_on_fit_task_begin(estimator=self, X=X, y=y)
        hears = bool(getattr(self, "_skl_callbacks", ()))
        token = _tasks.set([_Tasks(self, root)] if hears else [])
        try:
            outcome = fit(self, *args, **kwargs)
        finally:
            _tasks.reset(token)
        # The fitted estimator, if a callback wants one, is a copy of this one.
        root.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=dict)
        return outcome

    return called


def tasks_of_fit():
    """Listeners that make tasks of the phases of the fit that runs; none without callbacks."""
    return _tasks.get()


class _Tasks:
    def __init__(self, estimator, root):
        self._estimator, self._root, self._depth = estimator, root, 0

    def open(self, name, total):
        """A task, unless the phase is inside another, or has no name."""
        self._depth += 1
        own = self._depth == 1 and name is not None
        return _Task(self, self._estimator, self._root, name, total) if own else _Inner(self)

    def write(self, text):
        pass

    def close(self):
        """Note that a phase has ended."""
        self._depth -= 1


class _Inner:
    """A phase that is no task."""

    def __init__(self, tasks):
        self._tasks = tasks

    def advance(self, n, text):
        pass

    def tick(self):
        pass

    def close(self):
        self._tasks.close()


class _Task(_Inner):
    def __init__(self, tasks, estimator, root, name, total):
        super().__init__(tasks)
        self._estimator, self._left = estimator, total
        self._context = root.subcontext(task_name=name, max_subtasks=total)
        self._context.call_on_fit_task_begin(estimator=estimator)

    def advance(self, n, text):
        """Begin and end the tasks of so many steps; a method may take more than it thought."""
        n = n if self._left is None else min(n, self._left)
        self._left = None if self._left is None else self._left - n
        for _ in range(n):
            step = self._context.subcontext(task_name="step")
            step.call_on_fit_task_begin(estimator=self._estimator)
            if step.call_on_fit_task_end(estimator=self._estimator):
                current().end()

    def close(self):
        super().close()
        self._context.call_on_fit_task_end(estimator=self._estimator)

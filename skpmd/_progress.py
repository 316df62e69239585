"""Progress of a fit: a tqdm bar where tqdm is installed, a line per step elsewhere."""

from contextlib import contextmanager


class _Silent:
    def update(self, info):
        pass


class _Lines:
    def __init__(self, total):
        self.total, self.done = total, 0

    def update(self, info):
        self.done += 1
        print(f"step {self.done}/{self.total}: {_describe(info)}")


class _Bar:
    def __init__(self, bar):
        self.bar = bar

    def update(self, info):
        self.bar.set_postfix_str(_describe(info))
        self.bar.update()


@contextmanager
def progress(total, verbose):
    """Context that yields an object with ``update(info)``; silent at ``verbose=0``."""
    if not verbose:
        yield _Silent()
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield _Lines(total)
        return
    with tqdm(total=total, desc="mirror steps") as bar:
        yield _Bar(bar)


def _describe(info):
    return f"ess={info.ess:.0f}/{info.n_particles}, rejuvenations={info.rejuvenations}"

"""Checkpoints of a fit: its journal in a file, from which the same fit goes on."""

import os
import warnings
from contextlib import contextmanager

from skpmd._base import files
from skpmd._base.encoding import RefusedError, decoded, encoded
from skpmd._base.fingerprint import differences
from skpmd._base.version import __version__
from skpmd.engine.course import clock, write
from skpmd.engine.journal import SEEDS, Entry, Journal, on_journal

_KIND = "checkpoint"


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written."""


class Checkpoint:
    """The file that the journal of a fit is written to, by the fit of one ``fingerprint``.

    ``every`` is the number of seconds between two writes.
    """

    def __init__(self, path, every, fingerprint):
        self.path, self._every, self._fingerprint = files.place_of(path), every, fingerprint
        self._written, self._last, self._is_taken = None, clock(), False

    def entries(self):
        """Entries of the journal that the file holds; the file is made where there is none.

        A path that cannot be written to, or whose file is of another fit, is an error before
        anything is done.
        """
        files.remove_abandoned(self.path)
        entries = []
        if os.path.exists(self.path):
            entries = files.read(self.path, _KIND, self._known)
        self._write(entries)
        return entries

    def _known(self, content, array):
        if content["skpmd"] != __version__:
            raise files.FileError(
                f"{self.path} is a checkpoint of skpmd {content['skpmd']}, and this is "
                f"{__version__}: install that version, delete the file, or give another path."
            )
        entries = _from_tuples(decoded(content["entries"], array))
        reasons = differences(content["fingerprint"], self._fingerprint)
        if reasons and not _has_work(entries):
            return []
        if reasons:
            raise files.FileError(
                f"checkpoint={self.path!r} is that of another fit: {'; '.join(reasons)}. Set it "
                "back to go on with that fit; to start anew delete the file, or give another path."
            )
        return entries

    def due(self):
        """Whether it is time to write."""
        return clock() - self._last >= self._every and not self._is_taken

    def write(self, entries):
        """Write the entries; what goes wrong is warned of, for the fit itself is as good."""
        if self._is_taken:
            return
        if _identity(self.path) != self._written:
            self._is_taken = True
            text = "something else has written to it, or deleted it, since"
        else:
            try:
                self._write(entries)
                return
            except (OSError, RefusedError) as error:
                text = f"{error}; what it held before is as it was"
        self._last = clock()
        warnings.warn(
            f"checkpoint={self.path!r} was not written: {text}. The fit goes on.",
            CheckpointWarning,
            stacklevel=2,
        )

    def _write(self, entries):
        node, arrays = encoded(_as_tuples(entries))
        content = {"skpmd": __version__, "fingerprint": self._fingerprint, "entries": node}
        files.write(self.path, _KIND, content, arrays)
        self._written, self._last = _identity(self.path), clock()

    def remove(self):
        """Remove the file at the end of the fit, unless it is another's."""
        if _identity(self.path) == self._written:
            os.unlink(self.path)


@contextmanager
def checkpointed(path, every, fingerprint):
    """Context of a fit that goes on from its checkpoint; a path of None is none at all.

    The file is removed at the end of the fit. It stays, with what has been noted, where an error,
    Ctrl-C or the time ends the fit before. ``fingerprint()`` tells the fit from others.
    """
    if path is None:
        yield
        return
    checkpoint = Checkpoint(path, every, fingerprint())
    journal = Journal(checkpoint, checkpoint.entries())
    if _has_work(journal.entries):
        write(f"the fit goes on from {checkpoint.path}")
    with on_journal(journal):
        try:
            yield
        except BaseException:
            journal.close()
            if not _has_work(journal.entries):
                checkpoint.remove()
            raise
    if journal.is_open():
        checkpoint.remove()


def _has_work(entries):
    """Whether there is anything in a journal that would have to be done again."""
    return any(one.is_known and one.name != SEEDS or one.branches for one in entries)


def _identity(path):
    try:
        known = os.stat(path)
    except OSError:
        return None
    return known.st_dev, known.st_ino, known.st_mtime_ns


def _as_tuples(entries):
    return [
        (
            one.name, one.is_known, one.value, one.generators, one.has_ended,
            [(name, _as_tuples(inner)) for name, inner in one.branches],
        )
        for one in list(entries)
    ]  # fmt: skip


def _from_tuples(entries):
    return [
        Entry(*known, [(name, _from_tuples(inner)) for name, inner in branches])
        for *known, branches in entries
    ]

"""Memory of this process, as Linux tells it (nan elsewhere)."""

import threading
from pathlib import Path


def resident(field):
    """Memory of this process in MB: 'VmRSS' now, 'VmHWM' at its peak, 'RssAnon' without files.

    ``ru_maxrss`` will not do: a new process starts with the peak of the one that made it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    for line in status.read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024.0
    return float("nan")


class Peak(threading.Thread):
    """The peak of the memory of this process that is no page of a file, looked at all the time."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self._stopped = 0.0, threading.Event()

    def run(self):
        while not self._stopped.wait(0.01):
            self.peak = max(self.peak, resident("RssAnon"))

    def stop(self):
        """Return the peak, in MB."""
        self._stopped.set()
        self.join()
        return self.peak

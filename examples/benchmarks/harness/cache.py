"""Runs of other methods that take long, in JSON files beside the results."""

import json

from . import provenance


class CachedRuns:
    """Runs in a JSON file, which are made again when the protocol is another.

    They have CPU seconds, so that the processor is a part of the protocol. The quick variant of a
    study neither reads nor writes the file.
    """

    def __init__(self, config, stem, protocol):
        self._path = None if config.quick else config.cache / f"{stem}.json"
        protocol = json.loads(json.dumps(protocol))
        protocol["processor"] = provenance.machine()["processor"]
        self.content = {"protocol": protocol, "choices": {}, "rows": []}
        if self._path is not None and self._path.exists():
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["protocol"] == protocol:
                self.content = found

    def save(self):
        """Write the file, unless the study is the quick one."""
        if self._path is not None:
            self._path.parent.mkdir(exist_ok=True, parents=True)
            self._path.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")

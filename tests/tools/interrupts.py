"""Calls that end before they have done anything."""


def interrupt(monkeypatch, owner, name, at=1, error=KeyboardInterrupt):
    """An error, by default Ctrl-C, in one of the calls of a function or method."""
    true, calls = getattr(owner, name), []

    def interrupted(*args, **params):
        calls.append(0)
        if len(calls) == at:
            raise error
        return true(*args, **params)

    monkeypatch.setattr(owner, name, interrupted)

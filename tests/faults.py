"""Calls to the operating system that fail, the n-th of them, in every way that a call can."""

import contextlib
import errno
import fcntl
import os

WAYS = ("instead", "after", "short", "part", "death")
"""It fails instead of what it does; or after that; or writes half before; or writes half and says
so, which is no error; or the process dies.
"""

_CALLS = (
    *("close", "fstat", "fsync", "ftruncate", "lseek", "mkdir", "open", "read", "rename"),
    *("rmdir", "scandir", "stat", "unlink", "write"),
)


class Died(BaseException):
    """The process is gone: nothing that it would do afterwards happens."""


class Fault:
    """Let the n-th call fail, and count calls.

    Attributes
    ----------
    calls : int
        How many there were.
    struck : str or None
        The call that failed; None: there were fewer.
    """

    def __init__(self, n, way):
        self.n = n
        self.way = way
        self.calls = 0
        self.struck = None
        self._open = set()

    def called(self, name, real, *arguments, **options):
        if self.struck and self.way == "death":
            raise Died
        self.calls += 1
        if self.calls != self.n:
            result = real(*arguments, **options)
        else:
            self.struck = name
            result = self._failed(name, real, *arguments, **options)
        if name == "open":
            self._open.add(result)
        elif name == "close":
            self._open.discard(arguments[0])
        return result

    def _failed(self, name, real, *arguments, **options):
        if name == "write" and self.way in ("short", "part", "death"):
            file, content = arguments
            result = real(file, content[: len(content) // 2])
        elif self.way == "part":
            result = real(*arguments, **options)
        elif name == "close" or self.way == "after":
            result = real(*arguments, **options)
            self._open -= {arguments[0]} if name == "close" else set()
            self._open |= {result} if name == "open" else set()
            if name == "scandir":  # nobody is handed it
                result.close()
        if self.way == "part":
            return result
        raise Died if self.way == "death" else OSError(errno.EIO, os.strerror(errno.EIO))

    def bury(self):
        """Let go of what a process that died had open; of others, say what they left open."""
        left = self._open if self.way == "death" or self.struck == "open" else set()
        assert self._open == left, "descriptors are left open"
        for descriptor in left:
            os.close(descriptor)


@contextlib.contextmanager
def fault(monkeypatch, n, way):
    """Let the n-th call in the ``with`` statement fail."""
    one = Fault(n, way)
    with monkeypatch.context() as patch:
        for module, names in ((os, _CALLS), (fcntl, ("flock",))):
            for name in names:
                real = getattr(module, name)

                def instead(*arguments, name=name, real=real, **options):
                    return one.called(name, real, *arguments, **options)

                patch.setattr(module, name, instead)
        yield one
    one.bury()


def every_fault(monkeypatch, prepare, act):
    """Let each call of an act fail in each way.

    Yields
    ------
    prepared : object
        What ``prepare()`` returned, which the act was given.
    error : BaseException or None
        What the act raised.
    way : str
        The way.
    """
    for way in WAYS:
        for n in range(1, 1000):
            prepared = prepare()
            error = None
            with fault(monkeypatch, n, way) as one:
                try:
                    act(prepared)
                except (OSError, Died) as raised:
                    error = raised
            if one.struck is None:
                assert error is None
                assert n > 5, "nothing was called"
                break
            yield prepared, error, f"{way}, call {n}: {one.struck}"

"""A file of lines that only grows: several processes write, and none of them loses a line."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from skdpdyn.privacy.disk import (
    is_there,
    opened,
    read_from,
    sync_folder,
    write_new,
    write_on,
    write_whole,
)
from skdpdyn.privacy.serialization import load_json

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 60.0  # seconds that a process waits for others to write
_BEGUN = (
    b"The ledger beside this file was begun, and is not begun again if it disappears. "
    b"Leave this file where it is.\n"
)


def line_of(content: Any, before: str) -> tuple[bytes, str]:
    """Return a line of the file and its checksum.

    A line has the length of its content, a checksum of it and of all lines before, and the content
    as JSON: ``87 3a7b... {"entry": ...}``.

    Parameters
    ----------
    content : dict
        Plain values.
    before : str
        Checksum of the line before; of the first line "".

    Returns
    -------
    line : bytes
        The line, without a line break.
    checksum : str
    """
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    checksum = _checksum(body, before)
    return b"%d %s %s" % (len(body), checksum.encode(), body), checksum


def _checksum(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()


class Line(NamedTuple):
    """A line of the file that was checked: its place, its text, and the checksum before it."""

    start: int
    text: bytes
    before: str
    checksum: str
    content: Any

    @property
    def end(self) -> int:
        """Where it ends; a line break may follow."""
        return self.start + len(self.text)


def _checked_line(text: bytes, start: int, before: str) -> Line:
    """Return a line; raise an error if its length, checksum and content do not agree."""
    length, _, rest = text.partition(b" ")
    checksum, _, body = rest.partition(b" ")
    if length != b"%d" % len(body):
        raise ValueError(f"at byte {start}, the length is not that of the line")
    if checksum != _checksum(body, before).encode():
        raise ValueError(f"at byte {start}, the checksum is not that of the line")
    return Line(start, text, before, checksum.decode(), load_json(body.decode()))


def _checked_lines(data: bytes, start: int, before: str) -> list[Line]:
    """Return all lines, without a last one that is torn; raise an error if one is damaged."""
    *whole, rest = data.split(b"\n")
    if not rest and whole and b"\0" in whole[-1]:  # a part of it never reached the disk
        rest = whole.pop()
    lines = []
    for text in whole:
        line = _checked_line(text, start, before)
        lines.append(line)
        start = line.end + 1
        before = line.checksum
    if rest and not _is_torn(rest):
        lines.append(_checked_line(rest, start, before))
    return lines


def _is_torn(text: bytes) -> bool:
    """Return whether a last line lacks a part, so that nobody acknowledged it."""
    length, _, rest = text.partition(b" ")
    _, _, body = rest.partition(b" ")
    return b"\0" in text or (length.isdigit() and len(body) < int(length))


class Journal:
    """Read and append lines; each is checked once, and the next reading starts there.

    A line is acknowledged when it is on the disk, in the file of that name. Of a process that stops
    in the middle of a line, the torn line is dropped.

    Writers take turns by a lock on the folder, which no cleaner removes. On network file systems
    that is a lock of one machine alone, so they lock the file as well. The file is never replaced:
    owner, group and mode stay, and so does the lock.

    Parameters
    ----------
    path : str
        The file, an absolute path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder, self.name = os.path.split(path)
        self._begun = f"{self.name}.begun"
        self.forget()

    def forget(self) -> None:
        """Check all of the file at the next reading."""
        self._file: tuple[int, int] | None = None  # device and number of the file that was checked
        self.last: Line | None = None

    def begin(self, content: Any) -> None:
        """Write the file with its first line, unless there is one, or it was there once."""
        with self.explained("begun"), self._locked_folder() as folder:
            if is_there(self.name, folder):
                return
            if is_there(self._begun, folder):
                raise FileNotFoundError(
                    f"the ledger {self.path} was there once and is gone: bring it back. (If "
                    f"nothing was ever released, remove {self.path}.begun to open a new one)"
                )
            line, _ = line_of(content, "")
            write_whole(self.name, line + b"\n", folder)
            self.note_begun(folder)

    def read(self) -> tuple[bool, list[Any]]:
        """Return whether all of the file was read, and the contents of the lines that are new.

        Raises
        ------
        FileNotFoundError
            If there is no file.
        ValueError
            If a line is damaged.
        """
        with opened(self.path, os.O_RDONLY, missing=self._gone) as file:
            return self._read(file)

    @contextlib.contextmanager
    def writing(self) -> Iterator["Turn"]:
        """Hold the locks: no other process writes. They end with the process, however it ends."""
        with (
            self.explained("locked"),
            self._locked_folder() as folder,
            opened(self.name, os.O_RDWR, folder, self._gone) as file,
            self._locked(file),
        ):
            yield Turn(self, folder, file)

    @property
    def _gone(self) -> str:
        return f"the ledger {self.path} is gone: bring it back"

    @contextlib.contextmanager
    def explained(self, what: str, state: str = "") -> Iterator[None]:
        """Name the ledger in the errors of the system, and the state that it is in."""
        try:
            yield
        except OSError as error:
            if error.errno is None or error.filename == self.path:  # it says so already
                raise
            message = f"the ledger could not be {what} ({error.strerror}){state}"
            raise OSError(error.errno, message, self.path) from error

    @contextlib.contextmanager
    def _locked_folder(self) -> Iterator[int]:
        if fcntl is None:
            raise OSError(
                f"the ledger {self.path} cannot be written on this system, which has no POSIX "
                "file locks"
            )
        with opened(self._folder, os.O_RDONLY) as folder, self._locked(folder):
            yield folder

    @contextlib.contextmanager
    def _locked(self, descriptor: int) -> Iterator[None]:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"another process holds the lock of {self.path} for more than "
                        f"{_PATIENCE:g} seconds: end it, or try again"
                    ) from None
                time.sleep(0.01)
        try:
            yield
        finally:  # closing is not enough: a child that was forked meanwhile keeps it open
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def note_begun(self, folder: int) -> None:
        """Leave a note that there is such a ledger, so that it is not begun twice."""
        if not is_there(self._begun, folder):
            write_new(self._begun, _BEGUN, folder)
            sync_folder(folder)

    def _read(self, file: int) -> tuple[bool, list[Any]]:
        status = os.fstat(file)
        name = (status.st_dev, status.st_ino)
        if self.last is not None and name == self._file:
            with contextlib.suppress(ValueError):  # another copy, or a line that was taken back
                return False, self._contents(file, self.last.start, self.last.before)[1:]
        self.forget()
        contents = self._contents(file, 0, "")
        self._file = name
        return True, contents

    def _contents(self, file: int, start: int, before: str) -> list[Any]:
        """Check all lines from a place on, and return their contents."""
        lines = _checked_lines(read_from(file, start), start, before)
        if not lines:
            raise ValueError(f"at byte {start}, it ends without a line")
        if self.last is not None and lines[0].checksum != self.last.checksum:
            raise ValueError(f"at byte {start}, another line was there before")
        self.last = lines[-1]
        return [line.content for line in lines]


class Turn:
    """The time in which no other process writes.

    Parameters
    ----------
    journal : Journal
        The lines.
    folder, file : int
        Descriptors of the folder and of the file, locked.
    """

    def __init__(self, journal: Journal, folder: int, file: int) -> None:
        self._journal = journal
        self._folder = folder
        self._file = file

    def read(self) -> tuple[bool, list[Any]]:
        """Return whether all of the file was read, and the contents of the lines that are new."""
        return self._journal._read(self._file)

    def append(self, content: Any) -> None:
        """Write a line after the last one that was read; when this returns, the disk has it."""
        last = self._journal.last
        assert last is not None, "what was not read cannot be continued"
        line, _ = line_of(content, last.checksum)
        with self._journal.explained("written", " and is as it was before"):
            self._journal.note_begun(self._folder)
            size = min(os.fstat(self._file).st_size, last.end + 1)
            os.ftruncate(self._file, size)  # a torn line of a process that died
            os.lseek(self._file, last.end, os.SEEK_SET)
        try:
            write_on(self._file, b"\n%s\n" % line)
        except OSError:
            with self._journal.explained("written", " and may have the new line all the same"):
                os.ftruncate(self._file, size)
            with self._journal.explained("written", " and is as it was before"):
                raise
        if not self._is_there():
            raise FileNotFoundError(
                f"the ledger {self._journal.path} was removed or replaced while it was written: "
                "bring it back"
            )

    def _is_there(self) -> bool:
        """Return whether the file that was written still has the name."""
        try:
            there = os.stat(self._journal.name, dir_fd=self._folder)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._file))

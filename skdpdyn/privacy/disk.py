"""Files that are there as a whole, or not at all, whenever a machine stops."""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def opened(
    path: str, flags: int, folder: int | None = None, missing: str | None = None
) -> Iterator[int]:
    """Open a file, and close it.

    Parameters
    ----------
    path : str
        Its name.
    flags : int
        As `os.open` takes them.
    folder : int or None, default=None
        Descriptor of a folder that the name is in; None: the name says all.
    missing : str or None, default=None
        Message of the error if there is no such file; None: that of the system.
    """
    flags |= getattr(os, "O_BINARY", 0)  # of Windows
    try:
        descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    except FileNotFoundError:
        if missing is None:
            raise
        raise FileNotFoundError(missing) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_from(file: int, start: int) -> bytes:
    """Return the content of a file from a place on."""
    os.lseek(file, start, os.SEEK_SET)
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def write_on(file: int, content: bytes) -> None:
    """Write at the place of a descriptor, and wait until the disk has it."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def write_new(path: str, content: bytes, folder: int | None = None) -> None:
    """Write a file that is not there yet, as a whole or not at all."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder) as file:
        try:
            write_on(file, content)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path, dir_fd=folder)
            raise


def write_whole(name: str, content: bytes, folder: int) -> None:
    """Write a file of a folder under another name first, so that it is never there in part."""
    draft = f"{name}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)  # left behind by a process that died here
    write_new(draft, content, folder)
    try:
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    sync_folder(folder)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files, or leave nothing behind.

    Parameters
    ----------
    folder : Path
        A folder that does not exist, or is empty. A new one is written under another name first; in
        one that is there, the last file comes last, as a whole.
    files : dict of str to bytes
        Contents by name.
    """
    is_new = not folder.is_dir()
    own_name = f".{os.getpid()}-{time.time_ns()}.tmp"
    with contextlib.ExitStack() as undone:
        for parent in reversed(folder.parents):
            if not parent.exists():
                undone.callback(_without_error, os.rmdir, parent)
                os.mkdir(parent)
        place = folder
        if is_new:
            place = folder.parent / own_name
            undone.callback(_without_error, os.rmdir, place)
            os.mkdir(place)
        *first, last = files
        for name in (*first, own_name):
            undone.callback(_without_error, os.unlink, place / name)
            write_new(str(place / name), files[last if name == own_name else name])
        undone.callback(_without_error, os.unlink, place / last)
        os.rename(place / own_name, place / last)
        if is_new:
            os.rename(place, folder)
        undone.pop_all()


def _without_error(act: Callable[[Path], None], path: Path) -> None:
    with contextlib.suppress(OSError):
        act(path)


def is_there(name: str, folder: int) -> bool:
    """Return whether a folder has a file of a name."""
    try:
        os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def sync_folder(folder: int) -> None:
    """Make new names in a folder last through a loss of power, where the file system can."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise

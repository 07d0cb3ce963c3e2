"""A connection through Dask's scheduler, for workers that cannot connect to the driver.

Driver and worker speak over sockets and prove who they are, as ever. But each socket leads to two
threads of its own process, which pass bytes on to and from two queues of the scheduler. That takes
milliseconds a message, where a connection takes microseconds.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from distributed import Queue

_AT_ONCE = 1 << 20  # bytes of a message
_LOOK = 1.0  # seconds of silence after which one looks whether the other side is there
_WAYS = "to driver", "to worker"
_END = -1, b""


class _End:
    """One side's end of the queues.

    Parameters
    ----------
    client : Client
        Of this side.
    name : str
        Name of the connection.
    ways : tuple of str
        What this side sends by, and what it receives by.
    is_needed : callable
        Whether the other side may still send something.
    """

    def __init__(self, client, name, ways, is_needed):
        self._out, self._in = (Queue(f"{name} {way}", client=client) for way in ways)
        self._is_needed = is_needed
        self._is_alone, self._over, self._heard = False, threading.Event(), time.monotonic()
        _start(self._watch)

    def received(self):
        """Yield what the other side sends, until it ends or a message is missing."""
        for number in count():
            at, data = self._in.get()
            self._heard = time.monotonic()
            if at != number or not data:
                return
            yield data

    def join(self, sock, received):
        """Pass bytes on between a socket and the other side, until either ends."""
        with sock:
            sending = _start(self._send, sock)
            with suppress(Exception):
                for data in received:
                    sock.sendall(data)
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # which ends a wait for bytes, too
            sending.join()

    def close(self):
        """Tell the other side, and let the scheduler forget the queues that nobody uses."""
        self._over.set()
        with suppress(Exception):
            self._out.put(_END)
            for queue in (self._out, self._in) * (1 + self._is_alone):  # also in its place
                queue.close()

    def _send(self, sock):
        with suppress(Exception):
            for number in count():
                data = sock.recv(_AT_ONCE)
                if not data:
                    break
                self._out.put((number, data))
        with suppress(Exception):
            self._out.put(_END)

    def _watch(self):
        """Take silence for the end, once nobody is there to break it."""
        with suppress(Exception):
            while not self._over.wait(_LOOK):
                if time.monotonic() - self._heard > _LOOK and not self._is_needed():
                    self._is_alone = True
                    self._in.put(_END)
                    return


def worker_end(client: Any, name: str, is_needed: Callable[[], bool]) -> socket.socket:
    """Return a socket of this worker that leads to the driver."""
    ours, theirs = socket.socketpair()
    end = _End(client, name, _WAYS, is_needed)

    def connect():
        end.join(ours, end.received())
        end.close()

    _start(connect)
    return theirs


def driver_end(client: Any, name: str, address: tuple, is_needed: Callable[[], bool]) -> None:
    """Connect to the driver, at its own address, in the place of a worker once that begins."""
    end = _End(client, name, _WAYS[::-1], is_needed)

    def connect():
        received = end.received()
        with suppress(Exception):  # nothing came, or nobody listens any more
            first = next(received)
            sock = socket.create_connection(address)
            sock.sendall(first)
            end.join(sock, received)
        end.close()

    _start(connect)


def _start(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True, name="skdpdyn-relay")
    thread.start()
    return thread

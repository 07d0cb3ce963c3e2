"""Messages between the driver of a fit and its workers, with a limit on each wait.

Each side proves that it knows a token, which was drawn for this connection alone and came to the
worker by the cluster's own scheduler. The driver sends requests. A worker answers by numbers:
sums, and codes of what it refuses. Nothing that it sends is unpickled.
"""

import hashlib
import hmac
import selectors
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from skdpdyn.noise import secret_key

LIMIT = 30.0
"""Seconds that anyone waits for a sign of life of the other side."""
BEAT = 5.0  # seconds between two of them, of a worker that computes
_HANDSHAKE = 10.0  # seconds
_KEY, _MAC = 32, 32  # bytes
_HEADER = struct.Struct("<IIQ")  # kind, number of the request, bytes that follow
_AT_ONCE = 1 << 16  # bytes that are copied behind their header

CALL, POINT = 1, 2  # the driver's: a pickled call, and a point to sum gradients at
NUMBERS, REFUSED, BUSY = 3, 4, 5  # a worker's


class LostError(OSError):
    """The other side is gone, or silent for longer than `LIMIT`."""


@dataclass(frozen=True)
class Invitation:
    """Address of the driver, and the secrets by which driver and worker prove who they are."""

    address: tuple
    version: str
    name: bytes = field(default_factory=lambda: secret_key(_KEY))
    token: bytes = field(default_factory=lambda: secret_key(_KEY), repr=False)


class Channel:
    """A socket to the other side.

    Parameters
    ----------
    sock : socket
        Connected, and of someone who proved to be the other side.
    limit : float or None, default=None
        Seconds to wait for a sign of life; None: as long as the connection stands.
    """

    def __init__(self, sock, limit=None):
        self._sock, self._lock = sock, threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        sock.settimeout(limit)
        if sock.family not in (socket.AF_INET, socket.AF_INET6):  # it ends in this process
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}.items():
            if hasattr(socket, name):  # a machine that is off sends no end
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def close(self):
        """End the connection: the other side is told at once."""
        self._selector.close()
        with suppress(OSError):  # threads that wait on it know, too
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def send(self, kind, number, payload=b""):
        """Send a frame."""
        payload = memoryview(payload).cast("B")
        header = _HEADER.pack(kind, number, len(payload))
        with self._lock:
            if len(payload) <= _AT_ONCE:
                self._sock.sendall(header + payload)
            else:
                self._sock.sendall(header)
                self._sock.sendall(payload)

    def receive(self):
        """Return kind, number and length of the next frame; its bytes follow."""
        header = bytearray(_HEADER.size)
        self.fill(header)
        return _HEADER.unpack(header)

    def fill(self, buffer):
        """Read bytes until the buffer is full."""
        view = memoryview(buffer).cast("B")
        while len(view):
            n_bytes = self._sock.recv_into(view)
            if not n_bytes:
                raise LostError("the connection has ended")
            view = view[n_bytes:]

    def is_called(self):
        """Return whether the other side sent something, or has gone: its last request is void."""
        return bool(self._selector.select(0))


def numbers(channel, number, shape, dtype=np.float64):
    """Return the numbers that answer a request; answers to older requests are skipped.

    Raises
    ------
    Refusal
        If the worker refuses its rows, or has failed.
    """
    while True:
        kind, of, n_bytes = channel.receive()
        if kind == REFUSED and of in (0, number):
            codes = np.empty(n_bytes // 8, np.int64)
            channel.fill(codes)
            raise Refusal(*codes.tolist())
        if kind == NUMBERS and of == number:
            answer = np.empty(shape, dtype)
            if n_bytes != answer.nbytes:
                raise LostError("an answer of another size")
            channel.fill(answer)
            return answer
        channel.fill(bytearray(n_bytes))


class Refusal(Exception):
    """Refusal of a worker: a code, and numbers that say where."""


def listen(host, port=0):
    """Return a socket for workers to connect to."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=1024)


def _mac(invitation, who, *parts):
    return hmac.digest(invitation.token, who + b"".join(parts), hashlib.sha256)


def admit(sock, invitations, context=None):
    """Return the name of the invitation that a connection comes by, and its channel.

    Parameters
    ----------
    sock : socket
        A connection that was accepted.
    invitations : dict of bytes to Invitation
        Those that are open, by name.
    context : SSLContext or None, default=None
        TLS settings of the cluster; None: it has no TLS.

    Raises
    ------
    OSError
        If the other side does not prove that it was invited.
    """
    sock.settimeout(_HANDSHAKE)
    if context is not None:
        # A worker takes anything that comes while it computes for a call
        context.num_tickets = 0
        sock = context.wrap_socket(sock, server_side=True)
    greeting = bytearray(2 * _KEY)
    _fill(sock, greeting)
    name, theirs = bytes(greeting[:_KEY]), bytes(greeting[_KEY:])
    invitation = invitations.get(name)
    if invitation is None:
        raise LostError("not an invited worker")
    ours = secret_key(_KEY)
    sock.sendall(ours + _mac(invitation, b"driver", name, theirs, ours))
    proof = bytearray(_MAC)
    _fill(sock, proof)
    if not hmac.compare_digest(bytes(proof), _mac(invitation, b"worker", name, theirs, ours)):
        raise LostError("not an invited worker")
    return name, Channel(sock, LIMIT)


def answer_invitation(invitation, context=None, sock=None):
    """Return a channel to the driver, by ``sock`` if it leads there.

    Raises
    ------
    LostError
        If the driver does not answer in time, or does not prove to be the one who invited.
    OSError
        If it cannot be reached.
    """
    if sock is None:
        sock = socket.create_connection(invitation.address, timeout=_HANDSHAKE)
    try:
        sock.settimeout(LIMIT)
        if context is not None:
            sock = context.wrap_socket(sock)
        ours = secret_key(_KEY)
        sock.sendall(invitation.name + ours)
        answer = bytearray(_KEY + _MAC)
        _fill(sock, answer)
        theirs, proof = bytes(answer[:_KEY]), bytes(answer[_KEY:])
        nonces = invitation.name, ours, theirs
        if not hmac.compare_digest(proof, _mac(invitation, b"driver", *nonces)):
            raise LostError("not the driver of the invitation")
        sock.sendall(_mac(invitation, b"worker", *nonces))
        return Channel(sock)
    except OSError as error:
        sock.close()
        raise LostError(str(error)) from None


def _fill(sock, buffer):
    view = memoryview(buffer)
    while len(view):
        n_bytes = sock.recv_into(view)
        if not n_bytes:
            raise LostError("the connection has ended")
        view = view[n_bytes:]

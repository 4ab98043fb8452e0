"""The address that a server listens at."""

import contextlib
import socket

from leapdecode.errors import OptionError


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address, port 0 being any free one; nobody is let in yet. Raises
    `OptionError`.
    """
    with contextlib.ExitStack() as opened:  # closes the socket where it cannot be bound
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = opened.enter_context(socket.socket(family, kind))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            raise OptionError(
                f"cannot listen at {host}, port {port}: {error.strerror}; see --host and --port"
            ) from error
        opened.pop_all()
    return listener

"""What the supervisor itself can reach, tried only when a job asks: the network that the deployment gave the sandbox.

The program has no sockets at all. This looks one wall further: whoever took the supervisor over should still find one
address, and no names but those that its task needs.
"""

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

_SECONDS = 4.0


def look(targets: Mapping[str, Any]) -> dict[str, str]:
    """``{"addresses": ["1.1.1.1:443", …], "names": ["example.com", …]}`` to what came of each.

    An address is ``connected``, ``no answer`` or an errno's name; a name is ``found`` or ``not found``.
    """
    names = _Names([str(name) for name in targets.get("names", ())])
    found = _addresses([str(address) for address in targets.get("addresses", ())])
    return {**found, **names.results()}


def _addresses(addresses: Sequence[str]) -> dict[str, str]:
    found = dict.fromkeys(addresses, "no answer")
    waiting: dict[int, tuple[str, socket.socket]] = {}
    poll = select.poll()
    for address in addresses:
        host, _, port = address.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            tried = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            found[address] = _name(error.errno)
            continue
        code = tried.connect_ex((host, int(port)))
        if code in (0, errno.EINPROGRESS):
            waiting[tried.fileno()] = address, tried
            poll.register(tried, select.POLLOUT)
        else:
            found[address] = _name(code)
            tried.close()
    deadline = time.monotonic() + _SECONDS
    while waiting and time.monotonic() < deadline:
        for descriptor, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            address, tried = waiting.pop(descriptor)
            poll.unregister(descriptor)
            code = tried.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            found[address] = _name(code) if code else "connected"
            tried.close()
    for _, tried in waiting.values():
        tried.close()
    return found


def _name(code: int | None) -> str:
    return errno.errorcode.get(code or 0, os.strerror(code or 0))


class _Names:
    """Look-ups in threads of their own: the resolver keeps its own, long time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._found = dict.fromkeys(names, "not found")
        self._threads = [threading.Thread(target=self._ask, args=(name,), daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    def results(self) -> dict[str, str]:
        deadline = time.monotonic() + _SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return dict(self._found)

    def _ask(self, name: str) -> None:
        try:
            if socket.getaddrinfo(name, 443):
                self._found[name] = "found"
        except OSError:
            return

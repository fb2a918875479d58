"""A server that answers as a test says, for what a real replica does not do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from plimsoll._effects import Answer

HANG = "hang"
DRIP = "drip"
DROP = "drop"


@dataclass
class Standin:
    """What was asked, and what is answered: an Answer, or one of the words above."""

    gate: Callable[[str], Answer | str]
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    heard: threading.Condition = field(default_factory=threading.Condition)
    closing: threading.Event = field(default_factory=threading.Event)
    address: str = ""

    def wait_for(self, what: str, count: int = 1) -> None:
        """Wait until something was asked so often."""
        with self.heard:
            assert self.heard.wait_for(lambda: self.count(what) >= count, timeout=10), (
                f"{what} not in {self.asked}"
            )

    def count(self, what: str) -> int:
        """Count how often something was asked, by the beginning of it."""
        return sum(one.startswith(what) for one in self.asked)


def _handler(standin: Standin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            what = f"{self.command} {self.path}"
            with standin.heard:
                standin.asked.append(what)
                standin.headers.append({name.lower(): value for name, value in self.headers.items()})
                standin.heard.notify_all()
            reply = standin.gate(what)
            if isinstance(reply, Answer):
                self.whole(reply)
            elif reply == DRIP:
                self.drip()
            else:
                if reply == HANG:
                    standin.closing.wait(20)
                self.close_connection = True

        def whole(self, reply: Answer) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def drip(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "100000")
            self.end_headers()
            while not standin.closing.wait(0.02):
                self.wfile.write(b" ")

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Say nothing of callers that hang up."""


@contextmanager
def standing_in(gate: Callable[[str], Answer | str]) -> Iterator[Standin]:
    """Run a server that answers by `gate`."""
    standin = Standin(gate)
    server = _Server(("127.0.0.1", 0), _handler(standin))
    standin.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield standin
    finally:
        standin.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()

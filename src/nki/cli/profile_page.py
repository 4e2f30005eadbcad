"""One page on the loopback address, until Ctrl-C."""

from __future__ import annotations

import sys
import webbrowser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any

ADDRESS = "127.0.0.1"


def server(page: bytes) -> tuple[ThreadingHTTPServer, str]:
    """A server of ``page`` on a free port of this machine, and the page's address; every other path is not found.

    The address holds a random word, so that other users of the machine cannot guess it.
    """
    path = f"/{token_urlsafe(12)}/"

    class Handler(BaseHTTPRequestHandler):
        """The page, and nothing else."""

        def do_GET(self) -> None:  # the name that http.server calls
            known = self.path == path and self.headers.get("Host", "").partition(":")[0] in (ADDRESS, "localhost")
            body = page if known else b"not found\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8" if known else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's names
            """Keep the terminal free of requests."""

    listening = ThreadingHTTPServer((ADDRESS, 0), Handler)
    listening.daemon_threads = True
    return listening, f"http://{ADDRESS}:{listening.server_port}{path}"


def serve(page: bytes) -> None:
    """Show ``page`` in the browser and serve it until Ctrl-C."""
    listening, address = server(page)
    with listening:
        print(f"\n{address}  (Ctrl-C ends)", file=sys.stderr, flush=True)
        webbrowser.open(address)
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)

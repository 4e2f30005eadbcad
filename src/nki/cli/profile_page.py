"""A page, and pages that it links to, on the loopback address, until Ctrl-C."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any
from urllib.parse import quote

ADDRESS = "127.0.0.1"


def server(page: bytes, linked: Mapping[str, bytes] | None = None) -> tuple[ThreadingHTTPServer, str]:
    """A server of ``page`` on a free port of this machine, and the page's address; beside it are the ``linked`` pages,
    by the names of their files; every other path is not found.

    The address holds a random word, so that other users of the machine cannot guess it.
    """
    path = f"/{token_urlsafe(12)}/"
    pages = {path: page, **{f"{path}{quote(name)}": text for name, text in (linked or {}).items()}}

    class Handler(BaseHTTPRequestHandler):
        """The pages, and nothing else."""

        def do_GET(self) -> None:  # the name that http.server calls
            known = self.path in pages and self.headers.get("Host", "").partition(":")[0] in (ADDRESS, "localhost")
            body = pages[self.path] if known else b"not found\n"
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


def serve(page: bytes, linked: Mapping[str, bytes] | None = None) -> None:
    """Show ``page`` in the browser and serve it, and the pages that it links to, until Ctrl-C."""
    listening, address = server(page, linked)
    with listening:
        print(f"\n{address}  (Ctrl-C ends)", file=sys.stderr, flush=True)
        webbrowser.open(address)
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)

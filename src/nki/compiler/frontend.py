"""``nki.compiler.frontend``: an entry point of harnesses in this package (``docs/harnesses.md``)."""

from nki.harness.compilation import ParserFrontend, TracerFrontend, resolve_frontend_cls

__all__ = ["ParserFrontend", "TracerFrontend", "resolve_frontend_cls"]

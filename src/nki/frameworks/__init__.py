"""Bridges between kernels and array frameworks, one module each; a module is imported when its framework is first used.

A bridge module has an ``ADAPTER`` (see :class:`nki.frameworks.kernel.Adapter`) and a subclass of
:class:`nki.frameworks.kernel.FrameworkKernel`.
"""

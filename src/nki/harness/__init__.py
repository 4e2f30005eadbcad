"""Entry points that public harnesses import: what they compile, run and measure is done by this machine.

The modules under their public names (``nki.simulator``, ``nki.runtime``, ``nki.framework.*``, ``nki.compiler.*``) show
names of this package and hold no code. None of the entry points has a public document; ``docs/harnesses.md`` lists each
with its meaning here.
"""

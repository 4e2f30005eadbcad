"""One file per stage of the pipeline; :mod:`nki.passes.stage` says what a stage is."""

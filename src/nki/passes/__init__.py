"""One file per stage of the pipeline; :mod:`nki.ir.stage` says what a stage is."""

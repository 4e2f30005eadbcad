"""One file per stage of the pipeline; stage ``load_reuse`` is one of profiles. :mod:`nki.ir.program` has `Stage`."""

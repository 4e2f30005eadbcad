"""One file per stage of the pipeline: ``run(kernel, target)`` and ``legal(kernel)``, the state that it leaves."""

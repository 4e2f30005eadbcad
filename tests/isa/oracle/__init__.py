"""The second opinion on every instruction.

One module per instruction, written from the public NKI documentation alone and never from the declarations in
``nki.isa``: the two may only agree because both are right. Each module has

``oracle(dst, *, ...)``
    the contents of ``dst`` after the instruction (a tuple when it writes more than one tensor). Tensors are NumPy
    arrays in their storage type, ``dst`` is passed with its contents before, operators and engines are names.
``bounds(dst, *, ...)``
    only where not every bit of the result is promised: the accepted interval (:class:`.verdict.Bounds`) per element.
    ``TOLERANCE`` is a sentence that states the bound.
``copies_bits(dst, *, ...)``
    only where the instruction may move data without looking at it: whether it does, so that NaN payloads count too.
``VECTORS``
    published or hand-calculated examples: (arguments, expected), written with :mod:`.vectors`.

:func:`.verdict.disagreement` compares an implementation's result with an oracle.
"""

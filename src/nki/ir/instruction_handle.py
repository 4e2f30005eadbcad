"""``NkiInstruction``: a kernel's reference to an instruction that it has recorded."""

from __future__ import annotations

from nki.base.errors import ArgumentError
from nki.base.source import Where, here


class NkiInstruction:
    """A recorded instruction, as the functions of ``nki.isa`` return it."""

    requested: list[tuple[NkiInstruction, Where]] | None = None
    """The instructions that are to be complete before this one begins, and where the kernel said so. They become
    ``after`` when the kernel is complete: only then is it known which loop each of them is in.
    """

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Begin this instruction only when all ``producers`` are complete, whatever the data say; returns itself.

        A producer stands in the same run-time loop as this instruction or in what surrounds it, before or behind it,
        else :class:`ScheduleScopeError`. Together with the data's own dependences such edges make no circle, else
        :class:`ScheduleCycleError`. Raises :class:`ArgumentError` for what is no instruction.
        """
        where = here()
        for producer in producers:
            if not isinstance(producer, NkiInstruction):  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
                raise ArgumentError(
                    f"depends_on: a {type(producer).__name__} is no instruction",
                    fix="pass what the function of nisa returned that recorded the instruction",
                )
            self.request_edge(producer, where)
        return self

    def request_edge(self, producer: NkiInstruction, where: Where) -> None:
        """Request that ``producer`` is complete before this instruction begins."""
        if self.requested is None:
            self.requested = []
        self.requested.append((producer, where))

"""Layouts: the places of the elements of a tile in the memory of a host.

A tile has rows, one for each partition, and columns, the elements of a partition. Instructions count its elements row
by row whatever its layout is; a back end asks the layout where they lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Steps = tuple[tuple[int, int], ...]
"""``(step, count)`` pairs in memory, outermost first, for one dimension of an access."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of elements, all counted in elements; ``name`` tells layouts apart.

    Columns lie in blocks of ``width`` (0: all in one), one block behind the other. In a block the rows lie one behind
    the other, each followed by ``pad`` unused elements; ``gap`` such elements follow each block.
    """

    name: str
    width: int = 0
    pad: int = 0
    gap: int = 0
    pairs: bool = False
    """Two rows share a word. The elements of a block are in the bytes of that block, in an order that the back end has.
    """

    def pitch(self, columns: int) -> int:
        """Elements from one row of a block to the next, in a tile of so many columns."""
        return (self.width or columns) + self.pad

    def block(self, rows: int, columns: int) -> int:
        """Elements from one block to the next."""
        return rows * self.pitch(columns) + self.gap

    def elements(self, rows: int, columns: int) -> int:
        """Elements that a tile of ``rows`` and ``columns`` takes."""
        return -(-columns // (self.width or columns)) * self.block(rows, columns)

    def place(self, rows: int, columns: int, element: int) -> int:
        """The place of an element, which the tile has at ``element`` in row-major order."""
        row, column = divmod(element, columns)
        number, column = divmod(column, self.width) if self.width else (0, column)
        return number * self.block(rows, columns) + row * self.pitch(columns) + column

    def steps(
        self, rows: int, columns: int, start: int, pattern: Iterable[tuple[int, int]]
    ) -> tuple[Steps, ...] | None:
        """The steps in memory of an access, for each of the ``(step, count)`` of its ``pattern``.

        ``start``: the element at which the access begins. None if memory has no such steps: an access keeps to rows,
        and takes neighbours in whole blocks of columns.
        """
        found: list[Steps] = []
        column, reach = start % columns, 0
        if self.width and column % self.width:
            return None
        for step, count in pattern:
            if count == 1 or step % columns == 0:  # along the rows
                found.append(((step // columns * self.pitch(columns), count),))
            elif step < 0:
                return None
            elif not self.width:
                found.append(((step, count),))
                reach += step * (count - 1)
            elif step != 1 or count % self.width or reach:
                return None
            else:
                blocks = self.block(rows, columns), count // self.width
                found.append((blocks, (1, self.width)) if self.width > 1 else (blocks,))
                reach = count - 1
        return tuple(found) if column + reach < columns else None


DENSE = Layout("dense")
"""All elements one behind the other, in row-major order."""

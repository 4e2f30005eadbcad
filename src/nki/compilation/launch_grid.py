"""The launch grid: the number of cores of a launch, from brackets and from ``NEURON_LOGICAL_NC_CONFIG``."""

from __future__ import annotations

from typing import Any

from nki.base import knobs
from nki.base.errors import GridError
from nki.compilation.launch_errors import DegreeError
from nki.target.model import Target


def of_brackets(grid: int | tuple[int, ...], target: Target) -> tuple[int, ...]:
    """The launch grid of ``kernel[grid]``. Raises :class:`GridError` for one that no launch on ``target`` can have."""
    degrees: tuple[Any, ...] = grid if isinstance(grid, tuple) else (grid,)
    if len(degrees) > 1 and all(type(d) is int and d > 0 for d in degrees):
        raise GridError(
            f"launch grid {grid!r}: a grid is one number of cores, 1 or 2; in NKI Beta 1 it was a grid of programs",
            fix=_loops(degrees),
        )
    if len(degrees) != 1 or isinstance(degrees[0], bool) or not isinstance(degrees[0], int) or degrees[0] < 1:
        raise GridError(
            f"launch grid {grid!r}: a grid is one number of cores", fix="use kernel[2], or kernel[1] for one core"
        )
    if degrees[0] > target.logical_core_max:
        most = target.logical_core_max
        older = degrees[0] > 2  # no target has so many cores
        raise GridError(
            f"launch grid {grid!r}: a kernel on {target.name} runs on at most {most} core{'s'[: most > 1]}"
            + ("; in NKI Beta 1 it was a grid of programs" if older else ""),
            fix=(f"use kernel[{most}]" if most > 1 else "target trn2 or trn3 for two cores, or use kernel[1]")
            + (f"; for programs {_loops(degrees)}" if older else ""),
        )
    return degrees


def of_programs(grid: Any) -> tuple[int, ...]:
    """The launch grid of a number of programs, or of a sequence of them. Raises :class:`GridError` for others."""
    axes: tuple[Any, ...] = (grid,) if isinstance(grid, int) else tuple(grid)
    if any(isinstance(axis, bool) or not isinstance(axis, int) or axis < 1 for axis in axes):
        raise GridError(
            f"launch grid {grid!r}: a grid has a positive number of programs on each axis", fix="pass grid=(16, 8)"
        )
    return axes


def _loops(programs: tuple[int, ...]) -> str:
    """The way out of a grid of programs."""
    loops = " ".join(f"`for i{n} in range({count}):`" for n, count in enumerate(programs))
    return f"loop over the programs inside the kernel, {loops}, in place of nl.program_id, and call it without a grid"


def of_launch(name: str, grid: tuple[int, ...], target: Target) -> tuple[int, ...]:
    """The grid on which kernel ``name`` runs: from its brackets, or from the environment if ``grid`` is empty.

    Empty for one core that no brackets name. Raises :class:`DegreeError` if both name a number and these differ, as NKI
    0.7 does (Neuron compiler error NCC_EVRF066), and :class:`GridError` for a number that is none.
    """
    degree = knobs.logical_cores().decode(errors="replace").strip()
    if not degree:
        return grid
    if degree not in ("1", "2"):
        raise GridError(
            f"NEURON_LOGICAL_NC_CONFIG={degree!r}: one or two cores form a logical core",
            fix="set it to 1 or 2",
        )
    count = int(degree)
    if grid and grid != (count,):
        raise DegreeError(
            f"{name}[{grid[0]}] runs on {grid[0]} core{'s'[: grid[0] > 1]}, but NEURON_LOGICAL_NC_CONFIG={degree}, the "
            f"number of cores of every launch",
            fix=f"write {name}(…) without brackets, or set NEURON_LOGICAL_NC_CONFIG={grid[0]}",
        )
    if count > target.logical_core_max:
        raise GridError(
            f"NEURON_LOGICAL_NC_CONFIG={degree}: a kernel on {target.name} runs on at most one core",
            fix="target trn2 or trn3 for two cores, or set NEURON_LOGICAL_NC_CONFIG=1",
        )
    return grid or ((count,) if count > 1 else ())

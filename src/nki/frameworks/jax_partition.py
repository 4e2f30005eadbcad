"""Calls that XLA may split over devices: along the batch of ``jax.vmap``, or along axes that the caller names.

Without such a rule XLA gathers each operand of a custom call before the call.
"""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, get_abstract_mesh

from nki.base.errors import SeveralRanksError

Names = tuple[str, ...]
"""The name of each axis of an operand or a result. Axes of one name have one size, and are split alike."""


def is_split_by_hand() -> bool:
    """True inside ``jax.shard_map``, where the function gets the part of one device already."""
    mesh = get_abstract_mesh()
    return not mesh.empty and any(kind is AxisType.Manual for kind in mesh.axis_types)


def split_axes() -> tuple[Any, ...]:
    """The axes over which ``jax.shard_map`` has split, in the order of the mesh."""
    mesh = get_abstract_mesh()
    kinds = () if mesh.empty else zip(mesh.axis_names, mesh.axis_types, strict=True)
    return tuple([name for name, kind in kinds if kind is AxisType.Manual])


def ranks_here(name: str) -> int:
    """The number of devices that call a kernel with collectives, ``name``, here: as many as the mesh has.

    A device is the rank of its place in the mesh, which counts along the last axis first. Raises
    :class:`SeveralRanksError` where ``shard_map`` leaves axes to the compiler: several devices would be one rank.
    """
    mesh, names = get_abstract_mesh(), split_axes()
    if not names:
        return 1
    whole = [axis for axis in mesh.axis_names if axis not in names and mesh.shape[axis] > 1]
    if whole:
        raise SeveralRanksError(
            f"kernel {name!r} has collectives, and jax.shard_map does not split over axes {whole} of the mesh",
            fix="leave axis_names out, so that each device is a rank; or take a mesh without these axes",
        )
    return math.prod(mesh.shape[axis] for axis in names)


def splittable(
    run: Callable[..., tuple[Any, ...]],
    operands: Sequence[jax.ShapeDtypeStruct],
    ins: Sequence[Names],
    outs: Sequence[Names],
    split: Collection[str],
) -> Any:
    """``run``, of operands of these types, as a closed jaxpr of one operation, which XLA may split along axes
    ``split``.

    ``run`` is traced for the parts of one device as well. Each axis of ``split`` is one of every result. The others
    stay whole: XLA gathers an operand that is sharded along one.
    """

    def partition(mesh: Any, _: Any, results: Any) -> Any:
        chosen: dict[str, Any] = {}
        first: Any = results[0]
        if isinstance(first.sharding, NamedSharding):
            for axis, name, size in zip(outs[0], first.sharding.spec, first.shape, strict=False):
                devices = math.prod(mesh.shape[n] for n in ((name,) if isinstance(name, str) else name or ()))
                if axis in split and size % devices == 0:
                    chosen[axis] = name
        else:  # of no mesh that JAX knows: nothing is split
            devices = sorted(first.sharding.device_set, key=lambda device: device.id)
            mesh = Mesh(np.array(devices), ("device",))
        own, others = (
            tuple(NamedSharding(mesh, PartitionSpec(*(chosen.get(axis) for axis in names))) for names in tensors)
            for tensors in (outs, ins)
        )
        return mesh, run, own, others

    whole = dict.fromkeys(axis for names in (*ins, *outs) for axis in names if axis not in split)
    rule = " -> ".join(", ".join(map(" ".join, tensors)) for tensors in (ins, outs))
    function = custom_partitioning(run)
    function.def_partition(partition, sharding_rule=rule, need_replication_factors=tuple(whole), decode_shardings=True)
    return jax.make_jaxpr(function)(*operands)

"""Ranks that are processes: their collectives go over PyTorch's process group.

A program that ``torchrun`` starts calls ``torch.distributed.init_process_group("gloo")``; from then on each of its
processes is a rank of every launch. Two ranks exchange messages directly: a header with a digest of what both must pass
alike, and the part if it is small, then a large part. Only if digests differ, each sends what it had in full, so that
both can name the mistake.

What a failed exchange leaves behind in the process group could be taken for a later message, so all later exchanges of
this rank fail, too. Before a rank gives up it leaves a note in the store of the process group: its peers see no more
than that it is gone, and the note tells them the cause.
"""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, cast
from weakref import ref

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from nki.base.errors import LostRankError, NkiError, RankMismatchError, SeveralRanksError
from nki.base.version import version
from nki.ir.instruction import Inst
from nki.rendezvous import ranks
from nki.rendezvous.protocol import Participant, Ready, Rendezvous, T, check_agreed, description, lost_rank

_HEADER: Final = struct.Struct("<8s32sIQQ")
_MAGIC: Final = b"NKIRANK1"
_TAGS: Final = (0x4E4B4900, 0x4E4B4901, 0x4E4B4902)
"""Tags of headers, of texts and of parts; "NKI" keeps them apart from a program's own messages."""
_INLINE: Final = 4096 - _HEADER.size
"""The most bytes of a part that the message of the header holds; its size is always the same."""
_SHORTEST: Final = 0.001
"""Seconds: 0 would mean to wait for ever."""
_NOTE_SECONDS: Final = 2.0
"""Seconds for which a rank looks for the note of a peer that is gone: it writes one within milliseconds, or never."""


@dataclass(frozen=True)
class _Header:
    """The first message of a rank to a peer."""

    digest: bytes
    text_bytes: int
    shape: tuple[int, int]
    """Of its part for the peer."""

    def message(self, part: torch.Tensor) -> torch.Tensor:
        """The header, and the bytes of ``part`` if they fit."""
        message = torch.zeros(_HEADER.size + _INLINE, dtype=torch.uint8)
        _HEADER.pack_into(_bytes(message), 0, _MAGIC, self.digest, self.text_bytes, *self.shape)
        if len(part) <= _INLINE:
            message[_HEADER.size :][: len(part)] = part
        return message


@dataclass(frozen=True)
class _Text:
    """The call of a rank, as its peers show it."""

    release: str
    at: str
    group: list[int]
    agreed: list[str]

    def packed(self) -> bytes:
        return json.dumps([self.release, self.at, self.group, self.agreed]).encode()

    @property
    def digest(self) -> bytes:
        """Equal for ranks that agree; they may be at different lines."""
        return hashlib.sha256(json.dumps([self.release, self.agreed]).encode()).digest()


@dataclass
class _Messages:
    """Messages of one kind that are under way between this rank and others."""

    received: dict[int, tuple[torch.Tensor, Any]] = field(default_factory=dict[int, Any])
    """By peer: where its message goes, and the work to wait for."""
    sent: dict[int, tuple[torch.Tensor, Any]] = field(default_factory=dict[int, Any])


class Processes(Rendezvous):
    """The ranks of a process group, each in a process of its own."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__(group.size(), "rank")
        self.rank = group.rank()
        self._group = ref(group)  # its connections close when the program destroys it
        self._one_at_a_time = threading.Lock()
        self._failure = ""

    def is_of(self, group: dist.ProcessGroup) -> bool:
        """True if these are the ranks of ``group``."""
        return self._group() is group

    def wait(self, rank: int, inst: Inst, ready: Ready) -> None:
        """Never called: processes share nothing that could become ready."""
        raise NotImplementedError

    def gather(
        self,
        rank: int,
        inst: Inst,
        group: tuple[int, ...],
        agreed: tuple[object, ...],
        parts: Sequence[T],
        apart: bool,
    ) -> list[T]:
        """As in :class:`Rendezvous`; parts are arrays of two dimensions.

        Raises :class:`LostRankError` if a rank of ``group`` does not come in time, or has ended.
        """
        with self._one_at_a_time:
            if self._failure:
                raise lost_rank(inst, rank, f"it has lost the others before: {self._failure}")
            try:
                arrays: Any = parts
                received: Any = self._exchange(inst, group, tuple(map(str, agreed)), arrays, apart)
            except BaseException as error:
                self._failure = error.message if isinstance(error, NkiError) else repr(error)
                self._leave_note()
                raise
        if isinstance(received, NkiError):
            raise received
        return received

    def _exchange(
        self,
        inst: Inst,
        group: tuple[int, ...],
        agreed: tuple[str, ...],
        parts: Sequence[NDArray[Any]],
        apart: bool,
    ) -> list[NDArray[Any]] | RankMismatchError:
        """Like :meth:`gather`; or its error, if all ranks of ``group`` know it and no message is left."""
        others = [other for other in group if other != self.rank]
        part = {other: parts[place if apart else 0] for place, other in enumerate(group)}
        sent = {other: _tensor(part[other]) for other in others}
        text = _Text(version(), description(inst), list(group), list(agreed))
        digest, packed = text.digest, text.packed()

        def message(other: int) -> torch.Tensor:
            rows, columns = part[other].shape
            return _Header(digest, len(packed), (rows, columns)).message(sent[other])

        sizes = dict.fromkeys(others, _HEADER.size + _INLINE)
        messages = self._swap(inst, 0, sizes, {other: message(other) for other in others})
        headers = {other: self._unpacked(inst, other, message) for other, message in messages.items()}
        different = [other for other in others if headers[other].digest != digest]
        if different:
            return self._mismatch(inst, text, packed, {other: headers[other].text_bytes for other in different})
        dtype = parts[0].dtype
        sizes = {other: math.prod(headers[other].shape) * dtype.itemsize for other in others}
        large = {other: size for other, size in sizes.items() if size > _INLINE}
        came = self._swap(inst, 2, large, {other: mine for other, mine in sent.items() if len(mine) > _INLINE})
        arrays = {self.rank: part[self.rank]}
        for other, size in sizes.items():
            received = came[other] if other in came else messages[other][_HEADER.size :][:size]
            arrays[other] = received.numpy().view(dtype).reshape(headers[other].shape)
        return [arrays[other] for other in group]

    def _unpacked(self, inst: Inst, other: int, message: torch.Tensor) -> _Header:
        magic, digest, text_bytes, rows, columns = _HEADER.unpack_from(_bytes(message))
        if magic != _MAGIC:
            raise _release_mismatch(inst, self.rank, version(), other, "another release of Open NKI")
        return _Header(digest, text_bytes, (rows, columns))

    def _mismatch(self, inst: Inst, text: _Text, packed: bytes, sizes: Mapping[int, int]) -> RankMismatchError:
        """The error about the ranks with other digests, with texts of these ``sizes``. Raises it if the groups differ:
        a third rank may then wait for this one.
        """
        mine = _tensor(np.frombuffer(packed, np.uint8))
        came = self._swap(inst, 1, sizes, dict.fromkeys(sizes, mine))
        texts = {other: _Text(*json.loads(message.numpy().tobytes())) for other, message in came.items()}
        for other, theirs in texts.items():
            if theirs.release != text.release:
                raise _release_mismatch(inst, self.rank, text.release, other, theirs.release)
        same_group = all(theirs.group == text.group for theirs in texts.values())
        texts[self.rank] = text
        try:
            check_agreed(inst, [(rank, texts[rank].at, tuple(texts[rank].agreed)) for rank in sorted(texts)])
        except RankMismatchError as error:
            if same_group:
                return error
            raise
        raise AssertionError("digests differ, and texts do not")

    def _swap(
        self, inst: Inst, kind: int, sizes: Mapping[int, int], messages: Mapping[int, torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        """Send each peer its message; the ones of ``sizes`` bytes that come from them."""
        group = self._group()
        if group is None:
            raise lost_rank(inst, self.rank, "the process group has been destroyed")
        seconds = _seconds(group)
        under_way = _Messages()
        failed: dict[int, str] = {}
        for peer, size in sizes.items():
            buffer = torch.empty(size, dtype=torch.uint8)
            under_way.received[peer] = buffer, _started(failed, peer, group.recv, buffer, kind)
        for peer, message in messages.items():
            under_way.sent[peer] = message, _started(failed, peer, group.send, message, kind)
        deadline = time.monotonic() + seconds
        for peer, (_, work) in (*under_way.received.items(), *under_way.sent.items()):
            _finish(failed, peer, work, deadline)
        if failed:
            raise self._lost_ranks(inst, failed, kind, seconds)
        return {peer: buffer for peer, (buffer, _) in under_way.received.items()}

    def _lost_ranks(self, inst: Inst, failed: Mapping[int, str], kind: int, seconds: float) -> LostRankError:
        """The error for the peers with messages that have ``failed``, by the text of PyTorch."""
        late = [peer for peer, text in failed.items() if "Timed out" in text or "timeout" in text]
        gone = [peer for peer in failed if peer not in late]
        what = ("has not come", "has not told what it has", "has not sent its part")[kind]
        told = [f"rank {peer} {what} within {seconds:g} s" for peer in late]
        told += [f"the process of rank {peer} has ended, or has left the process group" for peer in gone]
        notes = self._notes(failed, _NOTE_SECONDS if gone else _SHORTEST)
        told += [f"rank {peer} tells: {note}" for peer, note in notes.items()]
        return lost_rank(inst, self.rank, "; ".join(told))

    def _leave_note(self) -> None:
        try:
            _store().set(_key(self.rank), self._failure)
        except RuntimeError:  # the store may have ended with the process of rank 0
            return

    def _notes(self, peers: Iterable[int], seconds: float) -> dict[int, str]:
        """The notes of peers that gave up."""
        notes: dict[int, str] = {}
        deadline = time.monotonic() + seconds
        for peer in peers:
            try:
                _store().wait([_key(peer)], timedelta(seconds=max(deadline - time.monotonic(), _SHORTEST)))
                notes[peer] = _store().get(_key(peer)).decode()
            except RuntimeError:  # it left none, or there is no store
                continue
        return notes


_current: Processes | None = None


def participant() -> Participant | None:
    """The rank of this process in its process group; None if it is alone there, or in none."""
    global _current
    group = dist.group.WORLD
    if group is None or group.size() == 1:
        return None
    processes = _current
    if processes is None or not processes.is_of(group):
        processes = _current = Processes(group)
    return Participant(processes, processes.rank)


def _bytes(tensor: torch.Tensor) -> memoryview:
    return memoryview(cast("Any", tensor.numpy()))


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    """The bytes of ``array``."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return torch.from_numpy(flat if flat.flags.writeable else flat.copy())


def _started(failed: dict[int, str], peer: int, start: Any, tensor: torch.Tensor, kind: int) -> Any:
    try:
        return start([tensor], peer, _TAGS[kind])
    except RuntimeError as error:
        failed[peer] = str(error)
        return None


def _finish(failed: dict[int, str], peer: int, work: Any, deadline: float) -> None:
    if work is None:
        return
    try:
        work.wait(timedelta(seconds=max(deadline - time.monotonic(), _SHORTEST)))
    except RuntimeError as error:
        failed.setdefault(peer, str(error))


def _seconds(group: dist.ProcessGroup) -> float:
    """``NKI_RANK_TIMEOUT``, else the timeout of the process group.

    Raises :class:`SeveralRanksError` if the process group cannot send what is in the memory of the CPU.
    """
    try:
        backend: Any = group._get_backend(torch.device("cpu"))  # pyright: ignore[reportPrivateUsage]
    except RuntimeError as error:
        raise SeveralRanksError(
            "ranks meet in the memory of the CPU, and the process group sends nothing from there",
            fix='call torch.distributed.init_process_group("gloo"), or with "cpu:gloo,cuda:nccl"',
        ) from error
    return ranks.patience(backend.options._timeout.total_seconds())


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


def _key(rank: int) -> str:
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")  # attempts of torchrun may share a store
    return f"nki/ended/{attempt}/{rank}"


def _release_mismatch(inst: Inst, rank: int, release: str, other: int, theirs: str) -> RankMismatchError:
    error = RankMismatchError(
        f"rank {rank} runs Open NKI {release}, rank {other} {theirs}", fix="install one release for all ranks"
    )
    error.at(inst.where.span, inst.where.stack)
    return error

"""A million random instructions: on each, native code, the reference executor and the oracle agree.

    NKI_TEST_SEED=7 python -m tests.isa.million --count 1000000 --jobs 2

An instance is one instruction with its own draw of everything: operators, shapes, dtypes, placement of its operands,
immediates and contents. Only these are counted. Many of one kind share a kernel, a *batch*, so that the pipeline,
LLVM's modules and the copies around them are paid once. Batches take turns over all instructions and generations that
have an oracle; a batch of :data:`DEAR` instructions is smaller.

A batch depends on the seed and its number alone. The journal, a file with a line per batch, makes a run resumable: a
batch in it is not run again. ``--part 1/4`` runs a quarter of the batches, for one of four machines. A disagreement is
reported with the seed, the batch and the number of the instruction, which ``--only BATCH:NUMBER`` runs alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from nki.compiler.executable import Executable
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.text.printer import show
from nki.target import Target
from tests.support import instruction_bench
from tests.support.instruction_bench import SEED, Array, Bench

from .oracle_bench import ORACLES, disagreement, tame

KINDS: list[tuple[str, Target]] = [
    (mnemonic, target)
    for mnemonic, target in (p.values for p in instruction_bench.ON_GENERATIONS)
    if mnemonic in ORACLES
]
"""What batches take turns over."""
BATCH = 200
"""Instructions in a batch. More share copies and modules; a longer list delays the report."""
DEAR = ("bn_aggr", "bn_stats", "nc_matmul", "nc_matmul_mx", "quantize_mx", "rand2", "topk")
"""Instructions that take over 50 ms each, nearly all of it in LLVM; 35 ms is the mean."""
OVERLAPPING = 8
"""One in so many instructions has an input in the place of an output, and as many have operands that overlap."""
TYPED = 8
"""In one batch of so many tiles are copied as their dtypes, so that copies are eliminated; in the others as bytes."""
PATIENCE = 20
"""Batches with disagreements after which a run ends."""


_alive: deque[Executable] = deque(maxlen=40)
"""The last kernels of this process: the next ones find the routines that copy their tiles."""


@dataclass(frozen=True)
class Result:
    """The outcome of batch ``number``: its instructions, processor seconds, and a report on each disagreement."""

    seed: str
    number: int
    count: int
    seconds: float
    reports: tuple[str, ...]


def size(number: int) -> int:
    """The number of instructions in a batch."""
    return BATCH // 4 if KINDS[number % len(KINDS)][0] in DEAR else BATCH


def batches(count: int, part: int = 0, parts: int = 1) -> list[int]:
    """The numbers of this part's batches, of those that together have at least ``count`` instructions."""
    numbers: list[int] = []
    while count > 0:
        count -= size(len(numbers))
        numbers.append(len(numbers))
    return numbers[part::parts]


def drawn(number: int) -> list[Inst]:
    """The instructions of a batch."""
    mnemonic, generation = KINDS[number % len(KINDS)]
    draw = Draw(instruction_bench.source("million", number), generation)
    return [_arranged(instruction_bench.sample(REGISTRY[mnemonic], draw), draw) for _ in range(size(number))]


def _arranged(inst: Inst, draw: Draw) -> Inst:
    """``inst``, now and then with operands that share memory."""
    pick = draw.integer(0, OVERLAPPING - 1)
    # Statistics need inputs of a kind, and an oracle sees all of a tensor with indices: bytes in a pool are neither.
    is_plain = not inst.mnemonic.startswith("bn_") and not inst.indexed_by()
    if pick > 1 or not is_plain:
        return inst
    arrange = instruction_bench.in_place if pick == 0 else instruction_bench.crowded
    return arrange(inst, draw) or inst


def run(number: int, only: int | None = None) -> Result:
    """Run a batch, or the instruction ``only`` of it in a kernel of its own."""
    start = time.process_time()
    mnemonic, generation = KINDS[number % len(KINDS)]
    trials = drawn(number)
    chosen = range(len(trials)) if only is None else (only,)
    by_bytes = number // len(KINDS) % TYPED != TYPED - 1
    bench = instruction_bench.program([trials[n] for n in chosen], generation, by_bytes=by_bytes)
    alone = list(benches(bench))
    before = [contents(one, number, n) for n, one in zip(chosen, alone, strict=True)]
    inputs = [array for arrays in before for array in arrays]
    _alive.append(Executable(bench.kernel))
    native = iter(instruction_bench.launch(_alive[-1], inputs))
    reference = iter(instruction_bench.run_reference(bench.kernel, inputs))
    reports: list[str] = []
    for n, one, arrays in zip(chosen, alone, before, strict=True):
        got, want = (list(islice(after, len(arrays))) for after in (native, reference))
        where = f"{generation.name} {mnemonic}, --only {number}:{n}"
        reports += [f"{where}: {why}" for why in complaints(one, arrays, got, want, generation)]
        if only is not None and reports:
            reports.append(show(bench.kernel))
    return Result(SEED, number, len(chosen), time.process_time() - start, tuple(reports))


def benches(bench: Bench) -> Iterator[Bench]:
    """The instructions one by one, with their tensors, which follow each other in ``bench``."""
    for inst in bench.trials:
        mine = {access.tensor for access in inst.accesses()}
        yield Bench(bench.kernel, (inst,), tuple(tensor for tensor in bench.tensors if tensor in mine))


def contents(one: Bench, number: int, index: int) -> list[Array]:
    """The contents of an instruction's tensors, which depend on its place in the batch alone."""
    rng = np.random.default_rng(instruction_bench.source("million", number, index).getrandbits(64))
    arrays = one.fill(rng)
    tame(one.trials[0], one, arrays, rng)
    return arrays


def complaints(
    one: Bench, before: list[Array], native: list[Array], reference: list[Array], generation: Target
) -> Iterator[str]:
    """What is wrong with the runs of one instruction."""
    yield from (f"native and reference: {why}" for why in one.differences(native, reference))
    runs = [("reference", reference)]
    if any(x.tobytes() != y.tobytes() for x, y in zip(native, reference, strict=True)):  # NaN may be, where none moves
        runs.append(("native", native))
    for name, after in runs:
        why = disagreement(one.trials[0], one, before, after, generation)
        if why is not None:
            yield f"{name} and oracle: {why}"


# Many batches


def journal(path: Path) -> Iterator[Result]:
    """The results of earlier runs with this seed."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            if fields["seed"] == SEED:
                yield Result(**fields)


def results(numbers: Iterable[int], jobs: int) -> Iterator[Result]:
    """Run batches in ``jobs`` processes; the results in the order in which they come."""
    os.environ["NKI_TEST_SEED"] = SEED  # for the processes; here it may have been drawn
    context = multiprocessing.get_context("spawn")
    waiting, running = iter(numbers), {}
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=100) as pool:
        running: dict[Future[Result], int] = {pool.submit(run, n): n for n in islice(waiting, jobs)}
        try:
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield future.result()
                    running.pop(future)
                    running.update({pool.submit(run, n): n for n in islice(waiting, 1)})
        except BrokenProcessPool:
            raise SystemExit(f"seed {SEED}: a process died in one of the batches {sorted(running.values())}") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def main(arguments: list[str]) -> int:
    """Run what ``arguments`` ask for; 1 if anything disagrees."""
    parser = argparse.ArgumentParser("python -m tests.isa.million", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="instructions over all parts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th batch, from batch I on")
    parser.add_argument("--journal", type=Path, help="finished batches; default build/million-SEED.jsonl")
    parser.add_argument("--only", help="BATCH or BATCH:NUMBER: one batch, or one instruction of it in its own kernel")
    options = parser.parse_args(arguments)
    if options.only is not None:
        one = run(*map(int, options.only.split(":")))
        print(f"seed {SEED}: {one.count} instructions, {len(one.reports)} disagree", *one.reports, sep="\n")
        return int(bool(one.reports))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # else the processes would stay
    path = options.journal or Path("build", f"million-{SEED}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    return _run_all(batches(options.count, *map(int, options.part.split("/"))), options.jobs, path)


def _run_all(numbers: list[int], jobs: int, path: Path) -> int:
    wanted = set(numbers)
    earlier = {result.number: result for result in journal(path) if result.number in wanted}
    count, total = sum(result.count for result in earlier.values()), sum(map(size, numbers))
    wrong = [result for result in earlier.values() if result.reports]
    print(f"seed {SEED}, {total:,} instructions in {len(numbers):,} batches; {count:,} are in {path}", flush=True)
    for result in wrong:
        print(*result.reports, sep="\n", flush=True)
    start, first, told = time.monotonic(), count, 0.0
    with path.open("a", encoding="utf-8") as lines:
        for result in results((n for n in numbers if n not in earlier), jobs):
            lines.write(json.dumps(asdict(result)) + "\n")
            lines.flush()
            count += result.count
            if result.reports:
                wrong.append(result)
                print(*result.reports, sep="\n", flush=True)
            now = time.monotonic() - start
            if now - told > 10 or count == total:
                told, rate = now, (count - first) / now
                left = (total - count) / rate / 60
                print(f"{count:,} of {total:,}, {rate:.1f} a second, {left:.0f} minutes left", flush=True)
            if len(wrong) >= PATIENCE:
                break
    print(f"seed {SEED}: {count:,} instructions, {len(wrong)} batches with disagreements")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

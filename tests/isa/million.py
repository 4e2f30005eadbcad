"""A million random instances of instructions: on each, native code, the reference executor and the oracle agree.

    NKI_TEST_SEED=7 python -m tests.isa.million --count 1000000 --jobs 2

An *instruction* is a draw of operators, shapes, dtypes, immediates and placement of operands. It is compiled once and
runs on up to :data:`CONTENTS` contents, each drawn by itself: everyday numbers, special values, any bits. An *instance*
is an instruction with one of its contents. Contents count as different only where the instruction reads different
bytes, so one without inputs, such as ``memset``, is one instance. Both numbers are reported.

Many instructions of one kind share a kernel, a *batch*, so that the pipeline, LLVM's modules and the copies around them
are paid once. A kernel is launched once for each contents of its instructions. Batches take turns over all instructions
and generations; a batch of :data:`DEAR` instructions is smaller.

A batch depends on the seed and its number alone. The journal, a file with a line per batch, makes a run resumable: a
batch in it is not run again. ``--part 1/4`` runs a quarter of the batches, for one of four machines. A disagreement is
reported with the seed and the numbers of batch, instruction and contents: ``--only BATCH:INSTRUCTION:CONTENTS`` runs it
alone.
"""

from __future__ import annotations

import argparse
import itertools
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

from nki.compilation.executable import Executable
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.text.printer import show
from nki.ir.types import Access
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
BATCH = 50
"""Instructions in a batch. More share copies and modules; fewer let every kind have its turn sooner."""
CONTENTS = 16
"""Contents per instruction. Compilation, 20 ms of processor time for an instruction, is then half of the work or so."""
ATTEMPTS = 20
"""Draws of contents that the instruction has seen before it counts as having no others, as with one boolean to read."""
DEAR = ("bn_aggr", "bn_stats", "nc_matmul", "nc_matmul_mx", "quantize_mx", "rand2", "topk")
"""Instructions that take over 50 ms each to compile; 20 ms is the mean."""
OVERLAPPING = 8
"""One in so many instructions has an input where an output is, and as many have operands that overlap."""
TYPED = 8
"""In one batch of so many of a kind tiles are copied as their dtypes, so that copies are eliminated; else as bytes."""
PATIENCE = 20
"""Batches with disagreements after which a run ends."""


_alive: deque[Executable] = deque(maxlen=40)
"""The last kernels of this process: the next ones find the routines that copy their tiles."""


@dataclass(frozen=True)
class Result:
    """The outcome of batch ``number``: its instructions, instances, processor seconds, reports on disagreements."""

    seed: str
    number: int
    count: int
    instances: int
    seconds: float
    reports: tuple[str, ...]


def size(number: int) -> int:
    """The number of instructions in a batch."""
    return BATCH // 2 if KINDS[number % len(KINDS)][0] in DEAR else BATCH


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


def run(number: int, only: int | None = None, turn: int | None = None) -> Result:
    """Run a batch, or its instruction ``only`` in a kernel of its own, with all its contents or number ``turn``."""
    start = time.process_time()
    generation = KINDS[number % len(KINDS)][1]
    trials = drawn(number)
    chosen = range(len(trials)) if only is None else (only,)
    bench = instruction_bench.program([trials[n] for n in chosen], generation, by_bytes=not is_typed(number))
    _alive.append(Executable(bench.kernel))
    alone = list(benches(bench))
    instances, failures = 0, {n: list[str]() for n in chosen}
    for now, before in enumerate(launches(alone, number, chosen)):
        if turn is not None and turn != now:
            continue
        after = launch(bench, [arrays for arrays, _ in before])
        for n, one, (arrays, is_new), (native, reference) in zip(chosen, alone, before, after, strict=True):
            if not is_new:
                continue
            instances += 1
            wrong = "; ".join(complaints(one, arrays, native, reference, generation))
            if wrong:
                failures[n].append(f"--only {number}:{n}:{now}: {wrong}")
    reports = [_report(number, found) for found in failures.values() if found]
    if only is not None and reports:
        reports.append(show(bench.kernel))
    return Result(SEED, number, len(chosen), instances, time.process_time() - start, tuple(reports))


def is_typed(number: int) -> bool:
    """Whether tiles of a batch are copied as their dtypes; another kind begins with each of :data:`TYPED` rounds."""
    return (number // len(KINDS) + number % len(KINDS)) % TYPED == TYPED - 1


def _report(number: int, failures: list[str]) -> str:
    """The first disagreement of an instruction, and the number of its others."""
    mnemonic, generation = KINDS[number % len(KINDS)]
    others = f"; and with {len(failures) - 1} of its other contents" if len(failures) > 1 else ""
    return f"{generation.name} {mnemonic}, {failures[0]}{others}"


def launch(bench: Bench, before: list[list[Array]]) -> Iterator[tuple[list[Array], list[Array]]]:
    """For each instruction, its tensors after one launch of the last kernel, and after a run of the reference."""
    inputs = [array for arrays in before for array in arrays]
    native = iter(instruction_bench.launch(_alive[-1], inputs))
    reference = iter(instruction_bench.run_reference(bench.kernel, inputs))
    for arrays in before:
        yield list(islice(native, len(arrays))), list(islice(reference, len(arrays)))


def benches(bench: Bench) -> Iterator[Bench]:
    """The instructions one by one, with their tensors, which follow each other in ``bench``."""
    for inst in bench.trials:
        mine = {access.tensor for access in inst.accesses()}
        yield Bench(bench.kernel, (inst,), tuple(tensor for tensor in bench.tensors if tensor in mine))


def launches(alone: list[Bench], number: int, chosen: Iterable[int]) -> Iterator[list[tuple[list[Array], bool]]]:
    """For each launch, the contents of each instruction's tensors, and whether it has not had them before."""
    more = [contents(one, number, n) for n, one in zip(chosen, alone, strict=True)]
    last = [next(arrays) for arrays in more]
    yield [(arrays, True) for arrays in last]
    while any(new := [next(arrays, None) for arrays in more]):
        last = [old if arrays is None else arrays for old, arrays in zip(last, new, strict=True)]
        yield [(arrays, fresh is not None) for arrays, fresh in zip(last, new, strict=True)]


def contents(one: Bench, number: int, index: int) -> Iterator[list[Array]]:
    """Different contents of an instruction's tensors, which depend on its place in the batch alone."""
    rng = np.random.default_rng(instruction_bench.source("million", number, index).getrandbits(64))
    seen: set[bytes] = set()
    attempts = 0
    while len(seen) < CONTENTS and attempts < ATTEMPTS:
        arrays = one.fill(rng)
        tame(one.trials[0], one, arrays, rng)
        bytes_read = read_by(one, arrays)
        attempts += 1
        if bytes_read not in seen:
            attempts = 0
            seen.add(bytes_read)
            yield arrays
        if not bytes_read:
            return


def read_by(one: Bench, arrays: list[Array]) -> bytes:
    """All bytes that the instruction may read."""
    reads = (a if a.dynamic is None else Access.whole(a.tensor) for a in one.trials[0].reads())
    return b"".join(one.at(arrays, a).tobytes() for a in reads)


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


def journal(path: Path, part: int = 0, parts: int = 1) -> Iterator[Result]:
    """The results of earlier runs of this part with this seed."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            if fields["seed"] == SEED and fields["number"] % parts == part:
                yield Result(**fields)


def results(batches: Iterable[int], jobs: int) -> Iterator[Result]:
    """Run batches in ``jobs`` processes; the results in the order in which they come."""
    os.environ["NKI_TEST_SEED"] = SEED  # for the processes; here it may have been drawn
    context = multiprocessing.get_context("spawn")
    waiting = iter(batches)
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
    parser.add_argument("--count", type=int, default=1_000_000, help="instances over all parts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th batch, from batch I on")
    parser.add_argument("--journal", type=Path, help="finished batches; default build/million-SEED.jsonl")
    parser.add_argument("--only", help="BATCH[:INSTRUCTION[:CONTENTS]]: a batch, or an instruction in its own kernel")
    options = parser.parse_args(arguments)
    if options.only is not None:
        one = run(*map(int, options.only.split(":")))
        print(f"seed {SEED}: {numbers([one])}, {len(one.reports)} reports", *one.reports, sep="\n")
        return int(bool(one.reports))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # else the processes would stay
    path = options.journal or Path("build", f"million-{SEED}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    part, parts = map(int, options.part.split("/"))
    return _run_all(-(-options.count // parts), part, parts, options.jobs, path)


def _run_all(total: int, part: int, parts: int, jobs: int, path: Path) -> int:
    """Run batches of a part until they have ``total`` instances."""
    done = {result.number: result for result in journal(path, part, parts)}
    first = count = sum(result.instances for result in done.values())
    wrong = [result for result in done.values() if result.reports]
    print(f"seed {SEED}, {total:,} instances wanted; in {path}: {numbers(done.values())}", flush=True)
    for result in wrong:
        print(*result.reports, sep="\n", flush=True)

    def missing() -> Iterator[int]:
        for number in itertools.count(part, parts):
            if count >= total or len(wrong) >= PATIENCE:
                return
            if number not in done:
                yield number

    start, told = time.monotonic(), 0.0
    with path.open("a", encoding="utf-8") as lines:
        for result in results(missing(), jobs):
            lines.write(json.dumps(asdict(result)) + "\n")
            lines.flush()
            done[result.number] = result
            count += result.instances
            if result.reports:
                wrong.append(result)
                print(*result.reports, sep="\n", flush=True)
            now = time.monotonic() - start
            if now - told > 10:
                told, rate = now, (count - first) / now
                left = max(0, total - count) / rate / 60
                print(f"{count:,} of {total:,}, {rate:.1f} a second, {left:.0f} minutes left", flush=True)
    print(f"seed {SEED}: {numbers(done.values())}, {len(wrong)} batches with disagreements")
    return int(bool(wrong))


def numbers(finished: Iterable[Result]) -> str:
    """Instructions and instances of some batches, how they spread over the kinds, and processor time."""
    each: dict[int, list[Result]] = {}
    for result in finished:
        each.setdefault(result.number % len(KINDS), []).append(result)
    instructions = [sum(result.count for result in results_) for results_ in each.values()]
    instances = [sum(result.instances for result in results_) for results_ in each.values()]
    text = f"{sum(instructions):,} instructions, {sum(instances):,} instances"
    if not each:
        return text
    seconds = sum(result.seconds for results_ in each.values() for result in results_)
    spread = f"{min(instructions):,} to {max(instructions):,} and {min(instances):,} to {max(instances):,}"
    return f"{text}, {len(each)} of {len(KINDS)} kinds with {spread} of each, {seconds:,.0f} s of processors"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

// What the page knows: cores with their columns, and lanes with tracks of rows that are ordered by time.

const ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma", "collectives"];

// Intervals in the order of their times, without overlap. `covered` sums their lengths, so that the busy part of any
// stretch is a difference.
class Track {
  constructor(rows, begins, ends) {
    this.rows = rows;
    this.begins = begins;
    this.ends = ends;
    this.covered = new Float64Array(rows.length + 1);
    for (let index = 0; index < rows.length; index++) {
      this.covered[index + 1] = this.covered[index] + ends[index] - begins[index];
    }
  }

  get length() {
    return this.rows.length;
  }

  // First interval that ends after `time`, from `low` on.
  after(time, low = 0) {
    return search(this.ends, (end) => end > time, low);
  }

  // First interval that begins at `time` or later, from `low` on.
  from(time, low = 0) {
    return search(this.begins, (begin) => begin >= time, low);
  }

  where(keep) {
    const rows = [];
    const begins = [];
    const ends = [];
    for (let index = 0; index < this.length; index++) {
      if (keep(this.rows[index])) {
        rows.push(this.rows[index]);
        begins.push(this.begins[index]);
        ends.push(this.ends[index]);
      }
    }
    return new Track(rows, begins, ends);
  }
}

// A track of times that no row stands for.
function stretches(begins, ends) {
  return new Track(Array.from(begins, (_, index) => index), begins, ends);
}

function search(values, holds, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(values[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

class Model {
  constructor(description, columns) {
    Object.assign(this, description);
    this.cores = description.cores.map((core, index) => readCore(core, columns.cores[index]));
    this.path = readPath(columns.path);
    this.end = Math.max(description.end, 1);
    this.lanes = this.cores.flatMap((core, index) => this.lanesOf(core, index));
    this.stepOf = this.cores.map(() => new Map());
    this.path.row.forEach((row, step) => this.stepOf[this.path.core[step]].set(row, step));
  }

  lanesOf(core, index) {
    const byQueue = core.queues.map(() => []);
    for (let row = 0; row < core.rows; row++) byQueue[core.queue[core.number[row]]].push(row);
    const order = core.queues.map((name, queue) => ({ name, queue, engine: name.split(".")[0] }));
    const ring = (name) => Number(name.split(".")[1] ?? 0);
    order.sort((a, b) => ENGINES.indexOf(a.engine) - ENGINES.indexOf(b.engine) || ring(a.name) - ring(b.name));
    core.laneOf = [];
    return order.map(({ name, queue, engine }) => {
      const rows = byQueue[queue];
      const begins = rows.map((row) => core.start[row]);
      const issue = new Track(rows, begins, rows.map((row) => core.release[row]));
      const moves = rows.filter((row) => core.isDma[row]);
      let last = 0; // transfers end in the order of their ring, but may begin on DMA engines that others have left
      const firsts = moves.map((row) => (last = Math.max(last, core.dataStart[row])));
      const data = new Track(moves, firsts, moves.map((row) => core.dataEnd[row]));
      const only = (wanted, { begins, ends }) => (engine === wanted ? stretches(begins, ends) : stretches([], []));
      const [tables, slow] = [only("scalar", core.tables), only("tensor", core.slow)];
      const isDma = engine === "dma" || engine === "collectives";
      const lane = { core, index, name, engine, issue, data, tables, slow, isDma };
      core.laneOf[queue] = lane;
      return lane;
    });
  }

  laneOfRow(core, row) {
    return core.laneOf[core.queue[core.number[row]]];
  }

  nameOf(core, row) {
    return this.mnemonics[core.mnemonic[core.number[row]]];
  }

  lineOf(core, row) {
    return core.line[core.number[row]];
  }

  operandsOf(core, row) {
    const number = core.number[row];
    const first = core.firstOperand[number];
    const middle = first + core.writes[number];
    const names = (from, to) => core.operand.slice(from, to).map((index) => this.operands[index]);
    return { writes: names(first, middle), reads: names(middle, middle + core.reads[number]) };
  }

  estimateOf(core, row) {
    const [bytes, flops, occupancy, kind, source, table] = core.estimates[core.estimate[core.number[row]]];
    return { bytes, flops, occupancy, kind, source: this.sources[source], table };
  }

  // The row before and the row after on the same queue, or -1.
  neighbour(core, row, step) {
    const { rows } = this.laneOfRow(core, row).issue;
    const position = search(rows, (other) => other >= row) + step;
    return position >= 0 && position < rows.length ? rows[position] : -1;
  }

  // Time from the moment when its queue was free to its beginning, in ticks.
  waited(core, row) {
    const before = this.neighbour(core, row, -1);
    return Math.max(0, core.start[row] - (before < 0 ? 0 : core.release[before]));
  }

  // What an instruction waited for: a core and its row, or null.
  blockerOf(core, row) {
    const last = core.meetings.get(row);
    if (last) return { core: this.cores[last.core], row: last.row };
    return core.blocker[row] >= 0 ? { core, row: core.blocker[row] } : null;
  }

  why(core, row) {
    const reason = this.reasons[core.cause[row]];
    return { reason, blocker: this.blockerOf(core, row), waited: this.waited(core, row) };
  }

  // The step of the critical path that an instruction is, or undefined.
  step(core, row) {
    return this.stepOf[this.cores.indexOf(core)].get(row);
  }

  // A short name of an instruction and its queue, with the core where that is not `home`.
  placeOf({ core, row }, home) {
    const other = core === home ? "" : `core ${core.rank} · `;
    return `${this.nameOf(core, row)} on ${other}${this.laneOfRow(core, row).name}`;
  }

  time(ticks, digits) {
    return timeText(ticks * this.tick, digits);
  }

  // A moment, with as many digits as tell it from one that is `span` ticks away.
  moment(ticks, span) {
    const ns = ticks * this.tick;
    const digits = Math.ceil(Math.log10(unitOf(ns)[0] / Math.max(span * this.tick, 1))) + 1;
    return timeText(ns, Math.max(2, digits));
  }
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

const unitOf = (ns) => UNITS.find(([size]) => Math.abs(ns) >= size * 0.9995) ?? UNITS[3];

// A time in ns with its unit; `digits` after the point, or as many as make three in all.
function timeText(ns, digits) {
  const [factor, unit] = unitOf(ns);
  const value = ns / factor;
  const size = Math.abs(value);
  const places = digits ?? (size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);
  return `${value.toFixed(places)} ${unit}`;
}

function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(3, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  const value = bytes / 1024 ** power;
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ${units[power]}`;
}

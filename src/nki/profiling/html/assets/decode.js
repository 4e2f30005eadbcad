// The columns of the events: base64, zlib, and variable-length integers (see payload.py, which writes them).

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.position = 0;
  }

  naturals(count) {
    const { bytes } = this;
    const values = new Float64Array(count);
    let position = this.position;
    for (let index = 0; index < count; index++) {
      let byte = bytes[position++];
      let value = byte & 127;
      for (let factor = 128; byte > 127; factor *= 128) {
        byte = bytes[position++];
        value += (byte & 127) * factor;
      }
      values[index] = value;
    }
    this.position = position;
    return values;
  }

  integers(count) {
    const values = this.naturals(count);
    for (let index = 0; index < count; index++) {
      const value = values[index];
      values[index] = value % 2 ? -(value + 1) / 2 : value / 2;
    }
    return values;
  }

  sums(count) {
    const values = this.integers(count);
    for (let index = 1; index < count; index++) values[index] += values[index - 1];
    return values;
  }
}

// Columns of one core, in the order of payload.py; all times in ticks. `meetings` holds the rows that waited for
// another core, each with the number of that core and its row.
function readCore(reader, core) {
  const rows = core.rows;
  const number = reader.sums(rows);
  const start = reader.sums(rows);
  const release = reader.naturals(rows).map((length, row) => start[row] + length);
  const end = reader.integers(rows).map((length, row) => release[row] + length);
  const lead = reader.naturals(rows);
  const length = reader.naturals(rows);
  const isDma = lead.map((value) => (value ? 1 : 0));
  const dataStart = lead.map((value, row) => (value ? start[row] + value - 1 : 0));
  const dataEnd = length.map((value, row) => (lead[row] ? dataStart[row] + value : 0));
  const cause = reader.naturals(rows);
  const blocker = reader.naturals(rows).map((distance, row) => (distance ? row - distance : -1));
  const weight = reader.naturals(rows).map((value) => value + 1);
  const throttled = reader.naturals(rows);
  const count = core.instructions;
  const queue = reader.naturals(count);
  const mnemonic = reader.naturals(count);
  const line = reader.naturals(count).map((value) => value - 1);
  const estimate = reader.naturals(count);
  const writes = reader.naturals(count);
  const reads = reader.naturals(count);
  const operand = reader.naturals(core.operands);
  const firstOperand = new Float64Array(count);
  for (let index = 1; index < count; index++) {
    firstOperand[index] = firstOperand[index - 1] + writes[index - 1] + reads[index - 1];
  }
  const tables = readStretches(reader, core.tables);
  const slow = readStretches(reader, core.slow);
  const meetings = new Map(core.meetings.map(([row, other, last]) => [row, { core: other, row: last }]));
  return {
    ...core, tables, slow, number, start, release, end, isDma, dataStart, dataEnd, cause, blocker, weight, throttled,
    meetings, queue, mnemonic, line, estimate, writes, reads, operand, firstOperand,
  };
}

function readStretches(reader, count) {
  const begins = reader.sums(count);
  const ends = reader.naturals(count).map((length, index) => begins[index] + length);
  return { begins, ends };
}

function readPath(reader, path) {
  const core = reader.naturals(path.steps);
  const row = reader.sums(path.steps);
  const begin = reader.sums(path.steps);
  const end = reader.naturals(path.steps).map((length, step) => begin[step] + length);
  return { core, row, begin, end };
}

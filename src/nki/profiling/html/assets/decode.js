// The columns of the events: base64, zlib, and JSON (payload.py writes them). All times are in ticks.

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function sums(differences) {
  const values = Float64Array.from(differences);
  for (let index = 1; index < values.length; index++) values[index] += values[index - 1];
  return values;
}

const behind = (begins, lengths) => begins.map((begin, index) => begin + lengths[index]);

// `meetings` holds the rows that waited for another core, each with the number of that core and its row.
function readCore(core, { rows, instructions, tables, slow }) {
  const number = sums(rows.number);
  const start = sums(rows.start);
  const release = behind(start, rows.release);
  const end = behind(release, rows.end);
  const { isDma } = rows;
  const dataStart = start.map((time, row) => (isDma[row] ? time + rows.dataStart[row] : 0));
  const dataEnd = behind(dataStart, rows.dataEnd);
  const blocker = rows.blocker.map((distance, row) => (distance ? row - distance : -1));
  const { writes, reads } = instructions;
  const firstOperand = new Float64Array(writes.length);
  for (let index = 1; index < writes.length; index++) {
    firstOperand[index] = firstOperand[index - 1] + writes[index - 1] + reads[index - 1];
  }
  const meetings = new Map(core.meetings.map(([row, other, last]) => [row, { core: other, row: last }]));
  return {
    ...core, ...rows, ...instructions, rows: number.length, tables: readStretches(tables), slow: readStretches(slow),
    number, start, release, end, dataStart, dataEnd, blocker, meetings, firstOperand,
  };
}

function readStretches({ begin, length }) {
  const begins = sums(begin);
  return { begins, ends: behind(begins, length) };
}

function readPath({ core, row, ...stretches }) {
  const { begins, ends } = readStretches(stretches);
  return { core, row: sums(row), begin: begins, end: ends };
}

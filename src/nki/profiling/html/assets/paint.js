// Painting of tracks on a canvas. Intervals narrower than a pixel are merged: a column of pixels is as opaque as it is
// busy, and the next interval is found by bisection, so the time of a frame depends on pixels, not on instructions.

const TINTS = [1, 0.8, 0.62];
const LEVELS = 8;

function paintTrack(context, view, track, top, height, style) {
  const right = view.left + view.width;
  let index = track.after(view.begin);
  let run = null; // adjacent columns with the same level
  const flush = () => {
    if (!run) return;
    context.fillStyle = style.colour;
    context.globalAlpha = style.alpha * (0.25 + (0.75 * run.level) / LEVELS);
    context.fillRect(run.x, top, run.end - run.x, height);
    run = null;
  };
  while (index < track.length && track.begins[index] < view.end) {
    const x = Math.max(view.x(track.begins[index]), view.left);
    const end = Math.min(view.x(track.ends[index]), right);
    if (end - x >= 1.5) {
      flush();
      paintInterval(context, track.rows[index], x, end, top, height, style);
      index++;
      continue;
    }
    const column = Math.floor(x);
    const next = Math.max(track.from(view.time(column + 1), index), index + 1);
    const busy = (track.covered[next] - track.covered[index]) / view.perPixel;
    const level = Math.min(LEVELS, Math.max(1, Math.round(busy * LEVELS)));
    if (run && run.level === level && run.end === column) run.end = column + 1;
    else {
      flush();
      run = { x: column, end: column + 1, level };
    }
    index = next;
  }
  flush();
  context.globalAlpha = 1;
}

function paintInterval(context, row, x, end, top, height, style) {
  const gap = end - x > 4 ? 0.8 : 0;
  context.fillStyle = style.colour;
  context.globalAlpha = style.alpha * TINTS[style.tint(row) % TINTS.length];
  context.fillRect(x, top, end - x - gap, height);
  if (!style.label || end - x < 30) return;
  const text = fitted(style.label(row), end - x - 8);
  if (!text) return;
  context.globalAlpha = Math.min(1, style.alpha * 1.4);
  context.fillStyle = style.ink;
  context.fillText(text, x + 4, top + height / 2 + 0.5);
}

// As much of a text as fits; letters of the canvas's font are 6 pixels wide.
function fitted(text, width) {
  const letters = Math.floor(width / 6);
  if (text.length <= letters) return text;
  return letters >= 4 ? `${text.slice(0, letters - 1)}…` : "";
}

// Stretches [begin, end] as flat areas; short ones are at least `least` pixels wide.
function paintStretches(context, view, stretches, top, height, fill, least = 1) {
  context.fillStyle = fill;
  for (const [begin, end] of stretches) {
    if (end <= view.begin || begin >= view.end) continue;
    const x = Math.max(view.x(begin), view.left);
    context.fillRect(x, top, Math.max(Math.min(view.x(end), view.left + view.width) - x, least), height);
  }
}

// A pattern of slanted lines.
function hatch(context, colour, step = 6) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = step;
  const brush = tile.getContext("2d");
  brush.strokeStyle = colour;
  brush.lineWidth = 1.2;
  for (const shift of [-step, 0, step]) {
    brush.beginPath();
    brush.moveTo(shift - 1, step + 1);
    brush.lineTo(shift + step + 1, -1);
    brush.stroke();
  }
  return context.createPattern(tile, "repeat");
}

// Memory in use as steps; a column of pixels shows the greatest value in it.
function paintCurve(context, view, curve, top, height, colour) {
  const { times, used } = curve;
  const most = Math.max(curve.peak, 1);
  const y = (value) => top + height - (value / most) * height;
  const right = view.left + view.width;
  let index = Math.max(0, search(times, (time) => time > view.begin) - 1);
  let value = times.length && times[index] <= view.begin ? used[index] : 0;
  context.beginPath();
  context.moveTo(view.left, top + height);
  context.lineTo(view.left, y(value));
  while (index < times.length && times[index] < view.end) {
    const x = Math.max(view.x(times[index]), view.left);
    const column = Math.floor(x) + 1;
    let largest = used[index];
    while (index + 1 < times.length && view.x(times[index + 1]) < column) {
      index++;
      largest = Math.max(largest, used[index]);
    }
    context.lineTo(x, y(value));
    context.lineTo(x, y(largest));
    value = used[index];
    context.lineTo(Math.max(x, Math.min(column, right)), y(largest));
    context.lineTo(Math.max(x, Math.min(column, right)), y(value));
    index++;
  }
  context.lineTo(right, y(value));
  context.lineTo(right, top + height);
  context.closePath();
  context.globalAlpha = 0.3;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
}

// Fit a canvas's store to its size on the page and to the screen's density; true if it changed.
function fit(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * density), Math.round(height * density)];
  canvas.getContext("2d").setTransform(density, 0, 0, density, 0, 0);
  if (canvas.width === w && canvas.height === h) return false;
  canvas.width = w;
  canvas.height = h;
  canvas.style.height = `${height}px`;
  canvas.getContext("2d").setTransform(density, 0, 0, density, 0, 0);
  return true;
}

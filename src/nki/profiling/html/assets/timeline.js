// The timeline: a lane for each queue and core, the curves of memory, and the overview above them.

const GUTTER = 84;
const AXIS = 22;
const ENGINE = 25;
const RING = 10;
const CURVE = 34;
const HEADING = 20;
const GAP = 3;
const OVERVIEW = 44;
const FONT = "11px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const SMALL = "10px system-ui, sans-serif";

class Timeline {
  constructor(model, theme, canvas, overview) {
    Object.assign(this, { model, theme, canvas, overview });
    this.context = canvas.getContext("2d", { alpha: false });
    this.miniature = document.createElement("canvas");
    this.view = new View(model.end, () => this.changed());
    this.selected = null; // { core, row }
    this.focus = null; // a Map from lane to its tracks of highlighted rows
    this.showCritical = true;
    this.cursor = null;
    this.requested = 0;
    this.onRange = () => {};
    this.bands = this.layout();
    this.paths = this.criticalTracks();
    theme.listeners.push(() => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(canvas.parentElement);
  }

  // Bands from top to bottom: { kind, y, height, … }.
  layout() {
    const bands = [];
    let y = AXIS;
    const add = (kind, height, more) => {
      bands.push({ kind, y, height, ...more });
      y += height + (kind === "lane" && more.lane.isDma ? 1 : GAP);
    };
    const several = this.model.cores.length > 1;
    this.model.cores.forEach((core, index) => {
      if (several) add("heading", HEADING, { text: `core ${core.rank}` });
      const lanes = this.model.lanes.filter((lane) => lane.index === index);
      for (const lane of lanes) {
        lane.band = bands.length;
        add("lane", lane.isDma ? RING : ENGINE, { lane });
      }
      y += GAP;
      for (const curve of core.memory) if (curve.peak) add("curve", CURVE, { curve });
    });
    this.height = y + 2;
    return bands;
  }

  // The steps of the critical path on each lane, as a track.
  criticalTracks() {
    const { path, cores } = this.model;
    const parts = new Map();
    for (let step = 0; step < path.row.length; step++) {
      const lane = this.model.laneOfRow(cores[path.core[step]], path.row[step]);
      const part = parts.get(lane) ?? { rows: [], begins: [], ends: [] };
      part.rows.push(path.row[step]);
      part.begins.push(path.begin[step]);
      part.ends.push(path.end[step]);
      parts.set(lane, part);
    }
    return new Map(Array.from(parts, ([lane, p]) => [lane, new Track(p.rows, p.begins, p.ends)]));
  }

  changed() {
    if (!this.requested) this.requested = requestAnimationFrame(() => this.draw());
  }

  redraw() {
    this.stale = true;
    this.changed();
  }

  draw() {
    this.requested = 0;
    const { canvas, context, view } = this;
    const width = canvas.parentElement.clientWidth;
    if (!width) return;
    view.left = GUTTER;
    view.width = Math.max(width - GUTTER - 1, 10);
    if (fit(canvas, width, this.height) || this.stale) this.drawMiniature(width);
    this.stale = false;
    context.fillStyle = this.theme.colour("card");
    context.fillRect(0, 0, width, this.height);
    context.textBaseline = "middle";
    this.drawGrid();
    for (const band of this.bands) this.drawBand(band, width);
    this.drawSkips();
    if (this.showCritical) this.drawCritical();
    this.drawSelected();
    this.drawCursor();
    this.drawOverview(width);
    this.report();
  }

  // What a reader of the page's structure, and a test, can see of the canvas.
  report() {
    const { view, model, canvas, selected } = this;
    canvas.dataset.begin = String(view.begin * model.tick);
    canvas.dataset.end = String(view.end * model.tick);
    canvas.dataset.selected = selected ? `${selected.core.rank}:${selected.row}` : "";
    canvas.dataset.critical = String(this.showCritical);
    this.onRange(view);
  }

  drawGrid() {
    const { context, view, theme } = this;
    context.font = SMALL;
    for (const { time, text } of marks(view, this.model.tick)) {
      const x = Math.round(view.x(time)) + 0.5;
      context.strokeStyle = theme.colour("grid");
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, this.height);
      context.stroke();
      context.fillStyle = theme.colour("faint");
      context.textAlign = "left";
      if (x + 3 + context.measureText(text).width < view.left + view.width) context.fillText(text, x + 3, AXIS / 2 - 1);
    }
  }

  drawBand(band, width) {
    const { context, theme } = this;
    const middle = band.y + band.height / 2;
    if (band.kind === "heading") {
      context.fillStyle = theme.colour("ink");
      context.font = `bold ${SMALL}`;
      context.fillText(band.text, 10, middle + 3);
      return;
    }
    if (band.kind === "curve") this.drawCurve(band);
    else this.drawLane(band);
    context.fillStyle = theme.colour("card");
    context.fillRect(0, band.y, GUTTER, band.height + GAP);
    const ring = band.lane?.isDma;
    context.font = ring ? "9px system-ui, sans-serif" : `12px system-ui, sans-serif`;
    context.textAlign = "left";
    context.fillStyle = theme.colour(ring || band.kind === "curve" ? "faint" : "ink");
    const name = band.curve ? band.curve.name.toUpperCase() : band.lane.name.replace(".", " ");
    context.fillText(name, 14, band.curve ? middle - 7 : middle + 0.5);
    if (band.curve) {
      context.font = "9px system-ui, sans-serif";
      context.fillText(`${sizeText(band.curve.peak)} peak`, 14, middle + 6);
    }
    if (band.lane) {
      context.fillStyle = theme.colour(band.lane.engine);
      context.fillRect(4, band.y, 4, band.height);
    }
    context.fillStyle = theme.colour("grid");
    context.fillRect(GUTTER - 1, band.y, 1, band.height);
    if (!ring) context.fillRect(0, band.y + band.height + GAP - 1, width, 1);
  }

  drawCurve(band) {
    paintCurve(this.context, this.view, band.curve, band.y + 3, band.height - 3, this.theme.colour(band.curve.name));
  }

  drawLane({ lane, y, height }) {
    const { context, view, theme } = this;
    const focused = this.focus?.get(lane);
    const clocked = lane.slow.length > 0;
    if (clocked) {
      const flat = { alpha: 1, tint: () => 0, label: null };
      paintTrack(context, view, lane.slow, y, height, { ...flat, colour: theme.colour("throttled") });
      paintTrack(context, view, lane.slow, y, height, { ...flat, colour: hatch(context, theme.colour("card"), 5) });
    }
    const base = this.style(lane, this.focus ? 0.2 : 1);
    if (this.focus) base.label = null;
    const strong = this.style(lane, 1);
    context.font = FONT;
    if (lane.isDma) {
      const thin = { ...base, colour: theme.colour("issue"), tint: () => 0, label: null };
      paintTrack(context, view, lane.issue, y, 3, thin);
      paintTrack(context, view, lane.data, y + 4, height - 4, { ...base, label: null });
      if (focused) {
        paintTrack(context, view, focused.issue, y, 3, { ...thin, alpha: 1 });
        paintTrack(context, view, focused.data, y + 4, height - 4, { ...strong, label: null });
      }
      return;
    }
    const inset = clocked ? 6 : 1; // the throttled clock shows above the instructions
    paintTrack(context, view, lane.issue, y + inset, height - inset - 1, base);
    if (focused) paintTrack(context, view, focused.issue, y + inset, height - inset - 1, strong);
    const loads = { alpha: 1, colour: theme.colour("table"), ink: base.ink, tint: () => 0, label: () => "table" };
    paintTrack(context, view, lane.tables, y + inset, height - inset - 1, loads);
  }

  style(lane, alpha) {
    const { model, theme } = this;
    const { core } = lane;
    return {
      alpha,
      colour: theme.colour(lane.engine),
      ink: theme.colour("on-bar"),
      tint: (row) => core.mnemonic[core.number[row]],
      label: (row) => model.nameOf(core, row),
    };
  }

  drawCritical() {
    const { context, view, theme, model } = this;
    const colour = theme.colour("critical");
    const style = { alpha: 1, colour, tint: () => 0, label: null };
    for (const [lane, track] of this.paths) {
      const { y, height } = this.bands[lane.band];
      const thick = lane.isDma ? 2 : 3;
      paintTrack(context, view, track, y + height - thick, thick, style);
    }
    const { core, row, begin } = model.path;
    const first = search(begin, (time) => time >= view.begin);
    const last = search(begin, (time) => time > view.end);
    if (last - first > 400) return;
    const bottom = (step) => {
      const { y, height } = this.bands[model.laneOfRow(model.cores[core[step]], row[step]).band];
      return y + height - 1;
    };
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.globalAlpha = 0.55;
    context.beginPath();
    for (let step = Math.max(first, 1); step < last; step++) {
      const [from, to] = [bottom(step - 1), bottom(step)];
      if (from === to) continue;
      const x = view.x(begin[step]);
      if (x < view.left) continue;
      context.moveTo(x, from);
      context.lineTo(x, to);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  // Iterations of loops that are like those before, and are not in the data.
  drawSkips() {
    const { context, view, theme, model } = this;
    const pattern = hatch(context, theme.colour("grid"), 8);
    model.cores.forEach((core, index) => {
      const bands = this.bands.filter((band) => band.lane?.index === index);
      if (!bands.length) return;
      const last = bands[bands.length - 1];
      const [top, height] = [bands[0].y, last.y + last.height - bands[0].y];
      for (const [begin, end, times] of core.skips) {
        if (end < view.begin || begin > view.end) continue;
        paintStretches(context, view, [[begin, end]], top, height, pattern);
        const x = Math.max(view.x(begin), view.left);
        const room = Math.min(view.x(end), view.left + view.width) - x - 8;
        const text = fitted(`${times.toLocaleString("en")} more iterations`, room);
        context.font = FONT;
        context.fillStyle = theme.colour("faint");
        if (text) context.fillText(text, x + 4, top + 12);
      }
    });
  }

  // The part of a row that its lane shows: { band, begin, end, y, height }.
  place({ core, row }) {
    const lane = this.model.laneOfRow(core, row);
    const band = this.bands[lane.band];
    if (!lane.isDma) return { band, begin: core.start[row], end: core.release[row], y: band.y, height: band.height };
    return { band, begin: core.start[row], end: core.dataEnd[row], y: band.y, height: band.height };
  }

  drawSelected() {
    if (!this.selected) return;
    const { context, view, theme } = this;
    const { core, row } = this.selected;
    const { begin, end, y, height } = this.place(this.selected);
    const blocker = this.model.blockerOf(core, row);
    if (blocker) this.drawWait(core, row, blocker);
    const x = view.x(begin);
    const width = Math.max(view.x(end) - x, 3);
    if (x + width < view.left || x > view.left + view.width) return;
    context.save();
    context.beginPath();
    context.rect(view.left - 2, 0, view.width + 4, this.height);
    context.clip();
    context.strokeStyle = theme.colour("ink");
    context.lineWidth = 2;
    context.strokeRect(x - 1, y, width + 2, height);
    context.restore();
  }

  // A dashed line from the end of the blocker, at most, to the beginning of what waited for it.
  drawWait(core, row, blocker) {
    const { context, view, theme } = this;
    const from = this.place(blocker);
    const to = this.place({ core, row });
    const x = view.x(core.start[row]);
    const origin = Math.min(view.x(Math.max(from.end, from.begin)), x);
    context.save();
    context.beginPath();
    context.rect(view.left, 0, view.width, this.height);
    context.clip();
    context.strokeStyle = theme.colour("ink");
    context.lineWidth = 1.4;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(origin, from.y + from.height / 2);
    context.lineTo(x, to.y + to.height / 2);
    context.stroke();
    context.setLineDash([]);
    const width = Math.max(view.x(from.end) - view.x(from.begin), 3);
    context.strokeRect(view.x(from.begin) - 1, from.y, width + 2, from.height);
    context.restore();
  }

  drawCursor() {
    if (this.cursor === null || this.cursor < this.view.left) return;
    const { context, view, theme, model } = this;
    const x = Math.round(this.cursor) + 0.5;
    context.strokeStyle = theme.colour("faint");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, AXIS - 4);
    context.lineTo(x, this.height);
    context.stroke();
    const text = model.moment(Math.max(0, view.time(x)), (view.end - view.begin) / 10);
    context.font = SMALL;
    const width = context.measureText(text).width + 8;
    const left = Math.min(x + 2, view.left + view.width - width);
    context.fillStyle = theme.colour("ink");
    context.fillRect(left, 1, width, AXIS - 6);
    context.fillStyle = theme.colour("card");
    context.textAlign = "left";
    context.fillText(text, left + 4, AXIS / 2 - 2);
    if (this.band) {
      const [from, to] = this.band;
      context.globalAlpha = 0.15;
      context.fillStyle = theme.colour("ink");
      context.fillRect(Math.min(from, to), AXIS, Math.abs(to - from), this.height);
      context.globalAlpha = 1;
    }
  }

  drawMiniature(width) {
    fit(this.miniature, width, OVERVIEW);
    const context = this.miniature.getContext("2d");
    context.clearRect(0, 0, width, OVERVIEW);
    const whole = new View(this.model.end, () => {});
    whole.left = GUTTER;
    whole.width = this.view.width;
    const bands = this.model.lanes.length;
    const engines = this.model.lanes.filter((lane) => !lane.isDma).length;
    const unit = (OVERVIEW - 6) / (engines * 3 + (bands - engines));
    let y = 3;
    for (const lane of this.model.lanes) {
      const height = lane.isDma ? unit : unit * 3;
      const style = { ...this.style(lane, 0.9), label: null };
      paintTrack(context, whole, lane.isDma ? lane.data : lane.issue, y, Math.max(height * 0.8, 0.6), style);
      y += height;
    }
    this.whole = whole;
  }

  drawOverview(width) {
    const { overview, theme, view, whole } = this;
    fit(overview, width, OVERVIEW);
    const context = overview.getContext("2d");
    context.clearRect(0, 0, width, OVERVIEW);
    context.drawImage(this.miniature, 0, 0, width, OVERVIEW);
    const [from, to] = [whole.x(view.begin), whole.x(view.end)];
    context.fillStyle = theme.colour("veil");
    context.fillRect(whole.left, 0, from - whole.left, OVERVIEW);
    context.fillRect(to, 0, whole.left + whole.width - to, OVERVIEW);
    context.strokeStyle = theme.colour("faint");
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), OVERVIEW - 1);
    context.fillStyle = theme.colour("faint");
    context.font = SMALL;
    context.textBaseline = "middle";
    context.fillText("overview", 14, OVERVIEW / 2);
  }

  // The row at a point of the canvas, within 3 pixels, as { core, row }.
  at(x, y) {
    if (x < this.view.left) return null;
    const band = this.bands.find((each) => y >= each.y && y < each.y + each.height + 1);
    if (!band?.lane) return null;
    const { lane } = band;
    const track = lane.isDma && y - band.y >= 4 ? lane.data : lane.issue;
    const row = this.nearest(track, x) ?? (lane.isDma ? this.nearest(lane.issue, x) : null);
    return row === null ? null : { core: lane.core, row };
  }

  // The instruction that an engine waits for at a point of the canvas where nothing runs on it, or null.
  gapAt(x, y) {
    const band = this.bands.find((each) => y >= each.y && y < each.y + each.height);
    if (x < this.view.left || !band?.lane || band.lane.isDma) return null;
    const { core, issue } = band.lane;
    const next = issue.after(this.view.time(x));
    return next > 0 && next < issue.length ? { core, row: issue.rows[next] } : null;
  }

  nearest(track, x) {
    const time = this.view.time(x);
    const next = track.after(time);
    let best = null;
    let least = 3 * this.view.perPixel;
    for (const index of [next - 1, next]) {
      if (index < 0 || index >= track.length) continue;
      const away = Math.max(track.begins[index] - time, time - track.ends[index], 0);
      if (away <= least) [best, least] = [track.rows[index], away];
    }
    return best;
  }

  highlight(keep) {
    if (!keep) this.focus = null;
    else {
      this.focus = new Map();
      for (const lane of this.model.lanes) {
        const holds = (row) => keep(lane.core, row);
        this.focus.set(lane, { issue: lane.issue.where(holds), data: lane.data.where(holds) });
      }
    }
    this.canvas.dataset.focus = this.focus ? "some" : "";
    this.changed();
  }
}

// The selected instruction: its times, its reason to wait, and the way to the instruction that it waited for.

function element(name, options = {}, ...children) {
  const { text, ...attributes } = options;
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const FOLLOWERS = 6;

class Details {
  constructor(model, panel, actions) {
    Object.assign(this, { model, panel, actions });
    this.hint = panel.firstElementChild;
  }

  show(selected) {
    this.panel.replaceChildren(...(selected ? this.parts(selected) : [this.hint]));
  }

  parts({ core, row }) {
    const { model } = this;
    const lane = model.laneOfRow(core, row);
    const place = model.cores.length > 1 ? `core ${core.rank} · ${lane.name}` : lane.name;
    const head = element("h3", {}, model.nameOf(core, row), element("span", { class: "chip", text: place }));
    return [head, this.wait(core, row), this.facts(core, row), ...this.followers(core, row)];
  }

  wait(core, row) {
    const { model } = this;
    const { reason, blocker, waited } = model.why(core, row);
    const started = core.cause[row] === 0 && !blocker;
    const verb = waited > 0 ? `Its queue was free for ${model.time(waited)}; it waited for` : "It followed";
    const text = started && !waited ? "It begins with its block." : `${verb} ${reason}.`;
    const note = element("p", { class: "wait", text });
    if (blocker) {
      note.append(" ", this.jump(blocker, `→ ${model.placeOf(blocker, core)}`, { id: "blocker", title: "B" }));
    }
    return note;
  }

  jump(place, text, attributes = {}) {
    return element("button", { text, click: () => this.actions.select(place, true), ...attributes });
  }

  facts(core, row) {
    const { model } = this;
    const line = model.lineOf(core, row);
    const { writes, reads } = model.operandsOf(core, row);
    const estimate = model.estimateOf(core, row);
    const moments = (...ticks) => ticks.map((each) => model.moment(each, ticks.at(-1) - ticks[0])).join(" – ");
    const between = (from, to) => `${moments(from, to)} (${model.time(to - from)})`;
    const list = element("dl");
    const fact = (name, ...values) => {
      if (values.length) list.append(element("dt", { text: name }), element("dd", {}, ...values));
    };
    if (line >= 0) {
      const { label, code } = model.lines[line];
      const go = () => this.actions.showLine(line, true);
      fact("Line", element("button", { text: label, click: go }), " ", element("code", { text: code }));
    }
    fact("Writes", writes.join("; ") || "nothing");
    fact("Reads", reads.join("; ") || "nothing");
    fact(core.isDma[row] ? "Issue" : "On its queue", between(core.start[row], core.release[row]));
    if (core.isDma[row]) fact("Data", between(core.dataStart[row], core.dataEnd[row]));
    fact("Result visible", model.moment(core.end[row], core.end[row] - core.start[row]));
    if (core.throttled[row] > 0) fact("Slow clock", `adds ${model.time(core.throttled[row])}`);
    if (estimate.bytes) fact("Moves", sizeText(estimate.bytes));
    if (estimate.flops) fact("Computes", `${estimate.flops.toLocaleString("en")} FLOP`);
    if (estimate.table) fact("Table", estimate.table);
    if (core.weight[row] > 1) fact("Stands for", `${core.weight[row].toLocaleString("en")} iterations`);
    const isOnce = core.weight[row] === 1; // of a repeated one the replay shows no share
    const step = isOnce ? model.step(core, row) : undefined;
    if (step !== undefined) fact("Critical path", `${model.time(model.path.end[step] - model.path.begin[step])} of it`);
    fact("Time is from", `${estimate.kind}: ${estimate.source}`);
    return list;
  }

  followers(core, row) {
    const { model } = this;
    const waiting = [];
    for (let other = row + 1; other < core.rows && waiting.length <= FOLLOWERS; other++) {
      if (core.blocker[other] === row) waiting.push({ core, row: other });
    }
    for (const other of model.cores) {
      for (const [late, last] of other.meetings) {
        if (model.cores[last.core] === core && last.row === row) waiting.push({ core: other, row: late });
      }
    }
    if (!waiting.length) return [];
    const buttons = waiting.slice(0, FOLLOWERS).map((place) => this.jump(place, model.placeOf(place, core)));
    const more = waiting.length > FOLLOWERS ? " and others" : "";
    return [element("p", { class: "followers" }, "Waited for it: ", ...buttons, more)];
  }

  // The words that a screen reader hears, and the lines of the tip under the pointer.
  // The lines of the tip where an engine stands still before an instruction.
  gap({ core, row }) {
    const { model } = this;
    const { reason, blocker, waited } = model.why(core, row);
    const line = model.lineOf(core, row);
    return {
      title: `${model.laneOfRow(core, row).name} stands still · ${model.time(waited)}`,
      texts: [
        `until ${blocker ? `${model.placeOf(blocker, core)}: ` : ""}${reason}`,
        `then ${model.nameOf(core, row)}${line >= 0 ? `  ${model.lines[line].label}` : ""}`,
      ],
    };
  }

  summary({ core, row }) {
    const { model } = this;
    const { writes, reads } = model.operandsOf(core, row);
    const { reason, blocker, waited } = model.why(core, row);
    const line = model.lineOf(core, row);
    const end = core.isDma[row] ? core.dataEnd[row] : core.release[row];
    const cause = blocker ? `${model.placeOf(blocker, core)}: ` : "";
    const moment = (ticks) => model.moment(ticks, end - core.start[row]);
    return {
      title: `${model.nameOf(core, row)} · ${model.time(end - core.start[row])}`,
      texts: [
        line >= 0 ? `${model.lines[line].label}  ${model.lines[line].code}` : "",
        `${writes.join(", ") || "–"} ← ${reads.join(", ") || "–"}`,
        `from ${moment(core.start[row])} to ${moment(end)}`,
        core.isDma[row] ? `data ${moment(core.dataStart[row])} – ${moment(core.dataEnd[row])}` : "",
        waited > 0 || blocker ? `waited ${model.time(waited)} for ${cause}${reason}` : "",
      ].filter(Boolean),
    };
  }
}

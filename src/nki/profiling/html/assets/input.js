// Pointer, wheel and keys of the timeline.

const CLICK = 4; // pixels that a click may move

class Input {
  constructor(timeline, details, tip, actions) {
    Object.assign(this, { timeline, details, tip, actions });
    this.pointers = new Map();
    this.moved = 0;
    const { canvas, overview } = timeline;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("dblclick", () => actions.zoomToSelected());
    overview.addEventListener("pointerdown", (event) => this.grab(event));
    overview.addEventListener("pointermove", (event) => event.buttons && this.drag(event));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event) {
    const { view } = this.timeline;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (!sideways && event.deltaY > 0 && view.isWhole) return; // let the page scroll
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (sideways) view.pan((event.deltaX || event.deltaY) * unit);
    else view.zoom(Math.exp(event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0022)), event.offsetX);
  }

  down(event) {
    if (event.button !== 0) return;
    this.timeline.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event.offsetX);
    this.moved = 0;
    this.ranging = event.shiftKey ? event.offsetX : null;
  }

  move(event) {
    const { timeline } = this;
    const before = this.pointers.get(event.pointerId);
    timeline.cursor = event.offsetX;
    if (before === undefined) {
      this.hover(event);
      return timeline.changed();
    }
    this.moved += Math.abs(event.offsetX - before) + Math.abs(event.movementY);
    if (this.ranging !== null) timeline.band = [this.ranging, event.offsetX];
    else if (this.pointers.size === 2) this.pinch(event, before);
    else if (this.moved > CLICK) timeline.view.pan(before - event.offsetX);
    this.pointers.set(event.pointerId, event.offsetX);
    if (this.moved > CLICK) this.tip.hidden = true;
    timeline.changed();
  }

  pinch(event, before) {
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
    const [was, is] = [Math.abs(before - other), Math.abs(event.offsetX - other)];
    if (was > 8 && is > 8) this.timeline.view.zoom(was / is, (event.offsetX + other) / 2);
  }

  up(event) {
    const { timeline } = this;
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.ranging !== null && this.moved > CLICK) {
      const times = [this.ranging, event.offsetX].map((x) => timeline.view.time(x)).sort((a, b) => a - b);
      timeline.view.go(...times);
    } else if (event.type === "pointerup" && this.moved <= CLICK) {
      const place = [event.offsetX, event.offsetY];
      this.actions.select(timeline.at(...place) ?? timeline.gapAt(...place), false);
    }
    this.ranging = null;
    timeline.band = null;
  }

  leave() {
    this.timeline.cursor = null;
    this.tip.hidden = true;
    this.timeline.changed();
  }

  hover(event) {
    const { timeline, tip } = this;
    const under = timeline.at(event.offsetX, event.offsetY);
    const gap = under ? null : timeline.gapAt(event.offsetX, event.offsetY);
    timeline.canvas.style.cursor = under || gap ? "pointer" : "grab";
    tip.hidden = !under && !gap;
    if (tip.hidden) return;
    const { title, texts } = under ? this.details.summary(under) : this.details.gap(gap);
    tip.replaceChildren(element("b", { text: title }), ...texts.map((text) => element("div", { text })));
    const { clientWidth, clientHeight } = document.documentElement;
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const below = event.clientY + 18 + height < clientHeight;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, clientWidth - width - 8))}px`;
    tip.style.top = `${below ? event.clientY + 18 : Math.max(4, event.clientY - height - 10)}px`;
  }

  grab(event) {
    this.timeline.overview.setPointerCapture(event.pointerId);
    this.drag(event);
  }

  drag(event) {
    const { view, whole } = this.timeline;
    const half = (view.end - view.begin) / 2;
    const time = whole.time(event.offsetX);
    view.set(time - half, time + half);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.matches("input, textarea, select")) return;
    const inTimeline = target === this.timeline.canvas;
    if (event.key.startsWith("Arrow") && !inTimeline) return; // they scroll the page
    const action = this.actionOf(event.key);
    if (!action) return;
    event.preventDefault();
    this.tip.hidden = true; // the pointer stays where it is, and may be on another instruction now
    action(event);
  }

  actionOf(key) {
    const { view } = this.timeline;
    const { actions } = this;
    const closer = () => view.zoom(1 / 1.35);
    const farther = () => view.zoom(1.35);
    const left = () => view.pan(-view.width / 8);
    const right = () => view.pan(view.width / 8);
    return {
      w: closer, "+": closer, "=": closer, ArrowUp: closer,
      s: farther, "-": farther, ArrowDown: farther,
      a: left, ArrowLeft: left, d: right, ArrowRight: right,
      0: () => view.all(),
      "/": () => actions.search(),
      n: (event) => actions.next(event.shiftKey ? -1 : 1),
      "[": () => actions.neighbour(-1), "]": () => actions.neighbour(1),
      b: () => actions.follow(),
      f: () => actions.zoomToSelected(),
      c: () => actions.toggleCritical(),
      "?": () => actions.toggleHelp(),
      Escape: () => actions.clear(),
    }[key.length === 1 ? key.toLowerCase() : key];
  }
}

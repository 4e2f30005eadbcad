// The visible stretch of time, in ticks, and its map to pixels. It moves at once, or glides there in a few frames.

const MARGIN = 0.02;
const LEAST = 20; // ticks that the view shows at least

class View {
  constructor(end, changed) {
    this.limit = [-end * MARGIN, end * (1 + MARGIN)];
    [this.begin, this.end] = this.limit;
    this.left = 0;
    this.width = 1;
    this.changed = changed;
    this.glide = 0;
  }

  x(time) {
    return this.left + ((time - this.begin) / (this.end - this.begin)) * this.width;
  }

  time(x) {
    return this.begin + ((x - this.left) / this.width) * (this.end - this.begin);
  }

  get perPixel() {
    return (this.end - this.begin) / this.width;
  }

  get isWhole() {
    return this.begin <= this.limit[0] && this.end >= this.limit[1];
  }

  bounded(begin, end) {
    const [low, high] = this.limit;
    const length = Math.min(Math.max(end - begin, LEAST), high - low);
    const middle = (begin + end) / 2;
    const first = Math.min(Math.max(middle - length / 2, low), high - length);
    return [first, first + length];
  }

  set(begin, end) {
    cancelAnimationFrame(this.glide);
    [this.begin, this.end] = this.bounded(begin, end);
    this.changed();
  }

  // Glide to a stretch in 160 ms, or go at once if the reader wants less motion.
  go(begin, end) {
    const target = this.bounded(begin, end);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.set(...target);
    cancelAnimationFrame(this.glide);
    const origin = [this.begin, this.end];
    const started = performance.now();
    const step = (now) => {
      const part = Math.min(Math.max((now - started) / 160, 0), 1);
      const eased = 1 - (1 - part) ** 3;
      this.begin = origin[0] + (target[0] - origin[0]) * eased;
      this.end = origin[1] + (target[1] - origin[1]) * eased;
      this.changed();
      if (part < 1) this.glide = requestAnimationFrame(step);
    };
    this.glide = requestAnimationFrame(step);
  }

  // Zoom by `factor` (below 1: closer) around the time that is at `x`, which stays where it is.
  zoom(factor, x = this.left + this.width / 2) {
    const time = this.time(x);
    const length = Math.min(Math.max((this.end - this.begin) * factor, LEAST), this.limit[1] - this.limit[0]);
    const begin = time - ((x - this.left) / this.width) * length;
    this.set(begin, begin + length);
  }

  pan(pixels) {
    const ticks = pixels * this.perPixel;
    this.set(this.begin + ticks, this.end + ticks);
  }

  all() {
    this.go(...this.limit);
  }

  // Show an interval: move there if it is out of sight, and closer if it is too narrow to see.
  reveal(begin, end) {
    const length = Math.max(end - begin, 1);
    const span = this.end - this.begin;
    const narrow = length / this.perPixel < 6;
    if (!narrow && begin >= this.begin && begin + Math.min(length, span) <= this.end) return;
    const wide = narrow ? Math.min(span, length * (this.width / 40)) : Math.max(span, length * 1.2);
    const middle = (begin + end) / 2;
    this.go(middle - wide / 2, middle + wide / 2);
  }
}

// Round times for the marks of an axis: about one in each 110 pixels.
function marks(view, tick) {
  const wanted = view.perPixel * 110 * tick;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= wanted);
  const first = Math.max(0, Math.ceil((view.begin * tick) / step));
  const last = Math.floor((view.end * tick) / step);
  const largest = Math.max(Math.abs(view.end * tick), step);
  const [factor, unit] = UNITS.find(([size]) => largest >= size) ?? UNITS[3];
  const places = Math.max(0, -Math.floor(Math.log10(step / factor) + 1e-9));
  const result = [];
  for (let index = first; index <= last; index++) {
    result.push({ time: (index * step) / tick, text: `${((index * step) / factor).toFixed(places)} ${unit}` });
  }
  return result;
}

// Links between source lines and the timeline: a line highlights its instructions, and an instruction shows its line.

class Lines {
  constructor(actions) {
    this.actions = actions;
    this.pressed = -1;
    this.rows = new Map();
    for (const row of document.querySelectorAll("tr[data-line]")) {
      this.rows.set(Number(row.dataset.line), row);
      row.addEventListener("click", () => this.toggle(Number(row.dataset.line)));
    }
    for (const button of document.querySelectorAll("button[data-line]")) {
      button.addEventListener("click", () => this.toggle(Number(button.dataset.line), true));
    }
    this.scrollToCostliest();
  }

  toggle(line, scroll = false) {
    this.press(line === this.pressed ? -1 : line, scroll);
  }

  // Highlight the instructions of a line; -1 for none.
  press(line, scroll = false) {
    this.pressed = line;
    for (const [number, row] of this.rows) {
      row.classList.toggle("pressed", number === line);
      row.querySelector("button").setAttribute("aria-pressed", String(number === line));
    }
    for (const button of document.querySelectorAll("button[data-line]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.line) === line));
    }
    this.actions.highlight(line < 0 ? null : (core, row) => core.line[core.number[row]] === line);
    if (scroll && line >= 0) this.scroll(line);
  }

  // Mark the line of the selected instruction.
  mark(line) {
    for (const [number, row] of this.rows) row.classList.toggle("marked", number === line);
    if (line >= 0) this.scroll(line);
  }

  // Scroll within the listing only; the page stays where it is.
  scroll(line) {
    const row = this.rows.get(line);
    if (!row) return;
    row.closest("details").open = true;
    const listing = row.closest(".listing");
    const [inner, outer] = [row.getBoundingClientRect(), listing.getBoundingClientRect()];
    if (inner.top < outer.top + 24 || inner.bottom > outer.bottom) {
      listing.scrollTop += inner.top - outer.top - listing.clientHeight / 3;
    }
  }

  scrollToCostliest() {
    let [best, most] = [-1, 0];
    for (const [number, row] of this.rows) {
      const width = Number(row.querySelector("rect").getAttribute("width"));
      if (width > most) [best, most] = [number, width];
    }
    if (best >= 0) this.scroll(best);
  }
}

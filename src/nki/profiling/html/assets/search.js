// Search by mnemonic, source line or tensor: all matches are highlighted, and Enter goes from one to the next.

class Search {
  constructor(model, input, output, actions) {
    Object.assign(this, { model, input, output, actions });
    this.matches = [];
    this.current = -1;
    input.addEventListener("input", () => this.find(input.value));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") this.clear();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  clear() {
    this.input.value = "";
    this.input.blur();
    this.find("");
  }

  find(text) {
    const wanted = text.trim().toLowerCase();
    this.current = -1;
    this.matches = [];
    this.output.textContent = "";
    if (!wanted) return this.actions.highlight(null);
    const { model } = this;
    const holds = (each) => each.toLowerCase().includes(wanted);
    const mnemonics = model.mnemonics.map(holds);
    const operands = model.operands.map(holds);
    const lines = model.lines.map(({ label, code }) => holds(label) || holds(code));
    for (const core of model.cores) {
      core.matches = Uint8Array.from(core.mnemonic, (mnemonic, number) => {
        if (mnemonics[mnemonic] || lines[core.line[number]]) return 1;
        const first = core.firstOperand[number];
        const last = first + core.writes[number] + core.reads[number];
        for (let index = first; index < last; index++) if (operands[core.operand[index]]) return 1;
        return 0;
      });
      for (let row = 0; row < core.rows; row++) {
        if (core.matches[core.number[row]]) this.matches.push({ core, row });
      }
    }
    this.matches.sort((a, b) => a.core.start[a.row] - b.core.start[b.row]);
    this.actions.highlight((core, row) => core.matches[core.number[row]] === 1);
    this.tell();
  }

  tell() {
    const count = this.matches.length.toLocaleString("en");
    const place = (this.current + 1).toLocaleString("en");
    this.output.textContent = this.current < 0 ? `${count} found` : `${place} of ${count}`;
  }

  go(step) {
    const count = this.matches.length;
    if (!count) return;
    this.current = this.current < 0 && step < 0 ? count - 1 : (this.current + step + count) % count;
    this.actions.select(this.matches[this.current], true);
    this.tell();
  }
}

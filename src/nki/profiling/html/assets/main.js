// The start of the page: read the data, build the parts, and connect them.

const byId = (id) => document.getElementById(id);

async function start() {
  const description = JSON.parse(byId("profile").textContent);
  const model = new Model(description, await inflate(byId("columns").textContent.trim()));
  byId("columns").remove();
  const theme = new Theme(byId("theme"));
  const timeline = new Timeline(model, theme, byId("timeline"), byId("overview"));
  const critical = byId("critical");

  const actions = {
    select(selected, reveal) {
      timeline.selected = selected;
      details.show(selected);
      lines.mark(selected ? model.lineOf(selected.core, selected.row) : -1);
      if (selected) {
        const { title, texts } = details.summary(selected);
        byId("said").textContent = [title, ...texts].join(". ");
        const { begin, end } = timeline.place(selected);
        if (reveal) timeline.view.reveal(begin, end);
      } else byId("said").textContent = "";
      timeline.changed();
    },
    highlight: (keep) => timeline.highlight(keep),
    showLine: (line, scroll) => lines.press(line, scroll),
    search() {
      byId("search").focus();
      byId("search").select();
    },
    next: (step) => find.go(step),
    neighbour(step) {
      const { selected } = timeline;
      if (!selected) return;
      const row = model.neighbour(selected.core, selected.row, step);
      if (row >= 0) actions.select({ core: selected.core, row }, true);
    },
    follow() {
      const { selected } = timeline;
      const blocker = selected ? model.blockerOf(selected.core, selected.row) : null;
      if (blocker) actions.select(blocker, true);
    },
    zoomToSelected() {
      if (!timeline.selected) return;
      const { begin, end } = timeline.place(timeline.selected);
      const length = Math.max(end - begin, 1);
      timeline.view.go(begin - length, end + length);
    },
    toggleCritical() {
      timeline.showCritical = !timeline.showCritical;
      critical.setAttribute("aria-pressed", String(timeline.showCritical));
      timeline.changed();
    },
    toggleHelp() {
      const help = byId("help");
      help.hidden = !help.hidden;
      byId("keys").setAttribute("aria-expanded", String(!help.hidden));
    },
    clear() {
      find.clear();
      lines.press(-1);
      actions.select(null, false);
    },
  };

  const details = new Details(model, byId("details"), actions);
  const find = new Search(model, byId("search"), byId("matches"), actions);
  const lines = new Lines(actions);
  new Input(timeline, details, byId("tip"), actions);

  critical.addEventListener("click", () => actions.toggleCritical());
  byId("keys").addEventListener("click", () => actions.toggleHelp());
  byId("in").addEventListener("click", () => timeline.view.zoom(1 / 1.6));
  byId("out").addEventListener("click", () => timeline.view.zoom(1.6));
  byId("all").addEventListener("click", () => timeline.view.all());
  for (const button of document.querySelectorAll("button[data-row]")) {
    const core = model.cores[Number(button.dataset.core)];
    button.addEventListener("click", () => {
      actions.select({ core, row: Number(button.dataset.row) }, true);
      byId("timeline").scrollIntoView({ block: "nearest" });
    });
  }
  for (const button of document.querySelectorAll("button[data-find]")) {
    button.addEventListener("click", () => {
      byId("search").value = button.dataset.find;
      find.find(button.dataset.find);
      byId("timeline").scrollIntoView({ block: "center" });
    });
  }
  timeline.onRange = (view) => {
    const [begin, end] = [Math.max(0, view.begin), Math.min(view.end, model.end)];
    const [first, last] = [begin, end].map((each) => model.moment(each, end - begin));
    byId("range").textContent = `${begin ? first : "0"} – ${last}`;
    document.documentElement.dataset.ready = "true";
  };
  timeline.changed();
}

start().catch((error) => {
  byId("said").classList.remove("unseen");
  byId("said").textContent = `The timeline could not be drawn: ${error.message}. It needs a browser of 2024 or later.`;
  throw error;
});

// Colours of the canvas, which come from the style sheet, and the switch between light and dark.

class Theme {
  constructor(button) {
    this.button = button;
    this.probe = document.createElement("i");
    this.probe.hidden = true;
    document.body.append(this.probe);
    this.listeners = [];
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.apply());
    button.addEventListener("click", () => this.set(this.isDark ? "light" : "dark"));
    this.set(remembered());
  }

  get isDark() {
    return (document.documentElement.dataset.theme ?? (this.dark.matches ? "dark" : "light")) === "dark";
  }

  set(name) {
    if (name) {
      document.documentElement.dataset.theme = name;
      remember(name);
    }
    this.apply();
  }

  apply() {
    this.colours = new Map();
    this.button.setAttribute("aria-pressed", String(this.isDark));
    this.listeners.forEach((listener) => listener());
  }

  colour(name) {
    let value = this.colours.get(name);
    if (value === undefined) {
      this.probe.style.color = `var(--${name})`;
      value = getComputedStyle(this.probe).color;
      this.colours.set(name, value);
    }
    return value;
  }
}

// A page that is opened as a file may have no storage.
function remembered() {
  try {
    const name = localStorage.getItem("nki-profile-theme");
    return name === "dark" || name === "light" ? name : null;
  } catch {
    return null;
  }
}

function remember(name) {
  try {
    localStorage.setItem("nki-profile-theme", name);
  } catch {
    // The theme then holds for this page only.
  }
}

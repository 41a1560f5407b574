// Zoom and search for the flame graph that this script is in.
(() => {
  "use strict";
  const svg = document.currentScript ? document.currentScript.ownerSVGElement : document.documentElement;
  const area = svg.getElementById("frames");
  const [areaLeft, areaWidth, letter] = ["left", "width", "letter"].map((key) => Number(area.dataset[key]));
  const frames = Array.from(area.children, (element) => ({
    element,
    box: element.querySelector("rect"),
    label: element.querySelector("text"),
    name: element.dataset.name,
    x: Number(element.dataset.x),
    width: Number(element.dataset.w),
    level: Number(element.dataset.level),
  }));
  const [reset, search, found, detail] = ["reset", "search", "found", "detail"].map((id) => svg.getElementById(id));
  const rounding = 1e-6;

  const fitted = (name, width) => {
    const letters = Math.floor((width - 6) / letter);
    if (name.length <= letters) return name;
    return letters < 3 ? "" : name.slice(0, letters - 1) + "…";
  };

  const zoom = (focus) => {
    for (const frame of frames) {
      const holdsFocus =
        frame.level < focus.level &&
        frame.x <= focus.x + rounding &&
        frame.x + frame.width >= focus.x + focus.width - rounding;
      const inFocus =
        frame.level >= focus.level &&
        frame.x >= focus.x - rounding &&
        frame.x + frame.width <= focus.x + focus.width + rounding;
      frame.element.classList.toggle("above", holdsFocus);
      frame.element.classList.toggle("outside", !holdsFocus && !inFocus);
      const left = holdsFocus ? 0 : (frame.x - focus.x) / focus.width;
      const width = (holdsFocus ? 1 : frame.width / focus.width) * areaWidth;
      frame.box.setAttribute("x", areaLeft + left * areaWidth);
      frame.box.setAttribute("width", Math.max(0, width));
      frame.label.setAttribute("x", areaLeft + left * areaWidth + 3);
      frame.label.textContent = fitted(frame.name, width);
    }
    reset.classList.toggle("outside", focus.level === 0);
  };

  const matcher = (wanted) => {
    try {
      const pattern = new RegExp(wanted, "i");
      return (name) => pattern.test(name);
    } catch {
      return (name) => name.includes(wanted);
    }
  };

  // What is found inside of something found counts once.
  const share = (matches) => {
    let covered = 0;
    let end = 0;
    for (const frame of [...matches].sort((a, b) => a.x - b.x || b.width - a.width)) {
      covered += Math.max(0, frame.x + frame.width - Math.max(end, frame.x));
      end = Math.max(end, frame.x + frame.width);
    }
    return covered;
  };

  const find = (wanted) => {
    const matches = wanted ? frames.filter((frame) => frame.level > 0 && matcher(wanted)(frame.name)) : [];
    for (const frame of frames) frame.element.classList.toggle("found", matches.includes(frame));
    found.textContent = wanted ? `${wanted}: ${(100 * share(matches)).toFixed(1)} %` : "";
    search.textContent = wanted ? "clear search (Esc)" : "search (/)";
  };

  const ask = () => {
    const wanted = window.prompt("Part of a function's name, or a regular expression:");
    if (wanted !== null) find(wanted);
  };

  const root = frames.find((frame) => frame.level === 0);
  for (const frame of frames) {
    frame.element.addEventListener("click", () => zoom(frame));
    frame.element.addEventListener("mouseenter", () => {
      detail.textContent = frame.element.querySelector("title").textContent.replace("\n", ": ");
    });
    frame.element.addEventListener("mouseleave", () => {
      detail.textContent = "";
    });
  }
  reset.addEventListener("click", () => zoom(root));
  search.addEventListener("click", () => (found.textContent ? find("") : ask()));
  window.addEventListener("keydown", (event) => {
    if (event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      ask();
    } else if (event.key === "Escape") {
      find("");
      zoom(root);
    }
  });
})();

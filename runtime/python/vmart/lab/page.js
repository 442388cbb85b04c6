"use strict";
// Draws the page's pictures: those that stand by themselves at once, those of a scenario and a policy
// when these are chosen. Colours of text and grid follow the page's.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const scenarios = JSON.parse(document.getElementById("scenarios").textContent);
  // Named one by one: Plotly's own choice has a button that sends the data to its company.
  const config = {displaylogo: false, responsive: true, plotlyServerURL: "", showSendToCloud: false,
                  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]]};
  const shown = new Map();  // From the place of a picture to its name.

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function inColours(layout) {
    const text = colour("--text"), line = colour("--line");
    const copy = structuredClone(layout);
    copy.paper_bgcolor = copy.plot_bgcolor = "rgba(0,0,0,0)";
    copy.font = {...copy.font, color: text, family: getComputedStyle(document.body).fontFamily};
    copy.modebar = {bgcolor: "rgba(0,0,0,0)", color: colour("--line"), activecolor: colour("--quiet")};
    copy.hoverlabel = {bgcolor: colour("--raised"), bordercolor: line, font: {color: text}};
    for (const key of Object.keys(copy)) {
      if (!/^[xy]axis/.test(key)) continue;
      Object.assign(copy[key], {gridcolor: line, zerolinecolor: line, linecolor: line});
    }
    for (const shape of copy.shapes || []) shape.line.color = colour("--quiet");
    for (const note of copy.annotations || []) note.font = {...note.font, color: colour("--quiet")};
    return copy;
  }

  function inTone(data) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return data.map((trace) => {
      if (trace.error_x) return {...trace, error_x: {...trace.error_x, color: colour("--quiet")}};
      // Plotly chooses the colour of these texts as if the ground were white.
      return trace.type === "heatmap" && dark ? {...trace, textfont: {color: "#ffffff"}} : trace;
    });
  }

  function draw(place, name) {
    const element = document.getElementById(place);
    const figure = figures[name];
    shown.set(place, name);
    element.hidden = !figure;
    if (!figure) return Plotly.purge(element);
    element.style.minHeight = `${figure.layout.height}px`;
    return Plotly.react(element, inTone(figure.data), inColours(figure.layout), config);
  }

  const scenario = document.getElementById("scenario");
  const policy = document.getElementById("policy");

  function drawPolicy() {
    const cell = policy.value;
    for (const kind of ["time", "moves", "links"]) draw(`figure-${kind}`, `${kind}-${cell}`);
    document.getElementById("no-moves").hidden = `moves-${cell}` in figures;
    document.getElementById("cell-id").textContent = policy.selectedOptions[0].dataset.id;
  }

  function drawScenario() {
    const before = policy.selectedOptions[0]?.textContent;
    const chosen = scenarios[scenario.selectedIndex];
    policy.replaceChildren(...chosen.cells.map((cell) => {
      const option = new Option(cell.policy, cell.number, false, cell.policy === before);
      option.dataset.id = cell.id;
      return option;
    }));
    draw("figure-slowdown", `slowdown-${scenario.selectedIndex}`);
    drawPolicy();
  }

  for (const element of document.querySelectorAll(".figure[data-figure]"))
    draw(element.id, element.dataset.figure);
  if (scenario) {
    scenario.addEventListener("change", drawScenario);
    policy.addEventListener("change", drawPolicy);
    drawScenario();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [place, name] of shown) draw(place, name);
  });
})();

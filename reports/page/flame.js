// A flame graph, callers above what they called.
function flameGraph(section, graph) {
  const canvas = el("canvas", { tabIndex: 0, className: "flame", role: "img", "aria-label": `${graph.title} flame graph: ${graph.about}` });
  const info = el("p", { className: "info soft", "aria-live": "polite" });
  const search = el("input", { type: "search", placeholder: "find frames", "aria-label": `find frames in ${graph.title}` });
  const reset = el("button", { type: "button", textContent: "all of it" });
  section.append(el("h3", {}, graph.title), el("p", { className: "soft" }, graph.about), el("div", { className: "tools" }, search, reset), canvas, info);
  const rowHeight = 18;
  const rows = []; // of each depth: boxes
  let zoomed = null, chosen = null;

  function lay(node, begin, depth, parent) {
    const box = { name: text(node[0]), value: node[1], begin, depth, parent };
    (rows[depth] = rows[depth] || []).push(box);
    let at = begin;
    for (const child of node[2]) {
      lay(child, at, depth + 1, box);
      at += child[1];
    }
    return box;
  }
  const root = lay(graph.root, 0, 0, null);
  zoomed = root;

  function draw() {
    const deepest = rows.findLastIndex((r) => r.some((b) => b.begin < zoomed.begin + zoomed.value && b.begin + b.value > zoomed.begin && width(b) > 1));
    const { c, width: w, height, colors } = fit(canvas, (deepest + 1) * rowHeight + 2);
    c.fillStyle = colors.bg;
    c.fillRect(0, 0, w, height);
    const wanted = search.value.toLowerCase();
    let found = 0;
    for (const row of rows) {
      for (const b of row) {
        const match = wanted && b.name.toLowerCase().includes(wanted);
        const a = (b.begin - zoomed.begin) / zoomed.value * w, e = (b.begin + b.value - zoomed.begin) / zoomed.value * w;
        if (e < 0 || a > w || e - a < 0.4) continue;
        const x = Math.max(a, 0), room = Math.min(e, w) - x;
        c.globalAlpha = wanted && !match ? 0.25 : 1;
        c.fillStyle = `hsl(${20 + hash(b.name) % 40} 70% ${dark.matches ? 45 : 65}%)`;
        c.fillRect(x, b.depth * rowHeight, Math.max(room - 0.5, 0.4), rowHeight - 1);
        const label = cut(c, b.name, room - 6);
        if (label) {
          c.fillStyle = dark.matches ? "#fff" : "#1b1f24";
          c.fillText(label, x + 3, b.depth * rowHeight + rowHeight / 2);
        }
        c.globalAlpha = 1;
        if (b === chosen) {
          c.strokeStyle = colors.fg;
          c.strokeRect(x + 0.5, b.depth * rowHeight + 0.5, Math.max(room - 1, 1), rowHeight - 2);
        }
      }
    }
    if (wanted) {
      for (const row of rows) {
        for (const b of row) {
          if (b.name.toLowerCase().includes(wanted) && !within(b.parent, wanted)) found += b.value;
        }
      }
    }
    canvas.dataset.begin = String(zoomed.begin);
    canvas.dataset.value = String(zoomed.value);
    const b = chosen || zoomed;
    info.textContent = `${b.name}: ${duration(b.value)}, ${share(b.value, root.value)} of all` + (wanted ? `; found: ${duration(found)}, ${share(found, root.value)}` : "");
  }
  const width = (b) => b.value / zoomed.value * (canvas.clientWidth || 800);

  // within tells that a frame or one of its callers matches.
  function within(b, wanted) {
    for (; b; b = b.parent) if (b.name.toLowerCase().includes(wanted)) return true;
    return false;
  }

  function at(e) {
    const box = canvas.getBoundingClientRect(), v = zoomed.begin + (e.clientX - box.left) / box.width * zoomed.value;
    const row = rows[Math.floor((e.clientY - box.top) / rowHeight)] || [];
    return row.find((b) => b.begin <= v && v < b.begin + b.value) || null;
  }
  canvas.addEventListener("mousemove", (e) => { const b = at(e); if (b && b !== chosen) { chosen = b; draw(); } });
  canvas.addEventListener("click", (e) => { const b = at(e); if (b) { zoomed = chosen = b; draw(); } });
  const siblings = () => rows[chosen.depth].filter((b) => b.begin < zoomed.begin + zoomed.value && b.begin + b.value > zoomed.begin);
  const move = (b) => { if (b) { chosen = b; draw(); } };
  const keys = {
    ArrowDown: () => move((rows[chosen.depth + 1] || []).find((b) => b.parent === chosen)), ArrowUp: () => move(chosen.parent),
    ArrowLeft: () => move(siblings()[siblings().indexOf(chosen) - 1]), ArrowRight: () => move(siblings()[siblings().indexOf(chosen) + 1]),
    Enter: () => { zoomed = chosen; draw(); }, Escape: () => { zoomed = chosen = root; draw(); },
  };
  canvas.addEventListener("keydown", (e) => { if (keys[e.key]) { e.preventDefault(); chosen = chosen || zoomed; keys[e.key](); } });
  reset.addEventListener("click", () => { zoomed = chosen = root; draw(); });
  search.addEventListener("input", draw);
  redraw(draw);
  draw();
}

// Everything is in place: draw.
{
  const section = document.getElementById("timeline");
  if (section && data.operations.length) timeline(section);
  const flames = document.getElementById("flames");
  if (flames) data.flames.forEach((f) => flameGraph(flames, f));
  document.documentElement.dataset.ready = "true";
}

// The critical path of one operation over time: a lane for each process, segments
// coloured by stage, arrows where the path goes on in another process.
function timeline(section) {
  const select = section.querySelector("#operation");
  const canvas = section.querySelector("canvas");
  const view = section.querySelector(".lanes");
  const spacer = section.querySelector(".spacer");
  const info = section.querySelector(".info");
  const sums = section.querySelector(".sums");
  const laneHeight = 22, axis = 22, labelWidth = 150;
  const headRoom = 8; // pixels between lines from which on they are arrows
  const states = ["running", "runnable", "blocked", "unknown"];
  let op, begins, from, to, chosen = -1;

  data.operations.forEach((o, i) => select.append(el("option", { value: String(i), textContent: o.name })));

  function choose(i) {
    op = data.operations[i];
    const n = op.segments.length / fields;
    begins = new Float64Array(n + 1);
    for (let k = 0; k < n; k++) begins[k + 1] = begins[k] + op.segments[k * fields];
    chosen = -1;
    spacer.style.height = (op.lanes.length * laneHeight + axis) + "px";
    view.style.height = Math.min(op.lanes.length * laneHeight + axis + 2, 420) + "px";
    show(0, op.wall_ns);
    details();
  }

  // show makes [a, b) the visible range, in ns since the operation began.
  function show(a, b) {
    const least = Math.min(op.wall_ns, 100), all = op.wall_ns;
    let length = Math.min(Math.max(b - a, least), all);
    from = Math.min(Math.max(a, 0), all - length);
    to = from + length;
    draw();
  }

  function zoom(factor, at) {
    at = at === undefined ? (from + to) / 2 : at;
    show(at - (at - from) * factor, at + (to - at) * factor);
  }

  // first is the segment that a time lies in.
  function first(t) {
    let lo = 0, hi = begins.length - 2;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (begins[mid] <= t) lo = mid; else hi = mid - 1;
    }
    return lo;
  }

  const paint = {
    0: (c, x, y, w, h) => c.fillRect(x, y, w, h),
    1: (c, x, y, w, h) => { c.globalAlpha = 0.55; c.fillRect(x, y + h / 4, w, h / 2); c.globalAlpha = 1; },
    2: (c, x, y, w, h) => { c.globalAlpha = 0.35; c.fillRect(x, y, w, h); c.globalAlpha = 1; c.fillRect(x, y + h - 3, w, 3); },
    3: (c, x, y, w, h) => { c.globalAlpha = 0.25; c.fillRect(x, y, w, h); c.globalAlpha = 1; },
  };

  function draw() {
    const { c, width, height, colors } = fit(canvas, view.clientHeight - 2);
    const left = Math.min(labelWidth, width / 4), scroll = view.scrollTop;
    const x = (t) => left + (t - from) / (to - from) * (width - left);
    const y = (lane) => axis + lane * laneHeight - scroll;
    c.fillStyle = colors.bg;
    c.fillRect(0, 0, width, height);
    const top = Math.max(0, Math.floor(scroll / laneHeight)), bottom = Math.min(op.lanes.length, Math.ceil((scroll + height) / laneHeight));
    for (let l = top; l < bottom; l++) {
      c.fillStyle = l % 2 ? colors.bg : colors.panel;
      c.fillRect(0, y(l), width, laneHeight);
      c.fillStyle = colors.fg;
      c.fillText(cut(c, op.lanes[l].name, left - 8), 4, y(l) + laneHeight / 2);
    }
    c.save();
    c.beginPath();
    c.rect(left, axis, width - left, height - axis);
    c.clip();
    c.globalAlpha = 0.6;
    for (let i = 0; i < op.off.length; i += offFields) {
      const [b, length, lane, stage] = op.off.slice(i, i + 4);
      if (b + length < from || b > to || lane < top || lane >= bottom) continue;
      c.fillStyle = stageColor(text(stage));
      c.fillRect(x(b), y(lane) + laneHeight - 4, Math.max(1, x(b + length) - x(b)), 2);
    }
    c.globalAlpha = 1;
    let drawn = 0, last = -1, pixel = -headRoom, links = new Path2D(), heads = new Path2D(), seen = new Map();
    for (let k = first(from); k < begins.length - 1 && begins[k] < to; k++) {
      const s = k * fields, lane = op.segments[s + 1], a = x(begins[k]), b = x(begins[k + 1]);
      const stage = op.segments[s + 3];
      seen.set(stage, (seen.get(stage) || 0) + Math.min(begins[k + 1], to) - Math.max(begins[k], from));
      if (last >= 0 && lane !== last && a - pixel >= 2) {
        const down = lane > last, tip = down ? y(lane) + 2 : y(lane) + laneHeight - 4;
        links.moveTo(a, down ? y(last) + laneHeight - 4 : y(last) + 2);
        links.lineTo(a, tip);
        if (a - pixel >= headRoom) {
          const back = tip + (down ? -6 : 6);
          heads.moveTo(a, tip);
          heads.lineTo(a - 3, back);
          heads.lineTo(a + 3, back);
          heads.closePath();
        }
        pixel = a;
      }
      last = lane;
      if (lane < top || lane >= bottom || b - a < 0.05) continue;
      c.fillStyle = stageColor(text(stage));
      paint[op.segments[s + 2]](c, a, y(lane) + 2, Math.max(b - a, 0.6), laneHeight - 6);
      drawn++;
      const name = cut(c, text(stage), b - a - 6);
      if (name) {
        c.fillStyle = op.segments[s + 2] === 0 ? "#fff" : colors.fg;
        c.fillText(name, Math.max(a, left) + 3, y(lane) + laneHeight / 2 - 1);
      }
      if (k === chosen) {
        c.strokeStyle = colors.fg;
        c.lineWidth = 2;
        c.strokeRect(a, y(lane) + 1, Math.max(b - a, 2), laneHeight - 4);
      }
    }
    c.strokeStyle = colors.soft;
    c.lineWidth = 0.8;
    c.stroke(links);
    c.fillStyle = colors.fg;
    c.fill(heads);
    c.restore();
    ruler(c, left, width, colors);
    summary(seen);
    section.dataset.begin = String(Math.round(from));
    section.dataset.end = String(Math.round(to));
    section.dataset.segments = String(drawn);
  }

  function ruler(c, left, width, colors) {
    c.fillStyle = colors.bg;
    c.fillRect(0, 0, width, axis);
    const raw = (to - from) / Math.max(2, (width - left) / 110);
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * unit).find((v) => v >= raw);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const at = left + (t - from) / (to - from) * (width - left);
      c.fillStyle = colors.line;
      c.fillRect(at, axis - 6, 1, 6);
      c.fillStyle = colors.soft;
      c.fillText(cut(c, t === 0 ? "0" : duration(t), width - at), at + 3, axis / 2);
    }
  }

  // summary lists what the visible range is made of.
  function summary(seen) {
    const rows = [...seen].sort((a, b) => b[1] - a[1]).slice(0, 8);
    sums.replaceChildren(...rows.map(([stage, ns]) => {
      const key = el("span", { className: "swatch" });
      key.style.background = stageColor(text(stage));
      return el("li", {}, key, `${text(stage)} ${duration(ns)}, ${share(ns, to - from)}`);
    }));
  }

  function details() {
    if (chosen < 0) {
      info.replaceChildren("Choose a segment: click, or n and p. Wheel or + and -: zoom; drag or arrow keys: move; 0: all of it.");
      return;
    }
    const s = op.segments.slice(chosen * fields, (chosen + 1) * fields);
    const lane = op.lanes[s[1]];
    const facts = [["stage", text(s[3])], ["state", states[s[2]] + (s[4] ? " on " + text(s[4]) : "")],
      ["time", `${duration(s[0])}, from ${duration(begins[chosen])}`],
      ["process", lane.name + (lane.role ? ` (${lane.role})` : "")], ["thread", text(s[7])], ["system call", text(s[5])],
      ["stack", data.stacks[s[6]].map(text).join(" < ")]];
    info.replaceChildren(el("dl", {}, ...facts.filter((f) => f[1]).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])));
  }

  function pick(k) {
    chosen = Math.min(Math.max(k, 0), begins.length - 2);
    const a = begins[chosen], b = begins[chosen + 1];
    if (b <= from || a >= to) show(a - (to - from) / 2, a + (to - from) / 2);
    const lane = op.segments[chosen * fields + 1] * laneHeight;
    if (lane < view.scrollTop || lane > view.scrollTop + view.clientHeight - 2 * laneHeight) view.scrollTop = lane - laneHeight;
    draw();
    details();
  }

  const timeAt = (event) => {
    const box = canvas.getBoundingClientRect(), left = Math.min(labelWidth, box.width / 4);
    return from + Math.max(0, event.clientX - box.left - left) / (box.width - left) * (to - from);
  };
  canvas.addEventListener("wheel", (e) => {
    if (e.shiftKey) return;
    e.preventDefault();
    zoom(e.deltaY < 0 ? 0.8 : 1.25, timeAt(e));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (e) => { drag = { x: e.clientX, from, to, moved: false }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => {
    if (!drag) return;
    const by = (e.clientX - drag.x) / (canvas.clientWidth - labelWidth) * (drag.to - drag.from);
    drag.moved = drag.moved || Math.abs(e.clientX - drag.x) > 3;
    if (drag.moved) show(drag.from - by, drag.to - by);
  });
  canvas.addEventListener("pointerup", (e) => {
    if (drag && !drag.moved) pick(first(timeAt(e)));
    drag = null;
  });
  const span = () => to - from;
  const keys = {
    ArrowLeft: () => show(from - span() / 4, to - span() / 4), ArrowRight: () => show(from + span() / 4, to + span() / 4),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, op.wall_ns), Home: () => show(0, op.wall_ns),
    n: () => pick(chosen < 0 ? first(from) : chosen + 1), p: () => pick(chosen < 0 ? first(to) : chosen - 1),
    ArrowUp: () => { view.scrollTop -= laneHeight; }, ArrowDown: () => { view.scrollTop += laneHeight; },
  };
  canvas.addEventListener("keydown", (e) => {
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); keys[e.key](); }
  });
  section.querySelector("#zoom-in").addEventListener("click", () => zoom(0.5));
  section.querySelector("#zoom-out").addEventListener("click", () => zoom(2));
  section.querySelector("#zoom-all").addEventListener("click", () => show(0, op.wall_ns));
  select.addEventListener("change", () => choose(Number(select.value)));
  const later = redraw(draw);
  view.addEventListener("scroll", later);
  choose(0);
}

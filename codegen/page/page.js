/* page.js - draws what the JSON object of the page holds (docs/page.md). It computes nothing that the compiler decided:
 * it adds up and places. */
const plan = data.plan;
const kernels = data.kernels.map((k, i) => ({ ...k, plan: plan.kernels ? plan.kernels[i] : plan }));

/* A heading for each kernel where there are several. */
const heading = (kernel, text) => h("h3", null, (kernels.length > 1 ? kernel.name + ": " : "") + text);

/* ---- the graph ------------------------------------------------------------------------------------------------ */

const ROW = 24, LANE = 7, MOST_LANES = 18;

/* Rows in the order of the program: a graph that a node calls stands below it, further in. */
const graphRows = () => {
	const byId = new Map(data.graphs.map((g) => [g.id, g]));
	const rows = [];
	const add = (graph, depth) => {
		const blocks = graph.blocks.length ? " over " + graph.blocks.join(", ") : "";
		rows.push({ graph, depth, text: graph.kind + " " + graph.number + blocks });
		for (const node of graph.nodes) {
			rows.push({ node, depth });
			for (const id of node.calls)
				if (byId.has(id) && depth < 64)
					add(byId.get(id), depth + 1);
		}
	};
	for (const graph of data.graphs)
		if (!graph.called)
			add(graph, 0);
	return rows;
};

/* From each node to its last user one line down, in the lane that is free nearest to the text. */
const lanesOf = (rows) => {
	const rowOf = new Map();
	rows.forEach((row, i) => row.node && rowOf.set(row.node.id, i));
	const users = rows.map(() => []);
	rows.forEach((row, i) => {
		for (const id of row.node ? row.node.of : [])
			if (rowOf.has(id) && rowOf.get(id) < i)
				users[rowOf.get(id)].push(i);
	});
	const until = [];
	const lanes = users.map((to, from) => {
		if (to.length === 0)
			return null;
		let lane = until.findIndex((end) => end <= from);
		lane = lane < 0 ? Math.min(until.length, MOST_LANES - 1) : lane;
		until[lane] = Math.max(until[lane] ?? 0, Math.max(...to));
		return { from, to, lane };
	}).filter((lane) => lane);
	return { lanes, width: Math.max(until.length, 1) * LANE + 14 };
};

const drawEdges = (lanes, width, height) => {
	const y = (row) => row * ROW + ROW / 2;
	const edges = lanes.flatMap(({ from, to, lane }) => to.map((user) => {
		const x = width - 12 - lane * LANE;
		const path = `M${width} ${y(from) + 3} H${x + 3} Q${x} ${y(from) + 3} ${x} ${y(from) + 6} V${y(user) - 6}` +
			` Q${x} ${y(user) - 3} ${x + 3} ${y(user) - 3} H${width - 1} m-4 -3 l4 3 l-4 3`;
		return Object.assign(svg("path", { d: path, class: "edge" }), { from, user });
	}));
	return [svg("svg", { width, height, "aria-hidden": "true" }, edges), edges];
};

const nodeRow = (row, width) => {
	const { node } = row;
	const used = node.of.length ? " of " + node.of.map((id) => nodeNames.get(id) ?? "?").join(", ") : "";
	return h("button", { type: "button", class: "row", style: { paddingLeft: width + 6 + "px" }, title: plain(node.op + used) },
		range(row.depth).map(() => h("span", { class: "depth" })),
		h("span", null, node.name), h("span", { class: "op kind-" + node.kind }, node.op),
		h("span", { class: "op" }, node.type),
		node.change ? h("span", { class: "badge " + node.change }, node.change) : null);
};

const nodeNames = new Map(data.graphs.flatMap((g) => g.nodes.map((node) => [node.id, node.name])));

const drawGraph = () => {
	const rows = graphRows();
	const { lanes, width } = lanesOf(rows);
	const [picture, edges] = drawEdges(lanes, width, rows.length * ROW);
	const elements = rows.map((row) => row.node ? nodeRow(row, width)
		: h("div", { class: "row graph", style: { paddingLeft: width + 6 + "px" } },
			range(row.depth).map(() => h("span", { class: "depth" })), h("span", null, row.text)));
	const show = (index) => {
		for (const edge of edges) {
			edge.classList.toggle("of", edge.user === index);
			edge.classList.toggle("to", edge.from === index);
		}
	};
	elements.forEach((element, i) => {
		if (!rows[i].node)
			return;
		if (rows[i].node.source !== null)
			join(element, [rows[i].node.source]);
		for (const name of ["mouseenter", "focus"])
			element.addEventListener(name, () => show(i));
	});
	const { made, changed, removed } = data.changes;
	section("graph").append(
		h("p", { class: "note" }, `Each line goes from a value down to the nodes that use it; a graph that a node runs is nested below it. ` +
			`Passes made ${count(made, "node")}, changed ${changed} and removed ${removed}.`),
		h("div", { class: "rows" }, h("div", null, picture, elements)));
};

/* ---- VMEM ----------------------------------------------------------------------------------------------------- */

const OWNERS = { windows: "grid windows", inner: "loop windows", scratch: "scratch", intermediates: "intermediates" };

/* Per step, the number of the copy that brought the window: a pipeline copies where the block is another one. */
const copiesOf = (blocks, always) => {
	let copy = -1;
	return blocks.map((block, i) => {
		const same = i > 0 && block && blocks[i - 1] && block.join() === blocks[i - 1].join();
		return same && !always ? copy : ++copy;
	});
};

/* What lies in buffer `slot` of `buffers` at each step, -1 before the first one: of an input what is read then and what
 * comes for as many steps as there are spare buffers, of an output what is written and what went before. A skewed loop
 * reads some windows steps ahead. */
const slotCells = (window, buffers, slot, copies, columns) => columns.map((step) => {
	const label = (copy) => place(window.blocks[copies.indexOf(copy)]);
	const steps = [window.behind ?? true ? step : -1, window.ahead ? step + window.ahead : -1]
		.filter((s) => s >= 0 && s < copies.length);
	const now = steps.map((s) => copies[s]);
	const here = (from, to) => copies.slice(Math.max(from, 0), Math.max(to, 0))
		.find((copy) => copy % buffers === slot && !now.includes(copy));
	const read = now.find((copy) => copy % buffers === slot);
	if (read !== undefined)
		return [window.output ? window.input ? "read, written" : "written" : "read", label(read), "read"];
	const from = steps.length ? Math.max(...steps) + 1 : step < 0 ? 0 : copies.length;
	const next = window.input ? here(from, steps.length ? Math.min(...steps) + buffers : buffers - 1) : undefined;
	if (next !== undefined)
		return ["copied in", label(next), "copy"];
	const gone = window.output ? here(step - buffers + 1, step) : undefined;
	return gone === undefined ? ["", "", ""] : ["goes out", label(gone), "copy"];
});

const cellRow = (name, size, cells) => h("tr", null, h("th", { scope: "row", class: "name" }, name),
	h("td", { class: "num" }, bytes(size)),
	cells.map(([what, where, kind]) => h("td", { class: kind || "stays", title: plain(what + " " + where) },
		what ? (what + " " + where).trim() : "free")));

const windowRows = (row, window, always, columns) => {
	const buffers = Math.max(row.buffers, 1), copies = copiesOf(window.blocks, always);
	return range(buffers).map((slot) => cellRow(row.ref + (buffers > 1 ? ` [${slot}]` : ""), row.bytes / buffers,
		slotCells(window, buffers, slot, copies, columns)));
};

const allSteps = (steps, words, kind) => range(steps).map(() => [words, "", kind]);

const totalRow = (kernel, steps) => h("tr", { class: "total" }, h("th", { scope: "row" }, "reserved, of " + bytes(kernel.limit)),
	h("td", { class: "num" }, bytes(kernel.total)), h("td", { colspan: steps }, "from the kernel's start to its end"));

/* The windows of the grid over its first points. */
const pointsTable = (kernel) => {
	const shown = Math.min(kernel.walk.at.length, 8);
	const windows = new Map(kernel.walk.operands.map((o) => [o.ref, o]));
	const rows = kernel.vmem.map((row) => {
		if (row.owner === "windows" && windows.has(row.ref))
			return windowRows(row, windows.get(row.ref), false, range(shown));
		return cellRow(row.ref, row.bytes, allSteps(shown, row.bytes < 0 ? "" : "in use", "read"));
	});
	return table(["buffer", "bytes", ...kernel.walk.at.slice(0, shown).map((at) => at.length ? "(" + at.join(", ") + ")" : "()")],
		[rows.flat(), totalRow(kernel, shown)], "cells");
};

/* All buffers over the steps of a loop, within one grid point. */
const stepsTable = (kernel, loop, fact) => {
	const windows = new Map(loop.windows.map((w) => [w.ref, w]));
	const before = loop.windows.some((w) => w.dma && w.ahead), columns = [...(before ? [-1] : []), ...range(loop.shown)];
	const shown = columns.length;
	const rows = kernel.vmem.map((row) => {
		if (row.owner === "inner" && row.loop === loop.name && windows.has(row.ref))
			return windowRows(row, windows.get(row.ref), fact.type === "fori_loop", columns);
		if (row.owner === "inner" && row.loop !== null && row.loop !== loop.name)
			return cellRow(row.ref, row.bytes, allSteps(shown, "of " + row.loop, ""));
		if (row.owner !== "windows" || row.buffers < 2)
			return cellRow(row.ref, row.bytes, allSteps(shown, row.bytes < 0 ? "" : "in use", "read"));
		const operand = kernel.walk.operands.find((o) => o.ref === row.ref);
		const other = operand && !operand.input ? "an earlier point's, goes out" : "the next point's, if another";
		const now = cellRow(row.ref + " [0]", row.bytes / row.buffers, allSteps(shown, "this point's", "read"));
		return [now, range(row.buffers - 1).map((i) => cellRow(`${row.ref} [${i + 1}]`, row.bytes / row.buffers,
			allSteps(shown, other, "copy")))];
	});
	return table(["buffer", "bytes", ...columns.map((i) => i < 0 ? "before" : "step " + i)], [rows.flat(Infinity), totalRow(kernel, shown)], "cells");
};

const owned = (kernel) => Object.entries(OWNERS).map(([owner, words]) => ({
	owner, words, bytes: kernel.vmem.filter((r) => r.owner === owner).reduce((sum, r) => sum + r.bytes, 0) }));

const drawVmem = (kernel) => {
	const owners = owned(kernel);
	section("vmem").append(
		heading(kernel, `${bytes(kernel.total)} of ${bytes(kernel.limit)}, ${percent(kernel.total, kernel.limit)}`),
		h("div", { class: "stack", "aria-hidden": "true" }, owners.filter((o) => o.bytes > 0).map((o) =>
			h("span", { class: "fill-" + o.owner, style: { flex: `${o.bytes} 0 0` }, title: o.words }))),
		h("ul", { class: "keys" }, owners.map((o) => h("li", null, h("i", { class: "fill-" + o.owner }),
			`${o.words}: ${bytes(o.bytes)}, ${percent(o.bytes, kernel.total)}`))));
	if (kernel.walk.points > 1 || kernel.loops.length === 0)
		section("vmem").append(h("h3", null, "Over the first grid points"), scrolled("VMEM over grid points", pointsTable(kernel)));
	kernel.loops.forEach((loop, i) => {
		const fact = kernel.plan.loops[i];
		if (loop.shown > 0)
			section("vmem").append(h("h3", null, `Over the steps of ${loop.name}, ${fact.type}` +
				(loop.steps < 0 ? ", as many as it takes" : `, ${count(loop.steps, "step")}`) +
				(loop.steps > loop.shown ? `, the first ${loop.shown}` : "")),
				scrolled("VMEM over steps of " + loop.name, stepsTable(kernel, loop, fact)));
	});
};

/* ---- time ----------------------------------------------------------------------------------------------------- */

const LANES = ["DMA", "MXU", "vector", "load/store", "waiting"];
const LANE_FILL = { DMA: "windows", MXU: "scratch", vector: "intermediates", "load/store": "inner", waiting: "wait" };

/* bars: {lane, at, long, text}; ends: where units (points, steps) end. */
const timeline = (bars, ends) => {
	const end = Math.max(...ends, ...bars.map((b) => b.at + b.long)) || 1e-12;
	const left = (t) => 100 * t / end + "%";
	return h("div", { class: "lanes" }, LANES.map((lane) => [h("span", null, lane),
		h("div", { class: "lane" },
			bars.filter((b) => b.lane === lane && b.long > 0).map((b) => h("span", { class: "fill-" + LANE_FILL[lane],
				style: { left: left(b.at), width: left(b.long) }, title: plain(`${b.text}: ${seconds(b.long)}`) },
				b.long > end / 16 ? `${b.text} ${seconds(b.long)}` : "")),
			ends.slice(0, -1).map((t) => h("i", { style: { left: left(t) } })))]),
		h("span"), h("div", { class: "axis" }, [0, 0.5, 1].map((part) =>
			h("span", { style: { left: 100 * part + "%" } }, part ? seconds(part * end) : "0"))));
};

const times = (rows) => h("ul", { class: "keys" }, rows.filter(([, value]) => value > 0).map(([words, value]) =>
	h("li", null, `${words}: ${seconds(value)}`)));

/* Two grid points: beside each the blocks of the next one are copied. */
const drawPoints = (kernel) => {
	const t = kernel.point, bars = [], ends = [];
	let at = 0;
	for (const i of range(kernel.walk.points > 1 ? 2 : 1)) {
		if (i === 0 && kernel.walk.points <= 1) {
			bars.push({ lane: "DMA", at, long: t.first, text: "first blocks" });
			at += t.first;
		}
		bars.push({ lane: "DMA", at, long: t.shown, text: "blocks with one buffer" });
		at += t.shown;
		const start = at;
		bars.push({ lane: "DMA", at, long: t.next, text: "blocks of the next point" },
			{ lane: "MXU", at, long: t.matmul, text: "matmuls" },
			{ lane: "load/store", at, long: t.read, text: "reads" });
		at += Math.max(t.matmul, t.read);
		bars.push({ lane: "vector", at, long: t.gathers + t.one_hot, text: "gathers" });
		at += t.gathers + t.one_hot;
		bars.push({ lane: "waiting", at, long: t.wait, text: "for windows of loops" });
		at += t.wait;
		bars.push({ lane: "waiting", at, long: t.between, text: "between steps" });
		at = Math.max(at + t.between, start + t.next);
		ends.push(at);
	}
	section("time").append(heading(kernel, (kernel.walk.points > 1 ? "Two grid points" : "The grid point") +
		`; the kernel: about ${seconds(kernel.seconds)}`), timeline(bars, ends),
		times([["a point computes and waits", t.point], ["matmuls at the MXU's peak", t.matmul], ["reads into registers", t.read],
			["waits for windows of loops", t.wait], ["between steps", t.between], ["gathers", t.gathers], ["one-hot products", t.one_hot],
			["the first point's blocks", t.first], ["blocks of the next point", t.next]]));
};

/* Two steps of a loop: beside each the windows of a later one are copied. */
const drawSteps = (kernel, loop, fact) => {
	const t = loop.times, bars = [], ends = [];
	let at = 0;
	for (const i of range(loop.steps === 1 ? 1 : 2)) {
		bars.push({ lane: "DMA", at, long: t.shown, text: "windows with one buffer" });
		at += t.shown;
		const start = at;
		bars.push({ lane: "DMA", at, long: t.hidden, text: "windows of a later step" },
			{ lane: "MXU", at, long: t.matmul, text: "matmuls" },
			{ lane: "load/store", at, long: t.read, text: "reads" });
		at += Math.max(t.matmul, t.read);
		bars.push({ lane: "waiting", at, long: t.overlap, text: "for matmuls nothing runs beside" });
		at += t.overlap;
		bars.push({ lane: "waiting", at, long: t.between, text: "to the next step" });
		at = Math.max(at + t.between, start + t.hidden);
		ends.push(at);
	}
	section("time").append(heading(kernel, `${loop.steps === 1 ? "The step" : "Two steps"} of ${loop.name}: ${fact.type}` +
		(fact.skewed ? ", skewed" : "") + (fact.paired ? ", in pairs" : "")), timeline(bars, ends),
		times([["matmuls at the MXU's peak", t.matmul], ["reads into registers", t.read], ["copies beside a step", t.hidden],
			["copies before it", t.shown], ["matmuls that are waited for", t.overlap], ["from step to step", t.between],
			["latency of first and last copies, once for the loop", t.latency]]));
};

const drawTime = (kernel) => {
	drawPoints(kernel);
	kernel.loops.forEach((loop, i) => drawSteps(kernel, loop, kernel.plan.loops[i]));
};

/* ---- the grid ------------------------------------------------------------------------------------------------- */

const drawGrid = (kernel) => {
	const { walk } = kernel, dims = kernel.plan.grid;
	const rows = walk.at.map((at, i) => h("tr", null, h("th", { scope: "row", class: "name" }, at.length ? at.join(", ") : "the only one"),
		walk.operands.map((o) => h("td", { class: o.moves[i] ? "moves" : "stays" },
			place(o.blocks[i])))));
	const resident = kernel.plan.operands.filter((o) => o.space !== "vmem");
	section("grid").append(heading(kernel, dims.length ? dims.map((d) => `${d.name} ${d.steps} ${d.semantics}`).join(", ")
		: "one point"),
		h("p", { class: "note" }, `${count(walk.points, "point")}` + (walk.at.length < walk.points ? `, of which the first ${walk.at.length} stand here` : "") +
			". Of each operand the place of its block, in blocks. Marked: another block than at the point before, which is copied in (of an output: one that is written anew)." +
			(resident.length ? " No block at a point: " + resident.map((o) => `${o.ref} (${o.space})`).join(", ") + "." : "")),
		scrolled("Blocks by grid point", table([dims.map((d) => d.name).join(", ") || "point", ...walk.operands.map((o) =>
			`${o.ref}, ${o.output ? o.input ? "in and out" : "out" : "in"}`)], rows, "cells")));
};

/* ---- decisions ------------------------------------------------------------------------------------------------ */

/* A bar for each way whose time was estimated, against the slowest of those beside it. */
const drawWays = () => {
	const groups = new Map();
	for (const row of document.querySelectorAll("#remarks tr.taken, #remarks tr.other")) {
		const found = /: about ([-+.\de]+) us$/.exec(row.cells[2].textContent);
		if (!found)
			continue;
		const by = row.cells[0].textContent;
		groups.set(by, [...(groups.get(by) ?? []), [row, Number(found[1])]]);
	}
	for (const ways of groups.values()) {
		const most = Math.max(...ways.map(([, time]) => time));
		for (const [row, time] of ways)
			row.cells[2].append(h("span", { class: "bar", "aria-hidden": "true", style: { width: 100 * time / most + "%" } }));
	}
};

const whyRow = (name, choice, why) => h("tr", null, h("td", { class: "name" }, name), h("td", null, choice), h("td", null, why ?? ""));
const windowWords = (buffers) => buffers ? `, ${count(buffers, "buffer")}` : "";

const drawReasons = (kernel) => {
	const p = kernel.plan;
	const loops = p.loops.flatMap((l) => [
		whyRow(l.name, `${l.type}${l.dma ? ", copies" : ""}${l.skewed ? ", skewed" : ""}${l.paired ? ", in pairs" : ""}`, l.why),
		l.windows.map((w) => whyRow(w.ref, (w.dma ? `copied, ${shape(w.block)}` : `a slice, ${shape(w.block)}`) + windowWords(w.buffers) +
			` of ${w.operand} at (${w.index_map.join(", ")})`, w.why)),
		l.carried.map((c) => whyRow(c.node, `carried in ${c.place === "register" ? "registers" : c.scratch}`, c.why))]);
	const operands = p.operands.map((o) => whyRow(o.ref, o.block
		? `VMEM, ${shape(o.block)} of ${shape(o.shape)} at (${o.index_map.join(", ")})${windowWords(o.buffers)}, ${bytes(o.hbm_bytes)} moved`
		: o.space.toUpperCase() + (o.hbm_bytes ? `, ${bytes(o.hbm_bytes)} moved` : ""), o.why));
	const grid = p.grid.map((g) => whyRow(g.name, `${count(g.steps, "step")}, ${g.semantics}${g.back_and_forth ? ", back and forth" : ""}`, g.why));
	const scratch = p.scratch.map((s) => whyRow(s.ref, `${s.kind} ${s.dtype ?? ""} ${shape(s.shape)}`, s.why));
	section("decisions").append(heading(kernel, "Where everything is"),
		scrolled("Where everything is", table(["what", "choice", "why"], [grid, operands, scratch, loops].flat(Infinity), "wrap")));
	if (p.indirect.length)
		section("decisions").append(heading(kernel, "Accesses where an int tensor says"), scrolled("Ways of accesses",
			table(["access", "way", "cycles a time", "why not"], p.indirect.flatMap((x) => [
				h("tr", { class: "taken" }, h("td", { class: "name" }, `${x.node}: ${x.kind} ${x.tensor}`), h("td", null, x.way),
					h("td", { class: "num" }, x.cycles), h("td", null, x.ahead ? "taken, copied ahead" : "taken")),
				x.others.map((o) => h("tr", { class: "other" }, h("td"), h("td", null, o.way), h("td", { class: "num" }, o.cycles ?? ""),
					h("td", null, o.why ?? "slower")))]).flat(Infinity), "wrap")));
};

/* ---- the whole ------------------------------------------------------------------------------------------------ */

const drawFacts = () => {
	const total = (f) => kernels.reduce((sum, k) => sum + f(k), 0);
	const blocks = plan.blocks.map((b) => `${b.name} = ${b.size}`).join(", ");
	const facts = [
		["VMEM", `${bytes(plan.vmem.total)} of ${bytes(plan.vmem.limit)}`],
		["estimate", "about " + seconds(total((k) => k.seconds))],
		["HBM", bytes(plan.hbm_bytes)],
		["matmuls", plan.flops ? scaled(plan.flops / 1e6, 1000, ["MFLOP", "GFLOP", "TFLOP", "PFLOP"]) : "none"],
		["grid", kernels.map((k) => k.plan.grid.map((g) => g.steps).join(" × ") || "1 point").join("; ")],
		["loops", kernels.flatMap((k) => k.plan.loops.map((l) => l.type)).join(", ") || "none"],
		["blocks", blocks || "none"]];
	section("facts").append(...facts.map(([word, value]) => h("div", null, h("dt", null, word), h("dd", null, value))));
};

document.body.classList.add("drawn");
if (plan)
	drawFacts();
if (found.tuning)
	drawTuning(found.tuning);
if (found.profile)
	drawProfile(found.profile);
linkLines();
if (plan)
	drawGraph();
for (const kernel of kernels) {
	drawVmem(kernel);
	drawTime(kernel);
	drawGrid(kernel);
	drawReasons(kernel);
}
drawWays();

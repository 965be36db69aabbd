/* page_found.js - the sections of what was found by more than compiling: configurations that `tune` judged and compiled,
 * and cycles that `profile` counted. */

const facts = (rows) => h("dl", { class: "facts" }, rows.map(([word, value]) => h("div", null, h("dt", null, word), h("dd", null, value))));
const thousands = (value) => Math.round(value).toLocaleString("en-US");
/* A number; where a table has no room for its heads, with the head in front. */
const number = (head, text) => h("td", { class: "num", "data-head": head }, text);
const barred = (value, most, ...text) => h("td", { class: "num" }, text,
	h("span", { class: "bar", "aria-hidden": "true", style: { width: (most ? 100 * value / most : 0) + "%" } }));

/* ---- configurations ------------------------------------------------------------------------------------------- */

/* A logarithmic axis over the values: `at` gives a place in percent, `ticks` powers of the base, not too many. */
const axisOf = (values, base, from, to) => {
	const known = values.filter((v) => v > 0), low = Math.log(Math.min(...known)), high = Math.log(Math.max(...known));
	const margin = Math.max((high - low) * 0.04, 0.05), begin = low - margin, long = high - low + 2 * margin;
	const at = (value) => from + (to - from) * (Math.log(value) - begin) / long;
	const powers = range(200).map((i) => i - 100).filter((i) => i * Math.log(base) >= begin && i * Math.log(base) <= begin + long);
	const step = Math.ceil(powers.length / 7);
	return { at, ticks: powers.filter((_, i) => i % step === 0).map((i) => base ** i) };
};
const pct = (value) => value.toFixed(2) + "%";

const configText = (config) => config === null ? "nothing given" : Object.keys(config).length
	? Object.entries(config).map(([key, value]) => key.replace(/^pallas_/, "") + " " + JSON.stringify(value).replace(/"/g, "")).join(", ")
	: "the graph's own";
const costNumber = (tuning, cost) => cost === null ? "" : tuning.unit === "cycles" ? thousands(cost) : Number(cost.toPrecision(5));
const costText = (tuning, cost) => costNumber(tuning, cost) + " " + tuning.unit;

/* What is judged is a cloud, each dot all configurations that lie so near; the frontier, the fastest within each size,
 * is a line; what was compiled is marked and leads to its row. */
const chartOf = (tuning) => {
	const points = tuning.points, compiled = tuning.compiled.filter((c) => c.cost !== null);
	const x = axisOf([...points.map((p) => p[0]), ...compiled.map((c) => c.vmem), ...(tuning.limit ? [tuning.limit] : [])], 2, 9, 98);
	const y = axisOf([...points.map((p) => p[1]), ...compiled.map((c) => c.cost)], 10, 90, 4);
	const text = (at, to, words, name) => svg("text", { x: pct(at), y: pct(to), class: name }, words);
	const line = (x1, y1, x2, y2, name) => svg("line", { x1: pct(x1), y1: pct(y1), x2: pct(x2), y2: pct(y2), class: name });
	const grid = [
		x.ticks.map((v) => [line(x.at(v), 4, x.at(v), 90, "rule"), text(x.at(v), 95.5, bytes(v), "middle")]),
		y.ticks.map((v) => [line(9, y.at(v), 98, y.at(v), "rule"), text(8.4, y.at(v), scaled(v, 1000, ["", "k", "M", "G", "T"]).trim(), "end")]),
		tuning.limit ? [line(x.at(tuning.limit), 4, x.at(tuning.limit), 90, "limit")] : []];
	const cloud = points.map(([vmem, cost, many]) => svg("circle", { cx: pct(x.at(vmem)), cy: pct(y.at(cost)), r: many > 8 ? 2.6 : many > 1 ? 2.1 : 1.6, class: "judged" },
		svg("title", null, `${count(many, "configuration")} at about ${bytes(vmem)}, ${costText(tuning, cost)}`)));
	const stairs = tuning.frontier.flatMap((f, i, all) => [
		i ? line(x.at(f.vmem), y.at(all[i - 1].cost), x.at(f.vmem), y.at(f.cost), "frontier") : [],
		line(x.at(f.vmem), y.at(f.cost), i + 1 < all.length ? x.at(all[i + 1].vmem) : 98, y.at(f.cost), "frontier")]);
	const marks = tuning.compiled.map((c, i) => c.cost === null ? null : svg("a", { href: "#compiled" + i, "data-row": "compiled" + i },
		svg("title", null, `${c.chosen ? "chosen: " : ""}${configText(c.config)}: ${costText(tuning, c.cost)}`),
		svg("circle", { cx: pct(x.at(c.vmem)), cy: pct(y.at(c.cost)), r: c.chosen ? 7 : 4.5, class: c.chosen ? "chosen" : c.config === null ? "given" : "compiled" })));
	marks.sort((a, b) => (a?.querySelector(".chosen") ? 1 : 0) - (b?.querySelector(".chosen") ? 1 : 0));
	return h("div", { class: "chart" }, svg("svg", { role: "group", "aria-label": "Bytes of VMEM, to the right, against time, upwards, of all configurations" },
		grid.flat(3), cloud, stairs.flat(), marks.filter((m) => m)));
};

const keysOf = (pairs) => h("ul", { class: "keys" }, pairs.map(([name, words]) => h("li", null, h("i", { class: name, "aria-hidden": "true" }), words)));

const compiledTable = (tuning) => {
	const rows = tuning.compiled.map((c, i) => h("tr", { id: "compiled" + i, tabindex: -1, class: c.chosen ? "taken" : c.cost === null ? "other" : null },
		number(tuning.unit, costNumber(tuning, c.cost)), number("estimate", thousands(c.estimate)),
		number("VMEM", c.vmem_bytes ? bytes(c.vmem_bytes) : ""), number("predicted", bytes(c.vmem)),
		h("td", null, (c.chosen ? "chosen: " : "") + configText(c.config) + (c.failure ? ": " + c.failure : ""))));
	return table([tuning.unit, "estimate, cycles", "VMEM", "predicted", "configuration"], rows, "wrap");
};

const drawTuning = (tuning) => {
	document.body.classList.add("tuned");
	const chosen = tuning.compiled.findIndex((c) => c.chosen), given = tuning.compiled.find((c) => c.config === null && c.cost !== null);
	const best = tuning.compiled[chosen], refused = tuning.refused.reduce((sum, r) => sum + r.count, 0);
	const most = Math.max(...tuning.refused.map((r) => r.count), 1);
	section("tuning").append(
		facts([["chosen", h("a", { href: "#compiled" + chosen }, costText(tuning, best.cost))],
			["nothing given", given ? `${costText(tuning, given.cost)}, ${(given.cost / best.cost).toFixed(3)} times` : "failed"],
			["judged", thousands(tuning.judged)], ["accepted", thousands(tuning.accepted)], ["refused", thousands(refused)],
			["compiled", `${tuning.compiled.length}, ${tuning.compiled.filter((c) => c.cost === null).length} failed`]]),
		h("p", { class: "note" }, `Each dot is a configuration, or several that lie so near: bytes of VMEM to the right, time upwards, both as the compiler estimates them. ` +
			`Circles were compiled and ${tuning.measured}; they lead to their rows. The sections below are of the kernel that was chosen.`),
		chartOf(tuning),
		keysOf([["dot judged", "judged"], ["dash frontier", "the fastest within so much VMEM"], ["dot compiled", "compiled"], ["dot given", "nothing given"],
			["dot chosen", "chosen"], ...(tuning.limit ? [["dash limit", "all VMEM: " + bytes(tuning.limit)]] : [])]),
		h("h3", null, "Compiled"), scrolled("Compiled configurations", compiledTable(tuning)),
		h("h3", null, "The frontier"), h("p", { class: "note" }, "By estimate: no configuration that takes less VMEM is faster."),
		scrolled("The frontier", table(["VMEM", "estimate, " + tuning.unit, "configuration"], [...tuning.frontier].reverse().map((f) => h("tr", null,
			number("VMEM", bytes(f.vmem)), number("estimate", costNumber(tuning, f.cost)),
			h("td", null, configText(f.config)))), "wrap")));
	if (refused)
		section("tuning").append(h("h3", null, "Refused"), scrolled("Refused configurations", table(["configurations", "code", "such as"],
			tuning.refused.map((r) => h("tr", null, barred(r.count, most, thousands(r.count)), h("td", { class: "name" }, r.code), h("td", null, r.reason))), "wrap")));
	for (const mark of document.querySelectorAll("[data-row]")) {
		const row = document.getElementById(mark.dataset.row);
		const light = (on) => () => [mark, row].forEach((e) => e.classList.toggle("lit", on));
		for (const element of [mark, row]) {
			for (const name of ["mouseenter", "focus"])
				element.addEventListener(name, light(true));
			for (const name of ["mouseleave", "blur"])
				element.addEventListener(name, light(false));
		}
		mark.addEventListener("click", () => row.focus({ preventScroll: true }));
	}
};

/* ---- a profile ------------------------------------------------------------------------------------------------ */

/* In front of a line what it takes, with a bar against the line that takes most. */
const priceLines = (prices, total) => {
	const most = Math.max(...prices.map(([, cycles]) => cycles), 1);
	for (const [line, cycles] of prices) {
		const words = cycles ? percent(cycles, total) : "";
		line.prepend(h("span", { class: "price", title: cycles ? thousands(cycles) + " cycles" : null,
			style: { backgroundSize: 100 * cycles / most + "% 100%" } }, words));
	}
};

const drawPrices = (profile) => {
	const spent = (rows) => rows.reduce((sum, s) => sum + (s.cycles ?? 0) + (s.waits ?? 0), 0);
	const total = spent(profile.statements);
	section("source").append(...profile.source.map((source, i) => h("span", { class: "l", id: "s" + i }, source.code, document.createTextNode("\n"))));
	if (!profile.source.length)
		section("source").append(h("span", { class: "file" }, "The module says of no source line."));
	priceLines(profile.source.map((_, i) => [section("s" + i), spent(profile.statements.filter((s) => s.source === i))]), total);
	priceLines([...document.querySelectorAll("#python > .l")].map((line, i) =>
		[line, spent(profile.statements.filter((s) => s.line === i + 1))]), total);
	for (const name of ["source", "python"])
		section(name).classList.add("priced");
};

const statementsTable = (profile, units) => {
	const all = profile.statements.reduce((sum, s) => sum + (s.cycles ?? 0) + (s.waits ?? 0), 0);
	const some = (value) => h("td", { class: "num" }, value ? thousands(value) : "");
	const rows = profile.statements.map((s) => h("tr", null,
		h("td", { class: "num" }, s.line ? h("a", { href: "#p" + s.line }, s.line) : ""),
		barred((s.cycles ?? 0) + (s.waits ?? 0), all, s.cycles === null ? "" : percent(s.cycles + s.waits, all)),
		some(s.cycles), some(s.waits), h("td", { class: "name" }, s.code), units.map((unit) => some(s.executed[unit])),
		h("td", null, [s.guarded ? "at most: under a branch" : null, s.unbounded ? "of one trip" : null].filter((x) => x).join("; "))));
	return table(["line", "share", "cycles", "waits", "statement", ...units, ""], rows);
};

const slotCell = (share) => h("td", { class: "num heat", style: { backgroundSize: 100 * share + "% 100%" } }, percent(share, 1));

const loopsTable = (profile, kernel) => {
	const slots = Object.entries(profile.slots);
	const row = (where, trips, part, cycles, share) => h("tr", null, h("th", { scope: "row", class: "name" }, where), h("td", { class: "num" }, trips),
		h("td", { class: "num" }, thousands(cycles)), h("td", { class: "num" }, percent(share, 1)),
		slots.map(([, slot]) => slotCell(part.slots[slot] ?? 0)), h("td", { class: "num" }, `${part.spills}/${part.fills}`));
	const loops = kernel.loops.filter((loop) => loop.executed && loop.slots).sort((a, b) => a.first - b.first || b.last - a.last);
	return table(["bundles", "trips", "cycles", "share", ...slots.map(([name]) => name), "spill/fill"], [
		row("all", "", kernel, kernel.compute_cycles, 1),
		loops.map((loop) => row("· ".repeat(loop.depth) + `${loop.first}-${loop.last - 1}`, thousands(loop.trips), loop, loop.executed, loop.share))].flat(), "cells");
};

const drawKernelProfile = (profile, kernel) => {
	const part = (value) => `${thousands(value)} (${percent(value, kernel.cycles)})`;
	section("profile").append(h("h3", null, kernel.name + (kernel.pallas ? "" : " (XLA's own)")),
		facts([["cycles", `${thousands(kernel.cycles)}, ${seconds(kernel.cycles / profile.clock_hz)}`], ["waits for copies", part(kernel.wait_cycles)],
			["matrix unit busy", part(kernel.matmul_busy_cycles)], ["waits for its queue", part(kernel.matmul_stall_cycles)],
			["VMEM", kernel.vmem_bytes ? bytes(kernel.vmem_bytes) : "unknown"], ["HBM", bytes(kernel.hbm_bytes)],
			["bundles", thousands(kernel.bundles)], ["spills, fills", `${kernel.spills}, ${kernel.fills}`]]));
	if (Object.keys(kernel.slots).length)
		section("profile").append(scrolled("Slots of " + kernel.name, loopsTable(profile, kernel)));
};

const drawProfile = (profile) => {
	document.body.classList.add("profiled");
	section("profile").append(h("p", { class: "note" }, `The compiler's schedule for ${profile.target}, executed: ${thousands(profile.cycles)} cycles, ` +
		`${seconds(profile.cycles / profile.clock_hz)}, ${bytes(profile.hbm_bytes)} to and from HBM. An estimate, not a measurement.` +
		(profile.trusted ? "" : " Not to be trusted: see the errors.")));
	for (const text of [...profile.errors.map((e) => "error: " + e), ...profile.warnings.map((w) => "warning: " + w)])
		section("profile").append(h("p", { class: "doubt" }, text));
	for (const kernel of profile.kernels)
		drawKernelProfile(profile, kernel);
	section("profile").append(h("h3", null, "Slots, and statements"), h("p", { class: "note" },
		"A slot's percentage is how full it is: of the kernel, and of each loop of the schedule. A statement's cycles are its share of the bundles that it " +
		"stands in, its waits those for a result; operations are of vector registers, by unit, as often as they run in a call."),
		scrolled("Statements", statementsTable(profile, profile.units)));
	drawPrices(profile);
};

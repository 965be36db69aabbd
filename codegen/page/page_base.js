/* page_base.js - what the sections of the page are drawn with: elements, numbers, lines that belong together. The three
 * scripts of the page are one, page.js last. Text goes to the page as text alone, never as HTML. */
"use strict";
const readJson = (id) => JSON.parse(document.getElementById(id).textContent);
/* Of the kernel, where the page has a graph; what `tune` and `profile` found. */
const data = readJson("data") ?? { source: [], links: { python: [], kernel: [] }, graphs: [], kernels: [] };
const found = readJson("found") ?? {};
const sources = found.profile?.source ?? data.source;
const links = { ...data.links, ...found.profile?.links };

/* ---- making elements ------------------------------------------------------------------------------------------ */

/* What does not print is shown as an escape, so that it cannot hide or turn what stands beside it. */
const plain = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu,
	(c) => "\\u{" + c.codePointAt(0).toString(16) + "}");

const fill = (node, attributes, children) => {
	for (const [name, value] of Object.entries(attributes ?? {}))
		if (name === "style")
			Object.assign(node.style, value);
		else if (value !== null && value !== false)
			node.setAttribute(name, value);
	for (const child of children.flat(Infinity))
		if (child !== null && child !== undefined)
			node.append(child instanceof Node ? child : plain(child));
	return node;
};
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
	fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const section = (id) => document.getElementById(id);
const range = (count) => Array.from({ length: count }, (_, i) => i);

const scrolled = (label, table) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": plain(label) }, table);
const table = (head, rows, classes) => h("table", { class: classes ?? null },
	h("thead", null, h("tr", null, head.map((text) => h("th", { scope: "col" }, text)))),
	h("tbody", null, rows));

/* ---- numbers -------------------------------------------------------------------------------------------------- */

const scaled = (value, factor, units) => {
	let i = 0;
	for (; Math.abs(value) >= factor && i + 1 < units.length; i++)
		value /= factor;
	const digits = factor === 1024 ? 1 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
	return Number(value.toFixed(digits)) + " " + units[i];
};
const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const seconds = (value) => scaled(value * 1e9, 1000, ["ns", "µs", "ms", "s"]);
const percent = (part, whole) => Number((whole ? 100 * part / whole : 0).toFixed(1)) + "%";
const count = (value, word) => value + " " + word + (value === 1 ? "" : "s");
const shape = (sizes) => sizes.length ? sizes.join("×") : "scalar";
const place = (block) => block ? "(" + block.join(", ") + ")" : "(by a table)";

/* ---- lines that belong together ------------------------------------------------------------------------------- */

/* Everything that belongs to source line i: elements on all sides. */
const groups = sources.map(() => []);
const groupsOf = new Map();
const join = (element, sources) => {
	const own = [...new Set(sources)];
	if (!element || own.length === 0)
		return;
	groupsOf.set(element, [...new Set([...(groupsOf.get(element) ?? []), ...own])]);
	for (const i of own)
		if (!groups[i].includes(element))
			groups[i].push(element);
	element.classList.add("linked");
};

let held = null;
const together = (element) => [...new Set((groupsOf.get(element) ?? []).flatMap((i) => groups[i]))];
const mark = (element, name) => {
	for (const other of document.querySelectorAll("." + name))
		other.classList.remove(name);
	if (element)
		for (const other of [element, ...together(element)])
			other.classList.add(name);
};
/* Scrolls within the box alone, not the page. */
const bringIntoView = (element) => {
	const box = element.closest("pre, .rows");
	if (!box || box.hidden)
		return;
	const at = element.getBoundingClientRect(), frame = box.getBoundingClientRect();
	if (at.top < frame.top || at.bottom > frame.bottom)
		box.scrollTop += at.top - frame.top - box.clientHeight / 3;
};
const hold = (element) => {
	held = element === held ? null : element;
	mark(held, "held");
	if (!held)
		return;
	const boxes = new Set([held.closest("pre, .rows")]);
	for (const other of together(held)) {
		const box = other.closest("pre, .rows");
		if (boxes.has(box))
			continue;
		boxes.add(box);
		bringIntoView(other);
	}
};
const linkedOf = (target) => target instanceof Element ? target.closest(".linked") : null;

for (const name of ["mouseover", "focusin"])
	document.addEventListener(name, (event) => mark(linkedOf(event.target), "lit"));
document.addEventListener("click", (event) => linkedOf(event.target) && hold(linkedOf(event.target)));
document.addEventListener("keydown", (event) => {
	const pre = event.target instanceof Element ? event.target.closest("pre") : null;
	if (event.key === "Escape") {
		held = null;
		mark(null, "held");
		mark(null, "lit");
	} else if (event.key === "Enter" && event.target.matches(".l.linked")) {
		hold(event.target);
	} else if (pre && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
		const lines = [...pre.querySelectorAll(".linked")];
		const step = event.key === "ArrowDown" ? 1 : -1;
		const next = event.target === pre ? lines[0] : lines[lines.indexOf(event.target) + step];
		if (next) {
			event.preventDefault();
			next.focus({ preventScroll: true });
			bringIntoView(next);
		}
	}
});

const linkCode = (name, prefix) => {
	for (const [line, source] of links[name])
		join(document.getElementById(prefix + line), [source]);
};
const linkLines = () => {
	sources.forEach((_, i) => join(document.getElementById("s" + i), [i]));
	linkCode("python", "p");
	linkCode("kernel", "k");
	for (const line of document.querySelectorAll(".l.linked"))
		line.tabIndex = -1;
	const tabs = [...document.querySelectorAll(".tabs button")];
	const show = (chosen) => {
		for (const tab of tabs) {
			tab.setAttribute("aria-pressed", tab === chosen);
			document.getElementById(tab.dataset.shows).hidden = tab !== chosen;
		}
	};
	for (const tab of tabs)
		tab.addEventListener("click", () => show(tab));
	show(tabs[0]);
	/* Past the imports: where the code begins that is of the source. */
	const first = document.querySelector("#python .linked");
	if (first)
		document.getElementById("python").scrollTop = Math.max(0, first.offsetTop - document.getElementById("python").offsetTop - 90);
};


/* ops_doc.c - the op table for readers, docs/ops.md, grouped by kind; and as JSON, for python/pallasc/build/ops.py. */
#include "driver.h"
#include "codegen/lower/lower.h"

static const char *const kind_titles[] = {
	[KIND_POINTWISE] = "Pointwise",
	[KIND_REDUCTION] = "Reductions, sorts and scans",
	[KIND_VIEW] = "Views",
	[KIND_MATMUL] = "Matmuls",
	[KIND_MEMORY] = "Memory",
	[KIND_CREATION] = "Creation",
	[KIND_STRUCTURE] = "Structure",
	[KIND_QUERY] = "Tile queries",
	[KIND_SYMBOLIC] = "Python's operators on symbolic values",
};

static const char *const dtype_rules[] = {
	[RULE_NONE] = "",
	[RULE_SAME] = "its first operand's",
	[RULE_PROMOTE] = "promoted",
	[RULE_PROMOTE_FLOAT] = "promoted, at least float",
	[RULE_PROMOTE_REST] = "promoted, without the condition",
	[RULE_DIV_MODE] = "promoted; float without a rounding mode",
	[RULE_BOOL] = "bool",
	[RULE_INT32] = "int32",
	[RULE_SUM] = "its operand's; ints become int32",
	[RULE_ARG] = "its dtype argument",
};

static const char introduction[] =
	"# Ops\n\n"
	"Generated from `include/ops.def` by `make docs`; do not edit.\n\n"
	"Every target that a document may name. Parameters without a default are required; `?` admits null. What a\n"
	"target means is its ATen schema's semantics; the `tile.` ones are in [graph-format.md](graph-format.md). A "
	"target\n"
	"in this list is loaded and verified; whether a kernel can hold it, and of which dtypes not, the last column "
	"says:\n"
	"measured with libtpu 0.0.51 by `make probe-ops` in every dtype. The table by dtype, shape and chip is\n"
	"`tests/whole/ops/accepted.json`.\n";

static const char *letter_meaning(char letter) {
	switch (letter) {
	case 'x': return "value";
	case 't': return "tensor";
	case 'i': return "int";
	case 'n': return "number";
	case 'b': return "bool";
	case 'I': return "ints";
	case 'X': return "values";
	case 'd': return "dtype";
	case 's': return "string";
	case 'S': return "block symbol";
	case 'N': return "index list";
	case 'T': return "tensor's name";
	case 'C': return "scalar's name";
	case 'G': return "graph id";
	default: return "any";
	}
}

static void print_params(const char *params, Text *out) {
	OpParam param;
	const char *separator = "";
	for (const char *at = params; (at = op_param_next(at, &param)) != NULL; separator = ", ") {
		text_printf(out, "%s%s", separator, param.by_name ? "\\*, " : "");
		text_putn(out, param.name, param.name_length);
		text_printf(out, ": %s%s", letter_meaning(param.letter), param.nullable ? "?" : "");
		if (param.fallback != NULL) {
			text_put(out, " = ");
			text_putn(out, param.fallback, param.fallback_length);
		}
	}
}

/* A bar would end the table's cell. */
static void print_cell(const char *text, Text *out) {
	for (; *text != '\0'; text++) {
		if (*text == '|')
			text_put(out, "\\");
		text_putn(out, text, 1);
	}
}

/* Whether a kernel can hold the op, and which dtypes not. */
static void print_lowered(uint16_t op, Text *out) {
	uint32_t refused = arith_refused_dtypes(op), all = (1u << DTYPE_I64) - 1;
	if (op_lowering(op) == LOWER_NOT || refused == all) {
		text_put(out, "no");
		return;
	}
	OpKind kind = op_row(op)->kind;
	bool computes = kind == KIND_POINTWISE || kind == KIND_REDUCTION || kind == KIND_MATMUL;
	const char *separator = computes ? "not of " : "";
	for (int t = 0; computes && t < DTYPE_I64; t++)
		if (refused >> t & 1) {
			text_printf(out, "%s%s", separator, dtype_name((Dtype)t));
			separator = ", ";
		}
	if (!computes)
		text_put(out, "yes");
}

static void print_row(uint16_t op, Text *out) {
	const OpRow *row = op_row(op);
	text_printf(out, "| `%s` | ", row->target);
	print_params(row->params, out);
	text_printf(out, " | %s | ", dtype_rules[row->dtype]);
	if (*row->text != '\0') {
		text_put(out, "`");
		print_cell(row->text, out);
		text_put(out, "`");
	}
	text_put(out, " | ");
	print_lowered(op, out);
	text_put(out, " |\n");
}

void ops_print_markdown(Text *out) {
	text_put(out, introduction);
	for (size_t kind = 0; kind < sizeof kind_titles / sizeof *kind_titles; kind++) {
		text_printf(out, "\n## %s\n\n", kind_titles[kind]);
		text_put(out,
		         "| target | parameters | dtype | printed with | lowered |\n| --- | --- | --- | --- | --- |\n");
		for (uint16_t op = OP_OUTPUT + 1; op < OP_COUNT; op++)
			if (op_row(op)->kind == kind)
				print_row(op, out);
	}
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static void print_param_json(const OpParam *param, bool by_name, Text *out) {
	text_put(out, "{\"name\": \"");
	text_putn(out, param->name, param->name_length);
	text_printf(out, "\", \"letter\": \"%c\", \"nullable\": %s, \"by_name\": %s", param->letter,
	            param->nullable ? "true" : "false", by_name ? "true" : "false");
	if (param->fallback != NULL) {
		text_put(out, ", \"default\": ");
		text_putn(out, param->fallback, param->fallback_length);
	}
	text_put(out, "}");
}

static void print_row_json(uint16_t op, Text *out) {
	static const char *const shape_rules[] = {
#define SHAPE_RULE(e, function) #e,
#include "shape_rules.def"
#undef SHAPE_RULE
	};
	const OpRow *row = op_row(op);
	OpParam param;
	text_printf(out, "{\"target\": \"%s\", \"kind\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"params\": [",
	            row->target, kind_titles[row->kind], shape_rules[row->shape], dtype_rules[row->dtype]);
	const char *separator = "";
	bool by_name = false;
	for (const char *at = row->params; (at = op_param_next(at, &param)) != NULL; separator = ",\n  ") {
		by_name |= param.by_name;
		text_put(out, separator);
		print_param_json(&param, by_name, out);
	}
	text_put(out, "]}");
}

void ops_print_json(Text *out) {
	for (uint16_t op = OP_OUTPUT + 1; op < OP_COUNT; op++) {
		text_put(out, op == OP_OUTPUT + 1 ? "[" : ",\n ");
		print_row_json(op, out);
	}
	text_put(out, "]\n");
}

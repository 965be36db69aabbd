/* margin.c - what a kernel may spill beyond what is counted of it.
 *
 * A kernel that nothing is counted of, and that neither multiplies nor moves lanes or rows, spills nothing: of 145 that
 * were measured (`make bench-vmem PART=stored`; all chips but v4) 134 need their buffers and no more, the others up to
 * 80 KiB. What multiplies or moves spills up to 290 KiB that nothing accounts for, the smallest less; where something
 * is counted, a tenth of it. */
#include "live.h"

enum { PLAIN_MOST = 40 << 10 };

static Doubt doubt_of(const KStmt *s) {
	switch (s->op) {
	case K_DOT: return s->ints[2] ? DOUBT_PARTS : DOUBT_MOVES;
	case K_TRANSPOSE:
	case K_SWAPAXES:
	case K_TO_ROW:
	case K_TO_COLUMN:
	case K_PROD: return DOUBT_MOVES;
	default: break;
	}
	Part part = part_of_op(s->op);
	return part == PART_MOVE || part == PART_SCAN ? DOUBT_MOVES : DOUBT_PLAIN;
}

Doubt kernel_doubt(const Kernel *k) {
	Doubt most = DOUBT_PLAIN;
	for (StmtId s = 0; s < k->stmts.count; s++) {
		Doubt d = doubt_of(&k->stmts.at[s]);
		most = d > most ? d : most;
	}
	return most;
}

int64_t margin_bytes(const Target *t, Doubt doubt, int64_t buffers, int64_t spills) {
	int64_t bytes = int_min(buffers, TOO_MUCH) + spills, share = int_min(bytes / 50, PLAIN_MOST);
	if (doubt == DOUBT_PARTS)
		share = t->internal_bytes;
	else if (doubt == DOUBT_MOVES)
		share = bytes / 2;
	else if (spills)
		share = bytes / 20;
	return int_min(t->internal_bytes, t->internal_least + share) + spills / 10 + bytes / 170;
}

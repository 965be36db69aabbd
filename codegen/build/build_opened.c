/* build_opened.c - a loop of one full step on whole resident blocks is what its step does.
 *
 *     acc_1 = loop step(j) unroll ... carry (acc = %1) {         x = load x_ref[...]
 *       dim j steps (1) full 1 tail 0 size 512                   w = load w_ref[...]
 *       window x_win ... of x_ref                          =>    dot = dot x, w
 *       x = load x_win[...]                                      y = convert dot
 *       w = load w_ref[...]
 *       dot = dot x, w
 *       acc_2 = add acc, dot
 *       yield acc_2
 *     }
 *     y = convert acc_1
 *
 * Zeros that a sum would be added to go: it starts from 0 itself. */
#include "builder.h"

/* The window is all of a block that stays where it is. */
static bool is_whole(const Kernel *k, const KWindow *w) {
	const KBuffer *window = &k->buffers.at[w->buffer], *of = &k->buffers.at[w->of];
	return !w->dma && w->tail == NONE && w->pieces == NONE &&
	       kernel_same_shape(window->rank, window->shape, of->rank, of->shape);
}

/* Its statements have no regions of their own, and do not ask which step they are of. */
static bool is_plain(const Kernel *k, const KLoop *loop, RegionId region) {
	RegionId regions[STMT_REGIONS_MAX];
	for (StmtId s = region_first(k, region); s != NONE; s = kernel_stmt(k, s)->next) {
		for (uint32_t d = 0; d < loop->rank; d++)
			if (kernel_stmt_reads(k, s, loop->dim[d].step))
				return false;
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
			if (kernel_arg(k, s, i)->kind == KARG_REF && k->refs.at[kernel_arg(k, s, i)->ref].at != NONE)
				return false;
		if (kernel_regions(k, s, regions))
			return false;
	}
	return true;
}

static bool carries_values(const Kernel *k, StmtId s) {
	const KLoop *loop = kernel_stmt(k, s)->loop;
	StmtId yield = region_last(k, kernel_stmt(k, s)->body);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] != NONE || kernel_arg(k, s, i)->kind != KARG_VALUE ||
		    kernel_arg(k, yield, i)->kind != KARG_VALUE)
			return false;
	return true;
}

static bool may_open(const Kernel *k, StmtId s) {
	const KLoop *loop = kernel_stmt(k, s)->loop;
	bool plain = loop->type == LOOP_UNROLL && loop->rank && !loop->skew && !loop->paired && loop->ragged == NONE &&
	             loop->runs == NONE && loop->before == NONE && loop->behind == NONE && loop->tail == NONE;
	for (uint32_t d = 0; plain && d < loop->rank; d++)
		plain = !loop->dim[d].computed && loop->dim[d].full_steps == 1 && loop->dim[d].tail == 0;
	for (uint32_t w = 0; plain && w < loop->windows.count; w++)
		plain = is_whole(k, &loop->windows.at[w]);
	return plain && carries_values(k, s) && is_plain(k, loop, kernel_stmt(k, s)->body);
}

static StmtIds loops_to_open(Kernel *k) {
	StmtIds found = {0};
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_LOOP && may_open(k, s))
			vec_push(k->arena, &found, s);
	return found;
}

/* The block instead of the window. */
static void read_blocks(Kernel *k, const KLoop *loop, StmtId s) {
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg *a = kernel_arg(k, s, i);
		for (uint32_t w = 0; a->kind == KARG_REF && w < loop->windows.count; w++)
			if (k->refs.at[a->ref].buffer == loop->windows.at[w].buffer) {
				KRef old = k->refs.at[a->ref];
				RefId ref = kernel_ref(k, loop->windows.at[w].of, old.rank, old.dim);
				kernel_arg(k, s, i)->ref = ref;
				break;
			}
	}
}

/* It is no initial value any more, nor is what it is made of. */
static void end_initial(Kernel *k, KArg x) {
	StmtId def = kernel_def_of(k, x);
	if (def == NONE || !(kernel_stmt(k, def)->flags & KSTMT_INITIAL))
		return;
	kernel_stmt(k, def)->flags &= (uint16_t)~KSTMT_INITIAL;
	for (uint32_t i = 0; i < kernel_stmt(k, def)->arg_count; i++)
		end_initial(k, *kernel_arg(k, def, i));
}

static uint16_t op_of(const Kernel *k, KArg x) {
	StmtId def = kernel_def_of(k, x);
	return def == NONE ? K_END : kernel_stmt(k, def)->op;
}

/* The sum that zeros are added to, whose value it is; NONE. */
static ValueId sum_alone(const Kernel *k, StmtId s) {
	for (uint32_t i = 0; i < 2 && kernel_stmt(k, s)->op == OP_ADD; i++) {
		KArg sum = *kernel_arg(k, s, 1 - i);
		uint16_t op = op_of(k, sum);
		const KValue *of = op == K_DOT || op == K_SUM ? &k->values.at[sum.value] : NULL;
		const KValue *all = &k->values.at[kernel_stmt(k, s)->result];
		if (op_of(k, *kernel_arg(k, s, i)) == K_ZEROS && of && of->dtype == all->dtype &&
		    of->layout == all->layout && kernel_same_shape(of->rank, of->shape, all->rank, all->shape))
			return sum.value;
	}
	return NONE;
}

static void drop_zeros(Kernel *k, StmtId first, StmtId end) {
	ValueId *map = kernel_value_map(k);
	for (StmtId s = first, next; s != end; s = next) {
		ValueId sum = sum_alone(k, s);
		next = kernel_stmt(k, s)->next;
		if (sum == NONE)
			continue;
		ValueId all = kernel_stmt(k, s)->result;
		map[all] = sum;
		k->values.at[sum].name = k->values.at[all].name;
		kernel_remove(k, s);
	}
	kernel_replace_values(k, map, k->values.count);
}

static void open_loop(Kernel *k, StmtId s) {
	const KLoop *loop = kernel_stmt(k, s)->loop;
	RegionId region = kernel_stmt(k, s)->body;
	ValueId *map = kernel_value_map(k);
	for (uint32_t i = 0; i < loop->carried.count; i++) {
		end_initial(k, *kernel_arg(k, s, i));
		map[loop->carried.at[i]] = kernel_arg(k, s, i)->value;
		map[kernel_stmt(k, s)->result + i] = kernel_arg(k, region_last(k, region), i)->value;
	}
	kernel_remove(k, region_last(k, region));
	StmtId first = region_first(k, region);
	for (StmtId x = first, next; x != NONE; x = next) {
		next = kernel_stmt(k, x)->next;
		read_blocks(k, loop, x);
		kernel_move_before(k, x, s);
	}
	kernel_replace_values(k, map, k->values.count);
	drop_zeros(k, first == NONE ? s : first, s);
	kernel_remove(k, s);
}

bool kernel_has_steps_to_open(Kernel *k) { return loops_to_open(k).count > 0; }

void kernel_open_steps(Kernel *k) {
	StmtIds loops = loops_to_open(k);
	for (uint32_t i = 0; i < loops.count; i++)
		open_loop(k, loops.at[i]);
}

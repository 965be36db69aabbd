/* judge.c - what one configuration of a space comes to. */
#include "sweep.h"

static Judgement refused(const Diag *d) {
	for (uint32_t i = 0; i < d->list.count; i++)
		if (d->list.at[i].severity == SEVERITY_ERROR)
			return (Judgement){.code = d->list.at[i].code, .message = d->list.at[i].message};
	return (Judgement){.code = "unsupported", .message = "it is refused"};
}

Judgement space_judge(const ConfigSpace *s, uint64_t number, const CompileOptions *options, double bar, Shared *shared,
                      Arena *a) {
	Module *m = module_clone(s->start, a);
	Compilation c;
	Diag d;
	diag_init(&d, a);
	d.brief = true;
	compile_init(&c, options, a, &d, m);
	c.shared = shared;
	c.bar = bar * m->target->clock_hz;
	share_start(shared);
	space_apply(s, number, m);
	Outcome outcome;
	if (!compile_outcome(&c, &outcome))
		return refused(&d);
	return (Judgement){.vmem_bytes = outcome.vmem_bytes,
	                   .flops = outcome.flops,
	                   .hbm_bytes = outcome.hbm_bytes,
	                   .seconds = outcome.cycles / m->target->clock_hz};
}

void judgement_put(const ConfigSpace *s, uint64_t number, const Judgement *j, Arena *a, Text *out) {
	Module *m = module_clone(s->start, a);
	space_apply(s, number, m);
	text_printf(out, "{\"number\": %llu, \"config\": ", (unsigned long long)number);
	space_put(s, m, out);
	if (j->code) {
		text_put(out, ", \"verdict\": \"refused\", \"code\": ");
		text_put_json(out, j->code);
		text_put(out, ", \"reason\": ");
		text_put_json(out, j->message);
	} else {
		text_printf(out,
		            ", \"verdict\": \"accepted\", \"vmem_bytes\": %lld, \"flops\": %.0f, \"hbm_bytes\": %.0f",
		            (long long)j->vmem_bytes, j->flops, j->hbm_bytes);
		text_put(out, ", \"seconds\": ");
		text_put_double(out, j->seconds);
		text_printf(out, ", \"cycles\": %.0f", j->seconds * s->start->target->clock_hz);
	}
	text_put(out, "}\n");
}

/* plan_fixture.h - the Plan of a document in a string, for tests of the planner. */
#ifndef PALLASC_TEST_PLAN_FIXTURE_H
#define PALLASC_TEST_PLAN_FIXTURE_H

#include "front.h"
#include "planned.h"
#include "src/config/config.h"
#include "src/verify/verify.h"

typedef struct Planned {
	Front front;
	Module *m;
	Plan *plan;
} Planned;

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* After front_start(), in whose arena the text may be. The test fails if the document is refused. */
static inline void planned_load(Planned *p, const char *text) {
	p->m = front_load(&p->front, text);
	p->plan = NULL;
	assert_non_null(p->m);
	p->m->explain = true;
}

/* A copy of the chip that is the Module's target from now on, and the test's to change. */
static inline Target *planned_target(Planned *p, const char *chip) {
	Target *target = arena_alloc(&p->front.arena, sizeof *target);
	*target = *target_find(chip);
	p->m->target = target;
	return target;
}

/* Settings end with NULL. */
static inline void planned_set(Planned *p, const char *const *settings) {
	for (; *settings; settings++)
		assert_true(config_set(p->m, &p->front.diag, *settings));
}

/* The Plan under the settings, and those given before; NULL if it is refused. */
static inline void planned_make(Planned *p, const char *const *settings) {
	planned_set(p, settings);
	assert_true(module_configure(p->m, &p->front.diag) && module_verify(p->m, &p->front.diag));
	p->plan = planned_kernel(&p->front.arena, p->m, &p->front.diag);
}

/* The operand of the one output. */
static inline const Operand *planned_output(const Planned *p) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		if (p->plan->operands.at[i].output)
			return &p->plan->operands.at[i];
	fail();
	return NULL;
}

static inline void planned_end(Planned *p) { front_end(&p->front); }

#endif

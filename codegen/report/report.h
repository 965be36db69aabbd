/* report.h - plans for people and as JSON. */
#ifndef PALLASC_REPORT_H
#define PALLASC_REPORT_H

#include "codegen/plan/plan.h"

/* plan_json.c: the plans as JSON. */
void program_emit_json(const Program *g, Text *out);
/* report.c: the plans for people. */
void program_emit_report(const Program *g, Text *out);

#endif

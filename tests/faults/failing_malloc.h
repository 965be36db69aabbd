/* failing_malloc.h - the malloc of a process, which fails when it is told to. Linked into a program, or preloaded into
 * one: then FAULTS_AT and FAULTS_ON say when, and FAULTS_COUNT names a file for the number of allocations. */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <stdbool.h>

/* From now on the n-th allocation fails, counted from 1; 0: none. `on`: so do all after it. */
void faults_at(long n, bool on);
/* Allocations since faults_at(). */
long faults_seen(void);
/* Blocks that are allocated and not freed. */
long faults_live(void);

#endif

/* input.h - a graph's file in memory, for the programs of this folder. */
#ifndef PALLASC_TESTS_FAULTS_INPUT_H
#define PALLASC_TESTS_FAULTS_INPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Input {
	char *text;
	size_t length; /* bytes */
} Input;

static inline bool read_file(const char *path, Input *in) {
	FILE *file = fopen(path, "rb");
	if (!file)
		return false;
	fseek(file, 0, SEEK_END);
	in->length = (size_t)ftell(file);
	rewind(file);
	in->text = malloc(in->length + 1);
	bool ok = in->text && fread(in->text, 1, in->length, file) == in->length;
	fclose(file);
	return ok;
}

#endif

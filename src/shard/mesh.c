/* mesh.c - meshes as text: data=2,model=4. */
#include "shard.h"

#include <errno.h>
#include <stdlib.h>

/* Of a whole mesh: products of axes stay far from overflowing. */
enum { DEVICES_MAX = 1 << 20 };

static const char *read_axis(Arena *a, const char *word, Mesh *mesh) {
	const char *equals = strchr(word, '=');
	if (!equals)
		return arena_printf(a, "expected AXIS=DEVICES, found '%s'", word);
	char *end;
	errno = 0;
	MeshAxis axis = {.name = arena_printf(a, "%.*s", (int)(equals - word), word)};
	axis.devices = strtoll(equals + 1, &end, 10);
	if (!is_identifier(axis.name))
		return arena_printf(a, "the name of an axis is an identifier, not '%s'", axis.name);
	if (!is_digit(equals[1]) || *end || errno || axis.devices < 1 || axis.devices > DEVICES_MAX)
		return arena_printf(a, "the axis %s needs a number of devices, 1 or more, not '%s'", axis.name,
		                    equals + 1);
	for (uint32_t i = 0; i < mesh->count; i++)
		if (strcmp(mesh->axis[i].name, axis.name) == 0)
			return arena_printf(a, "the axis %s stands twice", axis.name);
	int64_t devices = axis.devices;
	for (uint32_t i = 0; i < mesh->count; i++)
		devices *= mesh->axis[i].devices;
	if (devices > DEVICES_MAX)
		return arena_printf(a, "a mesh has %d devices at most", DEVICES_MAX);
	if (mesh->count == MESH_AXES_MAX)
		return arena_printf(a, "a mesh has %d axes at most", MESH_AXES_MAX);
	mesh->axis[mesh->count++] = axis;
	return NULL;
}

const char *mesh_parse(Arena *a, const char *text, Mesh *mesh) {
	*mesh = (Mesh){0};
	for (const char *at = text;; at++) {
		size_t n = strcspn(at, ",");
		const char *error = read_axis(a, arena_printf(a, "%.*s", (int)n, at), mesh);
		at += n;
		if (error || *at == '\0')
			return error;
	}
}

uint32_t mesh_axis(const Mesh *mesh, const char *name, size_t length) {
	for (uint32_t i = 0; i < mesh->count; i++)
		if (strlen(mesh->axis[i].name) == length && strncmp(mesh->axis[i].name, name, length) == 0)
			return i;
	return NONE;
}

const char *cut_text(Arena *a, const Mesh *mesh, const Cut *cut) {
	Text out;
	text_init(&out, a);
	text_put(&out, "");
	for (uint32_t i = 0; i < cut->count; i++)
		text_printf(&out, i ? "+%s" : "%s", mesh->axis[cut->axis[i]].name);
	return out.at;
}

int64_t cut_parts(const Mesh *mesh, const Cut *cut) {
	int64_t parts = 1;
	for (uint32_t i = 0; i < cut->count; i++)
		parts *= mesh->axis[cut->axis[i]].devices;
	return parts;
}

bool cut_has(const Cut *cut, uint32_t axis) {
	bool any = false;
	for (uint32_t i = 0; i < cut->count; i++)
		any = any || cut->axis[i] == axis;
	return any;
}

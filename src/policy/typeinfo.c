/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/typeinfo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Types refer to each other, in damaged files also in circles. */
#define MAX_DEPTH 32
#define MAX_TYPES 65536

/* What follows struct btf_type. Returns its size, or -1 for an unknown kind. */
static int64_t tail_size(const struct btf_type *t)
{
	int64_t n = RBT_BTF_VLEN(t);

	switch (RBT_BTF_KIND(t)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return n * (int64_t)sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return n * (int64_t)sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return n * 12;
	case BTF_KIND_FUNC_PROTO:
		return n * (int64_t)sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return n * (int64_t)sizeof(struct btf_var_secinfo);
	default:
		return -1;
	}
}

static int index_types(struct rbt_btf *btf, uint32_t size, struct rbt_why *why)
{
	uint32_t at = 0, room = size / sizeof(struct btf_type) + 1;

	room = room < MAX_TYPES ? room : MAX_TYPES;
	btf->offsets = calloc(room, sizeof(*btf->offsets));
	if (btf->offsets == NULL) {
		return rbt_why_set(why, -ENOMEM, ".BTF: out of memory");
	}
	for (btf->n_types = 1; at < size; btf->n_types++) {
		const struct btf_type *t = (const void *)(btf->types + at);
		int64_t tail = size - at < sizeof(*t) ? -1 : tail_size(t);
		if (btf->n_types >= room || tail < 0 || tail > size - at - (int64_t)sizeof(*t)) {
			return rbt_why_set(why, -EINVAL, ".BTF: type %u is damaged", btf->n_types);
		}
		btf->offsets[btf->n_types] = at;
		at += (uint32_t)(sizeof(*t) + (size_t)tail);
	}
	return 0;
}

static int read_header(struct rbt_btf *btf, size_t size, uint32_t *ret_types, struct rbt_why *why)
{
	struct btf_header h;

	if (size < sizeof(h)) {
		return rbt_why_set(why, -EINVAL, ".BTF: the header is cut off");
	}
	memcpy(&h, btf->data, sizeof(h));
	if (h.magic != BTF_MAGIC || h.version != BTF_VERSION || h.hdr_len < sizeof(h) ||
		h.hdr_len > size || h.hdr_len % 4 != 0) {
		return rbt_why_set(why, -EINVAL, ".BTF: the header is damaged");
	}
	size_t rest = size - h.hdr_len;
	if (h.type_off > rest || h.type_len > rest - h.type_off || h.type_off % 4 != 0 ||
		h.str_off > rest || h.str_len > rest - h.str_off || h.str_len == 0) {
		return rbt_why_set(
			why, -EINVAL, ".BTF: types or strings lie outside of the section");
	}
	btf->types = btf->data + h.hdr_len + h.type_off;
	btf->strings = (const char *)btf->data + h.hdr_len + h.str_off;
	btf->strings_size = h.str_len;
	if (btf->strings[0] != '\0' || btf->strings[h.str_len - 1] != '\0') {
		return rbt_why_set(why, -EINVAL, ".BTF: the strings are damaged");
	}
	*ret_types = h.type_len;
	return 0;
}

int rbt_btf_init(struct rbt_btf *btf, const void *data, size_t size, struct rbt_why *why)
{
	uint32_t types_size = 0;

	*btf = (struct rbt_btf){.data = malloc(size + 1)};
	if (btf->data == NULL) {
		return rbt_why_set(why, -ENOMEM, ".BTF: out of memory");
	}
	memcpy(btf->data, data, size);
	int r = read_header(btf, size, &types_size, why);
	if (r == 0) {
		r = index_types(btf, types_size, why);
	}
	if (r < 0) {
		rbt_btf_finish(btf);
	}
	return r;
}

void rbt_btf_finish(struct rbt_btf *btf)
{
	free(btf->data);
	free(btf->offsets);
	*btf = (struct rbt_btf){0};
}

const struct btf_type *rbt_btf_type(const struct rbt_btf *btf, uint32_t id)
{
	return id > 0 && id < btf->n_types ? (const void *)(btf->types + btf->offsets[id]) : NULL;
}

const char *rbt_btf_name(const struct rbt_btf *btf, uint32_t offset)
{
	return offset < btf->strings_size ? btf->strings + offset : "";
}

const struct btf_type *rbt_btf_plain(const struct rbt_btf *btf, uint32_t id, uint32_t *ret_id)
{
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		const struct btf_type *t = rbt_btf_type(btf, id);
		switch (t != NULL ? RBT_BTF_KIND(t) : BTF_KIND_UNKN) {
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_CONST:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_TYPE_TAG:
			id = t->type;
			break;
		default:
			if (t != NULL && ret_id != NULL) {
				*ret_id = id;
			}
			return t;
		}
	}
	return NULL;
}

int rbt_btf_size(const struct rbt_btf *btf, uint32_t id, uint32_t *ret)
{
	uint64_t n = 1;

	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		const struct btf_type *t = rbt_btf_plain(btf, id, NULL);
		const struct btf_array *array;
		uint64_t size = 0;
		switch (t != NULL ? RBT_BTF_KIND(t) : BTF_KIND_UNKN) {
		case BTF_KIND_ARRAY:
			array = (const void *)(t + 1);
			n *= array->nelems;
			id = array->type;
			break;
		case BTF_KIND_PTR:
			size = 8;
			break;
		case BTF_KIND_INT:
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION:
		case BTF_KIND_ENUM:
		case BTF_KIND_ENUM64:
		case BTF_KIND_FLOAT:
			size = t->size;
			break;
		default:
			return -EINVAL;
		}
		if (n > UINT32_MAX || n * size > UINT32_MAX) {
			return -EINVAL;
		}
		if (RBT_BTF_KIND(t) != BTF_KIND_ARRAY) {
			*ret = (uint32_t)(n * size);
			return 0;
		}
	}
	return -EINVAL;
}

const struct btf_type *rbt_btf_section(const struct rbt_btf *btf, const char *name)
{
	for (uint32_t id = 1; id < btf->n_types; id++) {
		const struct btf_type *t = rbt_btf_type(btf, id);
		if (RBT_BTF_KIND(t) == BTF_KIND_DATASEC &&
			strcmp(rbt_btf_name(btf, t->name_off), name) == 0) {
			return t;
		}
	}
	return NULL;
}

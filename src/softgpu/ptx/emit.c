/* SPDX-License-Identifier: Apache-2.0 */
/* Puts operands into the fields of an instruction, and instructions into the function. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

static enum reg_file file_of(unsigned type)
{
	if (type == RBT_PTX_PRED) {
		return FILE_PRED;
	}
	return rbt_ptx_type_bits(type) == 64 ? FILE_64 : FILE_32;
}

int ptx_new_slot(struct parser *p, unsigned type, uint16_t *ret_slot)
{
	uint32_t *count = &p->body.nregs[file_of(type)];

	if (*count >= PTX_MAX_SLOTS) {
		return ptx_fail(p, E2BIG, "more than %d registers", PTX_MAX_SLOTS);
	}
	*ret_slot = (uint16_t)(*count)++;
	return 0;
}

static uint32_t const_hash(const struct rbt_ptx_const *c)
{
	uint64_t h = (c->value ^ (uint64_t)c->index << 32 ^ c->kind) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(h >> 32);
}

static bool const_equal(const struct rbt_ptx_const *a, const struct rbt_ptx_const *b)
{
	return a->value == b->value && a->index == b->index && a->kind == b->kind;
}

/* A search ends after this many probes, even if constants were chosen to collide: the constant is
 * then stored again. */
enum { MAX_PROBES = 32 };

static int pool_grow_table(struct parser *p, struct const_pool *pool)
{
	uint32_t size = pool->table_size > 0 ? pool->table_size * 2 : 64;
	uint32_t *table = calloc(size, sizeof(*table));

	if (table == NULL) {
		return ptx_fail(p, ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < pool->count; i++) {
		uint32_t at = const_hash(&pool->consts[i]) & (size - 1);

		for (unsigned n = 0; table[at] != 0 && n < MAX_PROBES; n++) {
			at = (at + 1) & (size - 1);
		}
		table[at] = i + 1;
	}
	free(pool->table);
	pool->table = table;
	pool->table_size = size;
	return 0;
}

static int pool_find(struct parser *p, struct const_pool *pool, const struct rbt_ptx_const *c,
	uint32_t *ret_index)
{
	uint32_t at, probes = 0;
	int r = 0;

	if (pool->count * 2 >= pool->table_size) {
		r = pool_grow_table(p, pool);
	}
	r = r < 0 ? r : ptx_grow(p, &pool->consts, &pool->cap, pool->count, sizeof(*pool->consts));
	if (r < 0) {
		return r;
	}
	at = const_hash(c) & (pool->table_size - 1);
	while (pool->table[at] != 0 && probes++ < MAX_PROBES) {
		if (const_equal(&pool->consts[pool->table[at] - 1], c)) {
			*ret_index = pool->table[at] - 1;
			return 0;
		}
		at = (at + 1) & (pool->table_size - 1);
	}
	if (pool->count >= PTX_MAX_SLOTS) {
		return ptx_fail(p, E2BIG, "more than %d constants in a function", PTX_MAX_SLOTS);
	}
	pool->consts[pool->count] = *c;
	*ret_index = pool->count++;
	if (pool->table[at] == 0) {
		pool->table[at] = pool->count;
	}
	return 0;
}

int ptx_const(struct parser *p, struct insn *in, uint16_t *field, enum reg_file file,
	enum rbt_ptx_const_kind kind, uint32_t index, uint64_t value)
{
	struct rbt_ptx_const c = {.value = value, .index = index, .kind = kind};
	uint32_t constant = 0;
	int r = pool_find(p, &p->body.pools[file], &c, &constant);

	if (r < 0) {
		return r;
	}
	in->fixups[in->nfixups++] = (struct fixup){
		.constant = constant,
		.field = (uint8_t)((char *)field - (char *)&in->out),
		.file = (uint8_t)file,
	};
	return 0;
}

int ptx_emit_simple(struct parser *p, const struct rbt_ptx_inst *inst)
{
	struct rbt_ptx_function *f = ptx_function(p);
	int r = ptx_grow(p, &f->insts, &p->body.inst_cap, f->ninsts, sizeof(*f->insts));

	if (r < 0) {
		return r;
	}
	f->insts[f->ninsts++] = *inst;
	p->body.label_at_end = false;
	return 0;
}

int ptx_emit(struct parser *p, struct insn *in)
{
	struct body *body = &p->body;
	int r = 0;

	in->out.line = in->line;
	for (unsigned i = 0; r == 0 && i < in->nfixups; i++) {
		r = ptx_grow(
			p, &body->fixups, &body->fixup_cap, body->nfixups, sizeof(*body->fixups));
		if (r == 0) {
			body->fixups[body->nfixups] = in->fixups[i];
			body->fixups[body->nfixups++].inst = ptx_function(p)->ninsts;
		}
	}
	return r < 0 ? r : ptx_emit_simple(p, &in->out);
}

/* Special registers are read by an instruction of their own, into a register of ours. */
static int read_sreg(
	struct parser *p, struct insn *in, uint16_t *field, unsigned sreg, unsigned bits)
{
	bool is_wide = sreg >= RBT_PTX_SREG_GRIDID;
	struct insn read;
	int r;

	if (bits != (is_wide ? 64 : 32)) {
		return ptx_fail(
			p, EINVAL, "'%s' is %d bits wide", ptx_sreg_name(sreg), is_wide ? 64 : 32);
	}
	memset(&read, 0, sizeof(read));
	memset(&read.out.d, 0xff, sizeof(read.out.d));
	read.out.op = is_wide ? RBT_PTX_SREG_B64 : RBT_PTX_SREG_B32;
	read.out.a = (uint16_t)sreg;
	read.out.b = read.out.c = read.out.e = RBT_PTX_NO_SLOT;
	read.line = in->line;
	r = ptx_new_slot(p, is_wide ? RBT_PTX_B64 : RBT_PTX_B32, field);
	read.out.d[0] = *field;
	return r < 0 ? r : ptx_emit(p, &read);
}

/* The address of a symbol, in its state space. */
static int symbol_const(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o,
	enum reg_file file)
{
	const struct binding *b = o->binding;
	uint64_t value = (uint64_t)o->offset;
	bool is_shared = b != NULL && (b->kind == BIND_SHARED || b->kind == BIND_DYN_SHARED);

	if (b != NULL && (file == FILE_64 || is_shared)) {
		switch (b->kind) {
		case BIND_VARIABLE:
			return ptx_const(
				p, in, field, file, RBT_PTX_CONST_VARIABLE, b->index, value);
		case BIND_FUNCTION:
			return ptx_const(p, in, field, file, RBT_PTX_CONST_VALUE, 0,
				RBT_PTX_FUNC_ADDRESS(b->index) + value);
		case BIND_SHARED:
			return ptx_const(p, in, field, file,
				b->index ? PTX_CONST_KERNEL_SHARED : RBT_PTX_CONST_VALUE, 0,
				b->offset + value);
		case BIND_DYN_SHARED:
			return ptx_const(p, in, field, file, RBT_PTX_CONST_DYN_SHARED, 0, value);
		case BIND_LOCAL:
			return ptx_const(
				p, in, field, file, RBT_PTX_CONST_LOCAL, 0, b->offset + value);
		case BIND_PARAM:
		case BIND_FRAME:
			return ptx_const(
				p, in, field, file, RBT_PTX_CONST_VALUE, 0, b->offset + value);
		default:
			break;
		}
	}
	return ptx_fail(p, EINVAL, "'%.*s' is nothing that '%s' can use here",
		(int)(p->names[o->name].length < 60 ? p->names[o->name].length : 60),
		p->names[o->name].text, in->name);
}

/* A source of `type`, in a register of any width that is at least the type's. */
int ptx_src_any(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o,
	unsigned type, uint8_t *ret_bits)
{
	unsigned bits = rbt_ptx_type_bits(type), have;
	uint64_t value;
	int r;

	*ret_bits = (uint8_t)bits;
	if (o->neg) {
		return ptx_fail(
			p, EINVAL, "'!' before an operand of '%s' that is no predicate", in->name);
	}
	switch (o->kind) {
	case OPD_REG:
		have = rbt_ptx_type_bits(o->binding->type);
		if (o->binding->type == RBT_PTX_PRED || have < bits) {
			return ptx_fail(p, EINVAL, "'%.*s' is .%s, '%s' needs %u bits",
				(int)(p->names[o->name].length < 60 ? p->names[o->name].length
								    : 60),
				p->names[o->name].text, ptx_type_name(o->binding->type), in->name,
				bits);
		}
		*ret_bits = (uint8_t)have;
		*field = o->binding->slot;
		return 0;
	case OPD_IMM:
		r = ptx_literal_bits(p, &o->literal, type, &value);
		return r < 0 ? r
			     : ptx_const(
				       p, in, field, file_of(type), RBT_PTX_CONST_VALUE, 0, value);
	case OPD_SYMBOL:
		return symbol_const(p, in, field, o, file_of(type));
	case OPD_SREG:
		return read_sreg(p, in, field, o->sreg, bits);
	default:
		return ptx_fail(p, EINVAL, "an operand of '%s' that it cannot read", in->name);
	}
}

int ptx_src(
	struct parser *p, struct insn *in, uint16_t *field, const struct operand *o, unsigned type)
{
	uint8_t bits;
	int r = ptx_src_any(p, in, field, o, type, &bits);

	if (r == 0 && bits != rbt_ptx_type_bits(type)) {
		return ptx_fail(p, EINVAL, "a register of %u bits, '%s' needs %u", bits, in->name,
			rbt_ptx_type_bits(type));
	}
	return r;
}

/* Results written to '_' go to a register that nothing reads. */
static int sink_slot(struct parser *p, unsigned type, uint16_t *ret_slot)
{
	uint32_t *sink = &p->body.sinks[file_of(type)];
	int r = 0;

	if (*sink == 0) {
		r = ptx_new_slot(p, type, ret_slot);
		*sink = r < 0 ? 0 : *ret_slot + 1u;
	}
	*ret_slot = (uint16_t)(*sink - 1);
	return r;
}

int ptx_dst_any(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o,
	unsigned bits, uint8_t *ret_bits)
{
	unsigned have;

	*ret_bits = (uint8_t)bits;
	if (o->kind == OPD_SINK) {
		return sink_slot(p, bits == 64 ? RBT_PTX_B64 : RBT_PTX_B32, field);
	}
	if (o->kind != OPD_REG || o->neg) {
		return ptx_fail(p, EINVAL, "'%s' needs a register to write", in->name);
	}
	have = rbt_ptx_type_bits(o->binding->type);
	if (o->binding->type == RBT_PTX_PRED || have < bits) {
		return ptx_fail(p, EINVAL, "'%.*s' is .%s, '%s' writes %u bits",
			(int)(p->names[o->name].length < 60 ? p->names[o->name].length : 60),
			p->names[o->name].text, ptx_type_name(o->binding->type), in->name, bits);
	}
	*ret_bits = (uint8_t)have;
	*field = o->binding->slot;
	return 0;
}

/* The register must be exactly that wide. */
int ptx_dst(
	struct parser *p, struct insn *in, uint16_t *field, const struct operand *o, unsigned bits)
{
	uint8_t have;
	int r = ptx_dst_any(p, in, field, o, bits, &have);

	if (r == 0 && (have != bits)) {
		return ptx_fail(p, EINVAL, "'%s' writes a register of %u bits", in->name, bits);
	}
	return r;
}

/* `neg`: the flag that a '!' sets, 0 if it is not allowed. Constants are slot 0 or its negation. */
int ptx_pred(
	struct parser *p, struct insn *in, uint16_t *field, const struct operand *o, unsigned neg)
{
	bool is_const = o->kind == OPD_IMM && o->literal.kind == LIT_INT && neg != 0;
	bool negate = o->neg;

	if (is_const) {
		*field = RBT_PTX_PRED_TRUE;
		negate = negate != (o->literal.bits == 0);
	} else if (o->kind == OPD_REG && o->binding->type == RBT_PTX_PRED && o->count == 0) {
		*field = o->binding->slot;
	} else {
		return ptx_fail(p, EINVAL, "a predicate is needed");
	}
	if (negate && neg == 0) {
		return ptx_fail(p, EINVAL, "'!' before an operand of '%s'", in->name);
	}
	in->out.flags |= (uint16_t)(negate ? neg : 0);
	return 0;
}

int ptx_pred_dst(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o)
{
	if (o->kind == OPD_SINK) {
		return sink_slot(p, RBT_PTX_PRED, field);
	}
	if (o->kind != OPD_REG || o->binding->type != RBT_PTX_PRED || o->neg) {
		return ptx_fail(p, EINVAL, "'%s' needs a predicate to write", in->name);
	}
	*field = o->binding->slot;
	return 0;
}

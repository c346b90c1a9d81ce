/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the PTX front: one parser, which reads one token at a time and passes each
 * instruction to the decoder as soon as it is read. Functions return 0 or a negative errno; the
 * first failure has written the message (ptx_fail), so callers only pass it on.
 */
#ifndef RBT_SOFTGPU_PTX_IMPL_H
#define RBT_SOFTGPU_PTX_IMPL_H

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "softgpu/ptx/ptx.h"

enum {
	PTX_MAX_TEXT = 16 << 20,
	PTX_MAX_DEPTH = 32,
	PTX_MAX_MODS = 12,
	PTX_MAX_OPERANDS = 8,
	PTX_MAX_ELEMENTS = 1024,
	PTX_MAX_SLOTS = 65534,
	PTX_MAX_PARAM = 4096,
	PTX_MAX_FRAME = 64 << 10,
	PTX_MAX_SHARED = 48 << 10,
	PTX_MAX_LOCAL = 512 << 10,
	PTX_MAX_ALIGN = 4096,
};
#define PTX_MAX_VARIABLE (UINT64_C(1) << 40)

/* Words: .reg, .u32 and the like, the dot included. Punctuation is its character. */
enum token_kind { TOK_END = 256, TOK_IDENT, TOK_WORD, TOK_INT, TOK_FLOAT, TOK_STRING };

enum literal_kind { LIT_INT, LIT_F32, LIT_F64 };

struct literal {
	enum literal_kind kind;
	uint64_t bits;
};

struct token {
	int kind;
	unsigned line;
	const char *text;
	uint32_t length;
	struct literal literal;
};

enum binding_kind {
	BIND_RANGE, /* %r<n>: count; registers get bindings when they are first used */
	BIND_REG,
	BIND_VARIABLE,
	BIND_FUNCTION,
	BIND_SHARED,
	BIND_DYN_SHARED,
	BIND_LOCAL,
	BIND_PARAM,
	BIND_FRAME,
	BIND_LABEL,
	BIND_PROTOTYPE,
};

/* A constant until the module ends: an offset in a kernel's own shared memory. */
enum { PTX_CONST_KERNEL_SHARED = 64 };

enum reg_file { FILE_32, FILE_64, FILE_PRED };

/* The meaning of a name in one scope. */
struct binding {
	struct binding *outer;      /* the same name further out */
	struct binding *scope_next; /* others of its scope */
	uint32_t name;
	uint8_t kind, depth, type;
	uint16_t slot;
	uint32_t index; /* variable, function, instruction, count */
	uint64_t offset, size;
	uint32_t align;
};

struct name {
	const char *text;
	uint32_t length;
	uint32_t next; /* in the hash chain, + 1 */
	uint64_t hash;
	struct binding *top;
};

/* A branch whose label is not known yet. */
struct label_use {
	uint32_t name, inst, line;
	struct label_use *next;
};

struct scope {
	struct binding *bindings;
	struct label_use *uses, **uses_end;
	uint32_t frame_used; /* its start, so that its .param space can be reused */
};

enum operand_kind {
	OPD_NONE,
	OPD_REG,
	OPD_IMM,
	OPD_SYMBOL,
	OPD_SREG,
	OPD_SINK,
	OPD_VECTOR,
	OPD_ADDR
};

struct operand {
	uint8_t kind;
	uint8_t base; /* of OPD_ADDR: OPD_REG, OPD_SYMBOL or OPD_IMM */
	bool neg;     /* !p */
	bool is_list; /* OPD_VECTOR in ( ) */
	uint8_t sreg;
	uint16_t first, count; /* OPD_VECTOR: elements; else count 1: a second half after | */
	uint32_t name;         /* of OPD_SYMBOL: unresolved when binding is NULL */
	struct binding *binding;
	struct literal literal;
	int64_t offset;
};

/* A constant slot in a field of an instruction, whose number is known only at the function's
 * end. */
struct fixup {
	uint32_t inst, constant;
	uint8_t field, file;
};

struct insn {
	char name[16];
	const char *mods[PTX_MAX_MODS]; /* without the dot, NUL-terminated, in modtext */
	bool used[PTX_MAX_MODS];
	char modtext[PTX_MAX_MODS * 20];
	unsigned nmods;
	uint8_t types[4]; /* the modifiers that are types, in order */
	unsigned ntypes;
	struct operand ops[PTX_MAX_OPERANDS];
	unsigned nops;
	unsigned line;
	struct rbt_ptx_inst out;
	struct fixup fixups[8];
	unsigned nfixups;
};

struct const_pool {
	struct rbt_ptx_const *consts;
	uint32_t count, cap;
	uint32_t *table; /* open addressing, index + 1 */
	uint32_t table_size;
};

/* The function being read. */
struct body {
	uint32_t function; /* index */
	uint32_t inst_cap, call_cap;
	struct const_pool pools[2]; /* FILE_32, FILE_64 */
	struct fixup *fixups;
	uint32_t nfixups, fixup_cap;
	uint32_t nregs[3], sinks[3]; /* by file; sinks: slot + 1 */
	uint64_t frame_used, shared_used;
	bool label_at_end;
};

struct chunk;

struct parser {
	const char *text;
	size_t size, pos;
	unsigned line;
	struct token tok;

	struct rbt_ptx_error *error;
	int failed; /* the first error, negative errno */

	struct chunk *chunks; /* memory that lives until the end of parsing */
	struct name *names;
	uint32_t nnames, name_cap;
	uint32_t *buckets;
	uint32_t nbuckets;
	uint64_t hash_key;

	struct scope scopes[PTX_MAX_DEPTH];
	unsigned depth;

	struct rbt_ptx_module *module;
	uint32_t function_cap, variable_cap;
	uint64_t shared_used; /* by variables of the module */

	struct body body;
	struct operand *elements; /* PTX_MAX_ELEMENTS */
	unsigned nelements;
};

/* lexer.c */
int ptx_next(struct parser *p);
int ptx_accept(struct parser *p, int kind, bool *ret_found);
int ptx_expect(struct parser *p, int kind, const char *what);
bool ptx_tok_is(const struct parser *p, const char *text);
int ptx_skip_line(struct parser *p);
int ptx_skip_braces(struct parser *p);
int ptx_fail(struct parser *p, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int ptx_unexpected(struct parser *p, const char *wanted);

/* literal.c */
int ptx_lex_number(struct parser *p);
int ptx_literal_bits(
	struct parser *p, const struct literal *lit, unsigned type, uint64_t *ret_bits);

/* names.c */
void *ptx_alloc(struct parser *p, size_t size);
int ptx_grow(struct parser *p, void *array, uint32_t *cap, uint32_t count, size_t size);
int ptx_intern(struct parser *p, const char *text, uint32_t length, uint32_t *ret_name);
int ptx_bind(struct parser *p, uint32_t name, enum binding_kind kind, struct binding **ret_binding);
struct binding *ptx_lookup(struct parser *p, uint32_t name);
int ptx_scope_push(struct parser *p);
int ptx_scope_pop(struct parser *p);
void ptx_names_finish(struct parser *p);
char *ptx_name_copy(struct parser *p, uint32_t name);

/* types.c */
enum rbt_ptx_type ptx_type_of(const char *text, size_t length);
const char *ptx_type_name(unsigned type);
bool ptx_is_float(unsigned type);
bool ptx_is_half(unsigned type);
bool ptx_is_signed(unsigned type);
int ptx_sreg_of(const char *name, size_t name_length, const char *dim, size_t dim_length);
const char *ptx_sreg_name(unsigned sreg);

/* vars.c: declarations. The current token is the one after the state space. */
enum { LINK_EXTERN = 1 };
struct declared {
	uint32_t name;
	uint8_t type;
	uint32_t align;
	uint64_t size;
	bool is_unsized;
};
int ptx_parse_declarator(struct parser *p, struct declared *ret_decl);
int ptx_parse_variable(struct parser *p, enum rbt_ptx_space space, unsigned linkage);
int ptx_parse_regs(struct parser *p);
int ptx_place(struct parser *p, uint64_t *used, const struct declared *decl, uint64_t max,
	const char *what, uint64_t *ret_offset);

/* init.c */
int ptx_parse_initialiser(struct parser *p, struct rbt_ptx_variable *variable, bool is_unsized);

/* function.c */
int ptx_parse_function(struct parser *p, bool is_entry);
struct rbt_ptx_function *ptx_function(struct parser *p);

/* body.c */
int ptx_parse_body(struct parser *p);
void ptx_insn_init(struct insn *in);

/* parser.c */
int ptx_parse_declaration(struct parser *p, unsigned linkage, bool *ret_found);

/* operand.c */
int ptx_parse_offset(struct parser *p, int64_t *ret_offset);
int ptx_parse_operand(struct parser *p, struct operand *ret_operand);
int ptx_parse_operands(struct parser *p, struct insn *in);

/* emit.c: puts operands into fields of in->out, and checks them. */
int ptx_emit(struct parser *p, struct insn *in);
int ptx_emit_simple(struct parser *p, const struct rbt_ptx_inst *inst);
int ptx_body_finish(struct parser *p);
void ptx_body_reset(struct parser *p);
void ptx_body_finish_memory(struct parser *p);
int ptx_const(struct parser *p, struct insn *in, uint16_t *field, enum reg_file file,
	enum rbt_ptx_const_kind kind, uint32_t index, uint64_t value);
int ptx_src(
	struct parser *p, struct insn *in, uint16_t *field, const struct operand *o, unsigned type);
int ptx_src_any(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o,
	unsigned type, uint8_t *ret_bits);
int ptx_dst(
	struct parser *p, struct insn *in, uint16_t *field, const struct operand *o, unsigned bits);
int ptx_dst_any(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o,
	unsigned bits, uint8_t *ret_bits);
int ptx_pred(
	struct parser *p, struct insn *in, uint16_t *field, const struct operand *o, unsigned neg);
int ptx_pred_dst(struct parser *p, struct insn *in, uint16_t *field, const struct operand *o);
int ptx_address(struct parser *p, struct insn *in, const struct operand *o, uint64_t size);
int ptx_new_slot(struct parser *p, unsigned type, uint16_t *ret_slot);

/* decode*.c */
int ptx_decode(struct parser *p, struct insn *in);
bool ptx_has(struct insn *in, const char *mod);
int ptx_one_of(struct insn *in, const char *const *words);
int ptx_nops(struct parser *p, struct insn *in, unsigned min, unsigned max);
int ptx_no_form(struct parser *p, struct insn *in);
int ptx_rounding(struct insn *in);
typedef int ptx_decode_fn(struct parser *p, struct insn *in);
struct decoder {
	const char *name;
	ptx_decode_fn *decode;
};
extern const struct decoder ptx_mem_decoders[], ptx_move_decoders[], ptx_sync_decoders[],
	ptx_flow_decoders[], ptx_compare_decoders[], ptx_lower_decoders[];
int ptx_decode_alu(struct parser *p, struct insn *in, bool *ret_known);

/* cfg.c */
int ptx_cfg(struct parser *p, struct rbt_ptx_function *f);

#endif

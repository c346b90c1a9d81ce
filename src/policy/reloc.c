/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves an object's references to maps, global data and subprograms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/object.h"

#define R_64_64 1  /* lddw: a map, or global data */
#define R_64_32 10 /* call of a subprogram */

#define LDDW (BPF_LD | BPF_IMM | BPF_DW)
#define CALL (BPF_JMP | BPF_CALL)

/* One reference of a section with code. */
struct place {
	const struct rbt_object_function *function;
	uint32_t at; /* in o->code */
	const Elf64_Sym *symbol;
};

static int refuse(
	const struct rbt_object *o, const struct place *p, const char *what, struct rbt_why *why)
{
	return rbt_why_set(why, -EINVAL, "section %s: instruction %u: %s (%s)",
		p->function->section_name, p->at - p->function->start + p->function->in_section,
		what, rbt_object_symbol_name(o, p->symbol));
}

/* The map that a symbol means. *ret_offset: where in its value the symbol is. */
static int find_map(const struct rbt_object *o, const Elf64_Sym *symbol, uint64_t *ret_offset)
{
	for (size_t i = 0; i < o->n_maps; i++) {
		const struct rbt_object_map *m = &o->maps[i];
		if (m->section != symbol->st_shndx) {
			continue;
		}
		if (m->is_data || m->offset == symbol->st_value) {
			*ret_offset = symbol->st_value;
			return (int)i;
		}
	}
	return -1;
}

static int resolve_address(struct rbt_object *o, const struct place *p, struct rbt_why *why)
{
	struct bpf_insn *insn = &o->code[p->at];
	uint64_t offset = 0;

	if (insn->code != LDDW || insn->src_reg != 0 ||
		p->at + 1 >= p->function->start + p->function->n) {
		return refuse(o, p, "a reference to an address is no lddw", why);
	}
	if (p->symbol->st_shndx == SHN_UNDEF) {
		return refuse(o, p, "an extern variable is not allowed", why);
	}
	if (ELF64_ST_TYPE(p->symbol->st_info) == STT_FUNC) {
		return refuse(o, p, "a callback is not allowed", why);
	}
	int i = find_map(o, p->symbol, &offset);
	if (i < 0) {
		return refuse(o, p, "the symbol is neither a map nor a variable", why);
	}
	const struct rbt_object_map *m = &o->maps[i];
	uint64_t addend = (uint32_t)insn[0].imm;
	if (!m->is_data && addend == 0) {
		insn->src_reg = BPF_PSEUDO_MAP_FD;
		insn[1].imm = 0;
	} else if (m->is_data && offset < m->value_size && addend < m->value_size - offset) {
		insn->src_reg = BPF_PSEUDO_MAP_VALUE;
		insn[1].imm = (int32_t)(offset + addend);
	} else {
		return refuse(o, p, "the reference lies outside of its map", why);
	}
	insn->imm = i;
	return 0;
}

/* The function that begins at this instruction of the section. */
static const struct rbt_object_function *function_at(
	const struct rbt_object *o, unsigned section, int64_t in_section)
{
	for (size_t i = 0; i < o->n_functions; i++) {
		const struct rbt_object_function *f = &o->functions[i];
		if (f->section == section && f->in_section == in_section) {
			return f;
		}
	}
	return NULL;
}

/* As libbpf does it: against a function's symbol, or against a section with imm as the place. */
static int resolve_call(struct rbt_object *o, const struct place *p, struct rbt_why *why)
{
	struct bpf_insn *insn = &o->code[p->at];

	if (insn->code != CALL || insn->src_reg != BPF_PSEUDO_CALL) {
		return refuse(o, p, "a reference to a function is no call", why);
	}
	if (p->symbol->st_shndx == SHN_UNDEF) {
		return refuse(o, p, "an extern function is not allowed", why);
	}
	int64_t target = ELF64_ST_TYPE(p->symbol->st_info) == STT_SECTION
				 ? (int64_t)insn->imm + 1
				 : (int64_t)(p->symbol->st_value / sizeof(*insn));
	const struct rbt_object_function *f = function_at(o, p->symbol->st_shndx, target);
	if (f == NULL || f->hook != RBT_N_HOOKS) {
		return refuse(o, p, "the call goes to no subprogram", why);
	}
	insn->imm = (int32_t)f->start - (int32_t)p->at - 1;
	return 0;
}

static int resolve(struct rbt_object *o, unsigned section, const Elf64_Rel *rel, uint8_t *is_done,
	struct rbt_why *why)
{
	const char *name = rbt_elf_section_name(&o->elf, rbt_elf_section(&o->elf, section));
	uint64_t insn = rel->r_offset / sizeof(struct bpf_insn);
	struct place p = {0};

	for (size_t i = 0; i < o->n_functions; i++) {
		const struct rbt_object_function *f = &o->functions[i];
		if (f->section == section && insn - f->in_section < f->n) {
			p.function = f;
			p.at = f->start + (uint32_t)(insn - f->in_section);
		}
	}
	if (p.function == NULL || rel->r_offset % sizeof(struct bpf_insn) != 0 ||
		ELF64_R_SYM(rel->r_info) >= o->n_symbols || is_done[p.at]) {
		return rbt_why_set(why, -EINVAL,
			"section %s: instruction %llu: its relocation is damaged, or one of two",
			name, (unsigned long long)insn);
	}
	is_done[p.at] = 1;
	p.symbol = &o->symbols[ELF64_R_SYM(rel->r_info)];
	switch (ELF64_R_TYPE(rel->r_info)) {
	case R_64_64:
		return resolve_address(o, &p, why);
	case R_64_32:
		return resolve_call(o, &p, why);
	default:
		return refuse(o, &p, "the type of its relocation is not known", why);
	}
}

static bool has_code(const struct rbt_object *o, unsigned section)
{
	for (size_t i = 0; i < o->n_functions; i++) {
		if (o->functions[i].section == section) {
			return true;
		}
	}
	return false;
}

static bool has_map(const struct rbt_object *o, unsigned section)
{
	for (size_t i = 0; i < o->n_maps; i++) {
		if (o->maps[i].section == section) {
			return true;
		}
	}
	return false;
}

static int relocate_section(
	struct rbt_object *o, const Elf64_Shdr *s, uint8_t *is_done, struct rbt_why *why)
{
	const Elf64_Rel *rels = rbt_elf_struct_at(&o->elf, s->sh_offset, s->sh_size);
	uint64_t n = s->sh_size / sizeof(*rels);

	if (!has_code(o, s->sh_info)) {
		return !has_map(o, s->sh_info)
			       ? 0 /* such as information for debuggers */
			       : rbt_why_set(why, -EINVAL,
					 "section %s: pointers in data are not allowed",
					 rbt_elf_section_name(&o->elf, s));
	}
	if (rels == NULL || s->sh_size % sizeof(*rels) != 0) {
		return rbt_why_set(why, -EINVAL, "section %s: it is damaged",
			rbt_elf_section_name(&o->elf, s));
	}
	for (uint64_t i = 0; i < n; i++) {
		int r = resolve(o, s->sh_info, &rels[i], is_done, why);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* References that did not come from a relocation: clang writes none but calls within .text. */
static int check_rest(const struct rbt_object *o, const uint8_t *is_done, struct rbt_why *why)
{
	for (uint32_t i = 0; i < o->n_code; i++) {
		const struct rbt_object_function *f = rbt_object_function_at(o, i);
		if (o->code[i].code != LDDW) {
			continue;
		}
		if (o->code[i].src_reg != 0 && !is_done[i]) {
			return rbt_why_set(why, -EINVAL,
				"section %s: instruction %u: it refers to a file descriptor",
				f->section_name, i - f->start + f->in_section);
		}
		i++; /* the second half has any code in damaged files; check.c sees to it */
	}
	return 0;
}

int rbt_object_relocate(struct rbt_object *o, struct rbt_why *why)
{
	uint8_t *is_done = calloc(o->n_code + 1, 1);
	int r = 0;

	if (is_done == NULL) {
		return rbt_why_set(why, -ENOMEM, "out of memory");
	}
	for (unsigned i = 1; r == 0 && i < o->elf.header->e_shnum; i++) {
		const Elf64_Shdr *s = rbt_elf_section(&o->elf, i);
		if (s->sh_type == SHT_REL) {
			r = relocate_section(o, s, is_done, why);
		} else if (s->sh_type == SHT_RELA &&
			   (has_code(o, s->sh_info) || has_map(o, s->sh_info))) {
			r = rbt_why_set(why, -EINVAL,
				"section %s: relocations with addends are not allowed",
				rbt_elf_section_name(&o->elf, s));
		}
	}
	r = r == 0 ? check_rest(o, is_done, why) : r;
	free(is_done);
	return r;
}

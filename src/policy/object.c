/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SECTIONS  512
#define MAX_FUNCTIONS 512
#define MAX_SYMBOLS   65536
#define MAX_STRINGS   (1u << 20) /* bytes */
#define HOOK_PREFIX   "gpu_sched/"

/* The first bytes of .BTF.ext (linux/btf.h does not have them). */
struct btf_ext_header {
	uint16_t magic;
	uint8_t version, flags;
	uint32_t hdr_len, func_info_off, func_info_len, line_info_off, line_info_len;
	uint32_t core_relo_off, core_relo_len;
};

static bool begins_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* ".data" and ".data.more", but not ".database" */
static bool is_kind(const char *name, const char *kind)
{
	size_t n = strlen(kind);

	return strncmp(name, kind, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

static int copy_name(char to[RBT_OBJECT_NAME_SIZE], const char *from)
{
	size_t n = strlen(from);

	if (n == 0 || n >= RBT_OBJECT_NAME_SIZE) {
		return -EINVAL;
	}
	memcpy(to, from, n + 1);
	return 0;
}

const unsigned char *rbt_object_section_bytes(const struct rbt_object *o, unsigned section)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, section);

	return s == NULL || s->sh_type == SHT_NOBITS
		       ? NULL
		       : rbt_elf_at(&o->elf, s->sh_offset, s->sh_size);
}

/* The bytes of a string table, or NULL. Its last string has an end, so that all have one. */
static const char *string_table(const struct rbt_object *o, unsigned section, size_t *ret_size)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, section);
	const char *bytes = s != NULL && s->sh_size > 0 && s->sh_size <= MAX_STRINGS
				    ? (const char *)rbt_object_section_bytes(o, section)
				    : NULL;

	if (bytes == NULL || bytes[s->sh_size - 1] != '\0') {
		return NULL;
	}
	*ret_size = (size_t)s->sh_size;
	return bytes;
}

/* Finds the symbols once: each of thousands of symbols may be looked at for each map. */
static int find_symbols(struct rbt_object *o)
{
	const Elf64_Shdr *s = NULL;

	for (unsigned i = 1; s == NULL && i < o->elf.header->e_shnum; i++) {
		s = rbt_elf_section(&o->elf, i);
		s = s->sh_type == SHT_SYMTAB ? s : NULL;
	}
	if (s == NULL || s->sh_size / sizeof(*o->symbols) > MAX_SYMBOLS) {
		return -EINVAL;
	}
	o->symbols = rbt_elf_struct_at(&o->elf, s->sh_offset, s->sh_size);
	o->n_symbols = (size_t)(s->sh_size / sizeof(*o->symbols));
	o->names = string_table(o, s->sh_link, &o->names_size);
	return o->symbols != NULL && o->names != NULL ? 0 : -EINVAL;
}

const char *rbt_object_symbol_name(const struct rbt_object *o, const Elf64_Sym *symbol)
{
	return symbol->st_name < o->names_size ? o->names + symbol->st_name : "";
}

const Elf64_Sym *rbt_object_find_symbol(
	const struct rbt_object *o, unsigned section, const char *name)
{
	for (size_t i = 0; i < o->n_symbols; i++) {
		const Elf64_Sym *s = &o->symbols[i];
		if (s->st_shndx == section && ELF64_ST_TYPE(s->st_info) == STT_OBJECT &&
			strcmp(rbt_object_symbol_name(o, s), name) == 0) {
			return s;
		}
	}
	return NULL;
}

int rbt_object_find_map(const struct rbt_object *o, const char *name)
{
	for (size_t i = 0; i < o->n_maps; i++) {
		if (strcmp(o->maps[i].name, name) == 0) {
			return (int)i;
		}
	}
	return -1;
}

const struct rbt_object_function *rbt_object_function_at(const struct rbt_object *o, uint32_t at)
{
	for (size_t i = 0; i < o->n_functions; i++) {
		if (at - o->functions[i].start < o->functions[i].n) {
			return &o->functions[i];
		}
	}
	return NULL;
}

static int check_header(struct rbt_object *o, struct rbt_why *why)
{
	if (rbt_elf_init(&o->elf, o->file, o->size) < 0 ||
		o->elf.header->e_ident[EI_DATA] != ELFDATA2LSB ||
		o->elf.header->e_machine != EM_BPF || o->elf.header->e_type != ET_REL) {
		return rbt_why_set(why, -ENOEXEC,
			"not an object file for BPF: compile it with clang -O2 -g -target bpf -c");
	}
	unsigned n = o->elf.header->e_shnum;
	if (n == 0 || n > MAX_SECTIONS) {
		return rbt_why_set(why, -EINVAL, "the file has %u sections", n);
	}
	size_t size;
	const bool has_names = string_table(o, o->elf.header->e_shstrndx, &size) != NULL;
	for (unsigned i = 0; i < n; i++) {
		const Elf64_Shdr *s = rbt_elf_section(&o->elf, i);
		if (s == NULL || !has_names || rbt_elf_section_name(&o->elf, s) == NULL) {
			return rbt_why_set(why, -EINVAL, "the header of section %u is damaged", i);
		}
		if (s->sh_type != SHT_NULL && s->sh_type != SHT_NOBITS &&
			rbt_elf_at(&o->elf, s->sh_offset, s->sh_size) == NULL) {
			return rbt_why_set(why, -EINVAL, "section %s: it is cut off",
				rbt_elf_section_name(&o->elf, s));
		}
	}
	return find_symbols(o) < 0
		       ? rbt_why_set(why, -EINVAL, "the file has no usable symbol table")
		       : 0;
}

static int compare_functions(const void *a, const void *b)
{
	const struct rbt_object_function *x = a, *y = b;

	return x->in_section < y->in_section ? -1 : x->in_section > y->in_section;
}

/* Collects the functions of one section, behind those that are there already. */
static int collect_functions(
	struct rbt_object *o, unsigned section, const char *section_name, struct rbt_why *why)
{
	for (size_t i = 0; i < o->n_symbols; i++) {
		const Elf64_Sym *s = &o->symbols[i];
		if (s->st_shndx != section || ELF64_ST_TYPE(s->st_info) != STT_FUNC) {
			continue;
		}
		const size_t insn = sizeof(struct bpf_insn);
		struct rbt_object_function f = {.section = section, .hook = RBT_N_HOOKS};
		if (o->n_functions == MAX_FUNCTIONS || s->st_value % insn != 0 ||
			s->st_size % insn != 0 || s->st_size == 0 ||
			s->st_size > RBT_OBJECT_MAX_CODE * insn ||
			s->st_value > RBT_OBJECT_MAX_CODE * insn ||
			copy_name(f.name, rbt_object_symbol_name(o, s)) < 0 ||
			copy_name(f.section_name, section_name) < 0) {
			return rbt_why_set(why, -EINVAL,
				"section %s: the function at %#llx is damaged", section_name,
				(unsigned long long)s->st_value);
		}
		f.in_section = (uint32_t)(s->st_value / insn);
		f.n = (uint32_t)(s->st_size / insn);
		struct rbt_object_function *more =
			realloc(o->functions, (o->n_functions + 1) * sizeof(f));
		if (more == NULL) {
			return rbt_why_set(why, -ENOMEM, "section %s: out of memory", section_name);
		}
		o->functions = more;
		o->functions[o->n_functions++] = f;
	}
	return 0;
}

/* Copies a section's code. Its functions must cover it, one behind the other. */
static int read_code(
	struct rbt_object *o, unsigned section, const char *section_name, struct rbt_why *why)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, section);
	const unsigned char *bytes = rbt_object_section_bytes(o, section);
	const size_t first = o->n_functions, insn = sizeof(struct bpf_insn);
	uint64_t at = 0, n = s->sh_size / insn;

	if (bytes == NULL || s->sh_size % insn != 0 || n > RBT_OBJECT_MAX_CODE - o->n_code ||
		(s->sh_flags & SHF_COMPRESSED) != 0) {
		return rbt_why_set(why, -EINVAL,
			"section %s: its size of %llu bytes is not that of code, or more than %d instructions",
			section_name, (unsigned long long)s->sh_size, RBT_OBJECT_MAX_CODE);
	}
	int r = collect_functions(o, section, section_name, why);
	if (r < 0) {
		return r;
	}
	if (o->n_functions > first) {
		qsort(&o->functions[first], o->n_functions - first, sizeof(*o->functions),
			compare_functions);
	}
	for (size_t i = first; i < o->n_functions; i++) {
		struct rbt_object_function *f = &o->functions[i];
		if (f->in_section != at || f->n > n - at) {
			return rbt_why_set(why, -EINVAL,
				"section %s: instruction %u: functions overlap or leave a gap",
				section_name, f->in_section);
		}
		f->start = o->n_code + f->in_section;
		at += f->n;
	}
	if (at != n) {
		return rbt_why_set(why, -EINVAL,
			"section %s: instruction %llu belongs to no function", section_name,
			(unsigned long long)at);
	}
	struct bpf_insn *code = realloc(o->code, (o->n_code + n + 1) * insn);
	if (code == NULL) {
		return rbt_why_set(why, -ENOMEM, "section %s: out of memory", section_name);
	}
	memcpy(&code[o->n_code], bytes, (size_t)s->sh_size);
	o->code = code;
	o->n_code += (uint32_t)n;
	return 0;
}

static int read_hook(
	struct rbt_object *o, unsigned section, const char *section_name, struct rbt_why *why)
{
	const size_t first = o->n_functions;
	enum rbt_hook hook = rbt_hook_find(section_name + strlen(HOOK_PREFIX));

	if (hook == RBT_N_HOOKS) {
		return rbt_why_set(why, -EINVAL, "section %s: there is no such hook", section_name);
	}
	int r = read_code(o, section, section_name, why);
	if (r < 0) {
		return r;
	}
	if (o->n_functions != first + 1 || o->hooks[hook] >= 0) {
		return rbt_why_set(
			why, -EINVAL, "section %s: a hook is one function", section_name);
	}
	o->functions[first].hook = hook;
	o->hooks[hook] = (int)first;
	return 0;
}

/* Sections may overlap, so that a small file could claim much memory. */
static uint64_t data_size(const struct rbt_object *o)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->n_maps; i++) {
		sum += o->maps[i].value_size;
	}
	return sum;
}

/* Global data becomes a map with one value. */
static int read_data(
	struct rbt_object *o, unsigned section, const char *section_name, struct rbt_why *why)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, section);
	const unsigned char *bytes = rbt_object_section_bytes(o, section);

	if (s->sh_size == 0) {
		return 0;
	}
	if (s->sh_size > RBT_OBJECT_MAX_BYTES - data_size(o) ||
		(s->sh_flags & SHF_COMPRESSED) != 0 || o->n_maps == RBT_OBJECT_MAX_MAPS ||
		rbt_object_find_map(o, section_name) >= 0) {
		return rbt_why_set(why, -EINVAL,
			"section %s: its %llu bytes are too many, or it is there twice",
			section_name, (unsigned long long)s->sh_size);
	}
	struct rbt_object_map m = {.type = BPF_MAP_TYPE_ARRAY,
		.key_size = sizeof(uint32_t),
		.value_size = (uint32_t)s->sh_size,
		.max_entries = 1,
		.is_data = true,
		.is_read_only = is_kind(section_name, ".rodata"),
		.section = section};
	if (copy_name(m.name, section_name) < 0) {
		return rbt_why_set(why, -EINVAL, "section %s: its name is too long", section_name);
	}
	m.initial = calloc(1, m.value_size);
	if (m.initial == NULL) {
		return rbt_why_set(why, -ENOMEM, "section %s: out of memory", section_name);
	}
	if (bytes != NULL) {
		memcpy(m.initial, bytes, m.value_size);
	}
	o->maps[o->n_maps++] = m;
	return 0;
}

static int read_license(struct rbt_object *o, unsigned section)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, section);
	const unsigned char *bytes = rbt_object_section_bytes(o, section);
	size_t n = s->sh_size < sizeof(o->license) - 1 ? s->sh_size : sizeof(o->license) - 1;

	if (bytes != NULL) {
		memcpy(o->license, bytes, n);
		o->license[n] = '\0';
	}
	return 0;
}

/* CO-RE would make libbpf write other instructions than those that were checked. */
static int check_btf_ext(const struct rbt_object *o, unsigned section, struct rbt_why *why)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, section);
	const unsigned char *bytes = rbt_object_section_bytes(o, section);
	struct btf_ext_header h = {0};

	if (bytes == NULL || s->sh_size < offsetof(struct btf_ext_header, core_relo_off)) {
		return rbt_why_set(why, -EINVAL, ".BTF.ext: the header is cut off");
	}
	memcpy(&h, bytes, s->sh_size < sizeof(h) ? s->sh_size : sizeof(h));
	if (h.magic != BTF_MAGIC || (h.hdr_len >= sizeof(h) && h.core_relo_len != 0)) {
		return rbt_why_set(
			why, -EINVAL, ".BTF.ext: CO-RE relocations (vmlinux.h) are not allowed");
	}
	return 0;
}

/* What a section is decides how it is read. Sections without memory, such as those for debuggers,
 * do not matter. */
static int read_section(struct rbt_object *o, unsigned i, unsigned *maps, struct rbt_why *why)
{
	const Elf64_Shdr *s = rbt_elf_section(&o->elf, i);
	const char *name = rbt_elf_section_name(&o->elf, s);

	if (begins_with(name, HOOK_PREFIX)) {
		return read_hook(o, i, name, why);
	}
	if (strcmp(name, ".text") == 0) {
		return read_code(o, i, name, why);
	}
	if ((s->sh_flags & SHF_EXECINSTR) != 0) {
		return rbt_why_set(why, -EINVAL, "section %s: not a hook of Rubato", name);
	}
	if (strcmp(name, ".maps") == 0) {
		if (*maps != 0) {
			return rbt_why_set(why, -EINVAL, "section .maps is there twice");
		}
		*maps = i;
		return 0;
	}
	if (is_kind(name, ".rodata") || is_kind(name, ".data") || is_kind(name, ".bss")) {
		return read_data(o, i, name, why);
	}
	if (strcmp(name, "license") == 0) {
		return read_license(o, i);
	}
	if (strcmp(name, ".BTF.ext") == 0) {
		return check_btf_ext(o, i, why);
	}
	if (strcmp(name, ".BTF") == 0) {
		const unsigned char *bytes = rbt_object_section_bytes(o, i);
		if (bytes == NULL || o->btf.data != NULL) {
			return rbt_why_set(why, -EINVAL, ".BTF: it is empty, or there twice");
		}
		return rbt_btf_init(&o->btf, bytes, (size_t)s->sh_size, why);
	}
	if ((s->sh_flags & SHF_ALLOC) != 0 && s->sh_size > 0) {
		return rbt_why_set(why, -EINVAL, "section %s is not allowed", name);
	}
	return 0;
}

/* Reads a constant of .rodata that the header defines. */
static int read_constant(const struct rbt_object *o, const char *name, void *ret, uint32_t size)
{
	int i = rbt_object_find_map(o, ".rodata");
	const Elf64_Sym *s = i >= 0 ? rbt_object_find_symbol(o, o->maps[i].section, name) : NULL;

	if (s == NULL) {
		return -ENOENT;
	}
	if (s->st_size != size || s->st_value > o->maps[i].value_size ||
		size > o->maps[i].value_size - s->st_value) {
		return -EINVAL;
	}
	memcpy(ret, o->maps[i].initial + s->st_value, size);
	return 0;
}

static int read_ops(struct rbt_object *o, struct rbt_why *why)
{
	uint32_t abi = 0;
	int n_hooks = 0;

	for (int i = 0; i < RBT_N_HOOKS; i++) {
		n_hooks += o->hooks[i] >= 0;
	}
	if (n_hooks == 0) {
		return rbt_why_set(why, -EINVAL, "the object has no section gpu_sched/…");
	}
	if (read_constant(o, "gpu_sched_abi", &abi, sizeof(abi)) < 0) {
		return rbt_why_set(why, -EINVAL,
			"the object does not say its ABI: include rubato/policy.bpf.h");
	}
	if (abi != GPU_SCHED_ABI) {
		return rbt_why_set(why, -EINVAL,
			"the object has ABI %u, and this version of Rubato ABI %u", abi,
			GPU_SCHED_ABI);
	}
	int r = read_constant(o, "gpu_sched_ops", &o->ops, sizeof(o->ops));
	if (r == -EINVAL) {
		return rbt_why_set(why, r, "gpu_sched_ops is damaged: use GPU_SCHED_OPS_DEFINE()");
	}
	o->ops.name[sizeof(o->ops.name) - 1] = '\0';
	o->ops.base[sizeof(o->ops.base) - 1] = '\0';
	return 0;
}

static int read_object(struct rbt_object *o, struct rbt_why *why)
{
	unsigned maps = 0;
	int r = check_header(o, why);

	for (unsigned i = 1; r == 0 && i < o->elf.header->e_shnum; i++) {
		r = read_section(o, i, &maps, why);
	}
	if (r == 0 && maps != 0) {
		r = rbt_object_read_maps(o, maps, why);
	}
	r = r == 0 ? rbt_object_check_maps(o, why) : r;
	r = r == 0 ? rbt_object_relocate(o, why) : r;
	r = r == 0 ? read_ops(o, why) : r;
	return r == 0 ? rbt_object_check_code(o, why) : r;
}

int rbt_object_open(const void *data, size_t size, struct rbt_object **ret, struct rbt_why *why)
{
	if (size > RBT_OBJECT_MAX_FILE) {
		return rbt_why_set(why, -EINVAL, "the file has %zu bytes, more than %u", size,
			RBT_OBJECT_MAX_FILE);
	}
	struct rbt_object *o = calloc(1, sizeof(*o));
	if (o == NULL) {
		return rbt_why_set(why, -ENOMEM, "out of memory");
	}
	o->file = malloc(size + 1);
	o->size = size;
	for (int i = 0; i < RBT_N_HOOKS; i++) {
		o->hooks[i] = -1;
	}
	int r = -ENOMEM;
	if (o->file == NULL) {
		rbt_why_set(why, r, "out of memory");
	} else {
		memcpy(o->file, data, size);
		r = read_object(o, why);
	}
	if (r < 0) {
		rbt_object_close(o);
		return r;
	}
	*ret = o;
	return 0;
}

void rbt_object_close(struct rbt_object *o)
{
	if (o == NULL) {
		return;
	}
	for (size_t i = 0; i < o->n_maps; i++) {
		free(o->maps[i].initial);
	}
	rbt_btf_finish(&o->btf);
	free(o->functions);
	free(o->code);
	free(o->file);
	free(o);
}

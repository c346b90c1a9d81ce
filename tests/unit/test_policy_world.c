/* SPDX-License-Identifier: Apache-2.0 */
#include "test_policy_world.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const section_names[WORLD_N_SECTIONS] = {[WORLD_STRTAB] = ".strtab",
	[WORLD_REL] = ".rel",
	[WORLD_TEXT] = ".text",
	[WORLD_RODATA] = ".rodata",
	[WORLD_DATA] = ".data",
	[WORLD_MAPS] = ".maps",
	[WORLD_LICENSE] = "license",
	[WORLD_BTF] = ".BTF",
	[WORLD_SYMTAB] = ".symtab"};

void world_init(struct world *w)
{
	static const struct world_map maps[] = {{"array", BPF_MAP_TYPE_ARRAY, 4, 12, 4, 0, NULL},
		{"hash", BPF_MAP_TYPE_HASH, 8, 8, 4, 0, NULL},
		{"lru", BPF_MAP_TYPE_LRU_HASH, 8, 8, 4, 0, NULL},
		{"ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0, NULL}};
	const struct bpf_insn nothing[] = {MOV(0, 0), EXIT()};

	memset(w, 0, sizeof(*w));
	w->section = "gpu_sched/task_init";
	w->abi = GPU_SCHED_ABI;
	w->n_data = sizeof(w->data);
	memcpy(w->maps, maps, sizeof(maps));
	w->n_maps = sizeof(maps) / sizeof(*maps);
	world_code(w, nothing, 2);
}

void world_code(struct world *w, const struct bpf_insn *code, size_t n)
{
	n = n < WORLD_MAX_CODE ? n : WORLD_MAX_CODE;
	if (n > 0) {
		memcpy(w->code, code, n * sizeof(*code));
	}
	w->n_code = n;
}

void world_rel(struct world *w, uint32_t insn, uint32_t symbol, uint32_t type)
{
	w->rels[w->n_rels++] = (struct world_rel){insn, symbol, type};
}

/* Bytes that grow. */
struct bytes {
	unsigned char data[32768];
	size_t n;
};

static size_t add(struct bytes *b, const void *data, size_t n)
{
	const size_t at = b->n;

	if (n > sizeof(b->data) - at) {
		fprintf(stderr, "world: too large\n");
		abort();
	}
	memcpy(b->data + at, data, n);
	b->n += n;
	return at;
}

static uint32_t add_string(struct bytes *b, const char *s)
{
	return (uint32_t)add(b, s, strlen(s) + 1);
}

/* BTF under construction. */
struct btf_parts {
	struct bytes types, strings;
	uint32_t n; /* of types */
};

static uint32_t add_type(
	struct btf_parts *b, const char *name, unsigned kind, unsigned vlen, uint32_t size_or_type)
{
	struct btf_type t = {.name_off = name != NULL ? add_string(&b->strings, name) : 0,
		.info = kind << 24 | vlen,
		.size = size_or_type};

	add(&b->types, &t, sizeof(t));
	return ++b->n;
}

/* __uint(name, n) */
static struct btf_member add_uint(struct btf_parts *b, const char *name, uint32_t n)
{
	struct btf_array array = {.type = 1, .index_type = 1, .nelems = n};
	uint32_t id = add_type(b, NULL, BTF_KIND_ARRAY, 0, 0);

	add(&b->types, &array, sizeof(array));
	id = add_type(b, NULL, BTF_KIND_PTR, 0, id);
	return (struct btf_member){.name_off = add_string(&b->strings, name), .type = id};
}

static uint32_t add_map(struct btf_parts *b, const struct world *w, const struct world_map *m)
{
	struct btf_member members[6];
	unsigned n = 0;
	uint32_t linkage = BTF_VAR_GLOBAL_ALLOCATED;

	members[n++] = add_uint(b, "type", m->type);
	members[n++] = add_uint(b, "max_entries", m->max_entries);
	if (m->key_size != 0) {
		members[n++] = add_uint(b, "key_size", m->key_size);
	}
	if (m->value_size != 0) {
		members[n++] = add_uint(b, "value_size", m->value_size);
	}
	if (m->flags != 0) {
		members[n++] = add_uint(b, "map_flags", m->flags);
	}
	if (m->extra != NULL) {
		members[n++] = add_uint(b, m->extra, 1);
	}
	for (unsigned i = 0; i < n; i++) {
		members[i].offset = i * 64;
	}
	uint32_t id = add_type(b, NULL, BTF_KIND_STRUCT, n, n * 8);
	add(&b->types, members, n * sizeof(*members));
	if (m == w->maps && w->btf_wrong_type != 0) {
		id = w->btf_wrong_type;
	}
	id = add_type(b, m->name, BTF_KIND_VAR, 0, id);
	add(&b->types, &linkage, sizeof(linkage));
	return id;
}

static void build_btf(const struct world *w, struct bytes *ret)
{
	static struct btf_parts b;
	struct btf_var_secinfo vars[WORLD_MAX_MAPS];
	uint32_t int_bits = BTF_INT_SIGNED << 24 | 32;

	b.types.n = b.strings.n = b.n = 0;
	add_string(&b.strings, "");
	add_type(&b, "int", BTF_KIND_INT, 0, 4);
	add(&b.types, &int_bits, sizeof(int_bits));
	for (size_t i = 0; i < w->n_maps; i++) {
		vars[i] = (struct btf_var_secinfo){.type = add_map(&b, w, &w->maps[i]),
			.offset = 64 * (uint32_t)i,
			.size = 64};
	}
	add_type(&b, ".maps", BTF_KIND_DATASEC, (unsigned)w->n_maps, 64 * (uint32_t)w->n_maps);
	add(&b.types, vars, w->n_maps * sizeof(*vars));
	struct btf_header h = {.magic = BTF_MAGIC,
		.version = BTF_VERSION,
		.hdr_len = sizeof(h),
		.type_len = (uint32_t)b.types.n,
		.str_off = (uint32_t)b.types.n,
		.str_len = (uint32_t)b.strings.n};
	add(ret, &h, sizeof(h));
	add(ret, b.types.data, b.types.n);
	add(ret, b.strings.data, b.strings.n);
}

static void add_symbol(struct bytes *symbols, struct bytes *strings, const char *name,
	unsigned type, unsigned section, uint64_t value, uint64_t size)
{
	Elf64_Sym s = {.st_name = add_string(strings, name),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, type),
		.st_shndx = (Elf64_Section)section,
		.st_value = value,
		.st_size = size};

	add(symbols, &s, sizeof(s));
}

static void build_symbols(const struct world *w, struct bytes *symbols, struct bytes *strings)
{
	const size_t insn = sizeof(struct bpf_insn);

	add_string(strings, "");
	add_symbol(symbols, strings, "", STT_NOTYPE, SHN_UNDEF, 0, 0);
	add_symbol(symbols, strings, "hook", STT_FUNC, WORLD_CODE, 0, w->n_code * insn);
	if (w->n_text > 0) {
		add_symbol(symbols, strings, "sub", STT_FUNC, WORLD_TEXT, 0, w->n_text * insn);
	} else {
		add_symbol(symbols, strings, "sub", STT_NOTYPE, SHN_ABS, 0, 0);
	}
	add_symbol(symbols, strings, "gpu_sched_abi", STT_OBJECT, WORLD_RODATA, 0, 4);
	add_symbol(symbols, strings, "data", STT_OBJECT, WORLD_DATA, 0, 8);
	add_symbol(
		symbols, strings, "extern", STT_NOTYPE, w->has_extern ? SHN_UNDEF : SHN_ABS, 0, 0);
	add_symbol(symbols, strings, "", STT_SECTION, WORLD_TEXT, 0, 0);
	add_symbol(symbols, strings, "constant", STT_OBJECT, WORLD_RODATA, 8, 8);
	for (size_t i = 0; i < w->n_maps; i++) {
		add_symbol(symbols, strings, w->maps[i].name, STT_OBJECT, WORLD_MAPS, 64 * i, 64);
	}
}

/* Contents of a section. */
static void build_section(const struct world *w, unsigned i, struct bytes *b)
{
	static const unsigned char zeroes[4096];
	static struct bytes unused;

	switch (i) {
	case WORLD_CODE:
		add(b, w->code, w->n_code * sizeof(*w->code));
		break;
	case WORLD_TEXT:
		add(b, w->text, w->n_text * sizeof(*w->text));
		break;
	case WORLD_REL:
		for (size_t j = 0; j < w->n_rels; j++) {
			Elf64_Rel r = {w->rels[j].insn * sizeof(struct bpf_insn),
				ELF64_R_INFO((uint64_t)w->rels[j].symbol, w->rels[j].type)};
			add(b, &r, sizeof(r));
		}
		break;
	case WORLD_RODATA:
		add(b, &w->abi, sizeof(w->abi));
		add(b, "\0\0\0\0constant", 12);
		break;
	case WORLD_DATA:
		add(b, &w->data, sizeof(w->data));
		break;
	case WORLD_MAPS:
		for (size_t j = 0; j < w->n_maps; j++) {
			add(b, zeroes, 64);
		}
		break;
	case WORLD_LICENSE:
		add(b, "GPL", 4);
		break;
	case WORLD_BTF:
		build_btf(w, b);
		break;
	case WORLD_SYMTAB:
		unused.n = 0;
		build_symbols(w, b, &unused);
		break;
	}
}

static Elf64_Shdr section_header(const struct world *w, unsigned i)
{
	static const Elf64_Shdr headers[WORLD_N_SECTIONS] = {
		[WORLD_STRTAB] = {.sh_type = SHT_STRTAB},
		[WORLD_CODE] = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR},
		[WORLD_REL] = {.sh_type = SHT_REL,
			.sh_info = WORLD_CODE,
			.sh_entsize = sizeof(Elf64_Rel)},
		[WORLD_TEXT] = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR},
		[WORLD_RODATA] = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC},
		[WORLD_DATA] = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE},
		[WORLD_MAPS] = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE},
		[WORLD_LICENSE] = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE},
		[WORLD_BTF] = {.sh_type = SHT_PROGBITS},
		[WORLD_SYMTAB] = {.sh_type = SHT_SYMTAB,
			.sh_info = 1,
			.sh_entsize = sizeof(Elf64_Sym)},
	};
	Elf64_Shdr h = headers[i];

	h.sh_link = i == WORLD_SYMTAB ? WORLD_STRTAB : i == WORLD_REL ? WORLD_SYMTAB : 0;
	h.sh_addralign = 8;
	return h;
}

void world_build(const struct world *w, struct world_file *ret)
{
	static struct bytes all[WORLD_N_SECTIONS];
	static struct bytes symbols;
	Elf64_Shdr headers[WORLD_N_SECTIONS] = {{0}};
	Elf64_Ehdr e = {.e_type = ET_REL,
		.e_machine = EM_BPF,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(e),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = WORLD_N_SECTIONS,
		.e_shstrndx = WORLD_STRTAB};
	size_t at = sizeof(e);

	symbols.n = 0;
	for (unsigned i = 0; i < WORLD_N_SECTIONS; i++) {
		all[i].n = 0;
	}
	memcpy(e.e_ident, ELFMAG "\2\1\1", SELFMAG + 3);
	build_symbols(w, &symbols, &all[WORLD_STRTAB]);
	for (unsigned i = 1; i < WORLD_N_SECTIONS; i++) {
		headers[i] = section_header(w, i);
		headers[i].sh_name = add_string(
			&all[WORLD_STRTAB], i == WORLD_CODE ? w->section : section_names[i]);
		if (i != WORLD_STRTAB) {
			build_section(w, i, &all[i]);
		}
	}
	for (unsigned i = 1; i < WORLD_N_SECTIONS; i++) {
		headers[i].sh_offset = at;
		headers[i].sh_size = i == WORLD_DATA ? w->n_data : all[i].n;
		memcpy(ret->bytes + at, all[i].data, all[i].n);
		memset(ret->bytes + at + all[i].n, 0, 8);
		at = (at + all[i].n + 7) & ~(size_t)7;
	}
	e.e_shoff = at;
	memcpy(ret->bytes, &e, sizeof(e));
	memcpy(ret->bytes + at, headers, sizeof(headers));
	ret->size = at + sizeof(headers);
}

void *world_section(struct world_file *f, unsigned section)
{
	Elf64_Ehdr e;

	memcpy(&e, f->bytes, sizeof(e));
	return f->bytes + e.e_shoff + section * sizeof(Elf64_Shdr);
}

void *world_bytes(struct world_file *f, unsigned section)
{
	Elf64_Shdr s;

	memcpy(&s, world_section(f, section), sizeof(s));
	return f->bytes + s.sh_offset;
}

struct rbt_object *world_open(const struct world *w, struct rbt_why *why)
{
	static struct world_file f;
	struct rbt_object *o = NULL;

	world_build(w, &f);
	return rbt_object_open(f.bytes, f.size, &o, why) == 0 ? o : NULL;
}

unsigned char *world_read_file(const char *folder, const char *name, size_t *ret_size)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.bpf.o", folder, name);
	FILE *f = fopen(path, "re");
	unsigned char *bytes = malloc(1 << 20);
	if (f == NULL || bytes == NULL) {
		perror(path);
		exit(1);
	}
	*ret_size = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile objects. Each is refused with a line that says why, or contained: it runs, and can do
 * nothing but fail. The last tests damage compiled objects at random, and give them to libbpf, too.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "test_policy_world.h"

static unsigned n_hostile;

/* Opens the file; it must be refused with this text. */
static void expect_refused(const char *name, const void *bytes, size_t size, const char *text)
{
	struct rbt_object *o = NULL;
	struct rbt_why why = {""};

	n_hostile++;
	int r = rbt_object_open(bytes, size, &o, &why);
	if (r == 0 || strstr(why.text, text) == NULL || strchr(why.text, '\n') != NULL) {
		fprintf(stderr, "%s: %d \"%s\", not \"%s\"\n", name, r, why.text, text);
		CHECK(!"refused as expected");
		rbt_object_close(r == 0 ? o : NULL);
	}
	CHECK(r < 0);
}

/* One instruction that is wrong, between others that are not. */
#define AT1 "section gpu_sched/task_init: instruction 1: "
struct wrong_insn {
	const char *name;
	struct bpf_insn insn;
	const char *text;
};

static void refuse_each(const struct wrong_insn *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		static struct world w;
		static struct world_file f;
		const struct bpf_insn code[] = {MOV(2, 0), cases[i].insn, MOV(0, 0), EXIT()};
		world_init(&w);
		world_code(&w, code, 4);
		world_build(&w, &f);
		expect_refused(cases[i].name, f.bytes, f.size, cases[i].text);
	}
}

static void test_instructions(void)
{
	const struct wrong_insn cases[] = {
		{"unknown code", INSN(0xff, 0, 0, 0, 0), AT1 "this calculation"},
		{"packet load", INSN(0x20, 0, 0, 0, 0), AT1 "this load is not known"},
		{"register 11", MOV(11, 0), AT1 "there is no such register"},
		{"register 15", MOVX(0, 15), AT1 "there is no such register"},
		{"r10 by mov", MOV(10, 0), AT1 "it writes to r10"},
		{"r10 by load", LOAD(BPF_DW, 10, 1, 0), AT1 "it writes to r10"},
		{"r10 by an atomic", ATOMIC(BPF_DW, BPF_XCHG, 1, 10, 0), AT1 "this load or store"},
		{"half an lddw", INSN(0x18, 0, 0, 0, 0), AT1 "the instruction is damaged"},
		{"jump behind the end", JUMP_K(BPF_JEQ, 1, 0, 9), AT1 "it jumps out"},
		{"jump before the beginning", GOTO(-3), AT1 "it jumps out"},
		{"jump far away", GOTO(-32768), AT1 "it jumps out"},
		{"long jump", INSN(BPF_JMP32 | BPF_JA, 0, 0, 0, 1), AT1 "this jump is not known"},
		{"call in 32 bits", INSN(BPF_JMP32 | BPF_CALL, 0, 0, 0, 1),
			AT1 "this jump is not known"},
		{"exit with a register", INSN(BPF_JMP | BPF_EXIT | BPF_X, 0, 0, 0, 0),
			AT1 "this jump"},
		{"exit with a value", INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 1),
			AT1 "the instruction is"},
		{"divide by 0", ALU64_K(BPF_DIV, 1, 0), AT1 "this calculation"},
		{"modulo 0", ALU32_K(BPF_MOD, 1, 0), AT1 "this calculation"},
		{"shift by 64", ALU64_K(BPF_LSH, 1, 64), AT1 "this calculation"},
		{"shift by 32", ALU32_K(BPF_ARSH, 1, 32), AT1 "this calculation"},
		{"shift by -1", ALU64_K(BPF_RSH, 1, -1), AT1 "this calculation"},
		{"signed division", INSN(BPF_ALU64 | BPF_DIV | BPF_K, 1, 0, 1, 3),
			AT1 "this calculation"},
		{"swap of 8 bits", INSN(BPF_ALU | BPF_END, 1, 0, 0, 8), AT1 "this calculation"},
		{"atomic byte", ATOMIC(BPF_B, BPF_ADD, 10, 1, -8), AT1 "this load or store"},
		{"atomic multiplication", ATOMIC(BPF_DW, BPF_MUL, 10, 1, -8),
			AT1 "this load or store"},
		{"load with sign", INSN(BPF_LDX | 0x80 | BPF_W, 0, 1, 0, 0),
			AT1 "this load or store"},
		{"register without value", MOVX(0, 3), AT1 "it reads r3"},
	};

	refuse_each(cases, sizeof(cases) / sizeof(*cases));
}

static void test_calls(void)
{
	const struct wrong_insn cases[] = {
		{"helper 0", HELPER(0), AT1 "helper 0 "},
		{"helper -1", HELPER(-1), AT1 "helper -1 "},
		{"helper 2^31-1", HELPER(INT32_MAX), AT1 "helper 2147483647 "},
		{"trace_printk", HELPER(BPF_FUNC_trace_printk), "gpu_sched_log()"},
		{"probe_read", HELPER(BPF_FUNC_probe_read), "(bpf_probe_read)"},
		{"probe_read_kernel", HELPER(BPF_FUNC_probe_read_kernel),
			"(bpf_probe_read_kernel)"},
		{"send_signal", HELPER(BPF_FUNC_send_signal), "(bpf_send_signal)"},
		{"sys_close", HELPER(BPF_FUNC_sys_close), "(bpf_sys_close)"},
		{"sys_bpf", HELPER(BPF_FUNC_sys_bpf), "(bpf_sys_bpf)"},
		{"copy_from_user", HELPER(BPF_FUNC_copy_from_user), "(bpf_copy_from_user)"},
		{"tail_call", HELPER(BPF_FUNC_tail_call), "(bpf_tail_call)"},
		{"loop", HELPER(BPF_FUNC_loop), "(bpf_loop)"},
		{"for_each_map_elem", HELPER(BPF_FUNC_for_each_map_elem),
			"(bpf_for_each_map_elem)"},
		{"perf_event_output", HELPER(BPF_FUNC_perf_event_output), "use bpf_ringbuf_output"},
		{"kernel function", INSN(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_KFUNC_CALL, 0, 1),
			AT1 "a call of a kernel function"},
		{"call of itself", CALL(-2), AT1 "the call goes to no subprogram"},
		{"call of nothing", CALL(100), AT1 "the call goes to no subprogram"},
		{"call far away", CALL(INT32_MIN), AT1 "the call goes to no subprogram"},
	};

	refuse_each(cases, sizeof(cases) / sizeof(*cases));
}

#define CODE(...)                                                                                  \
	(const struct bpf_insn[]){__VA_ARGS__},                                                    \
		sizeof((const struct bpf_insn[]){__VA_ARGS__}) / sizeof(struct bpf_insn)
static void refuse_code(const char *name, const char *text, const struct bpf_insn *code, size_t n)
{
	static struct world w;
	static struct world_file f;

	world_init(&w);
	world_code(&w, code, n);
	world_build(&w, &f);
	expect_refused(name, f.bytes, f.size, text);
}

static void test_functions(void)
{
	refuse_code("no end", "instruction 0: the function has no end", CODE(MOV(0, 0)));
	refuse_code("end by a condition", "has no end", CODE(MOV(0, 0), JUMP_K(BPF_JEQ, 0, 0, -2)));
	refuse_code("lddw at the end", "the second half", CODE(MOV(0, 0), INSN(0x18, 0, 0, 0, 0)));
	refuse_code("jump into an lddw", "it jumps out",
		CODE(MOV(0, 0), GOTO(1), LDDW(0, 0, 0, 0), EXIT()));
	refuse_code("no result", "it reads r0", CODE(EXIT()));
	refuse_code("no result on one way", "it reads r0",
		CODE(LOAD(BPF_DW, 2, 1, 0), JUMP_K(BPF_JEQ, 2, 0, 1), MOV(0, 0), EXIT()));
	refuse_code("r1 after a call", "instruction 1: it reads r1",
		CODE(HELPER(BPF_FUNC_ktime_get_ns), LOAD(BPF_B, 0, 1, 0), EXIT()));
	refuse_code("missing argument", "it reads r2",
		CODE(MOV(3, 0), HELPER(BPF_FUNC_map_lookup_elem), EXIT()));
	for (uint8_t src = 1; src < 7; src++) {
		refuse_code("lddw with a file descriptor", "it refers to a file descriptor",
			CODE(LDDW(2, src, 3, 0), MOV(0, 0), EXIT()));
	}
	refuse_code("no code at all", "damaged", NULL, 0);
}

/* The first map is replaced. */
static void test_maps(void)
{
	const uint32_t array = BPF_MAP_TYPE_ARRAY, hash = BPF_MAP_TYPE_HASH,
		       ring = BPF_MAP_TYPE_RINGBUF;
	const struct {
		struct world_map map;
		const char *text;
	} cases[] = {
		{{"m", 0, 4, 4, 1, 0, NULL}, "map m: type 0 is not allowed"},
		{{"m", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 1, 0, NULL}, "type 3 is not allowed"},
		{{"m", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 1, 0, NULL}, "type 4 is not allowed"},
		{{"m", BPF_MAP_TYPE_PERCPU_HASH, 4, 4, 1, 0, NULL}, "type 5 is not allowed"},
		{{"m", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, 1, 0, NULL}, "type 12 is not allowed"},
		{{"m", BPF_MAP_TYPE_QUEUE, 0, 4, 1, 0, NULL}, "type 22 is not allowed"},
		{{"m", 0xffffffff, 4, 4, 1, 0, NULL}, "type 4294967295 is not allowed"},
		{{"m", array, 8, 4, 1, 0, NULL}, "the key of an array"},
		{{"m", array, 0, 4, 1, 0, NULL}, "the key of an array"},
		{{"m", array, 4, 0, 1, 0, NULL}, "the size of its values"},
		{{"m", array, 4, 65537, 1, 0, NULL}, "the size of its values"},
		{{"m", array, 4, 0xffffffff, 1, 0, NULL}, "the size of its values"},
		{{"m", array, 4, 4, 0, 0, NULL}, "max_entries is 0"},
		{{"m", array, 4, 4, 0xffffffff, 0, NULL}, "more than 16 MiB"},
		{{"m", array, 4, 65536, 257, 0, NULL}, "more than 16 MiB"},
		{{"m", array, 4, 65536, 256, 0, NULL},
			"more than 16 MiB"}, /* with the other maps */
		{{"m", array, 4, 4, 1, BPF_F_MMAPABLE, NULL}, "flags 0x400"},
		{{"m", array, 4, 4, 1, BPF_F_RDONLY_PROG, NULL}, "flags 0x80"},
		{{"m", array, 4, 4, 1, BPF_F_NO_PREALLOC, NULL}, "flags 0x1"},
		{{"m", hash, 0, 4, 1, 0, NULL}, "the size of its keys"},
		{{"m", hash, 513, 4, 1, 0, NULL}, "the size of its keys"},
		{{"m", hash, 0xffffffff, 0xffff, 0xffffffff, 0, NULL}, "the size of its keys"},
		{{"m", hash, 8, 8, 300000, 0, NULL}, "more than 16 MiB"},
		{{"m", hash, 8, 8, 1, BPF_F_NUMA_NODE, NULL}, "flags 0x4"},
		{{"m", ring, 0, 0, 5000, 0, NULL}, "a power of two"},
		{{"m", ring, 0, 0, 2048, 0, NULL}, "a power of two"},
		{{"m", ring, 0, 0, 0x80000000, 0, NULL}, "more than 16 MiB"},
		{{"m", ring, 4, 0, 4096, 0, NULL}, "neither keys nor values"},
		{{"m", ring, 0, 4, 4096, 0, NULL}, "neither keys nor values"},
		{{"m", array, 4, 4, 1, 0, "pinning"}, "its attribute pinning is not allowed"},
		{{"m", array, 4, 4, 1, 0, "map_extra"}, "its attribute map_extra is not allowed"},
		{{"m", array, 4, 4, 1, 0, "values"}, "its attribute values is not allowed"},
		{{"m", array, 4, 4, 1, 0, "\033[2J\n"}, "its attribute ?[2J? is not allowed"},
		{{"hash", array, 4, 4, 1, 0, NULL}, "map hash: it is no struct of its own name"},
		{{".data", array, 4, 4, 1, 0, NULL}, "map .data: it is no struct of its own name"},
		{{"", array, 4, 4, 1, 0, NULL}, "it is no struct of its own name"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		static struct world w;
		static struct world_file f;
		world_init(&w);
		w.maps[0] = cases[i].map;
		world_build(&w, &f);
		expect_refused(cases[i].text, f.bytes, f.size, cases[i].text);
	}
}

/* Changes to the description of an object. */
static void many_maps(struct world *w)
{
	static char names[WORLD_MAX_MAPS][8];

	for (w->n_maps = 0; w->n_maps < WORLD_MAX_MAPS; w->n_maps++) {
		snprintf(names[w->n_maps], sizeof(names[0]), "m%zu", w->n_maps);
		w->maps[w->n_maps] =
			(struct world_map){names[w->n_maps], BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0, NULL};
	}
}
static void other_abi(struct world *w)
{
	w->abi = GPU_SCHED_ABI + 1;
}
static void other_hook(struct world *w)
{
	w->section = "gpu_sched/task_exit";
}
static void no_hook(struct world *w)
{
	w->section = ".text";
}
static void foreign(struct world *w)
{
	w->section = "xdp";
}
static void odd_name(struct world *w)
{
	w->section = "gpu_sched/\033[31m";
}
static void btf_circle(struct world *w)
{
	w->btf_wrong_type = 9; /* the variable itself, see add_map() */
}
static void btf_nothing(struct world *w)
{
	w->btf_wrong_type = 0x7fffffff;
}
static void btf_int(struct world *w)
{
	w->btf_wrong_type = 1;
}
static void refer(struct world *w, uint32_t insn, uint32_t symbol, uint32_t type)
{
	const struct bpf_insn code[] = {LDDW(2, 0, 0, 0), CALL(-1), MOV(0, 0), EXIT()};
	const struct bpf_insn text[] = {MOV(0, 0), EXIT()};

	world_code(w, code, 5);
	memcpy(w->text, text, sizeof(text));
	w->n_text = 2;
	w->has_extern = true;
	world_rel(w, 2, WORLD_SYM_SUB, 10);
	world_rel(w, insn, symbol, type);
	if (insn == 2) {
		w->rels[0] = w->rels[--w->n_rels];
	}
}
static void extern_variable(struct world *w)
{
	refer(w, 0, WORLD_SYM_EXTERN, 1);
}
static void extern_function(struct world *w)
{
	refer(w, 2, WORLD_SYM_EXTERN, 10);
}
static void callback(struct world *w)
{
	refer(w, 0, WORLD_SYM_SUB, 1);
}
static void hook_called(struct world *w)
{
	refer(w, 2, WORLD_SYM_HOOK, 10);
}
static void map_called(struct world *w)
{
	refer(w, 2, WORLD_SYM_MAP, 10);
}
static void address_in_call(struct world *w)
{
	refer(w, 2, WORLD_SYM_MAP, 1);
}
static void call_in_address(struct world *w)
{
	refer(w, 0, WORLD_SYM_SUB, 10);
}
static void second_half(struct world *w)
{
	refer(w, 1, WORLD_SYM_MAP, 1);
}
static void twice(struct world *w)
{
	refer(w, 0, WORLD_SYM_MAP, 1);
	world_rel(w, 0, WORLD_SYM_MAP + 1, 1);
}
static void outside(struct world *w)
{
	refer(w, 5, WORLD_SYM_MAP, 1);
}
static void far_outside(struct world *w)
{
	refer(w, 0x1fffffff, WORLD_SYM_MAP, 1);
}
static void no_symbol(struct world *w)
{
	refer(w, 0, 1000, 1);
}
static void unknown_type(struct world *w)
{
	refer(w, 0, WORLD_SYM_MAP, 2);
}
static void into_map(struct world *w)
{
	refer(w, 0, WORLD_SYM_MAP, 1);
	w->code[0].imm = 8;
}
static void behind_data(struct world *w)
{
	refer(w, 0, WORLD_SYM_DATA, 1);
	w->code[0].imm = 8;
}
static void before_data(struct world *w)
{
	refer(w, 0, WORLD_SYM_DATA, 1);
	w->code[0].imm = -1;
}

static void test_descriptions(void)
{
	static const struct {
		const char *name;
		void (*change)(struct world *w);
		const char *text;
	} cases[] = {
		{"many maps", many_maps, "more than 64 maps"},
		{"other ABI", other_abi, "the object has ABI 2"},
		{"other hook", other_hook, "section gpu_sched/task_exit: there is no such hook"},
		{"no hook", no_hook, "no section gpu_sched"},
		{"foreign program", foreign, "section xdp: not a hook"},
		{"odd name", odd_name, "section gpu_sched/?[31m: there is no such hook"},
		{"BTF in a circle", btf_circle, "map array: it is no struct"},
		{"BTF of nothing", btf_nothing, "map array: it is no struct"},
		{"BTF of a number", btf_int, "map array: it is no struct"},
		{"extern variable", extern_variable, "instruction 0: an extern variable"},
		{"extern function", extern_function, "instruction 2: an extern function"},
		{"callback", callback, "instruction 0: a callback"},
		{"hook called", hook_called, "instruction 2: the call goes to no subprogram"},
		{"map called", map_called, "instruction 2: the call goes to no subprogram"},
		{"address in a call", address_in_call, "instruction 2: a reference to an address"},
		{"call in an address", call_in_address, "instruction 0: a reference to a function"},
		{"second half", second_half, "instruction 1: a reference to an address"},
		{"two relocations", twice,
			"instruction 0: its relocation is damaged, or one of two"},
		{"relocation outside", outside, "instruction 5: its relocation is damaged"},
		{"relocation far outside", far_outside, "its relocation is damaged"},
		{"no such symbol", no_symbol, "instruction 0: its relocation is damaged"},
		{"unknown relocation", unknown_type, "instruction 0: the type of its relocation"},
		{"pointer into a map", into_map, "instruction 0: the reference lies outside"},
		{"pointer behind data", behind_data, "instruction 0: the reference lies outside"},
		{"pointer before data", before_data, "instruction 0: the reference lies outside"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		static struct world w;
		static struct world_file f;
		world_init(&w);
		cases[i].change(&w);
		world_build(&w, &f);
		expect_refused(cases[i].name, f.bytes, f.size, cases[i].text);
	}
}

/* A number in the file is replaced: of `size` bytes, at `offset` of a header or of contents. */
struct damage {
	const char *name;
	int section; /* -1: the file's header; otherwise, with is_header, the section's */
	bool is_header;
	size_t offset, size;
	uint64_t value;
	const char *text;
};
#define EHDR(field)    -1, true, offsetof(Elf64_Ehdr, field), sizeof(((Elf64_Ehdr *)0)->field)
#define SHDR(s, field) s, true, offsetof(Elf64_Shdr, field), sizeof(((Elf64_Shdr *)0)->field)
#define BTF(field)                                                                                 \
	WORLD_BTF, false, offsetof(struct btf_header, field),                                      \
		sizeof(((struct btf_header *)0)->field)
#define SYM(n, field)                                                                              \
	WORLD_SYMTAB, false, (n) * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, field),                 \
		sizeof(((Elf64_Sym *)0)->field)

static const struct damage damages[] = {
	{"no ELF", EHDR(e_ident), 0, "not an object file for BPF"},
	{"32 bits", -1, true, EI_CLASS, 1, ELFCLASS32, "not an object file for BPF"},
	{"big endian", -1, true, EI_DATA, 1, ELFDATA2MSB, "not an object file for BPF"},
	{"x86", EHDR(e_machine), EM_X86_64, "not an object file for BPF"},
	{"executable", EHDR(e_type), ET_EXEC, "not an object file for BPF"},
	{"no sections", EHDR(e_shnum), 0, "the file has 0 sections"},
	{"too many sections", EHDR(e_shnum), 65535, "the file has 65535 sections"},
	{"more sections", EHDR(e_shnum), WORLD_N_SECTIONS + 1, "the header of section"},
	{"headers not aligned", EHDR(e_shoff), 65, "the header of section 0"},
	{"headers outside", EHDR(e_shoff), 1 << 30, "the header of section 0"},
	{"headers wrap", EHDR(e_shoff), UINT64_MAX - 7, "the header of section"},
	{"no names", EHDR(e_shstrndx), 999, "the header of section 0"},
	{"name outside", SHDR(WORLD_CODE, sh_name), 99999, "the header of section 2"},
	{"code outside", SHDR(WORLD_CODE, sh_offset), 1 << 30, "it is cut off"},
	{"code wraps", SHDR(WORLD_CODE, sh_offset), UINT64_MAX - 8, "it is cut off"},
	{"code too long", SHDR(WORLD_CODE, sh_size), UINT64_MAX, "it is cut off"},
	{"code odd", SHDR(WORLD_CODE, sh_size), 9, "its size of 9 bytes"},
	{"code cut", SHDR(WORLD_CODE, sh_size), 8, "functions overlap or leave a gap"},
	{"code longer", SHDR(WORLD_CODE, sh_size), 24, "instruction 2 belongs to no function"},
	{"code without bytes", SHDR(WORLD_CODE, sh_type), SHT_NOBITS, "is not that of code"},
	{"code compressed", SHDR(WORLD_CODE, sh_flags), SHF_COMPRESSED, "is not that of code"},
	{"no symbols", SHDR(WORLD_SYMTAB, sh_type), SHT_PROGBITS, "no usable symbol table"},
	{"symbols not aligned", SHDR(WORLD_SYMTAB, sh_offset), 65, "no usable symbol table"},
	{"symbols without names", SHDR(WORLD_SYMTAB, sh_link), 0, "no usable symbol table"},
	{"relocations with addends", SHDR(WORLD_REL, sh_type), SHT_RELA,
		"relocations with addends"},
	{"relocations odd", SHDR(WORLD_REL, sh_size), 7, "it is damaged"},
	{"relocations of data", SHDR(WORLD_REL, sh_info), WORLD_DATA, "pointers in data"},
	{"relocations of maps", SHDR(WORLD_REL, sh_info), WORLD_MAPS, "pointers in data"},
	{"much data", SHDR(WORLD_DATA, sh_size), 1 << 24, "it is cut off"},
	{"function empty", SYM(WORLD_SYM_HOOK, st_size), 0, "the function at 0 is damaged"},
	{"function odd", SYM(WORLD_SYM_HOOK, st_size), 12, "the function at 0 is damaged"},
	{"function long", SYM(WORLD_SYM_HOOK, st_size), 1 << 30, "the function at 0 is damaged"},
	{"function outside", SYM(WORLD_SYM_HOOK, st_value), 64, "functions overlap or leave a gap"},
	{"function far outside", SYM(WORLD_SYM_HOOK, st_value), UINT64_MAX - 7, "is damaged"},
	{"function without name", SYM(WORLD_SYM_HOOK, st_name), 1 << 30, "is damaged"},
	{"two functions", SYM(WORLD_SYM_ABI, st_info), STT_FUNC, "does not say its ABI"},
	{"no ABI", SYM(WORLD_SYM_ABI, st_shndx), WORLD_DATA, "does not say its ABI"},
	{"ABI outside", SYM(WORLD_SYM_ABI, st_value), 1 << 20, "does not say its ABI"},
	{"ABI wraps", SYM(WORLD_SYM_ABI, st_value), UINT64_MAX - 1, "does not say its ABI"},
	{"map without symbol", SYM(WORLD_SYM_MAP, st_shndx), WORLD_DATA, "it is no struct"},
	{"BTF of something else", BTF(magic), 0, ".BTF: the header is damaged"},
	{"BTF version 2", BTF(version), 2, ".BTF: the header is damaged"},
	{"BTF long header", BTF(hdr_len), 1 << 20, ".BTF: the header is damaged"},
	{"BTF short header", BTF(hdr_len), 8, ".BTF: the header is damaged"},
	{"BTF odd types", BTF(type_off), 2, ".BTF: types or strings"},
	{"BTF types outside", BTF(type_off), 0xfffffffc, ".BTF: types or strings"},
	{"BTF types long", BTF(type_len), 0xffffffff, ".BTF: types or strings"},
	{"BTF types cut", BTF(type_len), 20, "is damaged"},
	{"BTF strings outside", BTF(str_off), 0xffffff00, ".BTF: types or strings"},
	{"BTF strings long", BTF(str_len), 0xffffffff, ".BTF: types or strings"},
	{"BTF no strings", BTF(str_len), 0, ".BTF: types or strings"},
	{"BTF strings without end", BTF(str_len), 3, ".BTF: the strings are damaged"},
	{"BTF unknown kind", WORLD_BTF, false, sizeof(struct btf_header) + 4, 4, 31u << 24,
		"type 1 is damaged"},
	{"BTF long struct", WORLD_BTF, false, sizeof(struct btf_header) + 4, 4,
		BTF_KIND_STRUCT << 24 | 0xffff, "type 1 is damaged"},
	{"BTF cut off", SHDR(WORLD_BTF, sh_size), 10, ".BTF: the header is cut off"},
	{"BTF missing", SHDR(WORLD_BTF, sh_name), 0, "no BTF describes it"},
};

static void test_damages(void)
{
	static struct world w;

	world_init(&w);
	world_rel(&w, 0, WORLD_SYM_MAP, 1);
	w.code[2] = w.code[0];
	w.code[3] = w.code[1];
	w.code[0] = INSN(BPF_LD | BPF_IMM | BPF_DW, 2, 0, 0, 0);
	memset(&w.code[1], 0, sizeof(w.code[1]));
	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
		const struct damage *d = &damages[i];
		static struct world_file f;
		w.n_code = strstr(d->name, "code ") == d->name ||
					   strstr(d->name, "function") == d->name
				   ? 2
				   : 4;
		w.n_rels = w.n_code == 4;
		if (w.n_code == 2) {
			w.code[0] = w.code[2];
			w.code[1] = w.code[3];
		} else {
			w.code[0] = INSN(BPF_LD | BPF_IMM | BPF_DW, 2, 0, 0, 0);
			memset(&w.code[1], 0, sizeof(w.code[1]));
		}
		world_build(&w, &f);
		unsigned char *at = d->section < 0 ? f.bytes
				    : d->is_header ? world_section(&f, (unsigned)d->section)
						   : world_bytes(&f, (unsigned)d->section);
		memcpy(at + d->offset, &d->value, d->size < 8 ? d->size : 8);
		expect_refused(d->name, f.bytes, f.size, d->text);
	}
	static unsigned char large[RBT_OBJECT_MAX_FILE + 1];
	static struct world_file f;
	world_build(&w, &f);
	memcpy(large, f.bytes, f.size);
	expect_refused("large file", large, sizeof(large), "bytes, more than");
	expect_refused("empty file", large, 0, "not an object file");
	expect_refused("text", "hello, world", 12, "not an object file");
}

/* Runs every hook; whatever it does is fine. */
static void run_all(struct rbt_engine *e)
{
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		union {
			struct bpf_gpu_work_ctx work;
			struct bpf_gpu_task_ctx task;
			unsigned char bytes[256];
		} ctx = {.work = {.task = 5, .count = 3}};
		struct rbt_fault fault;
		rbt_engine_run(e, hook, &ctx, &fault);
	}
}

/* Opens a damaged object, and runs it if it is accepted. Whether it was. */
static bool try(const unsigned char *bytes, size_t size, enum rbt_engine_kind kind)
{
	struct rbt_object *o = NULL;
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};

	if (rbt_object_open(bytes, size, &o, &why) < 0) {
		CHECK(why.text[0] != '\0');
		return false;
	}
	if (rbt_engine_open(kind, o, NULL, &e, &why, NULL) == 0) {
		run_all(e);
		rbt_engine_close(e);
	}
	rbt_object_close(o);
	return true;
}

static void test_truncated(const unsigned char *bytes, size_t size)
{
	for (size_t n = 0; n < size; n += n < 256 ? 1 : 61) {
		unsigned char *copy = malloc(n + 1); /* so that a sanitizer sees what is behind */
		memcpy(copy, bytes, n);
		CHECK(!try(copy, n, RBT_ENGINE_VM));
		free(copy);
	}
}

/* Damages up to 8 bytes of a good object. */
static void test_random(const unsigned char *bytes, size_t size, unsigned n_vm, unsigned n_kernel)
{
	unsigned char *copy = malloc(size);
	unsigned n_accepted = 0;
	uint64_t seed = 42;

	for (unsigned i = 0; i < n_vm + n_kernel; i++) {
		memcpy(copy, bytes, size);
		for (unsigned k = 0; k <= i % 8; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			copy[(seed >> 33) % size] = (unsigned char)(seed >> 20);
		}
		n_accepted += try(copy, size, i < n_vm ? RBT_ENGINE_VM : RBT_ENGINE_KERNEL);
	}
	CHECK(n_accepted > 0 && n_accepted < n_vm + n_kernel);
	free(copy);
}

int main(int argc, char **argv)
{
	const char *why = rbt_engine_why_not(RBT_ENGINE_KERNEL);

	test_instructions();
	test_calls();
	test_functions();
	test_maps();
	test_descriptions();
	test_damages();
	CHECK(n_hostile >= 60);
	for (int i = 2; i < argc; i++) {
		size_t size;
		unsigned char *bytes = world_read_file(argv[1], argv[i], &size);
		test_truncated(bytes, size);
		test_random(bytes, size, 3000, why == NULL ? 100 : 0);
		free(bytes);
	}
	if (why != NULL) {
		printf("SKIP: damaged objects for libbpf: %s\n", why);
	}
	printf("%u hostile objects, and damaged ones\n", n_hostile);
	return check_result();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What an object cannot do to the daemon: keep it from its work, or from the end of a load. */
#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "check.h"
#include "policy/engine.h"
#include "policy/loader.h"
#include "test_policy_world.h"
#include "util/time.h"

static void expect_refused(const void *bytes, size_t size, const char *text)
{
	struct rbt_object *o = NULL;
	struct rbt_why why = {""};

	CHECK(rbt_object_open(bytes, size, &o, &why) < 0);
	CHECK(strstr(why.text, text) != NULL);
	rbt_object_close(o);
}

/* A file with this many symbols of the section .maps, all of one long name. The map's is not among
 * them, so that all of them are looked at. */
static size_t build_crowd(unsigned char *bytes, size_t n_symbols, size_t n_strings)
{
	static struct world w;
	static struct world_file f;
	Elf64_Shdr *strings, *symtab;
	Elf64_Sym symbol = {.st_info = STT_OBJECT, .st_shndx = WORLD_MAPS};

	world_init(&w);
	world_build(&w, &f);
	strings = world_section(&f, WORLD_STRTAB);
	symtab = world_section(&f, WORLD_SYMTAB);
	const size_t at = (f.size + 7) & ~(size_t)7, end = (at + n_strings + 7) & ~(size_t)7;
	memset(bytes + at, 'x', n_strings);
	memcpy(bytes + at, f.bytes + strings->sh_offset, strings->sh_size);
	bytes[at + n_strings - 1] = '\0';
	symbol.st_name = (Elf64_Word)strings->sh_size;
	/* The first ones stay, without those of maps. */
	memcpy(bytes + end, f.bytes + symtab->sh_offset, WORLD_SYM_MAP * sizeof(symbol));
	for (size_t i = WORLD_SYM_MAP; i < n_symbols; i++) {
		memcpy(bytes + end + i * sizeof(symbol), &symbol, sizeof(symbol));
	}
	strings->sh_offset = at;
	strings->sh_size = n_strings;
	symtab->sh_offset = end;
	symtab->sh_size = n_symbols * sizeof(symbol);
	memcpy(bytes, f.bytes, f.size);
	return end + n_symbols * sizeof(symbol);
}

/* The daemon reads objects on its only thread. */
static void test_crowds(void)
{
	static unsigned char bytes[RBT_OBJECT_MAX_FILE];

	expect_refused(bytes, build_crowd(bytes, 300000, 4096), "no usable symbol table");
	expect_refused(bytes, build_crowd(bytes, 100, 4 << 20), "is damaged");
	const size_t size = build_crowd(bytes, 65536, 1 << 20);
	const uint64_t begin_ns = rbt_now_ns();
	expect_refused(bytes, size, "it is no struct of its own"); /* as many as allowed */
	CHECK(rbt_now_ns() - begin_ns < RBT_NS_PER_S);
}

static void send_error(int sock, void *data)
{
	const int *error = data;

	rbt_loader_send(sock, RBT_LOAD_DONE, 0, *error, "done", 4, -1);
}

/* An object may have damaged the process that loads it. Whatever that sends is the end. */
static void test_loaders(void)
{
	static const struct {
		int sent, result;
	} cases[] = {{0, 0}, {7, 0}, {-EPERM, -EPERM}, {-EAGAIN, -EINVAL}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int error = cases[i].sent;
		struct rbt_loader l;
		struct rbt_why why = {""};

		CHECK_INT(
			rbt_loader_start(&l, send_error, &error, NULL, 0, 10 * RBT_NS_PER_S, &why),
			0);
		struct pollfd p = {.fd = l.sock, .events = POLLIN};
		CHECK_INT(poll(&p, 1, 10000), 1);
		CHECK_INT(rbt_loader_step(&l, &why), cases[i].result);
		CHECK_INT(rbt_loader_finish(&l), 0);
	}
}

/* Whether the kernel's engine says that it cannot be used, in a process that may make maps and not
 * load programs: as ordinary users if kernel.unprivileged_bpf_disabled is 0. */
static void look_without_loading(int sock, void *data)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_bpf, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_PROG_LOAD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	int r = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
	rbt_loader_send(sock, RBT_LOAD_DONE, 0,
		r == 0 && rbt_engine_why_not(RBT_ENGINE_KERNEL) == NULL ? -EEXIST : 0, "", 0, -1);
}

static void test_maps_alone(void)
{
	struct rbt_loader l;
	struct rbt_why why = {""};

	CHECK_INT(
		rbt_loader_start(&l, look_without_loading, NULL, NULL, 0, 10 * RBT_NS_PER_S, &why),
		0);
	CHECK_INT(rbt_loader_wait(&l, &why), 0);
	CHECK_INT(rbt_loader_finish(&l), 0);
}

int main(void)
{
	test_crowds();
	test_loaders();
	test_maps_alone();
	return check_result();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/kfd/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "softgpu/session/session.h"
#include "util/fd.h"

#define TREE        "sysfs"
#define CLASS_PATH  "/sys/class/kfd"
#define DEVICE_PATH "/sys/devices/virtual/kfd"
#define NAME        "kfd"
#define MAX_TEXT    4096
#define CPU_MEMORY  (64ull << 30)
#define HEAP_SYSTEM 0
#define HEAP_VRAM   1
#define WAITING     "coming" /* a queue's directory before it gets its name */

struct kfd_sysfs {
	char root[SESSION_MAX_PATH + 16];
	int kfd, proc; /* directories */
	struct rbt_kfd_config config;
};

/* The mode is as given, whatever the umask. */
static int make_dir(int at, const char *name)
{
	if (mkdirat(at, name, 0755) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fchmod(fd, 0755) < 0) {
		int err = errno;
		rbt_close(&fd);
		return -err;
	}
	return fd;
}

/* Written to another name and renamed: a reader finds the old text or the new one, never half of
 * it. */
static int put(int at, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int put(int at, const char *name, const char *fmt, ...)
{
	char text[MAX_TEXT];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	int fd = openat(at, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0444);
	if (fd < 0) {
		return -errno;
	}
	int r = n < 0 || n >= MAX_TEXT || write(fd, text, (size_t)n) != n || fchmod(fd, 0444) < 0 ||
				renameat(at, ".new", at, name) < 0
			? -EIO
			: 0;
	close(fd);
	return r;
}

static int make_bank(int banks, unsigned heap_type, uint64_t bytes)
{
	int bank = make_dir(banks, "0");
	int r = bank < 0 ? bank
			 : put(bank, "properties",
				   "heap_type %u\nsize_in_bytes %" PRIu64
				   "\nflags 0\nwidth 64\nmem_clk_max 3200\n",
				   heap_type, bytes);

	rbt_close(&bank);
	return r;
}

/* The directories of a node: one bank of memory, and the others empty. */
static int make_parts(int node, unsigned heap_type, uint64_t bytes)
{
	static const char *const parts[] = {"caches", "io_links", "p2p_links", "perf"};
	int banks = make_dir(node, "mem_banks");
	int r = banks < 0 ? banks : make_bank(banks, heap_type, bytes);

	rbt_close(&banks);
	for (size_t i = 0; r >= 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		int dir = make_dir(node, parts[i]);
		r = dir < 0 ? dir : 0;
		rbt_close(&dir);
	}
	return r;
}

/* Lines and order are the driver's. */
static int make_cpu(int nodes, const struct rbt_kfd_config *config)
{
	int node = make_dir(nodes, "0");

	if (node < 0) {
		return node;
	}
	int r = put(node, "gpu_id", "0\n");
	r = r < 0 ? r : put(node, "name", "\n");
	r = r < 0 ? r
		  : put(node, "properties",
			    "cpu_cores_count 16\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\n"
			    "io_links_count %u\np2p_links_count 0\ncpu_core_id_base 0\n"
			    "simd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\n"
			    "gds_size_in_kb 0\nnum_gws 0\nwave_front_size 0\narray_count 0\n"
			    "simd_arrays_per_engine 0\ncu_per_simd_array 0\nsimd_per_cu 0\n"
			    "max_slots_scratch_cu 0\ngfx_target_version 0\nvendor_id 0\n"
			    "device_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\n"
			    "hive_id 0\nnum_sdma_engines 0\nnum_sdma_xgmi_engines 0\n"
			    "num_sdma_queues_per_engine 0\nnum_cp_queues 0\n%s"
			    "max_engine_clk_ccompute 0\n",
			    config->n_gpus > 0,
			    config->minor >= KFD_MINOR_SDMA_ENGINE
				    ? "cwsr_size 0\nctl_stack_size 0\n"
				    : "");
	r = r < 0 ? r : make_parts(node, HEAP_SYSTEM, CPU_MEMORY);
	close(node);
	return r;
}

static int make_gpu(int nodes, const struct rbt_kfd_config *config, uint32_t gpu)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", gpu + 1);
	int node = make_dir(nodes, name);
	if (node < 0) {
		return node;
	}
	int r = put(node, "gpu_id", "%u\n", rbt_kfd_gpu_id(gpu));
	r = r < 0 ? r : put(node, "name", "Rubato software GPU\n");
	/* Firmware with debugging support came with the interface. */
	r = r < 0 ? r
		  : put(node, "properties",
			    "cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\ncaches_count 0\n"
			    "io_links_count 1\np2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 0\n"
			    "max_waves_per_simd 8\nlds_size_in_kb 64\ngds_size_in_kb 0\nnum_gws 64\n"
			    "wave_front_size 64\narray_count 32\nsimd_arrays_per_engine 1\n"
			    "cu_per_simd_array 10\nsimd_per_cu 4\nmax_slots_scratch_cu 32\n"
			    "gfx_target_version %u\nvendor_id 4098\ndevice_id 29857\n"
			    "location_id %u\ndomain 0\ndrm_render_minor %u\nhive_id 0\n"
			    "num_sdma_engines 2\nnum_sdma_xgmi_engines 0\n"
			    "num_sdma_queues_per_engine 8\nnum_cp_queues 24\n"
			    "max_engine_clk_fcompute 2100\nlocal_mem_size %" PRIu64 "\n"
			    "fw_version 166\ncapability %u\ndebug_prop 1495\nsdma_fw_version 22\n"
			    "unique_id %u\nnum_xcc 1\ncwsr_size %u\nctl_stack_size %u\n",
			    KFD_SYSFS_CUS * 4, config->gfx_target_version, 0x1d00u + gpu * 0x100u,
			    KFD_FIRST_RENDER_MINOR + gpu, (uint64_t)RBT_KFD_VRAM_BYTES,
			    (config->minor >= KFD_MINOR_DEBUGGER ? KFD_CAP_DEBUG_FIRMWARE : 0) |
				    0x8280u,
			    1000 + gpu, RBT_KFD_CWSR_SIZE, RBT_KFD_CTL_STACK_SIZE);
	r = r < 0 ? r : make_parts(node, HEAP_VRAM, RBT_KFD_VRAM_BYTES);
	close(node);
	return r;
}

static int make_topology(int kfd, const struct rbt_kfd_config *config)
{
	int topology = make_dir(kfd, "topology");
	int nodes = topology < 0 ? topology : make_dir(topology, "nodes");
	int r = nodes < 0 ? nodes : put(topology, "generation_id", "2\n");

	r = r < 0 ? r
		  : put(topology, "system_properties",
			    "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
	r = r < 0 ? r : make_cpu(nodes, config);
	for (uint32_t i = 0; r == 0 && i < config->n_gpus; i++) {
		r = make_gpu(nodes, config, i);
	}
	rbt_close(&nodes);
	rbt_close(&topology);
	return r;
}

struct kfd_sysfs *kfd_sysfs_create(const char *dir, const struct rbt_kfd_config *config)
{
	struct kfd_sysfs *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		return NULL;
	}
	s->config = *config;
	s->proc = -1;
	snprintf(s->root, sizeof(s->root), "%s/%s", dir, TREE);
	session_remove(s->root); /* a crashed server has left its tree */
	int root = make_dir(AT_FDCWD, s->root);
	s->kfd = root < 0 ? root : make_dir(root, NAME);
	s->proc = s->kfd < 0 ? s->kfd : make_dir(s->kfd, "proc");
	int r = s->proc < 0 ? s->proc : make_topology(s->kfd, config);
	rbt_close(&root);
	if (r < 0) {
		kfd_sysfs_destroy(s);
		errno = -r;
		return NULL;
	}
	return s;
}

void kfd_sysfs_destroy(struct kfd_sysfs *s)
{
	if (s == NULL) {
		return;
	}
	rbt_close(&s->kfd);
	rbt_close(&s->proc);
	session_remove(s->root);
	free(s);
}

/* The part after "/sys/class/kfd", or its other name; NULL: the path is elsewhere. */
static const char *below(const char *path)
{
	static const char *const prefixes[] = {CLASS_PATH, DEVICE_PATH};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t len = strlen(prefixes[i]);
		if (strncmp(path, prefixes[i], len) == 0 &&
			(path[len] == '/' || path[len] == '\0')) {
			return path + len + (path[len] == '/');
		}
	}
	return NULL;
}

bool kfd_sysfs_has(const char *path)
{
	return below(path) != NULL;
}

int kfd_sysfs_open(const struct kfd_sysfs *s, const char *path, int flags)
{
	const char *rest = below(path);
	char real[sizeof(s->root) + 256];

	if (rest == NULL || s == NULL) {
		return -ENOENT;
	}
	/* The supervisor has removed these from a program's path. */
	if (strstr(rest, "..") != NULL) {
		return -EINVAL;
	}
	if ((flags & O_ACCMODE) != O_RDONLY) {
		return -EACCES;
	}
	int n = snprintf(real, sizeof(real), "%s/%s", s->root, rest);
	if (n < 0 || (size_t)n >= sizeof(real)) {
		return -ENAMETOOLONG;
	}
	int fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (flags & O_DIRECTORY));
	return fd < 0 ? -errno : fd;
}

/* A directory of a process, or -errno. */
static int process_dir(const struct kfd_sysfs *s, int pid, const char *below_it)
{
	char path[64];

	snprintf(path, sizeof(path), "%d%s", pid, below_it);
	int fd = openat(s->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void add_stats(int dir, uint32_t gpu_id)
{
	char name[32];

	snprintf(name, sizeof(name), "vram_%u", gpu_id);
	(void)put(dir, name, "0\n");
	snprintf(name, sizeof(name), "sdma_%u", gpu_id);
	(void)put(dir, name, "0\n");
	snprintf(name, sizeof(name), "stats_%u", gpu_id);
	int stats = make_dir(dir, name);
	if (stats >= 0) {
		(void)put(stats, "evicted_ms", "0\n");
		(void)put(stats, "cu_occupancy", "0\n");
		close(stats);
	}
}

void kfd_sysfs_add_process(struct kfd_sysfs *s, int pid)
{
	char name[16];

	kfd_sysfs_remove_process(s, pid);
	snprintf(name, sizeof(name), "%d", pid);
	int dir = make_dir(s->proc, name);
	if (dir < 0) {
		return;
	}
	(void)put(dir, "pasid", "%u\n", 0x8000u + ((unsigned)pid & 0x7fffu));
	for (uint32_t i = 0; i < s->config.n_gpus; i++) {
		add_stats(dir, rbt_kfd_gpu_id(i));
	}
	int queues = make_dir(dir, "queues");
	rbt_close(&queues);
	rbt_close(&dir);
}

void kfd_sysfs_remove_process(struct kfd_sysfs *s, int pid)
{
	char path[sizeof(s->root) + 48];

	snprintf(path, sizeof(path), "%s/%s/proc/%d", s->root, NAME, pid);
	session_remove(path);
}

/* Made under another name first, so that readers never find it without its files. */
void kfd_sysfs_add_queue(
	struct kfd_sysfs *s, int pid, uint32_t id, uint32_t gpu_id, uint32_t size, uint32_t type)
{
	char name[16];
	int queues = process_dir(s, pid, "/queues"), parent = process_dir(s, pid, "");
	int dir = queues < 0 || parent < 0 ? -ENOENT : make_dir(parent, WAITING);

	snprintf(name, sizeof(name), "%u", id);
	if (dir >= 0) {
		/* The driver's own number: AQL is a format of compute queues. */
		(void)put(dir, "gpuid", "%u", gpu_id);
		(void)put(dir, "size", "%u", size);
		(void)put(dir, "type", "%u",
			type == KFD_QUEUE_COMPUTE_AQL ? KFD_QUEUE_COMPUTE : type);
		(void)renameat(parent, WAITING, queues, name);
	}
	rbt_close(&dir);
	rbt_close(&parent);
	rbt_close(&queues);
}

void kfd_sysfs_remove_queue(struct kfd_sysfs *s, int pid, uint32_t id)
{
	char path[sizeof(s->root) + 64];

	snprintf(path, sizeof(path), "%s/%s/proc/%d/queues/%u", s->root, NAME, pid, id);
	session_remove(path);
}

void kfd_sysfs_set_vram(struct kfd_sysfs *s, int pid, uint32_t gpu_id, uint64_t bytes)
{
	char name[32];
	int dir = process_dir(s, pid, "");

	if (dir >= 0) {
		snprintf(name, sizeof(name), "vram_%u", gpu_id);
		(void)put(dir, name, "%" PRIu64 "\n", bytes);
		close(dir);
	}
}

void kfd_sysfs_set_occupancy(struct kfd_sysfs *s, int pid, uint32_t gpu_id, uint32_t cus)
{
	char name[32];

	snprintf(name, sizeof(name), "/stats_%u", gpu_id);
	int dir = process_dir(s, pid, name);
	if (dir >= 0) {
		(void)put(dir, "cu_occupancy", "%u\n", cus);
		close(dir);
	}
}

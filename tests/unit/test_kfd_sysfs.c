/* SPDX-License-Identifier: Apache-2.0 */
/* What sysfs says of AMD GPUs and their programs, from a tree of the test's own; and what samples
 * and latencies come to. */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/amd/sysfs.h"
#include "check.h"
#include "cli/cmd_kfd_times.h"
#include "rubato/kfd.h"

static char root[64];

static void put(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		(void)mkdir(path, 0755);
		*p = '/';
	}
	if (text == NULL) {
		return;
	}
	FILE *f = fopen(path, "w");
	CHECK(f != NULL);
	if (f != NULL) {
		fputs(text, f);
		fclose(f);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void test_topology(void)
{
	struct rbt_amd_topology t = {.n = 77};

	CHECK_INT(rbt_amd_topology_read(root, &t), -ENODEV);
	CHECK_INT(t.n, 77);
	put("topology/nodes/0/gpu_id", "0\n");
	put("topology/nodes/0/properties", "cpu_cores_count 16\nsimd_count 0\n");
	put("topology/nodes/2/gpu_id", "28851\n");
	put("topology/nodes/2/name", "gfx942\n");
	put("topology/nodes/2/properties",
		"simd_count 1216\ngfx_target_version 90402\nlocation_id 7424\ndomain 1\n"
		"drm_render_minor 129\ncapability 671588992\ncwsr_size 12345\n"
		"local_mem_size 206141652992\nnonsense\nlast 5");
	put("topology/nodes/1/gpu_id", "9999\n");
	put("topology/nodes/1/properties", "drm_render_minor 128\ngfx_target_version 110000\n");
	CHECK_INT(rbt_amd_topology_read(root, &t), 0);
	CHECK_INT(t.n, 2);
	/* In the order of their render nodes. */
	CHECK_INT(t.gpus[0].gpu_id, 9999);
	CHECK_INT(t.gpus[0].number, 0);
	const struct rbt_amd_gpu *gpu = rbt_amd_topology_find(&t, 28851);
	CHECK(gpu != NULL && gpu->number == 1 && gpu->node == 2);
	CHECK(gpu != NULL && strcmp(gpu->pci, "0001:1d:00.0") == 0);
	CHECK(gpu != NULL && strcmp(gpu->name, "gfx942") == 0);
	CHECK(gpu != NULL && gpu->cwsr_size == 12345 && gpu->memory_bytes == 206141652992ull);
	CHECK(gpu != NULL && (gpu->capability & KFD_CAP_DEBUG_FIRMWARE) != 0);
	CHECK(rbt_amd_topology_find(&t, 1) == NULL);
	put("topology/nodes/3/gpu_id", "what\n");
	CHECK_INT(rbt_amd_topology_read(root, &t), -EBADMSG);
}

static int note_pid(pid_t pid, void *data)
{
	*(int *)data += pid;
	return 0;
}

/* Takes ownership of the list of process 42, as it was first read. */
static void test_follow(struct rbt_amd_queue *queues, size_t n)
{
	struct rbt_amd_follow f = {.pid = 42, .known = queues, .n_known = n};

	/* What is known is not read again; what only looks the same is. */
	put("proc/42/queues/10/size", "4096");
	queues[0].inode++;
	queues[0].size = 1;
	CHECK_INT(rbt_amd_follow(root, 42, &f), 0);
	CHECK_INT(f.n_known, 2);
	CHECK_INT(f.known[0].size, 4096);
	CHECK_INT(f.known[1].size, 65536);
	/* The directory stays open, and shows what comes and goes. */
	put("proc/42/queues/3/gpuid", "28851");
	put("proc/42/queues/3/size", "8192");
	put("proc/42/queues/3/type", "0");
	CHECK_INT(rbt_amd_follow(root, 42, &f), 0);
	CHECK_INT(f.n_known, 3);
	CHECK_INT(f.known[1].size, 8192);
	/* Another process's; one without queues; and back. */
	put("proc/44/queues/2/gpuid", "28851");
	put("proc/44/queues/2/size", "1024");
	put("proc/44/queues/2/type", "0");
	CHECK_INT(rbt_amd_follow(root, 44, &f), 0);
	CHECK_INT(f.n_known, 1);
	CHECK_INT(f.known[0].size, 1024);
	CHECK_INT(rbt_amd_follow(root, 43, &f), -ENXIO);
	CHECK_INT(rbt_amd_follow(root, 42, &f), 0);
	CHECK_INT(f.n_known, 3);
	rbt_amd_follow_finish(&f);
}

static void test_processes(void)
{
	struct rbt_amd_queue *queues = NULL;
	uint64_t bytes = 5;
	size_t n = 9;
	int sum = 0;

	CHECK_INT(rbt_amd_each_process(root, note_pid, &sum), -ENODEV);
	CHECK_INT(rbt_amd_queues_read(root, 42, &queues, &n), -ENXIO);
	CHECK_INT(n, 9);
	/* As the driver writes them: without a newline. */
	put("proc/42/queues/10/gpuid", "28851");
	put("proc/42/queues/10/size", "65536");
	put("proc/42/queues/10/type", "0");
	put("proc/42/queues/2/gpuid", "28851");
	put("proc/42/queues/2/size", "4096");
	put("proc/42/queues/2/type", "1");
	/* On its way in or out; and no queue at all. */
	put("proc/42/queues/7/gpuid", "28851");
	put("proc/42/queues/junk/gpuid", "28851");
	put("proc/42/vram_28851", "1234567890123\n");
	put("proc/43/pasid", "1\n");
	put("proc/self/pasid", "1\n");
	CHECK_INT(rbt_amd_queues_read(root, 42, &queues, &n), 0);
	CHECK_INT(n, 2);
	CHECK_INT(queues[0].id, 2);
	CHECK_INT(queues[0].type, KFD_QUEUE_SDMA);
	CHECK_INT(queues[1].id, 10);
	CHECK_INT(queues[1].size, 65536);
	test_follow(queues, n);
	CHECK_INT(rbt_amd_vram_read(root, 42, 28851, &bytes), 0);
	CHECK_INT(bytes, 1234567890123);
	CHECK_INT(rbt_amd_vram_read(root, 42, 1, &bytes), -ENOENT);
	CHECK_INT(rbt_amd_process_exists(root, 43), 1);
	CHECK_INT(rbt_amd_process_exists(root, 45), 0);
	CHECK_INT(rbt_amd_each_process(root, note_pid, &sum), 0);
	CHECK_INT(sum, 129);
}

static void test_analyse(void)
{
	struct rubato_kfd_queue a[] = {{.id = 1, .gpu_id = 5, .type = RUBATO_KFD_AQL},
		{.id = 3, .gpu_id = 5, .type = RUBATO_KFD_SDMA}};
	struct rubato_kfd_queue b[] = {{.id = 1, .gpu_id = 5, .type = RUBATO_KFD_AQL},
		{.id = 2, .gpu_id = 6, .type = RUBATO_KFD_AQL}};
	struct rubato_kfd_snapshot one = {.n_queues = 2, .queues = a},
				   two = {.n_queues = 2, .queues = b};
	struct rubato_kfd_snapshot none = {0};
	const struct rubato_kfd_snapshot *same[] = {&one, &one}, *other[] = {&one, &two, &none};
	struct rubato_kfd_stats *s = NULL;

	CHECK_INT(rubato_kfd_analyse(NULL, 0, &s), -EINVAL);
	CHECK_INT(rubato_kfd_analyse(same, 2, &s), 0);
	CHECK(s->stable && s->n_ids == 2 && s->ids[1].key == 3 && s->ids[1].n == 2);
	rubato_kfd_stats_free(s);
	/* As many queues, but not the same ones. */
	CHECK_INT(rubato_kfd_analyse(other, 2, &s), 0);
	CHECK(!s->stable && s->min_queues == 2 && s->max_queues == 2 && s->n_ids == 3);
	CHECK(s->ids[0].n == 2 && s->ids[1].n == 1 && s->n_gpus == 2 && s->gpus[0].n == 3);
	CHECK(s->n_types == 2 && s->types[0].key == RUBATO_KFD_SDMA && s->types[1].n == 3);
	rubato_kfd_stats_free(s);
	CHECK_INT(rubato_kfd_analyse(other, 3, &s), 0);
	CHECK(s->min_queues == 0 && s->mean_queues > 1.3 && s->mean_queues < 1.4);
	rubato_kfd_stats_free(s);
}

/* One after the other, and as often as one likes. */
static void test_running(void)
{
	struct rubato_kfd_queue queues[300];
	struct rubato_kfd_snapshot snap = {.queues = queues};
	struct rubato_kfd_stats *s = NULL;

	CHECK_INT(rubato_kfd_stats_create(&s), 0);
	for (uint32_t i = 0; i < 300; i++) {
		queues[i] = (struct rubato_kfd_queue){.id = (i * 7) % 300, .type = i % 2};
	}
	for (uint32_t n = 0; n <= 300; n++) {
		snap.n_queues = n;
		CHECK_INT(rubato_kfd_stats_add(s, &snap), 0);
	}
	CHECK(s->n_samples == 301 && s->min_queues == 0 && s->max_queues == 300 && !s->stable);
	CHECK(s->n_ids == 300 && s->mean_queues > 149.9 && s->mean_queues < 150.1);
	for (uint32_t i = 0; i < 300; i++) {
		CHECK_INT(s->ids[i].key, i);
	}
	CHECK(s->ids[0].n == 300 && s->ids[7].n == 299 && s->n_types == 2 && s->n_gpus == 1);
	rubato_kfd_stats_free(s);
	rubato_kfd_stats_free(NULL);
}

static void test_pending(void)
{
	struct rubato_kfd_queue q = {.type = RUBATO_KFD_AQL,
		.ring_size = 65536,
		.write_pointer = UINT64_MAX,
		.read_pointer = UINT64_MAX - 5};
	uint64_t n = 99;

	CHECK(!rubato_kfd_pending(&q, &n) && n == 99);
	q.has_pointers = 1;
	CHECK(rubato_kfd_pending(&q, &n) && n == 5);
	q.write_pointer = 3; /* round the end */
	CHECK(rubato_kfd_pending(&q, &n) && n == 9);
	q.read_pointer = 4; /* ahead of it */
	CHECK(!rubato_kfd_pending(&q, &n) && n == 9);
	q.write_pointer = 1 << 20;
	CHECK(!rubato_kfd_pending(&q, &n));
}

static void test_times(void)
{
	struct kfd_times t = {0};

	CHECK_INT(kfd_times_quantile(&t, 0.5), 0);
	for (uint64_t i = 100; i > 0; i--) {
		kfd_times_add(&t, i);
	}
	CHECK_INT(kfd_times_quantile(&t, 0), 1);
	CHECK_INT(kfd_times_quantile(&t, 0.5), 50);
	CHECK_INT(kfd_times_quantile(&t, 0.99), 99);
	CHECK_INT(kfd_times_quantile(&t, 1), 100);
	CHECK_INT((int)(kfd_times_mean(&t) * 10), 505);
	kfd_times_add(&t, 0);
	CHECK_INT(kfd_times_quantile(&t, 0), 0);
	kfd_times_finish(&t);
}

/* Each says what it is, and what helps: a missing session, a runtime that has not started, the
 * rights over a process, the rights on the device. */
static void test_errors(void)
{
	CHECK(strstr(rubato_kfd_strerror(-ENOTCONN), "attach to it first") != NULL);
	CHECK(strstr(rubato_kfd_strerror(-ENOTCONN), "runtime") == NULL);
	CHECK(strstr(rubato_kfd_strerror(-EAGAIN), "runtime has not started") != NULL);
	CHECK(strstr(rubato_kfd_strerror(-EPERM), "ptrace_scope") != NULL);
	CHECK(strstr(rubato_kfd_strerror(-EACCES), "ptrace") == NULL);
	CHECK(strstr(rubato_kfd_strerror(-EACCES), "/dev/kfd") != NULL);
}

int main(void)
{
	snprintf(root, sizeof(root), "/tmp/rbt-kfd.XXXXXX");
	if (mkdtemp(root) == NULL) {
		perror("mkdtemp");
		return 1;
	}
	test_topology();
	test_processes();
	test_analyse();
	test_running();
	test_pending();
	test_times();
	test_errors();
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return check_result();
}

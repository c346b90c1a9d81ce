/* SPDX-License-Identifier: Apache-2.0 */
/* Containers, pods and Slurm jobs in the names of cgroups, as the managers of this world write
 * them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "util/cgroup.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define UID   "2f1e0b3c-8a7d-4c5e-9f60-718293a4b5c6"
#define UID_  "2f1e0b3c_8a7d_4c5e_9f60_718293a4b5c6"
#define HASH  "0123456789abcdef0123456789abcdef"

static const struct {
	const char *text, *container, *pod, *job;
} cases[] = {
	{"", "", "", ""},
	{"0::/\n", "", "", ""},
	{"0::/user.slice/user-1000.slice/session-3.scope\n", "", "", ""},
	/* Docker with both cgroup drivers, with and without the last newline. */
	{"0::/system.slice/docker-" ID ".scope\n", ID, "", ""},
	{"4:memory:/docker/" ID "\n0::/\n", ID, "", ""},
	{"0::/docker/" ID, ID, "", ""},
	/* Podman: as root, without root, with cgroupfs, with a cgroup of its own inside. */
	{"0::/machine.slice/libpod-" ID ".scope/container\n", ID, "", ""},
	{"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope\n", ID,
		"", ""},
	{"9:name=systemd:/libpod_parent/libpod-" ID "\n", ID, "", ""},
	/* Kubernetes: containerd and CRI-O, the systemd driver and cgroupfs, static pods, kind. */
	{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	 ".slice/cri-containerd-" ID ".scope\n",
		ID, UID, ""},
	{"0::/kubepods/besteffort/pod" UID "/" ID "\n", ID, UID, ""},
	{"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container\n", ID, UID,
		""},
	{"1:cpu:/system.slice/containerd.service/kubepods-burstable-pod" UID_
	 ".slice:cri-containerd:" ID "\n",
		ID, UID, ""},
	{"0::/kubepods/burstable/pod" HASH "/" ID "\n", ID, HASH, ""},
	{"0::/docker/" OTHER "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_
	 ".slice/cri-containerd-" ID ".scope\n",
		ID, UID, ""},
	/* Slurm: cgroup v1, v2, several daemons on one node, a container in a job. */
	{"4:memory:/slurm/uid_1000/job_42/step_0/task_0\n", "", "", "42"},
	{"4:memory:/slurm_node7/uid_0/job_42/step_batch\n", "", "", "42"},
	{"0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n", "", "", "42"},
	{"0::/system.slice/node7_slurmstepd.scope/job_7/step_extern\n", "", "", "7"},
	{"0::/system.slice/slurmstepd.scope/job_42/step_0/user/libpod-" ID "\n", ID, "", "42"},
	/* Hierarchies that say different things. */
	{"5:devices:/slurm/uid_0/job_1/step_0\n4:memory:/docker/" ID "\n0::/docker/" OTHER "\n", ID,
		"", "1"},
	/* Names that only look like it. */
	{"0::/x" ID "\n", "", "", ""},
	{"0::/" ID "0\n", "", "", ""},
	{"0::/docker-0" ID ".scope\n", "", "", ""},
	{"0::/DOCKER-0123456789ABCDEF\n", "", "", ""},
	{"0::/job_42/slurm\n", "", "", ""},
	{"0::/slurmish/job_42\n", "", "", ""},
	{"0::/slurm/job_\n", "", "", ""},
	{"0::/slurm/job_42x\n", "", "", ""},
	{"0::/slurm/job_123456789012345678901\n", "", "", ""},
	{"0::/kubepods/pod2f1e0b3c\n", "", "", ""},
	{"0::/kubepods/pod" UID "0\n", "", "", ""},
	{"0::/tripod" UID "\n", "", "", ""},
	{"no colons /docker/" ID "\n1:one /docker/" ID "\n", "", "", ""},
};

static void test_places(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rbt_place p;

		rbt_place_parse(cases[i].text, &p);
		if (strcmp(p.container_id, cases[i].container) != 0 ||
			strcmp(p.pod_uid, cases[i].pod) != 0 ||
			strcmp(p.slurm_job, cases[i].job) != 0) {
			printf("%s: container '%s', pod '%s', job '%s'\n", cases[i].text,
				p.container_id, p.pod_uid, p.slurm_job);
			CHECK(0);
		}
	}
}

static void test_lines(void)
{
	const char *text = "3:cpu,cpuacct:/a:b/c\nnonsense\n10::/not-v2\n0:x:/not-v2\n0::/v2";
	static const struct {
		bool is_v2;
		const char *path;
	} expected[] = {{false, "/a:b/c"}, {false, "/not-v2"}, {false, "/not-v2"}, {true, "/v2"}};
	struct rbt_cgroup_line line;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		CHECK(rbt_cgroup_next(&text, &line));
		CHECK(line.is_v2 == expected[i].is_v2);
		CHECK_INT(line.length, strlen(expected[i].path));
		CHECK(memcmp(line.path, expected[i].path, line.length) == 0);
	}
	CHECK(!rbt_cgroup_next(&text, &line));
}

static void test_processes(void)
{
	struct rbt_place p;

	CHECK_INT(rbt_place_read(getpid(), &p), 0);
	memset(&p, 'x', sizeof(p));
	CHECK(rbt_place_read(-1, &p) < 0);
	CHECK(p.container_id[0] == '\0' && p.pod_uid[0] == '\0' && p.slurm_job[0] == '\0');
}

int main(void)
{
	test_places();
	test_lines();
	test_processes();
	return check_result();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers: the limit holds whatever threads and processes do at the same time, and what a killed
 * process leaves is corrected. */
#include "board/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "util/fd.h"

#define N_THREADS 4
#define N_ROUNDS  20000

static struct rbt_ledger *l;
static int fd = -1;

static void renew(void)
{
	rbt_ledger_unmap(l);
	rbt_close(&fd);
	fd = rbt_ledger_create_fd();
	CHECK(fd >= 0);
	CHECK_INT(rbt_ledger_map(fd, &l), 0);
}

static uint64_t total(uint32_t gpu)
{
	return atomic_load(&l->totals[gpu]);
}

static uint64_t sum(uint32_t gpu)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < RBT_LEDGER_SLOTS; i++) {
		n += atomic_load(&l->slots[i].bytes[gpu]);
	}
	return n;
}

static void test_limit(void)
{
	renew();
	CHECK(rbt_ledger_limit(l) == UINT64_MAX);
	atomic_store(&l->limit, 100);
	CHECK(rbt_ledger_limit(l) == 100);
	int a = rbt_ledger_take_slot(l, 11, 1), b = rbt_ledger_take_slot(l, 12, 1);
	CHECK(a == 0 && b == 1);
	CHECK(rbt_ledger_charge(l, 0, 0, 60, 100));
	CHECK(!rbt_ledger_charge(l, 1, 0, 41, 100));
	CHECK(rbt_ledger_charge(l, 1, 0, 40, 100));
	CHECK(!rbt_ledger_charge(l, 0, 0, 1, 100));
	CHECK(!rbt_ledger_charge(l, 0, 0, UINT64_MAX, 100));
	/* Each GPU has its own. */
	CHECK(rbt_ledger_charge(l, 0, 31, 100, 100));
	rbt_ledger_give_back(l, 0, 0, 60);
	CHECK(total(0) == 40 && total(31) == 100);
	/* A limit may sink below what there is; and numbers that are wrong do no lasting harm. */
	CHECK(!rbt_ledger_charge(l, 0, 0, 1, 30));
	rbt_ledger_give_back(l, 0, 0, 1000);
	CHECK(total(0) == 0);
	CHECK(rbt_ledger_audit(l) && total(0) == 40);
	CHECK(rbt_ledger_clear_slot(l, 0) && rbt_ledger_clear_slot(l, 1));
	CHECK(total(0) == 0 && total(31) == 0);
}

static void test_slots(void)
{
	renew();
	for (uint32_t i = 0; i < RBT_LEDGER_SLOTS; i++) {
		CHECK_INT(rbt_ledger_take_slot(l, i + 1, 1), i);
	}
	CHECK_INT(rbt_ledger_take_slot(l, 1000, 1), -ENOSPC);
	rbt_ledger_clear_slot(l, 50);
	CHECK_INT(rbt_ledger_take_slot(l, 1000, 1), 50);
}

/* As if it had been killed after its first store, or after its second. */
static void test_audit(void)
{
	renew();
	rbt_ledger_take_slot(l, 11, 1);
	rbt_ledger_take_slot(l, 12, 1);
	CHECK(rbt_ledger_charge(l, 0, 3, 10, 100) && rbt_ledger_charge(l, 1, 3, 20, 100));
	atomic_fetch_add(&l->slots[1].begun, 1);
	atomic_fetch_add(&l->totals[3], 7);
	CHECK(!rbt_ledger_audit(l) && total(3) == 37);
	CHECK(!rbt_ledger_clear_slot(l, 1));
	CHECK(total(3) == 17 && rbt_ledger_audit(l) && total(3) == 10);
}

static void test_files(void)
{
	struct rbt_ledger *other;
	int bad = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	renew();
	CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
	CHECK(ftruncate(bad, RBT_LEDGER_SIZE) == 0);
	CHECK_INT(rbt_ledger_map(bad, &other), -EPERM);
	CHECK(fcntl(bad, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0);
	CHECK_INT(rbt_ledger_map(bad, &other), -EBADMSG);
	close(bad);
	bad = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_INT(rbt_ledger_map(bad, &other), -EBADF);
	close(bad);
}

static void *race(void *data)
{
	uint32_t slot = *(uint32_t *)data;
	unsigned seed = slot + 1;

	for (int i = 0; i < N_ROUNDS; i++) {
		uint64_t bytes = 1 + (uint64_t)(rand_r(&seed) % 40);

		if (rbt_ledger_charge(l, slot, 0, bytes, 100)) {
			if (total(0) > 100) {
				CHECK(false);
			}
			rbt_ledger_give_back(l, slot, 0, bytes);
		}
	}
	return NULL;
}

/* Two threads each in two slots. */
static void race_threads(void)
{
	pthread_t threads[N_THREADS];
	uint32_t slots[N_THREADS];

	for (uint32_t i = 0; i < N_THREADS; i++) {
		slots[i] = i / 2;
		CHECK(pthread_create(&threads[i], NULL, race, &slots[i]) == 0);
	}
	for (uint32_t i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
}

static void test_threads(void)
{
	renew();
	rbt_ledger_take_slot(l, 11, 1);
	rbt_ledger_take_slot(l, 12, 1);
	race_threads();
	CHECK(total(0) == 0 && sum(0) == 0);
}

/* Processes are killed at random while others go on; audits run all the time. */
static void test_kills(void)
{
	unsigned seed = 5;

	renew();
	rbt_ledger_take_slot(l, 1, 1);
	CHECK(rbt_ledger_charge(l, 0, 0, 13, 100));
	for (int i = 0; i < 20; i++) {
		pid_t pids[3];

		for (int k = 0; k < 3; k++) {
			int slot = rbt_ledger_take_slot(l, (uint32_t)(100 + k), 1);
			CHECK_INT(slot, k + 1);
			pids[k] = fork();
			if (pids[k] == 0) {
				uint32_t mine = (uint32_t)slot;
				for (;;) {
					race(&mine);
				}
			}
		}
		usleep((useconds_t)(rand_r(&seed) % 2000));
		for (int k = 0; k < 3; k++) {
			(void)rbt_ledger_audit(l);
			kill(pids[k], SIGKILL);
			waitpid(pids[k], NULL, 0);
			rbt_ledger_clear_slot(l, (uint32_t)k + 1);
		}
		CHECK(rbt_ledger_audit(l));
		CHECK_INT(total(0), 13);
	}
}

int main(void)
{
	test_limit();
	test_slots();
	test_audit();
	test_files();
	test_threads();
	test_kills();
	return check_result();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The bell: nothing that a program submits waits for a sleeping device, and nobody sleeps on. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "test_device_world.h"
#include "util/time.h"

#define ROUNDS 20000u

static struct device_world world;
static struct device_program p;
static struct gpu_bell *bell;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool stop;

/* As the server's engine thread: sleeps without the lock. */
static void *serve(void *arg)
{
	for (;;) {
		bool more, over;

		pthread_mutex_lock(&lock);
		over = stop;
		more = rbt_device_step(world.dev, 10000);
		pthread_mutex_unlock(&lock);
		if (over) {
			return NULL;
		}
		if (!more) {
			rbt_device_sleep(world.dev, 60000);
		}
	}
}

static void ring(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&bell->asleep, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&bell->rung, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &bell->rung, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

/* As the front waits: says so, looks once more, sleeps on the low half. 5 s are for ever. */
static bool wait_done(uint32_t channel, uint64_t number)
{
	struct gpu_channel *ch = &p.room->channels[channel];
	struct timespec timeout = {5, 0};
	uint64_t done;

	while ((done = __atomic_load_n(&ch->done, __ATOMIC_ACQUIRE)) < number) {
		__atomic_add_fetch(&ch->waiting, 1, __ATOMIC_SEQ_CST);
		done = __atomic_load_n(&ch->done, __ATOMIC_SEQ_CST);
		if (done < number &&
			syscall(SYS_futex, &ch->done, FUTEX_WAIT, (uint32_t)done, &timeout, NULL,
				0) < 0 &&
			errno == ETIMEDOUT) {
			return false;
		}
		__atomic_sub_fetch(&ch->waiting, 1, __ATOMIC_SEQ_CST);
	}
	return true;
}

static void test_no_wake_is_lost(void)
{
	uint64_t start_ns = rbt_now_ns();

	for (unsigned k = 1; k <= ROUNDS; k++) {
		device_simple(&p, 0, GPU_CMD_NOTHING);
		device_publish(&p, 0);
		ring();
		if (!wait_done(0, k)) {
			CHECK(!"a command that was rung for is done");
			break;
		}
	}
	fprintf(stderr, "%.1f us a round trip\n", (double)(rbt_now_ns() - start_ns) / 1e3 / ROUNDS);
}

/* Contexts come and go while the device sleeps on their rings. */
static void test_come_and_go(void)
{
	struct device_program other;

	for (unsigned k = 0; k < 500; k++) {
		pthread_mutex_lock(&lock);
		device_program_init(&other, &world, 8, 100 + k);
		pthread_mutex_unlock(&lock);
		device_simple(&other, 7, GPU_CMD_NOTHING);
		device_publish(&other, 7);
		ring();
		for (unsigned i = 0; i < 50000 && device_done(&other, 7) == 0; i++) {
			usleep(i < 10 ? 10 : 100);
		}
		CHECK_INT(device_done(&other, 7), 1);
		pthread_mutex_lock(&lock);
		device_program_finish(&other);
		pthread_mutex_unlock(&lock);
	}
}

/* Whoever sleeps on a context that dies is woken, however close the two are. */
static void *wait_for_death(void *arg)
{
	struct gpu_channel *ch = &p.room->channels[1];

	__atomic_add_fetch(&ch->waiting, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&p.room->error, __ATOMIC_SEQ_CST)) {
		syscall(SYS_futex, &ch->done, FUTEX_WAIT, 0, NULL, NULL, 0);
	}
	return NULL;
}

static void test_death_wakes(void)
{
	pthread_t waiter;

	device_wait(&p, 1, 1, 1000);
	device_publish(&p, 1);
	ring();
	CHECK_INT(pthread_create(&waiter, NULL, wait_for_death, NULL), 0);
	usleep(20000);
	pthread_mutex_lock(&lock);
	rbt_context_kill(p.ctx, GPU_ERROR_LAUNCH_FAILED);
	pthread_mutex_unlock(&lock);
	CHECK_INT(pthread_join(waiter, NULL), 0);
}

int main(void)
{
	pthread_t server;

	device_world_init(&world, &(struct rbt_device_config){.n_sms = 2});
	device_program_init(&p, &world, 2, 1);
	bell = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, rbt_device_bell_fd(world.dev), 0);
	CHECK(bell != MAP_FAILED);
	CHECK_INT(pthread_create(&server, NULL, serve, NULL), 0);
	test_no_wake_is_lost();
	test_come_and_go();
	test_death_wakes();
	pthread_mutex_lock(&lock);
	stop = true;
	pthread_mutex_unlock(&lock);
	rbt_device_wake(world.dev);
	CHECK_INT(pthread_join(server, NULL), 0);
	device_program_finish(&p);
	device_world_finish(&world);
	return check_result();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime directory, which belongs to the daemon that holds its lock. The directory can vanish:
 * /run/user/UID goes with the user's last login, and cleaners of /tmp remove old files. Connected
 * programs stay connected then, but nobody else can find the daemon. So it checks the directory now
 * and then, and creates it again. If another daemon did so first, this daemon leaves the programs
 * to it; they connect to it by themselves.
 */
#include "daemon/survive/home.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/peers/server.h"
#include "daemon/survive/byhand.h"
#include "daemon/survive/state.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/runtime.h"
#include "util/time.h"

/* This also gives a process that is removing the directory the time to finish. */
#define LOOK_EVERY_NS RBT_NS_PER_S
#define CLAIM_NS      (500 * RBT_NS_PER_MS)
#define CLAIM_STEP_US 2000

static int take_lock(const struct daemon *d)
{
	int fd = open(d->home.lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	/* A daemon cannot serve in a read-only directory, but it can restore from the state file
	 * there. */
	if (fd < 0 && errno == EROFS) {
		fd = open(d->home.lock_path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0) {
		return -errno;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

/* A child that a killed daemon had just forked still has the lock for a moment, so the lock is
 * tried for a while. A service manager would report a failed start; for other daemons the keeper
 * waits. */
static int claim_lock(const struct daemon *d)
{
	uint64_t end_ns = rbt_now_ns() + (d->options.is_system ? CLAIM_NS : 0);
	int fd;

	while ((fd = take_lock(d)) == -EBUSY && rbt_now_ns() < end_ns) {
		usleep(CLAIM_STEP_US);
	}
	return fd;
}

int home_claim(struct daemon *d)
{
	int r = d->options.is_system ? rbt_system_dir_create(d->home.dir, sizeof(d->home.dir))
				     : rbt_runtime_dir_create(d->home.dir, sizeof(d->home.dir));

	if (r < 0) {
		return r;
	}
	snprintf(d->home.socket_path, sizeof(d->home.socket_path), "%s/control.sock", d->home.dir);
	snprintf(d->home.state_path, sizeof(d->home.state_path), "%s/state", d->home.dir);
	snprintf(d->home.lock_path, sizeof(d->home.lock_path), "%s/lock", d->home.dir);
	snprintf(d->hand.lock_path, sizeof(d->hand.lock_path), "%s/hand.lock", d->home.dir);
	int fd = claim_lock(d);
	if (fd < 0) {
		return fd;
	}
	rbt_close(&d->home.lock_fd);
	d->home.lock_fd = fd;
	return 0;
}

bool home_is_ours(const struct daemon *d)
{
	struct stat held, there;

	return fstat(d->home.lock_fd, &held) == 0 && stat(d->home.lock_path, &there) == 0 &&
	       held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

/* Whether tools and programs still look for us at this path. It may differ for a user who is no
 * longer logged in. */
static bool is_same_place(const struct daemon *d)
{
	char dir[sizeof(d->home.dir)];
	int r = rbt_runtime_dir(
		d->options.is_system ? RBT_UID_SYSTEM : geteuid(), dir, sizeof(dir));

	return r == 0 && strcmp(dir, d->home.dir) == 0;
}

/* Returns 0, or -errno if nobody can find us yet. */
static int go_back(struct daemon *d)
{
	if (!home_is_ours(d)) {
		int r = is_same_place(d) ? home_claim(d) : -ENOENT;
		if (r < 0) {
			return r;
		}
	}
	int r = server_restart(d);
	if (r == 0) {
		rbt_warn("%s was removed: it is there again", d->home.dir);
		state_write(d);
		byhand_write(d);
		policy_keep_again(d);
	}
	return r;
}

void home_tick(struct daemon *d, uint64_t now_ns)
{
	if (now_ns < d->home.check_ns) {
		return;
	}
	d->home.check_ns = now_ns + LOOK_EVERY_NS;
	if (access(d->home.socket_path, F_OK) == 0 && home_is_ours(d)) {
		d->home.is_lost = false;
		return;
	}
	/* The first check only notes the loss: the process that removes the directory may not be
	 * done. */
	int r = d->home.is_lost ? go_back(d) : -EAGAIN;
	d->home.is_lost = r < 0;
	if (r == -EBUSY) {
		rbt_warn("another rubatod serves %s: the programs are left to it", d->home.dir);
		d->stop = true;
	}
}

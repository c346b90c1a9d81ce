/* SPDX-License-Identifier: Apache-2.0 */
/* What an object cannot do to the daemon: keep it from its work, or from the end of a load. */
#include <errno.h>
#include <poll.h>

#include "check.h"
#include "policy/loader.h"
#include "util/time.h"

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

int main(void)
{
	test_loaders();
	return check_result();
}

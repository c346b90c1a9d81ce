/* SPDX-License-Identifier: Apache-2.0 */
/* The board of a program: it comes with a message of the shim, and goes with the program. */
#include <string.h>

#include "daemon/daemon.h"
#include "daemon/metrics/accounting.h"
#include "daemon/program.h"
#include "daemon/schedule.h"
#include "util/time.h"

int program_put_board(struct daemon *d, struct program *p, int fd)
{
	struct rbt_board *board;
	struct rbt_board_reading first;
	int r = rbt_board_map(fd, &board);

	if (r < 0) {
		return r;
	}
	accounting_begin_board(d, p, board);
	schedule_forget_board(d, p);
	rbt_board_unmap(p->reader.board);
	p->reader.board = board;
	gate_forget_board(p);
	p->reader.is_new = true;
	d->dirty = true;
	/* Earlier counts are no news; from here on the program writes its times. */
	memset(&p->reader.watch, 0, sizeof(p->reader.watch));
	rbt_board_read(board, &p->reader.watch, rbt_now_ns(), &first);
	memcpy(p->reader.gaps, first.gaps, sizeof(p->reader.gaps));
	p->reader.edge_gap_ns = 0;
	struct rbt_board_progress progress = rbt_board_progress(board);
	doubt_new_board(&p->doubt, &progress);
	gate_take(d, p);
	return 0;
}

void program_drop_board(struct daemon *d, struct program *p)
{
	schedule_forget_board(d, p);
	gate_release(p);
	gate_forget_board(p);
	rbt_board_unmap(p->reader.board);
	p->reader.board = NULL;
	gate_take(d, p);
	d->dirty = true;
}

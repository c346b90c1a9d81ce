/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the tasks and channels of a holding when its record is replaced. Inside act; the
 * way in is rbt_holdings_put().
 */
#ifndef RBT_ACT_REPLACE_H
#define RBT_ACT_REPLACE_H

#include "act/holding.h"

/* Makes room to note which channels are off. 0 or -ENOMEM. */
int rbt_holding_make_room(struct rbt_holding *h);

/* What is off stays so under a newer record of the same client. 0 or -ENOMEM. */
int rbt_holding_inherit_off(struct rbt_holding *next, const struct rbt_holding *before);

/* Leaves of an older record what a newer one of the same client does not name: tasks, and channels
 * of tasks that it does name, if it is partial. The slices of these are not known any more. */
void rbt_holding_subtract(struct rbt_holding *before, const struct rbt_record *rec);

/* Puts another's tasks behind a holding's own, as far as there is room; what is off stays so. 0 or
 * -ENOMEM, with nothing put. */
int rbt_holding_append(struct rbt_holding *h, const struct rbt_holding *more);

#endif

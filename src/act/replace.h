/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a holding's tasks and channels when its record is replaced. Only src/act uses
 * this; others call rbt_holdings_put().
 */
#ifndef RBT_ACT_REPLACE_H
#define RBT_ACT_REPLACE_H

#include "act/holding.h"

/* Makes room to note which channels are off. Returns 0 or -ENOMEM. */
int rbt_holding_make_room(struct rbt_holding *h);

/* Copies to the holding of a newer record which channels are off. Returns 0 or -ENOMEM. */
int rbt_holding_inherit_off(struct rbt_holding *next, const struct rbt_holding *before);

/* Leaves only the parts of an older record that a newer record of the same client does not name:
 * tasks and, if the newer record is partial, channels of tasks that it does name. The own slices of
 * the latter are no longer known. */
void rbt_holding_subtract(struct rbt_holding *before, const struct rbt_record *rec);

/* Appends the tasks of `more` to a holding, as many as fit. Channels that are off stay marked so.
 * Returns 0, or -ENOMEM with nothing appended. */
int rbt_holding_append(struct rbt_holding *h, const struct rbt_holding *more);

#endif

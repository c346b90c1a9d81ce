// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that the host sees: blocks that the driver makes for mmap(), and pinned pages of a program.
 * Pages are given back only after the host has unmapped them, or has ended the session.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "rubato.h"

#define BLOCK_ORDER (21 - PAGE_SHIFT)
/* The host maps each piece on its own, and can do that some 60,000 times per program. */
#define MAX_PIECES  1024

struct map {
	struct list_head node;
	unsigned long address, size;
	bool is_busy; /* a thread is showing it to the host; nobody else may touch it */
	bool is_shown; /* the host has it, or may have it */
	struct mm_struct *pinned_in; /* NULL: blocks of our own */
	unsigned int order; /* of the pages */
	unsigned long n;
	struct page *pages[];
};

static struct map *new_map(unsigned long address, unsigned long size, unsigned int order)
{
	unsigned long n = size >> (PAGE_SHIFT + order);
	struct map *m = kvzalloc(struct_size(m, pages, n), GFP_KERNEL_ACCOUNT);

	if (m) {
		m->address = address;
		m->size = size;
		m->order = order;
	}
	return m;
}

static void free_block(struct page *page)
{
	unsigned int i;

	/* Pages of a block are on their own: a program may still have some of them mapped. */
	for (i = 0; i < 1u << BLOCK_ORDER; i++)
		__free_page(page + i);
}

static void free_map(struct map *m)
{
	unsigned long i;

	if (m->pinned_in) {
		unpin_user_pages_dirty_lock(m->pages, m->n, true);
		account_locked_vm(m->pinned_in, m->size >> PAGE_SHIFT, false);
		mmdrop(m->pinned_in);
	} else {
		for (i = 0; i < m->n; i++)
			free_block(m->pages[i]);
	}
	kvfree(m);
}

void rubato_map_free_all(struct rubato_session *s)
{
	struct map *m, *next;

	list_for_each_entry_safe(m, next, &s->maps, node)
		free_map(m);
}

static void add_map(struct rubato_session *s, struct map *m)
{
	mutex_lock(&s->maps_lock);
	list_add(&m->node, &s->maps);
	mutex_unlock(&s->maps_lock);
}

static int add_block(struct map *m)
{
	struct page *page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL,
					BLOCK_ORDER);

	if (!page)
		return -ENOMEM;
	split_page(page, BLOCK_ORDER);
	m->pages[m->n++] = page;
	return 0;
}

static int insert_block(struct vm_area_struct *vma, unsigned long address, struct page *page)
{
	unsigned long i;
	int err = 0;

	for (i = 0; i < 1ul << BLOCK_ORDER && !err; i++)
		err = vm_insert_page(vma, address + i * PAGE_SIZE, page + i);
	return err;
}

int rubato_map_create(struct rubato_session *s, struct vm_area_struct *vma)
{
	unsigned long size = vma->vm_end - vma->vm_start, i;
	struct map *m;
	int err = 0;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_pgoff || !IS_ALIGNED(vma->vm_start, RUBATO_BLOCK) ||
	    !IS_ALIGNED(size, RUBATO_BLOCK))
		return -EINVAL;
	if (size >> PAGE_SHIFT > totalram_pages())
		return -ENOMEM;
	m = new_map(vma->vm_start, size, BLOCK_ORDER);
	if (!m)
		return -ENOMEM;
	compat_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND);
	for (i = 0; i < size / RUBATO_BLOCK && !err; i++) {
		err = fatal_signal_pending(current) ? -EINTR : add_block(m);
		if (!err)
			err = insert_block(vma, vma->vm_start + i * RUBATO_BLOCK, m->pages[i]);
	}
	if (err) {
		free_map(m);
		return err;
	}
	add_map(s, m);
	return 0;
}

/* Whether page `i` continues the piece that ends with page `i - 1`. */
static bool is_continued(const struct map *m, unsigned long i)
{
	return page_to_pfn(m->pages[i]) == page_to_pfn(m->pages[i - 1]) + (1ul << m->order);
}

static unsigned long count_pieces(const struct map *m)
{
	unsigned long i, n = 1;

	for (i = 1; i < m->n; i++)
		n += !is_continued(m, i);
	return n;
}

/* Pieces from page *next on, as many as one request may have. Returns their bytes. */
static unsigned long fill_pieces(
	const struct map *m, unsigned long *next, struct scatterlist *pieces, unsigned int max)
{
	unsigned long unit = PAGE_SIZE << m->order, total = 0;
	struct scatterlist *last = NULL;
	unsigned int n = 0;

	sg_init_table(pieces, max);
	for (; *next < m->n; ++*next, total += unit) {
		if (last && is_continued(m, *next) && last->length + unit <= SZ_1G) {
			last->length += unit;
			continue;
		}
		if (n == max)
			break;
		last = &pieces[n++];
		sg_set_page(last, m->pages[*next], unit, 0);
	}
	sg_mark_end(last);
	return total;
}

static int tell_range(struct rubato_session *s, u32 type, unsigned long address, unsigned long size,
	struct scatterlist *pieces)
{
	struct rubato_call *call = rubato_call_new(s->queue, type, s->id);
	int err;

	if (!call) {
		kfree(pieces);
		return -ENOMEM;
	}
	call->pieces = pieces;
	call->request.address = cpu_to_le64(address);
	call->request.size = cpu_to_le64(size);
	err = rubato_call_wait(call);
	rubato_call_put(call);
	return err;
}

/* Shows a map to the host, in as many requests as the queue's size makes it. */
static int tell_host(struct rubato_session *s, const struct map *m)
{
	unsigned int max = s->dev->max_pieces;
	unsigned long next = 0, done = 0;
	int err = 0;

	while (next < m->n && !err) {
		struct scatterlist *pieces = kmalloc_array(max, sizeof(*pieces), GFP_KERNEL);
		unsigned long part;

		if (!pieces) {
			err = -ENOMEM;
			break;
		}
		part = fill_pieces(m, &next, pieces, max);
		err = tell_range(s, RUBATO_MAP, m->address + done, part, pieces);
		if (!err)
			done += part;
	}
	/* Undo the part that the host has mapped. If that fails, the session's end does it. */
	if (err && done > 0 && tell_range(s, RUBATO_UNMAP, m->address, done, NULL) < 0) {
		rubato_session_lose(s);
		err = -ECONNRESET;
	}
	return err;
}

/* A map that no other thread is busy with. The caller holds s->maps_lock. */
static struct map *find_map(struct rubato_session *s, const struct rubato_range *range)
{
	struct map *m;

	list_for_each_entry(m, &s->maps, node) {
		if (m->address == range->address && m->size == range->size && !m->is_busy)
			return m;
	}
	return NULL;
}

/* After these errors the host may have the map, or get it yet: only its answer tells. */
static bool is_open_end(int err)
{
	return err == -ETIMEDOUT || err == -EINTR || err == -ECONNRESET;
}

int rubato_map_show(struct rubato_session *s, const struct rubato_range *range)
{
	struct map *m;
	int err;

	mutex_lock(&s->maps_lock);
	m = find_map(s, range);
	if (m && m->is_shown)
		m = NULL;
	if (m)
		m->is_busy = true;
	mutex_unlock(&s->maps_lock);
	if (!m)
		return -EINVAL;
	err = tell_host(s, m);
	mutex_lock(&s->maps_lock);
	m->is_shown = !err || is_open_end(err);
	m->is_busy = false;
	mutex_unlock(&s->maps_lock);
	return err;
}

/* Pins the pages of the program. On failure m->n of them are pinned. */
static int pin_map(struct map *m)
{
	unsigned long wanted = m->size >> PAGE_SHIFT;
	int got, err = account_locked_vm(current->mm, wanted, true);

	if (err)
		return -E2BIG;
	mmgrab(current->mm);
	m->pinned_in = current->mm;
	while (m->n < wanted) {
		got = pin_user_pages_fast(m->address + (m->n << PAGE_SHIFT),
			min(wanted - m->n, 1024ul), FOLL_WRITE | FOLL_LONGTERM, m->pages + m->n);
		if (got <= 0)
			return got == -EFAULT || got == -ENOMEM || !got ? -EOPNOTSUPP : got;
		m->n += got;
	}
	return count_pieces(m) > MAX_PIECES ? -E2BIG : 0;
}

int rubato_map_share(struct rubato_session *s, const struct rubato_range *range)
{
	struct map *m;
	int err;

	if (!range->size || !PAGE_ALIGNED(range->address | range->size) ||
	    range->address + range->size < range->address)
		return -EINVAL;
	if (range->size >> PAGE_SHIFT > totalram_pages())
		return -E2BIG;
	m = new_map(range->address, range->size, 0);
	if (!m)
		return -ENOMEM;
	err = pin_map(m);
	if (err) {
		if (m->pinned_in)
			free_map(m);
		else
			kvfree(m);
		return err;
	}
	m->is_busy = true;
	add_map(s, m);
	err = tell_host(s, m);
	mutex_lock(&s->maps_lock);
	m->is_shown = !err || is_open_end(err);
	m->is_busy = false;
	if (!m->is_shown)
		list_del(&m->node);
	else
		m = NULL; /* the session's */
	mutex_unlock(&s->maps_lock);
	if (m)
		free_map(m);
	return err;
}

int rubato_map_undo(struct rubato_session *s, const struct rubato_range *range)
{
	struct map *m;
	int err = 0;

	mutex_lock(&s->maps_lock);
	m = find_map(s, range);
	if (m)
		list_del(&m->node);
	mutex_unlock(&s->maps_lock);
	if (!m)
		return -EINVAL;
	if (m->is_shown)
		err = tell_range(s, RUBATO_UNMAP, m->address, m->size, NULL);
	if (err)
		add_map(s, m);
	else
		free_map(m);
	return err;
}

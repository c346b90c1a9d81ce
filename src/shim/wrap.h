/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between librubato.so, which is preloaded and counts, and the stand-in for libcuda.so.1, which is
 * there only in programs that load the driver's library (standin.c).
 */
#ifndef RBT_SHIM_WRAP_H
#define RBT_SHIM_WRAP_H

/*
 * What a program shall get that asks for the driver's function of this name: one that counts and
 * then calls `real`, or `real` itself if there is nothing to count. `name` with or without a
 * version's or stream's ending; `real` is whichever version the driver gave, since all arguments
 * are passed on as they are. Exported by librubato.so; its name changes with its meaning.
 */
void *rubato_shim_wrap_v1(const char *name, void *real);

#endif

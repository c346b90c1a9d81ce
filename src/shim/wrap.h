/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between librubato.so, which is preloaded and counts, and the stand-in for
 * libcuda.so.1, which is only in programs that load the driver's library (standin.c).
 */
#ifndef RBT_SHIM_WRAP_H
#define RBT_SHIM_WRAP_H

/*
 * The function that a program gets when it asks for the driver's function of this name: a wrapper
 * that counts and then calls `real`, or `real` itself if there is nothing to count. `name` may have
 * the suffix of a version or stream. `real` is whichever version the driver gave, since all
 * arguments are passed on unchanged. Exported by librubato.so; its name changes if its meaning
 * does.
 */
void *rubato_shim_wrap_v1(const char *name, void *real);

#endif

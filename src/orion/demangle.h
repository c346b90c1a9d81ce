/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ kernels, as far as profiles need them. Pure: libc only. */
#ifndef RBT_ORION_DEMANGLE_H
#define RBT_ORION_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The qualified name in a mangled one (Itanium ABI: _Z…) up to its first template arguments:
 * _ZN2at6native6kernelIfEEvT_ is at::native::kernel. Returns its length, or 0 if `mangled` is no
 * such name, is of a form that kernels do not have (operators, local functions), or does not fit.
 */
size_t rbt_demangle_stem(const char *mangled, char *buf, size_t size);

/*
 * The same part of a name that is demangled already, such as "void at::native::kernel<float>(int)":
 * without return type, template arguments and parameters. Other names are their own stem. Returns
 * where in `name` it begins.
 */
const char *rbt_name_stem(const char *name, size_t *ret_length);

#endif

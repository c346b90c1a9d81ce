/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ELF files that are not trusted. The file is in memory; every access is checked against its
 * size, and a pointer into it is returned only if all of the wanted bytes are there.
 */
#ifndef RBT_UTIL_ELFREAD_H
#define RBT_UTIL_ELFREAD_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct rbt_elf {
	const unsigned char *base; /* borrowed, aligned for uint64_t */
	size_t size;
	const Elf64_Ehdr *header;
};

/* Looks at the header alone. 0, or -ENOEXEC if it is no 64-bit ELF file. */
int rbt_elf_init(struct rbt_elf *elf, const void *base, size_t size);

/* `size` bytes at `offset`, or NULL. */
const void *rbt_elf_at(const struct rbt_elf *elf, uint64_t offset, uint64_t size);

/* The same for structures. Every linker aligns them; a file with unaligned ones is damaged. */
const void *rbt_elf_struct_at(const struct rbt_elf *elf, uint64_t offset, uint64_t size);

/* The string that begins at `index` of a string table, or NULL. The table may be NULL. */
const char *rbt_elf_string_at(const struct rbt_elf *elf, const Elf64_Shdr *table, uint64_t index);

/* Header of a segment or section, or NULL. */
const Elf64_Phdr *rbt_elf_segment(const struct rbt_elf *elf, unsigned i);
const Elf64_Shdr *rbt_elf_section(const struct rbt_elf *elf, unsigned i);

/* The name of a section, or NULL. */
const char *rbt_elf_section_name(const struct rbt_elf *elf, const Elf64_Shdr *section);

#endif

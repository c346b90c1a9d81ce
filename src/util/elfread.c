/* SPDX-License-Identifier: Apache-2.0 */
#include "util/elfread.h"

#include <errno.h>
#include <string.h>

int rbt_elf_init(struct rbt_elf *elf, const void *base, size_t size)
{
	const Elf64_Ehdr *header = base;

	if (size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
		header->e_ident[EI_CLASS] != ELFCLASS64) {
		return -ENOEXEC;
	}
	*elf = (struct rbt_elf){.base = base, .size = size, .header = header};
	return 0;
}

const void *rbt_elf_at(const struct rbt_elf *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->size && size <= elf->size - offset ? elf->base + offset : NULL;
}

const void *rbt_elf_struct_at(const struct rbt_elf *elf, uint64_t offset, uint64_t size)
{
	return offset % _Alignof(Elf64_Xword) == 0 ? rbt_elf_at(elf, offset, size) : NULL;
}

const char *rbt_elf_string_at(const struct rbt_elf *elf, const Elf64_Shdr *table, uint64_t index)
{
	if (table == NULL || index >= table->sh_size) {
		return NULL;
	}
	const char *s = rbt_elf_at(elf, table->sh_offset, table->sh_size);
	if (s == NULL || memchr(s + index, '\0', table->sh_size - index) == NULL) {
		return NULL;
	}
	return s + index;
}

const Elf64_Phdr *rbt_elf_segment(const struct rbt_elf *elf, unsigned i)
{
	if (i >= elf->header->e_phnum) {
		return NULL;
	}
	return rbt_elf_struct_at(
		elf, elf->header->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
}

const Elf64_Shdr *rbt_elf_section(const struct rbt_elf *elf, unsigned i)
{
	if (i >= elf->header->e_shnum) {
		return NULL;
	}
	return rbt_elf_struct_at(
		elf, elf->header->e_shoff + (uint64_t)i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

const char *rbt_elf_section_name(const struct rbt_elf *elf, const Elf64_Shdr *section)
{
	return rbt_elf_string_at(
		elf, rbt_elf_section(elf, elf->header->e_shstrndx), section->sh_name);
}

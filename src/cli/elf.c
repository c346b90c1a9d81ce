/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

/* A mapped file. Every access goes through at(), because the contents are not trusted. */
struct image {
	const unsigned char *base;
	size_t size;
	const Elf64_Ehdr *header;
};

static const void *at(const struct image *im, uint64_t offset, uint64_t size)
{
	return offset <= im->size && size <= im->size - offset ? im->base + offset : NULL;
}

/* Every linker aligns structures; a file with unaligned ones is damaged. */
static const void *struct_at(const struct image *im, uint64_t offset, uint64_t size)
{
	return offset % _Alignof(Elf64_Xword) == 0 ? at(im, offset, size) : NULL;
}

static const char *string_at(const struct image *im, const Elf64_Shdr *table, uint64_t index)
{
	if (table == NULL || index >= table->sh_size) {
		return NULL;
	}
	const char *s = at(im, table->sh_offset, table->sh_size);
	if (s == NULL || memchr(s + index, '\0', table->sh_size - index) == NULL) {
		return NULL;
	}
	return s + index;
}

static int image_open(const char *path, struct image *ret, mode_t *ret_mode)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(Elf64_Ehdr)) {
		close(fd);
		return -ENOEXEC;
	}
	void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	int r = base == MAP_FAILED ? -errno : 0;
	close(fd);
	if (r < 0) {
		return r;
	}
	struct image im = {.base = base, .size = (size_t)st.st_size, .header = base};
	if (memcmp(im.header->e_ident, ELFMAG, SELFMAG) != 0 ||
		im.header->e_ident[EI_CLASS] != ELFCLASS64) {
		munmap(base, im.size);
		return -ENOEXEC;
	}
	*ret = im;
	*ret_mode = st.st_mode;
	return 0;
}

static void image_close(struct image *im)
{
	munmap((void *)im->base, im->size);
}

static const Elf64_Phdr *segment(const struct image *im, unsigned i)
{
	return struct_at(
		im, im->header->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
}

static const Elf64_Shdr *section(const struct image *im, unsigned i)
{
	if (i >= im->header->e_shnum) {
		return NULL;
	}
	return struct_at(
		im, im->header->e_shoff + (uint64_t)i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

static const char *interpreter(const struct image *im)
{
	for (unsigned i = 0; i < im->header->e_phnum; i++) {
		const Elf64_Phdr *p = segment(im, i);
		if (p != NULL && p->p_type == PT_INTERP) {
			const char *s = at(im, p->p_offset, p->p_filesz);
			bool ends = s != NULL && p->p_filesz > 0 && s[p->p_filesz - 1] == '\0';
			return ends ? s : NULL;
		}
	}
	return NULL;
}

bool elf_is_static(const char *path)
{
	struct image im = {0};
	mode_t mode = 0;

	if (image_open(path, &im, &mode) < 0) {
		return false;
	}
	assert(im.header != NULL);
	bool is_static = im.header->e_type == ET_EXEC && interpreter(&im) == NULL;
	image_close(&im);
	return is_static;
}

static void add_name(char **list, size_t *n, size_t max, const char *name)
{
	for (size_t i = 0; i < *n; i++) {
		if (strcmp(list[i], name) == 0) {
			return;
		}
	}
	if (*n < max && (list[*n] = strdup(name)) != NULL) {
		(*n)++;
	}
}

static void read_needed(const struct image *im, const Elf64_Shdr *dynamic, struct elf_facts *f)
{
	const Elf64_Dyn *d = struct_at(im, dynamic->sh_offset, dynamic->sh_size);
	const size_t max = sizeof(f->needed) / sizeof(f->needed[0]);
	uint64_t n = d != NULL ? dynamic->sh_size / sizeof(*d) : 0;

	for (uint64_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		if (d[i].d_tag != DT_NEEDED) {
			continue;
		}
		const char *name = string_at(im, section(im, dynamic->sh_link), d[i].d_un.d_val);
		if (name != NULL) {
			add_name(f->needed, &f->n_needed, max, name);
		}
	}
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* cuLaunchKernel is a driver call, cudaLaunchKernel a runtime call; cublas and others are
 * neither. */
static void sort_name(struct elf_facts *f, const char *name)
{
	if (strncmp(name, "cuda", 4) == 0 && is_upper(name[4])) {
		add_name(f->runtime_calls, &f->n_runtime_calls, ELF_MAX_NAMES, name);
	} else if (strncmp(name, "cu", 2) == 0 && is_upper(name[2])) {
		add_name(f->driver_calls, &f->n_driver_calls, ELF_MAX_NAMES, name);
	}
}

static void read_symbols(const struct image *im, const Elf64_Shdr *table, struct elf_facts *f)
{
	const Elf64_Sym *sym = struct_at(im, table->sh_offset, table->sh_size);

	for (uint64_t i = 0; sym != NULL && i < table->sh_size / sizeof(*sym); i++) {
		const char *name = string_at(im, section(im, table->sh_link), sym[i].st_name);
		if (name == NULL) {
			continue;
		}
		if (sym[i].st_shndx == SHN_UNDEF) {
			sort_name(f, name);
		} else if (strcmp(name, "__cudaRegisterFatBinary") == 0) {
			f->has_cudart_static = true;
		}
	}
}

/* Driver calls that are looked up at run time are strings among the constants. */
static void read_strings(const struct image *im, const Elf64_Shdr *s, struct elf_facts *f)
{
	static const char name_chars[] = "abcdefghijklmnopqrstuvwxyz"
					 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	const char *p = at(im, s->sh_offset, s->sh_size);
	const char *end = p == NULL ? NULL : p + s->sh_size;

	while (p != NULL && p < end) {
		const char *nul = memchr(p, '\0', (size_t)(end - p));
		if (nul == NULL) {
			return;
		}
		size_t len = (size_t)(nul - p);
		if (len > 3 && len < 64 && strspn(p, name_chars) == len) {
			sort_name(f, p);
			if (strncmp(p, "cuGetProcAddress", 16) == 0 && f->has_fatbin) {
				f->has_cudart_static = true;
			}
		}
		p = nul + 1;
	}
}

static void read_sections(const struct image *im, struct elf_facts *f)
{
	const Elf64_Shdr *names = section(im, im->header->e_shstrndx);

	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < im->header->e_shnum; i++) {
			const Elf64_Shdr *s = section(im, i);
			const char *name = s != NULL ? string_at(im, names, s->sh_name) : NULL;
			if (name == NULL) {
				continue;
			}
			if (pass == 0 && strcmp(name, ".nv_fatbin") == 0) {
				f->has_fatbin = true;
			} else if (pass == 0 && s->sh_type == SHT_DYNAMIC) {
				read_needed(im, s, f);
			} else if (pass == 0 &&
				   (s->sh_type == SHT_DYNSYM || s->sh_type == SHT_SYMTAB)) {
				read_symbols(im, s, f);
			} else if (pass == 1 && strcmp(name, ".rodata") == 0) {
				read_strings(im, s, f);
			}
		}
	}
}

int elf_read(const char *path, struct elf_facts *ret)
{
	struct elf_facts f = {0};
	struct image im = {0};
	mode_t mode = 0;
	int r = image_open(path, &im, &mode);

	if (r < 0) {
		return r;
	}
	assert(im.header != NULL);
	const char *interp = interpreter(&im);
	f.is_static = im.header->e_type == ET_EXEC && interp == NULL;
	f.is_musl = interp != NULL && strstr(interp, "ld-musl") != NULL;
	f.is_setuid = (mode & (S_ISUID | S_ISGID)) != 0;
	read_sections(&im, &f);
	image_close(&im);
	*ret = f;
	return 0;
}

void elf_finish(struct elf_facts *f)
{
	for (size_t i = 0; i < f->n_needed; i++) {
		free(f->needed[i]);
	}
	for (size_t i = 0; i < f->n_driver_calls; i++) {
		free(f->driver_calls[i]);
	}
	for (size_t i = 0; i < f->n_runtime_calls; i++) {
		free(f->runtime_calls[i]);
	}
	*f = (struct elf_facts){0};
}

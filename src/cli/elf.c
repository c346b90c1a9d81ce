/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/elfread.h"

static int image_open(const char *path, struct rbt_elf *ret, mode_t *ret_mode)
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
	r = rbt_elf_init(ret, base, (size_t)st.st_size);
	if (r < 0) {
		munmap(base, (size_t)st.st_size);
		return r;
	}
	*ret_mode = st.st_mode;
	return 0;
}

static void image_close(struct rbt_elf *im)
{
	munmap((void *)im->base, im->size);
}

static const char *interpreter(const struct rbt_elf *im)
{
	for (unsigned i = 0; i < im->header->e_phnum; i++) {
		const Elf64_Phdr *p = rbt_elf_segment(im, i);
		if (p != NULL && p->p_type == PT_INTERP) {
			const char *s = rbt_elf_at(im, p->p_offset, p->p_filesz);
			bool ends = s != NULL && p->p_filesz > 0 && s[p->p_filesz - 1] == '\0';
			return ends ? s : NULL;
		}
	}
	return NULL;
}

bool elf_is_static(const char *path)
{
	struct rbt_elf im = {0};
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

static void read_needed(const struct rbt_elf *im, const Elf64_Shdr *dynamic, struct elf_facts *f)
{
	const Elf64_Dyn *d = rbt_elf_struct_at(im, dynamic->sh_offset, dynamic->sh_size);
	const size_t max = sizeof(f->needed) / sizeof(f->needed[0]);
	uint64_t n = d != NULL ? dynamic->sh_size / sizeof(*d) : 0;

	for (uint64_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		if (d[i].d_tag != DT_NEEDED) {
			continue;
		}
		const char *name = rbt_elf_string_at(
			im, rbt_elf_section(im, dynamic->sh_link), d[i].d_un.d_val);
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

static void read_symbols(const struct rbt_elf *im, const Elf64_Shdr *table, struct elf_facts *f)
{
	const Elf64_Sym *sym = rbt_elf_struct_at(im, table->sh_offset, table->sh_size);

	for (uint64_t i = 0; sym != NULL && i < table->sh_size / sizeof(*sym); i++) {
		const char *name =
			rbt_elf_string_at(im, rbt_elf_section(im, table->sh_link), sym[i].st_name);
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
static void read_strings(const struct rbt_elf *im, const Elf64_Shdr *s, struct elf_facts *f)
{
	static const char name_chars[] = "abcdefghijklmnopqrstuvwxyz"
					 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	const char *p = rbt_elf_at(im, s->sh_offset, s->sh_size);
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

static void read_sections(const struct rbt_elf *im, struct elf_facts *f)
{
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < im->header->e_shnum; i++) {
			const Elf64_Shdr *s = rbt_elf_section(im, i);
			const char *name = s != NULL ? rbt_elf_section_name(im, s) : NULL;
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
	struct rbt_elf im = {0};
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

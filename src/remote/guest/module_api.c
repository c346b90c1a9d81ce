/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, libraries and linkers: the guest finds out how large an image is, and sends it. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "remote/guest/guest.h"
#include "remote/guest/map.h"

#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN         0xba55ed50u
#define MAX_IMAGE      (4ull << 30)
#define MAX_OPTIONS    64u

struct wrapper {
	uint32_t magic, version;
	const void *data, *unused;
};

struct fatbin {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
};

/* A cubin ends behind its last section or its table of sections. */
static size_t elf_size(const void *image)
{
	const unsigned char *ident = image;
	const Elf64_Ehdr *h = image;

	if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB) {
		return EI_NIDENT;
	}
	const Elf64_Shdr *sections = (const void *)((const char *)image + h->e_shoff);
	uint64_t end = h->e_shoff + (uint64_t)h->e_shnum * h->e_shentsize;

	for (unsigned i = 0; i < h->e_shnum && h->e_shentsize == sizeof(*sections); i++) {
		uint64_t last = sections[i].sh_type == SHT_NOBITS
					? 0
					: sections[i].sh_offset + sections[i].sh_size;

		end = last > end ? last : end;
	}
	uint64_t programs = h->e_phoff + (uint64_t)h->e_phnum * h->e_phentsize;

	return programs > end ? programs : end;
}

/* The image itself, and its size: a text with its NUL, a cubin, a fat binary. */
static CUresult measure(const void **image, size_t *ret_size)
{
	const struct wrapper *w = *image;
	uint32_t magic = 0;

	/* A text may be shorter than a magic number. */
	memcpy(&magic, *image, strnlen(*image, sizeof(magic)));
	if (magic == FATBIN_WRAPPER) {
		if (w->data == NULL) {
			return CUDA_ERROR_NO_BINARY_FOR_GPU;
		}
		*image = w->data;
		memcpy(&magic, *image, sizeof(magic));
	}
	if (magic == FATBIN) {
		const struct fatbin *f = *image;

		*ret_size = f->header_size + f->size;
	} else {
		*ret_size = memcmp(&magic, ELFMAG, SELFMAG) == 0 ? elf_size(*image)
								 : strlen(*image) + 1;
	}
	return *ret_size <= MAX_IMAGE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

/* Data of any size (served_data() of the worker). Large data goes through shared memory. */
struct data {
	void *shared;
	size_t size;
};

static CUresult put_data(struct guest_call *c, struct data *d, const void *from, size_t size)
{
	*d = (struct data){NULL, size};
	if (from == NULL || size <= GUEST_CHUNK) {
		guest_put(c, 0);
		guest_put(c, 0);
		guest_put_in(c, from, 1, size);
		return CUDA_SUCCESS;
	}
	if (guest_map(size, &d->shared) < 0) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(d->shared, from, size);
	guest_put(c, (uintptr_t)d->shared);
	guest_put(c, size);
	guest_put_in(c, NULL, 1, 0);
	return CUDA_SUCCESS;
}

static void end_data(const struct data *d)
{
	if (d->shared != NULL) {
		guest_unmap(d->shared, d->size);
	}
}

static CUresult begin_image(
	struct guest_call *c, enum rbt_call_number number, const void **image, size_t *ret_size)
{
	CUresult r = guest_begin(c, number, GUEST_SYNC);

	*ret_size = 0;
	return r == CUDA_SUCCESS && *image != NULL ? measure(image, ret_size) : r;
}

static CUresult load(enum rbt_call_number number, CUmodule *ret, const void *image)
{
	struct guest_call c;
	struct data d;
	size_t size;
	CUresult r = begin_image(&c, number, &image, &size);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handles_out(&c, ret, 1);
	r = put_data(&c, &d, image, size);
	r = r == CUDA_SUCCESS ? guest_end(&c) : r;
	end_data(&d);
	return r;
}

CUresult guest_cuModuleLoadData(unsigned form, CUmodule *ret_module, const void *image)
{
	return load(RBT_CALL_cuModuleLoadData, ret_module, image);
}

CUresult guest_cuModuleLoadFatBinary(unsigned form, CUmodule *ret_module, const void *image)
{
	return load(RBT_CALL_cuModuleLoadFatBinary, ret_module, image);
}

static void put_options(struct guest_call *c, unsigned n, const int *options, void **values)
{
	guest_put(c, n);
	guest_put_in(c, options, sizeof(*options), n);
	guest_put_in(c, values, sizeof(*values), n);
}

/* The compiler's outputs: values, and two logs, which the program has given buffers for. */
static void take_options(struct guest_call *c, unsigned n, const int *options, void **values)
{
	size_t size = 0, log_size[2] = {0, 0};
	void *const *got = guest_take(c, &size);
	const char *logs[2] = {guest_take(c, &log_size[0]), guest_take(c, &log_size[1])};
	size_t room[2] = {0, 0}, length[2] = {0, 0};

	if (got == NULL || size < n * sizeof(*got) || options == NULL || values == NULL) {
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
			room[options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES] =
				(unsigned)(uintptr_t)values[i];
		}
	}
	for (unsigned i = 0; i < n; i++) {
		bool is_error = options[i] == CU_JIT_ERROR_LOG_BUFFER;

		if ((is_error || options[i] == CU_JIT_INFO_LOG_BUFFER) && values[i] != NULL &&
			room[is_error] > 0 && logs[is_error] != NULL) {
			length[is_error] = strnlen(logs[is_error], log_size[is_error]);
			if (length[is_error] > room[is_error] - 1) {
				length[is_error] = room[is_error] - 1;
			}
			memcpy(values[i], logs[is_error], length[is_error]);
			((char *)values[i])[length[is_error]] = '\0';
		}
	}
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == CU_JIT_WALL_TIME) {
			values[i] = got[i];
		} else if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			   options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
			values[i] = (void *)(uintptr_t)
				length[options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
		}
	}
}

CUresult guest_cuModuleLoadDataEx(unsigned form, CUmodule *ret_module, const void *image,
	unsigned n_options, const int *options, void **values)
{
	struct guest_call c;
	struct data d;
	size_t size;
	CUresult r = begin_image(&c, RBT_CALL_cuModuleLoadDataEx, &image, &size);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (n_options > MAX_OPTIONS) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	guest_put_handles_out(&c, ret_module, 1);
	r = put_data(&c, &d, image, size);
	put_options(&c, n_options, options, values);
	if (r == CUDA_SUCCESS) {
		r = guest_end(&c);
		take_options(&c, n_options, options, values);
	}
	end_data(&d);
	return r;
}

CUresult guest_cuLibraryLoadData(unsigned form, CUlibrary *ret_library, const void *code,
	const int *jit_options, void **jit_values, unsigned n_jit, const int *options,
	void **values, unsigned n_options)
{
	struct guest_call c;
	struct data d;
	size_t size;
	CUresult r = begin_image(&c, RBT_CALL_cuLibraryLoadData, &code, &size);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (n_jit > MAX_OPTIONS || n_options > MAX_OPTIONS) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	guest_put_handles_out(&c, ret_library, 1);
	r = put_data(&c, &d, code, size);
	put_options(&c, n_jit, jit_options, jit_values);
	put_options(&c, n_options, options, values);
	if (r == CUDA_SUCCESS) {
		r = guest_end(&c);
		take_options(&c, n_jit, jit_options, jit_values);
	}
	end_data(&d);
	return r;
}

/* A whole file with a NUL behind it. The caller frees it. */
static CUresult read_file(const char *path, void **ret, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	CUresult r = CUDA_ERROR_FILE_NOT_FOUND;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		size_t size = (size_t)st.st_size, done = 0;
		char *text = size < MAX_IMAGE ? malloc(size + 1) : NULL;
		ssize_t n = 1;

		while (text != NULL && done < size && n > 0) {
			n = read(fd, text + done, size - done);
			done += n > 0 ? (size_t)n : 0;
		}
		r = text == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
		if (text != NULL) {
			text[done] = '\0';
			*ret = text;
			*ret_size = done;
		}
	}
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

static CUresult read_image(const char *path, void **ret, size_t *ret_size)
{
	struct guest_call c;
	/* The checks that each call makes; nothing is sent. */
	CUresult r = guest_begin(&c, RBT_CALL_cuModuleLoadData, GUEST_SYNC);

	if (r == CUDA_SUCCESS && path == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	return r != CUDA_SUCCESS ? r : read_file(path, ret, ret_size);
}

CUresult guest_cuModuleLoad(unsigned form, CUmodule *ret_module, const char *path)
{
	void *image;
	size_t size;
	CUresult r = read_image(path, &image, &size);

	if (r == CUDA_SUCCESS) {
		r = load(RBT_CALL_cuModuleLoadData, ret_module, image);
		free(image);
	}
	return r;
}

CUresult guest_cuLibraryLoadFromFile(unsigned form, CUlibrary *ret_library, const char *path,
	const int *jit_options, void **jit_values, unsigned n_jit, const int *options,
	void **values, unsigned n_options)
{
	void *image;
	size_t size;
	CUresult r = read_image(path, &image, &size);

	if (r == CUDA_SUCCESS) {
		r = guest_cuLibraryLoadData(form, ret_library, image, jit_options, jit_values,
			n_jit, options, values, n_options);
		free(image);
	}
	return r;
}

/* Images that linkers have made, until the linker is destroyed. */
struct linked {
	struct linked *next;
	CUlinkState state;
	char image[];
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct linked *all_linked;

CUresult guest_cuLinkCreate_v2(
	unsigned form, unsigned n_options, int *options, void **values, CUlinkState *ret_state)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuLinkCreate_v2, GUEST_SYNC);

	if (r == CUDA_SUCCESS && n_options > 0 && (options == NULL || values == NULL)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	/* A linker's logs stay empty here: the host's compiler may write to them at any time. */
	for (unsigned i = 0; i < n_options; i++) {
		if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
			values[i] = NULL;
		}
	}
	guest_put_handles_out(&c, ret_state, 1);
	return guest_end(&c);
}

CUresult guest_cuLinkAddData_v2(unsigned form, CUlinkState state, int type, void *data, size_t size,
	const char *name, unsigned n_options, int *options, void **values)
{
	struct guest_call c;
	struct data d;
	CUresult r = guest_begin(&c, RBT_CALL_cuLinkAddData_v2, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (size > MAX_IMAGE) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	guest_put_handle(&c, RBT_HANDLE_LINK, state);
	guest_put(&c, (uint64_t)type);
	r = put_data(&c, &d, data, size);
	guest_put_text(&c, name);
	r = r == CUDA_SUCCESS ? guest_end(&c) : r;
	end_data(&d);
	return r;
}

CUresult guest_cuLinkAddFile_v2(unsigned form, CUlinkState state, int type, const char *path,
	unsigned n_options, int *options, void **values)
{
	void *image;
	size_t size;
	CUresult r = read_image(path, &image, &size);

	if (r == CUDA_SUCCESS) {
		/* A text needs its NUL. */
		r = guest_cuLinkAddData_v2(form, state, type, image,
			type == CU_JIT_INPUT_PTX ? size + 1 : size, path, n_options, options,
			values);
		free(image);
	}
	return r;
}

CUresult guest_cuLinkComplete(unsigned form, CUlinkState state, void **ret_image, size_t *ret_size)
{
	struct guest_call c;
	size_t size = 0;
	CUresult r = guest_begin(&c, RBT_CALL_cuLinkComplete, GUEST_SYNC);

	if (r == CUDA_SUCCESS && ret_image == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_LINK, state);
	r = guest_end(&c);
	const void *image = r == CUDA_SUCCESS ? guest_take(&c, &size) : NULL;

	if (image == NULL) {
		return r;
	}
	struct linked *l = malloc(sizeof(*l) + size);

	if (l == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	l->state = state;
	memcpy(l->image, image, size);
	pthread_mutex_lock(&lock);
	l->next = all_linked;
	all_linked = l;
	pthread_mutex_unlock(&lock);
	*ret_image = l->image;
	if (ret_size != NULL) {
		*ret_size = size;
	}
	return CUDA_SUCCESS;
}

CUresult guest_cuLinkDestroy(unsigned form, CUlinkState state)
{
	struct guest_call c;
	CUresult r = guest_begin(&c, RBT_CALL_cuLinkDestroy, GUEST_SYNC);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_LINK, state);
	guest_put_gone(&c, state);
	r = guest_end(&c);
	pthread_mutex_lock(&lock);
	for (struct linked **p = &all_linked; r == CUDA_SUCCESS && *p != NULL;) {
		struct linked *l = *p;

		if (l->state == state) {
			*p = l->next;
			free(l);
		} else {
			p = &l->next;
		}
	}
	pthread_mutex_unlock(&lock);
	return r;
}

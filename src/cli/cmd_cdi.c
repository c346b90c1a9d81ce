/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices for containers, by the Container Device Interface: a file per kind of device tells
 * Podman, Docker, containerd and CRI-O which mounts and variables a container with such a device
 * gets.
 *
 * The library is preloaded by /etc/ld.so.preload, and not by LD_PRELOAD: the image may have set
 * that variable, and in an image with another C library than glibc the file has no effect.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "sched/class.h"
#include "util/json.h"
#include "util/log.h"
#include "util/runtime.h"

#define CDI_VERSION "0.5.0" /* the first one with names that begin with a digit */
/* In the container. */
#define INSIDE_RUN "/run/rubato"
#define SOCKET     "control.sock"
/* A device has a fixed name, so there is one for each size up to this. */
#define MAX_GIB 256

struct kind {
	const char *name, *file;
	enum rbt_treat_key key;
};

static const struct kind kinds[] = {
	{"rubato.dev/class", CDI_CLASS_NAME, RBT_TREAT_CLASS},
	{"rubato.dev/memory", "rubato-memory.json", RBT_TREAT_MEMORY},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Paths on the host. */
struct paths {
	char library[4096], standin[4096], preload[4096], run[128];
	const char *library_path; /* folders for LD_LIBRARY_PATH; NULL: it is left alone */
};

static int find_paths(struct paths *p)
{
	static const struct {
		const char *name, *folder;
		size_t offset;
	} files[] = {
		{"librubato.so", RUBATO_LIBDIR, offsetof(struct paths, library)},
		{"standin/libcuda.so.1", RUBATO_LIBDIR "/rubato", offsetof(struct paths, standin)},
		{"ld.so.preload", RUBATO_LIBDIR "/rubato", offsetof(struct paths, preload)},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *to = (char *)p + files[i].offset, found[4096];
		int r = rbt_sibling_path(files[i].name, files[i].folder, found, sizeof(found));
		/* A link on the host may lead nowhere in a mount. */
		if (r < 0 || realpath(found, to) == NULL) {
			r = r < 0 ? r : -errno;
			rbt_error("cdi: %s is not installed: %s", files[i].name, strerror(-r));
			return r;
		}
	}
	int r = rbt_runtime_dir(RBT_UID_SYSTEM, p->run, sizeof(p->run));
	if (r < 0) {
		rbt_error("cdi: containers use the system daemon; give its directory with "
			  "RUBATO_SYSTEM_DIR");
	}
	return r;
}

static void put_mount(struct rbt_json *j, const char *from, const char *to, const char *more)
{
	rbt_json_object(j, NULL);
	rbt_json_string(j, "hostPath", from);
	rbt_json_string(j, "containerPath", to);
	rbt_json_array(j, "options");
	rbt_json_string(j, NULL, "bind");
	rbt_json_string(j, NULL, "ro");
	rbt_json_string(j, NULL, "nosuid");
	rbt_json_string(j, NULL, "nodev");
	if (more != NULL) {
		rbt_json_string(j, NULL, more);
	}
	rbt_json_end(j, ']');
	rbt_json_end(j, '}');
}

/* What every container with a device gets. */
static void put_common(struct rbt_json *j, const struct paths *p)
{
	char path[4200];

	rbt_json_object(j, "containerEdits");
	rbt_json_array(j, "env");
	rbt_json_string(j, NULL, RBT_ENV_SOCKET "=" INSIDE_RUN "/" SOCKET);
	if (p->library_path != NULL) {
		snprintf(path, sizeof(path), "LD_LIBRARY_PATH=" RUBATO_CONTAINER_DIR "/standin%s%s",
			p->library_path[0] != '\0' ? ":" : "", p->library_path);
		rbt_json_string(j, NULL, path);
	}
	rbt_json_end(j, ']');
	rbt_json_array(j, "mounts");
	put_mount(j, p->library, RUBATO_CONTAINER_DIR "/librubato.so", NULL);
	put_mount(j, p->standin, RUBATO_CONTAINER_DIR "/standin/libcuda.so.1", NULL);
	put_mount(j, p->preload, "/etc/ld.so.preload", NULL);
	/* The whole directory: the next daemon has another socket there. */
	put_mount(j, p->run, INSIDE_RUN, "noexec");
	rbt_json_end(j, ']');
	rbt_json_end(j, '}');
}

static void put_device(struct rbt_json *j, enum rbt_treat_key key, const char *value)
{
	char name[RBT_TREAT_ENV_MAX], text[RBT_TREAT_ENV_MAX + 32];

	rbt_treat_key_env(key, name);
	snprintf(text, sizeof(text), "%s=%s", name, value);
	rbt_json_object(j, NULL);
	rbt_json_string(j, "name", value);
	rbt_json_object(j, "containerEdits");
	rbt_json_array(j, "env");
	rbt_json_string(j, NULL, text);
	rbt_json_end(j, ']');
	rbt_json_end(j, '}');
	rbt_json_end(j, '}');
}

static void put_devices(struct rbt_json *j, enum rbt_treat_key key)
{
	char size[16];

	rbt_json_array(j, "devices");
	for (int cls = RBT_CLASS_LATENCY; key == RBT_TREAT_CLASS && cls >= 0; cls--) {
		put_device(j, key, rbt_class_name((enum rbt_class)cls));
	}
	for (unsigned gib = 1; key == RBT_TREAT_MEMORY && gib <= MAX_GIB; gib++) {
		snprintf(size, sizeof(size), "%uG", gib);
		put_device(j, key, size);
	}
	rbt_json_end(j, ']');
}

static void put_spec(FILE *out, const struct kind *kind, const struct paths *p)
{
	struct rbt_json j;

	rbt_json_init(&j, out);
	rbt_json_object(&j, NULL);
	rbt_json_string(&j, "cdiVersion", CDI_VERSION);
	rbt_json_string(&j, "kind", kind->name);
	put_common(&j, p);
	put_devices(&j, kind->key);
	rbt_json_end(&j, '}');
}

/* Replaces the file at once: a runtime may be reading the folder. 0 or -errno. */
static int install_spec(const char *dir, const struct kind *kind, const struct paths *p)
{
	char path[4200], temporary[4300];

	snprintf(path, sizeof(path), "%s/%s", dir, kind->file);
	/* Runtimes read files that end in .json or .yaml. */
	snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
	FILE *out = fopen(temporary, "wxe");
	if (out == NULL) {
		return -errno;
	}
	put_spec(out, kind, p);
	int r = fchmod(fileno(out), 0644) < 0 || fflush(out) != 0 || ferror(out) ? -errno : 0;
	r = fclose(out) != 0 && r == 0 ? -errno : r;
	r = r == 0 && rename(temporary, path) < 0 ? -errno : r;
	if (r < 0) {
		unlink(temporary);
		return r;
	}
	printf("%s\n", path);
	return 0;
}

static int install(const char *dir, const struct paths *p)
{
	int r = mkdir(dir, 0755) < 0 && errno != EEXIST ? -errno : 0;

	for (size_t i = 0; r == 0 && i < N_KINDS; i++) {
		r = install_spec(dir, &kinds[i], p);
	}
	if (r < 0) {
		rbt_error("cdi: %s: %s", dir, strerror(-r));
	}
	return (int)exit_code_for(r);
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		{"memory", no_argument, NULL, 'm'},
		{"install", no_argument, NULL, 'i'},
		{"dir", required_argument, NULL, 'd'},
		{"library-path", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct paths p = {0};
	const char *dir = CDI_DIR;
	bool is_install = false, is_memory = false, has_dir = false;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'm':
			is_memory = true;
			break;
		case 'i':
			is_install = true;
			break;
		case 'd':
			dir = optarg;
			has_dir = true;
			break;
		case 'l':
			p.library_path = optarg;
			break;
		case 'h':
			fputs(cmd_cdi.usage, stdout);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind != argc) {
		return usage_error(&cmd_cdi, "unexpected argument: %s", argv[optind]);
	}
	if (has_dir && !is_install) {
		return usage_error(&cmd_cdi, "--dir is about --install");
	}
	if (is_memory && is_install) {
		return usage_error(&cmd_cdi, "--install writes both kinds, also without --memory");
	}
	if (find_paths(&p) < 0) {
		return EXIT_FAILED;
	}
	if (is_install) {
		return install(dir, &p);
	}
	put_spec(stdout, &kinds[is_memory], &p);
	return EXIT_OK;
}

const struct command cmd_cdi = {
	.name = "cdi",
	.summary = "make classes and memory limits devices of containers",
	.usage =
		"Usage: rubato cdi [--memory] [--library-path FOLDERS]\n"
		"       rubato cdi --install [--dir DIR] [--library-path FOLDERS]\n"
		"\n"
		"Prints a specification of devices for containers (Container Device Interface), or\n"
		"installs it. After that, a container gets a class, or a memory limit, by\n"
		"  podman run --device rubato.dev/class=best-effort --device rubato.dev/memory=20G ...\n"
		"\n"
		"      --memory             print the kind rubato.dev/memory in place of rubato.dev/class\n"
		"      --install            write the files of both kinds\n"
		"      --dir DIR            the folder for these files (" CDI_DIR ")\n"
		"      --library-path FOLDERS\n"
		"                           also set LD_LIBRARY_PATH, to Rubato's libcuda.so.1 and then\n"
		"                           FOLDERS, so that submissions are counted, which reserves need.\n"
		"                           This replaces the variable of the image\n"
		"\n"
		"Exit status: 0; 1 if Rubato is not installed as a whole or a file cannot be written;\n"
		"4 without permission.\n",
	.run = run,
};

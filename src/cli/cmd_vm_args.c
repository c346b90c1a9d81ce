/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "cli/cli.h"
#include "remote/vm.h"
#include "rubato_uapi.h"
#include "util/log.h"
#include "util/parse.h"

#define MIN_MIB 64
#define MAX_MIB (16u << 20)
/* From this one on QEMU has a device for any virtio id. */
#define TEST_DEVICE     11
#define OLDEST_QEMU     7
#define NEWEST_QEMU     99
#define QUEUE_SIZE      1024
#define MAX_SOCKET_PATH (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

struct order {
	const char *vm, *qemu;
	uint64_t memory_mib;
	uint64_t version; /* of QEMU; 0: any */
};

/* The output is words for the shell, and options of QEMU with commas. */
static bool is_plain(const char *path)
{
	return path[0] != '\0' && strpbrk(path, " \t\n,'\"\\$*?[]`") == NULL;
}

static int take_option(struct order *o, int c)
{
	switch (c) {
	case 'v':
		o->vm = optarg;
		return rbt_vm_name_is_valid(optarg)
			       ? EXIT_OK
			       : usage_error(&cmd_vm_args,
					 "--vm takes 1 to %d letters, digits, '.', '-' and '_', not %s",
					 RBT_VM_NAME_MAX, optarg);
	case 'm':
		return rbt_parse_u64(optarg, MIN_MIB, MAX_MIB, &o->memory_mib) < 0
			       ? usage_error(&cmd_vm_args,
					 "--memory takes a number of MiB from %d to %u, not %s",
					 MIN_MIB, MAX_MIB, optarg)
			       : EXIT_OK;
	case 'q':
		o->qemu = optarg;
		return is_plain(optarg) && strlen(optarg) <= MAX_SOCKET_PATH
			       ? EXIT_OK
			       : usage_error(&cmd_vm_args,
					 "--qemu takes a path of at most %zu bytes without spaces, "
					 "commas and quotes, not %s",
					 MAX_SOCKET_PATH, optarg);
	case 'V':
		return rbt_parse_u64(optarg, OLDEST_QEMU, NEWEST_QEMU, &o->version) < 0
			       ? usage_error(&cmd_vm_args,
					 "--qemu-version takes QEMU's major version from %d on, not %s",
					 OLDEST_QEMU, optarg)
			       : EXIT_OK;
	default:
		return EXIT_USAGE;
	}
}

/* One option of QEMU per line: the shell does not mind, and people can read it. */
static void print_args(const struct order *o, const char *path)
{
	printf("-object memory-backend-memfd,id=rubato-mem,size=%lluM,share=on\n",
		(unsigned long long)o->memory_mib);
	printf("-m %llu -numa node,memdev=rubato-mem\n", (unsigned long long)o->memory_mib);
	printf("-chardev socket,id=rubato,path=%s,server=on\n", path);
	if (o->version >= TEST_DEVICE) {
		printf("-device vhost-user-test-device-pci,chardev=rubato,virtio-id=%d,num_vqs=%d,"
		       "vq_size=%d,config_size=%zu\n",
			RUBATO_ID_TEST, RUBATO_QUEUES, QUEUE_SIZE, sizeof(struct rubato_config));
	} else {
		printf("-device vhost-user-fs-pci,chardev=rubato,tag=%s,num-request-queues=%d,"
		       "queue-size=%d\n",
			RUBATO_TAG, RUBATO_QUEUES - 1, QUEUE_SIZE);
	}
}

static int run_vm_args(int argc, char **argv)
{
	static const struct option options[] = {
		{"vm", required_argument, NULL, 'v'},
		{"memory", required_argument, NULL, 'm'},
		{"qemu", required_argument, NULL, 'q'},
		{"qemu-version", required_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct order o = {0};
	char path[MAX_SOCKET_PATH + 1];

	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		if (c == 'h') {
			fputs(cmd_vm_args.usage, stdout);
			return EXIT_OK;
		}
		int code = take_option(&o, c);
		if (code != EXIT_OK) {
			return code;
		}
	}
	if (optind < argc || o.vm == NULL || o.memory_mib == 0) {
		return usage_error(
			&cmd_vm_args, "needs --vm NAME and --memory MIB, and no other argument");
	}
	if (o.qemu == NULL) {
		int error = rbt_vm_qemu_path(o.vm, path, sizeof(path));
		if (error < 0 || !is_plain(path)) {
			rbt_error("vm-args: the runtime directory is no place for QEMU's socket; "
				  "name one with --qemu PATH");
			return EXIT_FAILED;
		}
		o.qemu = path;
	}
	print_args(&o, o.qemu);
	return EXIT_OK;
}

const struct command cmd_vm_args = {
	.name = "vm-args",
	.summary = "print the QEMU options of a virtual machine",
	.usage = "Usage: rubato vm-args --vm NAME --memory MIB [--qemu PATH] [--qemu-version N]\n"
		 "\n"
		 "Prints the options that give a virtual machine of QEMU a device for CUDA:\n"
		 "qemu-system-x86_64 ... $(rubato vm-args --vm NAME --memory 4096)\n"
		 "\n"
		 "      --vm NAME            name of the virtual machine\n"
		 "      --memory MIB         size of its memory; QEMU needs no -m\n"
		 "      --qemu PATH          socket between QEMU and its device\n"
		 "                           (default: vm-NAME.qemu in the runtime directory)\n"
		 "      --qemu-version N     major version of QEMU: 11 and newer get a device of\n"
		 "                           virtio id 38 (default: one that all versions have)\n",
	.run = run_vm_args,
};

// Makes each fdatasync of a process, which is how Postgres flushes its log, take longer by a number of microseconds: the
// text of the file that SLOWDISK_FILE names. Loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long microseconds(void) {
	static int file = -1;
	char text[16] = "";
	if (file < 0) {
		const char *path = getenv("SLOWDISK_FILE");
		if (path == NULL || (file = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
			return 0;
		}
	}
	return pread(file, text, sizeof text - 1, 0) > 0 ? atol(text) : 0;
}

int fdatasync(int file) {
	static int (*flush)(int);
	if (flush == NULL) {
		flush = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	}
	int result = flush(file);

	long longer = microseconds();
	struct timespec pause = {longer / 1000000, longer % 1000000 * 1000};
	nanosleep(&pause, NULL);
	return result;
}

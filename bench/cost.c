/* What a command costs: runs it and writes CPU, peak memory and time as JSON.
 *
 *     bench_cost FILE COMMAND…
 *
 * A program of its own since a process inherits the peak memory of the one that forked
 * it, and Python's would hide that of a small client. Ends as the command did.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s FILE COMMAND...\n", argv[0]);
        return 2;
    }
    double start = now();
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid) {
        perror("fork");
        return 1;
    }
    double elapsed = now() - start;
    FILE *out = fopen(argv[1], "w");
    if (out == NULL) {
        perror(argv[1]);
        return 1;
    }
    fprintf(out,
            "{\"user\": %.6f, \"system\": %.6f, \"elapsed\": %.6f, \"rss_kb\": %ld}\n",
            seconds(used.ru_utime), seconds(used.ru_stime), elapsed, used.ru_maxrss);
    fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The program of case X10: it makes each system call, by its number, with
 * arguments that would harm somebody outside. Each number has processes of its own,
 * and a new one after each call that succeeded or didn't come back.
 *
 *   sweep @KEY @READABLE @OPEN @DIR @TERMINAL PID NUMBER...
 *
 * It prints each number with the errors that came. Without numbers it makes all
 * of them, below END. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { END = 640, PATIENCE = 25 /* milliseconds */, VECTORS = 400 };

static long vectors[VECTORS][6];
static int count;

static void add(long a, long b, long c, long d, long e) {
	if (count == VECTORS) {
		fprintf(stderr, "too many vectors\n");
		exit(2);
	}
	long v[6] = {a, b, c, d, e, 0};
	memcpy(vectors[count++], v, sizeof v);
}

static uint64_t *words(uint64_t a, uint64_t b) {
	uint64_t *w = calloc(64, sizeof *w); /* room for what the kernel writes */
	w[0] = a, w[1] = b;
	return w;
}

#define P(x) ((long)(x))

static long name, value, empty, fresh, times, attr, me;

/* What can be done to a file by its path. */
static void by_path(const char *path) {
	long p = P(path), rw = O_RDWR | O_TRUNC | O_NOCTTY | O_NONBLOCK;
	add(p, 0777, 0, 0, 0);              /* chmod, creat, mkdir */
	add(p, 0, 0, 0, 0);                 /* truncate, utime, unlink */
	add(p, rw, 0, 0, 0);                /* open */
	add(p, times, me, 0, 0);            /* utime, utimes */
	add(p, me, me, 0, 0);               /* chown */
	add(p, name, value, 1, 0);          /* setxattr */
	add(p, name, 0, 0, 0);              /* removexattr */
	add(p, fresh, 0, 0, 0);             /* rename, link, symlink */
	add(AT_FDCWD, p, 0777, 0, 0);       /* fchmodat, mkdirat */
	add(AT_FDCWD, p, rw, 0, 0);         /* openat */
	add(AT_FDCWD, p, times, 0, 0);      /* utimensat, futimesat */
	add(AT_FDCWD, p, 0, 0, 0);          /* unlinkat, utimensat */
	add(AT_FDCWD, p, AT_REMOVEDIR, 0, 0); /* unlinkat */
	add(AT_FDCWD, p, me, me, 0);        /* fchownat */
	add(AT_FDCWD, p, AT_FDCWD, fresh, 0); /* renameat, linkat */
	add(AT_FDCWD, p, 0, name, attr);    /* setxattrat; its size is the last one's */
	vectors[count - 1][5] = 16;
	add(AT_FDCWD, p, attr, 24, 0);      /* file_setattr */
	add(p, p, p, MS_BIND, 0);           /* mount */
}

/* And by a descriptor. */
static void by_descriptor(long fd) {
	if (fd < 0)
		return;
	add(fd, 0777, 0, 0, 0);             /* fchmod */
	add(fd, 0, 0, 0, 0);                /* ftruncate */
	add(fd, me, me, 0, 0);              /* fchown */
	add(fd, name, value, 1, 0);         /* fsetxattr */
	add(fd, name, 0, 0, 0);             /* fremovexattr */
	add(fd, 0, times, 0, 0);            /* utimensat, futimesat */
	add(fd, empty, times, AT_EMPTY_PATH, 0); /* utimensat */
	add(fd, empty, 0777, AT_EMPTY_PATH, 0);  /* fchmodat2 */
	add(fd, empty, me, me, AT_EMPTY_PATH);   /* fchownat */
	add(fd, empty, AT_FDCWD, fresh, AT_EMPTY_PATH); /* linkat */
	add(fd, value, 1, 0, 0);            /* write */
	add(fd, F_SETLEASE, F_RDLCK, 0, 0);
	add(fd, F_SETOWN, 1, 0, 0);
	add(fd, 0x40086602, P(words(0x40, 0)), 0, 0); /* FS_IOC_SETFLAGS, nodump */
	add(fd, 0x5412, value, 0, 0);       /* TIOCSTI */
}

/* The same in short, for a file of another kind. */
static void shortly(const char *path) {
	long p = P(path), rw = O_RDWR | O_NOCTTY | O_NONBLOCK, fd = open(path, rw & ~O_RDWR);
	add(p, rw, 0, 0, 0);
	add(p, 0777, 0, 0, 0);
	add(p, 0, 0, 0, 0);
	add(AT_FDCWD, p, rw, 0, 0);
	add(AT_FDCWD, p, 0, 0, 0);
	add(AT_FDCWD, p, times, 0, 0);
	add(fd, 0777, 0, 0, 0);
	add(fd, 0, 0, 0, 0);
	add(fd, value, 1, 0, 0);
	add(fd, 0x5412, value, 0, 0);
}

/* What can be done to a process, and to all of a user. */
static void to_process(long pid) {
	int signals[] = {SIGTERM, SIGSTOP};
	for (int i = 0; i < 2; i++) {
		long sig = signals[i];
		add(pid, sig, 0, 0, 0);         /* kill, tkill */
		add(pid, pid, sig, 0, 0);       /* tgkill */
		add(pid, sig, P(words(sig, 0xffffffff)), 0, 0); /* rt_sigqueueinfo */
	}
	add(pid, 8, P(words(1, 0)), 0, 0);  /* sched_setaffinity */
	add(pid, RLIMIT_NOFILE, P(words(1, 1)), 0, 0); /* prlimit64 */
	add(pid, SCHED_IDLE, P(words(0, 0)), 0, 0);    /* sched_setscheduler */
	add(pid, P(words(48 | (uint64_t)SCHED_IDLE << 32, 0)), 0, 0, 0); /* sched_setattr */
	add(PRIO_PROCESS, pid, 19, 0, 0);
	add(PRIO_USER, 0, 19, 0, 0);
	add(PRIO_USER, me, 19, 0, 0);
	add(1, pid, 3 << 13, 0, 0);         /* ioprio_set, of a process */
	add(3, 0, 3 << 13, 0, 0);           /* of a user */
	add(3, me, 3 << 13, 0, 0);
	add(PTRACE_ATTACH, pid, 0, 0, 0);
	add(62, 2, pid, 0, 0);              /* PR_SCHED_CORE, share to */
	add(pid, 0, 0, 0, 0);
}

static void attempts(char **v) {
	for (int i = 0; i < 5; i++)
		v[i]++; /* a sign before it keeps it from being translated */
	name = P("user.writ"), value = P("x"), empty = P(""), fresh = P("fresh");
	times = P(calloc(64, 8)), me = getuid();
	attr = P(words(value, 1));
	for (int i = 0; i < 4; i++)
		((uint64_t *)times)[i] = 1;
	add(0, 0, 0, 0, 0);
	add(-1, -1, -1, -1, -1);
	by_path(v[0]);
	by_path(v[1]);
	by_descriptor(open(v[0], O_PATH));
	by_descriptor(open(v[1], O_RDONLY));
	for (int i = 2; i < 5; i++)
		shortly(v[i]);
	to_process(atol(v[5]));
	add(0x77726974, 4096, 01600, 0, 0); /* semget, shmget; IPC_CREAT */
	add(0x77726974, 01600, 0, 0, 0);    /* msgget */
	add(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0); /* alone it would be a signal to init */
	add(P("evil"), 4, 0, 0, 0);         /* sethostname */
}

/* What the processes of one number tell the one that starts them. */
static struct told {
	long at;              /* the vector that is being made */
	long answer[VECTORS]; /* its error, UNANSWERED before */
} volatile *told;

enum { UNANSWERED = -1, ABSENT = 8 /* answers by which a number is unknown */ };

/* Makes the call from one vector on, as long as it fails: what succeeded may have
 * changed this process, so the next vector gets another. What the call forks ends
 * as it does. */
static void vectors_from(long nr, int from) {
	setsid();
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int absent = from == 0 ? 0 : ABSENT + 1; /* later ones don't count */
	for (int i = from; i < count && absent != ABSENT; i++) {
		volatile long *a = vectors[i];
		told->at = i;
		long r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		told->answer[i] = r == -1 ? errno : 0;
		if (r != -1)
			break;
		absent = errno == ENOSYS && absent == i ? absent + 1 : ABSENT + 1;
	}
	syscall(SYS_exit_group, 0);
}

/* Whether a process waits or is stopped, and doesn't only want the processor. */
static int waits(pid_t pid) {
	char path[40], stat[200] = {0}, *state;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, stat, sizeof stat - 1) < 0)
		perror(path);
	close(fd);
	state = strrchr(stat, ')');
	return state == 0 || state[2] != 'R';
}

/* The vectors of a number in a new process, from one on, until it ends or a call
 * blocks. Gives the first that is still to be made. */
static int some(long nr, int from, int patience, int *blocked) {
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	told->at = from;
	pid_t pid = fork();
	if (pid == 0)
		vectors_from(nr, from);
	if (pid < 0) {
		perror("fork");
		exit(4);
	}
	/* The end is told by a signal, for which the caller waits. */
	siginfo_t info;
	for (long before = -1;;) {
		info.si_pid = 0;
		if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
			break;
		if (sigtimedwait(&set, 0, &(struct timespec){patience / 1000, patience % 1000 * 1000000L}) >= 0)
			continue;
		if (told->at == before && waits(pid)) {
			*blocked += 1;
			break;
		}
		before = told->at;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, 0, 0) < 0 && errno == EINTR)
		;
	while (waitpid(-1, 0, WNOHANG | __WALL) > 0) /* what the call forked */
		;
	while (sigtimedwait(&set, 0, &(struct timespec){0, 0}) > 0)
		;
	return told->at + 1;
}

static void all(long nr) {
	char seen[4096] = {0};
	int blocked = 0, answers = 0;
	for (int i = 0; i < count; i++)
		told->answer[i] = UNANSWERED;
	/* One that never comes back waits whatever its arguments are. */
	for (int next = 0; next < count && (answers > 0 || blocked < ABSENT);) {
		next = some(nr, next, blocked < 2 ? PATIENCE : 2, &blocked);
		int absent = 0;
		while (absent < next && told->answer[absent] == ENOSYS)
			absent++;
		if (absent == next && absent >= ABSENT)
			break;
		answers = 0;
		for (int i = 0; i < next; i++)
			answers += told->answer[i] != UNANSWERED;
	}
	if (answers == 0 && blocked > 0) /* or the machine is slow */
		some(nr, count - 1, 40 * PATIENCE, &blocked);
	printf("%ld", nr);
	for (int i = 0; i < count; i++) {
		long e = told->answer[i];
		if (e >= 0 && e < (long)sizeof seen && !seen[e]) {
			seen[e] = 1;
			printf(" %ld", e);
		}
	}
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv) {
	if (argc < 7)
		return 2;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	told = mmap(0, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		return 3;
	attempts(argv + 1);
	if (argc == 7)
		for (long nr = 0; nr < END; nr++)
			all(nr);
	for (int i = 7; i < argc; i++)
		all(atol(argv[i]));
	printf("sweep: end\n");
	return 0;
}

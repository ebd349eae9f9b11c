// Preloaded into the User Mode Linux kernel, for computers whose processors save more registers than it has space for.
//
// The kernel keeps the floating-point registers of its processes in 2,696 bytes, which was enough before AMX. The host accepts only
// its whole XSAVE area (otherwise EFAULT, arch/x86/kernel/fpu/regset.c), so the kernel's bytes are copied over the host's area.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

static long (*next)(int, pid_t, void *, void *);
// The stacks of the kernel's calls are small. It has one processor.
static char whole[64 << 10];

__attribute__((constructor)) static void find_next(void) {
    next = (long (*)(int, pid_t, void *, void *))dlsym(RTLD_NEXT, "ptrace");
}

long ptrace(enum __ptrace_request request, ...) {
    va_list rest;
    va_start(rest, request);
    pid_t process = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    long done = next(request, process, address, data);
    if (done != -1 || errno != EFAULT || (int)request != PTRACE_SETREGSET || (long)address != NT_X86_XSTATE)
        return done;
    const struct iovec *given = data;
    struct iovec all = {whole, sizeof whole};
    if (next(PTRACE_GETREGSET, process, address, &all) == -1 || given->iov_len >= all.iov_len) {
        errno = EFAULT;
        return -1;
    }
    memcpy(whole, given->iov_base, given->iov_len);
    return next(request, process, address, &all);
}

// Preloaded by record.py into a program that opens a plugin whose functions all begin with a breakpoint. The signal of a
// breakpoint puts the first byte of the function back and notes where it was.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { kMostSignals = 400000, kBreakpoint = 0xCC, kPage = 4096, kMapsBytes = 1 << 17 };

static const unsigned char* original;  // the plugin's file
static uintptr_t base;                 // where its offset 0 would be in memory
static uint32_t* calls;                // [count, offset, offset, ...], a file of record.py's

// Reads where the code of the plugin is, without calls that a signal handler must not make.
static void FindBase(void) {
  static char text[kMapsBytes];
  const int file = open("/proc/self/maps", O_RDONLY);
  size_t size = 0;
  for (ssize_t n; (n = read(file, text + size, sizeof text - 1 - size)) > 0;) size += (size_t)n;
  close(file);
  for (char* line = text; line != NULL && *line != 0;) {
    char* end = strchr(line, '\n');
    if (end != NULL) *end = 0;
    const char* access = strstr(line, "r-xp");
    if (access != NULL && strstr(line, "trapped_plugin.so") != NULL) {
      base = strtoull(line, NULL, 16) - strtoull(access + 4, NULL, 16);
      return;
    }
    line = end == NULL ? NULL : end + 1;
  }
  abort();
}

static void OnBreakpoint(int number, siginfo_t* info, void* machine) {
  (void)number, (void)info;
  ucontext_t* context = machine;
  const uintptr_t address = (uintptr_t)context->uc_mcontext.gregs[REG_RIP] - 1;
  if (base == 0) FindBase();
  const uintptr_t offset = address - base;
  // The page stays writable and executable: another thread may be running in it.
  mprotect((void*)(address & ~(uintptr_t)(kPage - 1)), kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  volatile unsigned char* first = (volatile unsigned char*)address;
  if (*first == kBreakpoint) {
    *first = original[offset];
    const uint32_t at = __atomic_fetch_add(&calls[0], 1, __ATOMIC_RELAXED);
    if (at < kMostSignals) calls[1 + at] = (uint32_t)offset;
  }
  context->uc_mcontext.gregs[REG_RIP] = (greg_t)address;
}

__attribute__((constructor)) static void Prepare(void) {
  const char* plugin = getenv("BACKPLANE_TRAP_ORIGINAL");
  const char* log = getenv("BACKPLANE_TRAP_LOG");
  if (plugin == NULL || log == NULL) return;
  const int source = open(plugin, O_RDONLY);
  const size_t size = (size_t)lseek(source, 0, SEEK_END);
  original = mmap(NULL, size, PROT_READ, MAP_PRIVATE, source, 0);
  const size_t bytes = sizeof(uint32_t) * (1 + kMostSignals);
  const int target = open(log, O_RDWR | O_CREAT, 0600);
  if (original == MAP_FAILED || target < 0 || ftruncate(target, (off_t)bytes) != 0) abort();
  calls = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, target, 0);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = OnBreakpoint;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  if (calls == MAP_FAILED || sigaction(SIGTRAP, &action, NULL) != 0) abort();
}

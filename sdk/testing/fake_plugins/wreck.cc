// Forwards to a correct plugin except in one call, where it fails, for testing commands that run programs.
//
//   BACKPLANE_WRECK_OVER   the plugin underneath
//   BACKPLANE_WRECK        CALL:WAY, where WAY is abort, segv, exit (status 0), quit (status 7, at once), hang, spin,
//                          throw, thread (a thread of the plugin crashes while the call waits for it) or late (the
//                          process crashes at its end)
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "api/pjrt_c_api.h"

namespace {

const PJRT_Api* real;
std::string way;

void Wreck() {
  if (way == "abort") std::abort();
  if (way == "segv") raise(SIGSEGV);
  if (way == "exit") std::exit(0);
  if (way == "quit") _exit(7);
  if (way == "throw") throw std::runtime_error("thrown across the boundary");
  if (way == "thread") std::thread([] { raise(SIGSEGV); }).join();
  if (way == "late") std::atexit([] { raise(SIGSEGV); });
  while (way == "hang") pause();
  while (way == "spin") std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi(void) {
  static PJRT_Api table;
  const char *over = std::getenv("BACKPLANE_WRECK_OVER"), *wreck = std::getenv("BACKPLANE_WRECK");
  void* library = over == nullptr ? nullptr : dlopen(over, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || wreck == nullptr || std::strchr(wreck, ':') == nullptr) {
    std::fprintf(stderr, "wreck: BACKPLANE_WRECK_OVER and BACKPLANE_WRECK=CALL:WAY are needed\n");
    return nullptr;
  }
  real = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  std::memcpy(&table, real, std::min(sizeof(table), real->struct_size));
  const std::string call(wreck, static_cast<size_t>(std::strchr(wreck, ':') - wreck));
  way = wreck + call.size() + 1;
  bool known = false;
#define WRECK(fn)                    \
  if (call == #fn) {                 \
    known = true;                    \
    table.fn = [](fn##_Args* args) { \
      Wreck();                       \
      return real->fn(args);         \
    };                               \
  }
  WRECK(PJRT_Plugin_Initialize)
  WRECK(PJRT_Client_Create)
  WRECK(PJRT_Client_Compile)
  WRECK(PJRT_Client_BufferFromHostBuffer)
  WRECK(PJRT_LoadedExecutable_Execute)
  WRECK(PJRT_Buffer_ToHostBuffer)
  WRECK(PJRT_Event_Await)
  WRECK(PJRT_Error_Message)
  WRECK(PJRT_Client_Destroy)
#undef WRECK
  if (!known) std::fprintf(stderr, "wreck: cannot go wrong in %s\n", call.c_str());
  return known ? &table : nullptr;
}
